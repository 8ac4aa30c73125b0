//! The decisions of PersistentPodState, without any I/O.
//!
//! A PersistentPodState (PPS) names a workload and remembers, per Pod of that workload, where the Pod
//! ran. This crate holds everything that can be decided from such an object and from what is known of
//! a Pod, a Node or a workload:
//!
//! | module | question |
//! |---|---|
//! | [`pps`] | what does a PPS object say? |
//! | [`owner`] | which workload does this Pod belong to, and can its Pods have a state at all? |
//! | [`select`] | which PPS governs this workload? |
//! | [`mod@plan`] | what has to be injected into a Pod that comes back? |
//! | [`annotations`] | which annotations may it be given at all? |
//! | [`mod@apply`] | how does that get into the Pod's JSON without disturbing anything else? |
//! | [`conflict`] | can the Pod's own rules be met together with the pin? |
//! | [`record`] | what is to be remembered of a running Pod? |
//! | [`workload`] | which Pod names does a workload want, and which states stay? |
//! | [`required_affinity`] | can a Pod that waits for a node still get one? |
//! | [`demand`] | how does a workload's spec say that? |
//! | [`whitelist`] | which kinds of workloads are listed by a ConfigMap? |
//! | [`kinds`] | which of these does the cluster serve, and how are they watched? |
//! | [`status`] | what has to be written into the PPS, as a merge patch? |
//! | [`size`] | how much room is left in it? |
//! | [`generate`] | which PPS does an annotated workload ask for? |
//! | [`validate`] | what is wrong with a PPS that is created or updated? |
//! | [`reason`] | what do we call what happened? |
//!
//! # Scope
//!
//! No clock, no async, no logging, no Kubernetes client and no Wasm: `serde` and `serde_json` are the
//! only dependencies. The feature `k8s` adds `k8s-openapi`'s traits to the API type, the feature
//! `schema` adds JSON schemas for the CRD; neither adds a decision.

pub mod annotations;
pub mod apply;
pub mod conflict;
pub mod demand;
pub mod generate;
pub mod kinds;
pub mod owner;
pub mod plan;
pub mod pps;
pub mod reason;
pub mod record;
pub mod required_affinity;
pub mod select;
pub mod size;
pub mod status;
pub mod validate;
pub mod whitelist;
pub mod workload;

pub use annotations::{AnnotationRules, NEVER_INJECTED, is_never_injected};
pub use apply::{Applied, ApplyError, apply};
pub use owner::{OwnerReference, PodIdentity};
pub use plan::{Plan, plan};
pub use pps::{PersistentPodState, PodState, Spec, Status, TargetReference};
pub use reason::Reason;

/// The annotation that the policy leaves on a Pod it has changed; its value is the name of the PPS.
pub const INJECTED_ANNOTATION: &str = "kruise.io/injected-persistent-pod-state";

/// A value as JSON text, without the code for the indented form that `to_string` brings along.
pub fn to_text(value: &serde_json::Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
