//! Decide: facts become writes. Synchronous and without I/O, so that tests need no cluster and no
//! runtime.
//!
//! | module | what it holds |
//! |---|---|
//! | [`index`] | the state machine: facts in, dirty entries, decisions out |
//! | `pods`, `nodes`, `workloads`, `pps_objects`, `tracked_pps`, `scope` | what the watches have reported, indexed |
//! | `status`, `generated_pps` | the decisions: pure functions over read-only views |
//! | `capacity` | how large an object is, and which changes fit |
//! | [`events`] | which Events may be published |
//! | [`schedule`], [`missing_nodes`] | when a write, a lookup or an eviction is due |

mod capacity;
pub mod events;
mod generated_pps;
pub mod index;
pub mod missing_nodes;
mod nodes;
mod pods;
mod pps_objects;
pub mod schedule;
mod scope;
mod status;
mod tracked_pps;
mod workloads;

pub use self::generated_pps::GeneratedPps;
pub use self::index::PodEviction;
