//! A small cluster in which the product's own decisions meet the part of Kubernetes that matters to
//! them.
//!
//! [`run`] replays a [`Scenario`]: Nodes, StatefulSets and PersistentPodStates, and what happens to
//! them. It is a pure function: there is no clock, no randomness and no I/O.
//!
//! | module | what it simulates |
//! |---|---|
//! | `read`, `load` | the API server: which objects it takes |
//! | `admission`, [`host`] | the webhook and PolicyServer, by the policy's own [`admit`](pps_admission::admit()) |
//! | `controller` | the StatefulSet controller |
//! | `start`, `addresses` | the scheduler, by [`pps_scheduler`], the kubelet and the network plugin |
//! | `cluster::recorder` | the sidecar, by [`pps_recorder`] |
//! | `actions` | users, and what happens to nodes |
//! | `settle` | lets all of these react to each other |
//!
//! There is no time: a Pod that is deleted is gone at once, one that is started is Ready at once,
//! and the sidecar knows everything at once. Only the grace period for deleted nodes is an action
//! of its own.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

mod actions;
mod addresses;
mod admission;
mod adopt;
mod cluster;
mod controller;
mod facts;
mod finding;
pub mod host;
pub mod limits;
mod load;
mod read;
mod result;
mod run;
mod scenario;
mod settle;
mod start;
mod view;

pub use cluster::wanted;
pub use controller::pods_of;
pub use finding::Finding;
pub use limits::Limits;
pub use result::{
    Event, EventKind, Manifest, NodeState, Pending, Phase, PodView, PpsView, Problem, Refusal,
    RunResult, Severity, Source, Step, WorkloadView, World,
};
pub use run::{run, run_live};
pub use scenario::{Action, Scenario};
