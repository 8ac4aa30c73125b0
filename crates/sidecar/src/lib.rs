//! The sidecar of the PersistentPodState policy: it watches workloads, Pods and Nodes, and records
//! in PersistentPodState objects where each Pod runs.
//!
//! ```text
//! observe ──facts──▶ pps_recorder ──writes──▶ write
//! ```
//!
//! - `observe` turns watches into [facts](pps_recorder::facts).
//! - [`pps_recorder`] turns facts into writes, without a cluster.
//! - `write` decides nothing, and is the only place that changes other objects than the Lease.
//! - `lead` determines whether this process may write.
//! - `serve` answers probes and scrapes from what the others report to [`telemetry`].
//! - [`run`] wires them together.
//!
//! This library belongs to the program. Its public items are those that the program, its tests and
//! the benchmarks use.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

mod args;
mod connect;
mod lead;
pub mod observe;
pub mod run;
mod serve;
pub mod telemetry;
mod write;
