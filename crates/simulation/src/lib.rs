//! A small cluster in which the product's own decisions meet the part of Kubernetes that matters to them.
//!
//! [`run`] replays a [`Scenario`]: Nodes, StatefulSets and PersistentPodStates, and what happens to them. It is a pure
//! function: there is no clock, no randomness and no I/O.
//!
//! | module | what it simulates |
//! |---|---|
//! | `read`, `finding`, `load` | the API server: which objects it takes |
//! | `adopt` | what runs already in a scenario of a live cluster |
//! | `admission` | the webhook: sends objects through the policy's own [`admit`](persistent_pod_state_policy::admit()) |
//! | [`host`] | PolicyServer: answers the policy's host calls |
//! | `controller` | the StatefulSet controller |
//! | [`pps_scheduler`] | the scheduler: which nodes it excludes, and which it prefers |
//! | `start`, `addresses` | the kubelet and the network plugin |
//! | `cluster::recorder` | the sidecar, by [`pps_recorder`] |
//! | `cluster::budget` | `PodDisruptionBudgets` |
//! | `actions` | users, and what happens to nodes |
//! | `settle` | lets all of these react to each other |
//!
//! # What is left out
//!
//! Time. A Pod that is deleted is gone at once, one that is started is Ready at once, and the sidecar knows everything at
//! once. Only the grace period for deleted nodes is an action of its own.

#![allow(missing_docs, reason = "not a public API: where a name says everything, a comment would repeat it")]

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
mod text;
mod view;

pub use controller::pods_of;
pub use finding::Finding;
pub use limits::Limits;
pub use result::{
    Absence, Displaced, Event, EventKind, Manifest, NodeState, NodeVerdict, Pending, Phase, PodView, PpsView,
    Problem, Refusal, Room, RunResult, Severity, Source, Step, WorkloadView, World,
};
pub use run::{run, run_live, run_within};
pub use scenario::{Action, Scenario};
