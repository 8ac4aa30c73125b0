//! `kubectl pps`: says why stateful Pods are where they are, and moves them.
//!
//! | module | what it does |
//! |---|---|
//! | [`args`] | the command line; the help, the man page and `docs/reference/kubectl-pps.md` come from it |
//! | [`cluster`] | reads from and writes to the API server |
//! | [`snapshot`] | the objects that were read, and the lists that could not be read |
//! | [`decide`] | pure functions: the answer, and the writes |
//! | [`run`] | one file for each command: reads, lets `decide` decide, asks, writes |
//! | [`render`] | tables, colours and text that a terminal can show |
//!
//! Only `cluster/write.rs` changes anything. All decisions are those of [`pps_core`], the
//! simulation and the check.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

pub mod args;
pub mod cluster;
pub mod decide;
mod failure;
pub mod render;
pub mod run;
pub mod snapshot;

pub use failure::{CommandResult, Failure, Outcome};
