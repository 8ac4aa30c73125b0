//! The companion of the PersistentPodState policy: it watches workloads, Pods and Nodes, and writes
//! into PPS objects where each Pod runs.
//!
//! Facts flow one way:
//!
//! ```text
//! watch ──facts──▶ index ──keys──▶ batch ──due keys──▶ index ──patches──▶ write ──results──▶ index
//! ```
//!
//! The [`index`] decides, synchronously and without knowing a cluster; [`watch`] brings it facts,
//! [`discover`] which kinds of workloads to watch, [`batch`] says when a write is due, [`grace`] when a node
//! has been missing for long, [`lease`] whether this process may write, and [`write`](mod@write) is the only
//! place that does.

pub mod admin;
pub mod args;
pub mod batch;
pub mod client;
pub mod discover;
pub mod events;
pub mod facts;
pub mod grace;
pub mod hopeless;
pub mod index;
pub mod interest;
pub mod lease;
pub mod metrics;
pub mod names;
pub mod openkruise;
pub mod run;
pub mod states;
pub mod store;
pub mod watch;
pub mod wire;
pub mod write;
