//! Decide: facts become writes. Synchronous and without I/O, so that tests need neither a cluster nor a runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | `inventory` | what the watches have reported, indexed |
//! | `status`, `generated_pps`, `pod_eviction` | the decisions: pure functions over read-only views |
//! | [`index`] | the state machine around them: facts in, dirty entries, decisions out |
//! | `schedule`, `missing_nodes`, `unschedulable`, `conflicts` | when a write, a lookup, an eviction or a read is due |
//! | `new_nodes` | which nodes may not have all their labels yet |

pub mod conflicts;
mod generated_pps;
pub mod index;
mod inventory;
pub mod missing_nodes;
pub mod new_nodes;
mod pod_eviction;
pub mod schedule;
mod status;
pub mod unschedulable;

pub use self::generated_pps::GeneratedPps;
pub use self::pod_eviction::PodEviction;
