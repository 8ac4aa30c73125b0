//! The companion of the PersistentPodState policy: it watches workloads, Pods and Nodes, and records in
//! PPS objects where each Pod runs.
//!
//! ```text
//! observe ──facts──▶ decide ──patches──▶ write
//! ```
//!
//! [`observe`] turns watches into [`facts`], [`decide`] turns facts into patches without knowing a cluster, and
//! [`write`](mod@write) is the only place that changes anything in the cluster. [`lead`] says whether this process may
//! write, [`serve`] answers probes and scrapes, and [`run`] wires them together.

pub mod args;
pub mod decide;
pub mod facts;
pub mod lead;
pub mod observe;
pub mod run;
pub mod serve;
pub mod write;
