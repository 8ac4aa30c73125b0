//! Decide: facts become writes. Synchronous and without I/O, so that tests need neither a cluster nor a runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | `inventory` | what the watches have reported, indexed |
//! | `status`, `generated_pps`, `alias`, `pod_eviction`, `placement` | the decisions: pure functions over read-only views |
//! | [`index`] | the state machine around them: facts in, dirty entries, decisions out |
//! | `notices` | what users were told |
//! | [`refusals`] | which refused writes wait, and how long |
//! | [`event_budget`] | how many Events may be published |
//! | `schedule`, `missing_nodes`, `unschedulable`, `conflicts` | when a write, a lookup, an eviction or a read is due |
//! | `new_nodes` | which nodes may not have all their labels yet |

mod alias;
pub mod conflicts;
pub mod event_budget;
mod generated_pps;
pub mod index;
mod inventory;
pub mod missing_nodes;
pub mod new_nodes;
mod notices;
mod placement;
mod pod_eviction;
pub mod refusals;
pub mod schedule;
mod status;
pub mod unschedulable;

pub use self::generated_pps::GeneratedPps;
pub use self::pod_eviction::PodEviction;
