//! Decide: facts become writes. Synchronous and without I/O, so that tests need neither a cluster nor a runtime.

pub mod index;
pub mod missing_nodes;
pub mod schedule;
pub mod unschedulable;
