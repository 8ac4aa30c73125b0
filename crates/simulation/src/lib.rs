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
//! | [`scheduler`] | the scheduler: which nodes it excludes, and which it prefers |
//! | `start`, `addresses` | the kubelet and the network plugin |
//! | `sidecar` | the sidecar, by the functions of [`pps_core`] |
//! | `budget` | `PodDisruptionBudgets` |
//! | `actions` | users, and what happens to nodes |
//! | `settle` | lets all of these react to each other |
//! | [`template`] | the objects of files, for which nothing is simulated |
//!
//! # What is left out
//!
//! Time. A Pod that is deleted is gone at once, one that is started is Ready at once, and the sidecar knows everything at
//! once. Only the grace period for deleted nodes is an action of its own.

mod actions;
mod addresses;
mod admission;
mod adopt;
mod budget;
mod cluster;
mod controller;
mod finding;
pub mod host;
pub mod limits;
mod load;
mod read;
mod refusal;
mod result;
mod run;
mod scenario;
pub mod scheduler;
mod settle;
mod shared;
mod sidecar;
mod start;
pub mod template;
mod text;
mod view;

pub use finding::Finding;
pub use limits::Limits;
pub use refusal::reason_of;
pub use result::{
    Displaced, Event, EventKind, Exclusion, Manifest, NodeState, NodeVerdict, Phase, PodView, PpsView,
    Problem, Refusal, Room, RunResult, Severity, Source, Step, WorkloadView, World,
};
pub use run::{run, run_live, run_within};
pub use scenario::{Action, Scenario};
