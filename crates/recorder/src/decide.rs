//! Decisions: pure functions from read-only views of the cluster and the ledger to a typed change.
//!
//! | module | question |
//! |---|---|
//! | [`status`] | what should be written into the status of a PPS? |
//! | [`generated`] | which generated PPS, and which alias, does a workload need? |
//! | [`eviction`] | has a Pod that waits for a deleted node to be evicted? |
//! | [`fallback`] | which Pods wait for a place that they require until an end? |

pub(crate) mod eviction;
pub(crate) mod fallback;
pub(crate) mod generated;
pub(crate) mod status;
