//! `kubectl pps`: says why stateful Pods are where they are, and moves them.
//!
//! | module | what it does |
//! |---|---|
//! | [`args`] | the command line; the help, the man page and `docs/kubectl-pps.md` come from it |
//! | [`cluster`] | reads from and writes to the API server |
//! | [`snapshot`] | what was read, and what could not be |
//! | [`decide`] | pure functions: what the answer is, and what to write |
//! | [`run`] | one file for each command: reads, lets `decide` decide, asks, writes |
//! | [`render`] | tables, colours and text that a terminal can show |
//!
//! Only `cluster/write.rs` changes anything. All decisions are those of [`pps_core`], the simulation and the check.

pub mod args;
pub mod cluster;
pub mod decide;
mod failure;
pub mod render;
pub mod run;
pub mod snapshot;

pub use failure::{Failure, Outcome};
