//! When something is due. Pure: times go in, keys come out.
//!
//! | module | what is due |
//! |---|---|
//! | [`agenda`] | all that the sidecar does |
//! | [`schedule`] | writes, and the retries of writes that failed |
//! | [`refused_writes`] | writes of generated objects that were refused |
//! | [`missing_nodes`] | lookups of missing nodes |
//! | [`unschedulable_pods`] | evictions of the Pods that wait for them |
//! | [`fallbacks`] | judgements of Pods that have waited for their recorded place |
//! | [`event_budget`] | Events |

pub mod agenda;
pub mod event_budget;
pub mod fallbacks;
pub mod missing_nodes;
pub mod refused_writes;
pub mod schedule;
pub mod unschedulable_pods;
