//! The decisions of PersistentPodState, without any I/O.
//!
//! A PersistentPodState (PPS) targets a workload and holds, for each Pod of that workload, where
//! the Pod ran. This crate decides everything that follows from such an object and from what is
//! known of a Pod, a Node or a workload:
//!
//! | module | question |
//! |---|---|
//! | [`pps`] | what does a PPS object say? |
//! | [`owner`] | which workload does a Pod belong to, and can its Pods have recorded states? |
//! | [`governing`] | which PPS governs a workload, and how does a get find one of another name? |
//! | [`mod@plan`] | what is injected into a re-created Pod? |
//! | [`annotations`] | which annotations may be injected at all? |
//! | [`mod@apply`] | how does the plan get into the Pod's JSON without changing anything else? |
//! | [`injected`] | what has the plan changed in a Pod that exists? |
//! | [`addresses`] | which addresses does a Pod have, or a recorded annotation name? |
//! | [`excerpt`] | which fields of a Pod are parsed, and how do they get back into its text? |
//! | [`conflict`] | do the Pod's own scheduling rules contradict the plan? |
//! | [`spread_constraint`] | which topology spread constraints can the plan make unsatisfiable? |
//! | [`required_affinity`] | can any node satisfy the required affinity of a Pending Pod? |
//! | [`packed`] | how are the states of many Pods stored? |
//! | [`succession`] | from which template does a workload re-create a Pod? |
//! | [`status`] | what has to be written into the PPS, as a merge patch? |
//! | [`size`] | how much capacity is left in it? |
//! | [`edit`] | which write changes recorded states as a user wants it? |
//! | [`validate`] | what is wrong with a PPS that is created or updated? |
//! | [`protect`] | may a PPS be deleted? |
//! | [`mod@pick`] | what is in single fields of a large JSON text? |
//! | [`limits`] | how large may what a user writes be? |
//! | [`reason`] | the reasons in conditions, Events, metrics and logs |
//!
//! # Scope
//!
//! No clock, no async, no logging, no Kubernetes client and no Wasm: `serde` and `serde_json` are
//! the only dependencies. The feature `k8s` adds `k8s-openapi`'s traits to the API type, and the
//! feature `schema` adds JSON schemas for the CRD.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

pub mod addresses;
pub mod annotations;
pub mod apply;
pub mod conflict;
pub mod edit;
pub mod excerpt;
pub mod governing;
pub mod injected;
mod json;
pub mod limits;
mod names;
pub mod owner;
pub mod packed;
pub mod pick;
pub mod plan;
pub mod pps;
pub mod protect;
pub mod reason;
pub mod required_affinity;
pub mod size;
pub mod spread_constraint;
pub mod status;
pub mod succession;
pub mod validate;

pub use annotations::{
    AnnotationRules, DEFAULT_NAMESPACE_SELECTOR, INJECTED_ANNOTATION, INJECTION_LABEL,
    MOVE_ANNOTATION, NEVER_INJECTED, RECORD_ANNOTATION, forbids_recording, is_never_injected,
};
pub use apply::{Applied, ApplyError, apply};
pub use injected::{Injected, injected};
pub use json::{object, shorten, shorten_to, to_text};
pub use names::{
    is_annotation_key, is_dns_subdomain, is_hidden, is_label_key, on_one_line, successor_of,
};
pub use owner::{OwnerReference, PodIdentity};
pub use plan::{Plan, plan};
pub use pps::{PersistentPodState, PodState, Spec, Status, TargetReference};
pub use reason::Reason;
