//! A small cluster of Nodes, workloads, Pods and PersistentPodStates.
//!
//! [`run`] replays a [`Scenario`] and is a pure function: there is no clock, no randomness and no I/O.

mod result;
mod run;
mod scenario;
pub mod scheduler;

pub use result::{
    Event, EventKind, Exclusion, Manifest, NodeState, NodeVerdict, Phase, PodView, PpsView, Problem, Refusal,
    Room, RunResult, Severity, Source, Step, WorkloadView, World,
};
pub use run::run;
pub use scenario::{Action, Scenario};
