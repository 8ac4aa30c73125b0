//! When something is due. Pure: times go in, keys come out.
//!
//! | module | what is due |
//! |---|---|
//! | [`schedule`] | writes, and the retries of writes that failed |
//! | [`missing_nodes`] | lookups of missing nodes, and evictions of the Pods that wait for them |
//! | [`event_budget`] | Events |

pub mod event_budget;
pub mod missing_nodes;
pub mod schedule;
