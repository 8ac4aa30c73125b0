//! What the policy, the recorder and the plugin share: the PersistentPodState object and its rules,
//! without any I/O.
//!
//! A PersistentPodState (PPS) targets a workload and holds, for each Pod of that workload, where
//! the Pod ran. What only the admission of a request needs is in `pps-admission`, and what only the
//! recorder needs in `pps-recorder`.
//!
//! | module | question |
//! |---|---|
//! | [`pps`] | what does a PPS object say? |
//! | [`owner`] | which workload does a Pod belong to, and can its Pods have recorded states? |
//! | [`governing`] | which PPS governs a workload, and how does a get find one of another name? |
//! | [`annotations`] | which annotations may be injected at all? |
//! | [`addresses`] | which addresses does a Pod have, or a recorded annotation name? |
//! | [`required_affinity`] | can any node satisfy the required affinity of a Pending Pod? |
//! | [`packed`] | how are the states of many Pods stored, and how is one of them read? |
//! | [`succession`] | from which template does a workload re-create a Pod? |
//! | [`status`] | what has to be written into the PPS, as a merge patch? |
//! | [`size`] | how much capacity is left in it? |
//! | [`edit`] | which write changes recorded states as a user wants it? |
//! | [`json`] | how is a value read, and repeated in a message? |
//! | [`limits`] | how large may what a user writes be? |
//! | [`reason`] | the reasons in conditions, Events, metrics and logs |
//!
//! # Scope
//!
//! No clock, no async, no logging, no Kubernetes client and no Wasm: serde's packages are the only
//! dependencies. The feature `k8s` adds `k8s-openapi`'s traits to the API type, and the
//! feature `schema` adds JSON schemas for the CRD.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

pub mod addresses;
pub mod annotations;
pub mod edit;
pub mod governing;
pub mod json;
pub mod limits;
pub mod names;
pub mod owner;
pub mod packed;
pub mod pps;
pub mod reason;
pub mod required_affinity;
pub mod size;
pub mod status;
pub mod succession;

pub use annotations::{
    AnnotationRules, DEFAULT_NAMESPACE_SELECTOR, INJECTED_ANNOTATION, INJECTION_LABEL,
    MOVE_ANNOTATION, NEVER_INJECTED, RECORD_ANNOTATION, forbids_recording, is_never_injected,
};
pub use json::{ReadError, shorten, shorten_to};
pub use names::{
    is_annotation_key, is_dns_subdomain, is_hidden, is_label_key, on_one_line, successor_of,
};
pub use owner::OwnerReference;
pub use pps::{PersistentPodState, PodState, Spec, Status, TargetReference};
pub use reason::Reason;
