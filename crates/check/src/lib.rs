//! Checks an installation of PersistentPodState: before anything is bound, and afterwards.
//!
//! [`gather::gather`] reads the cluster and the module's registry into [`Facts`]; it writes nothing.
//! [`rules::judge`] turns facts into [`Finding`]s without I/O, and [`report`] prints them. `pps-sidecar check` and the
//! chart's hooks run [`args::CheckArgs`].
//!
//! Modules depend on each other in one direction only: `finding`, `facts` ← `rules`; `finding` ← `report`; `gather` and `registry`
//! know only `facts`.

pub mod args;
pub mod facts;
pub mod finding;
pub mod gather;
mod registry;
pub mod report;
pub mod rules;

pub use facts::Facts;
pub use finding::{Code, Finding, Severity};
