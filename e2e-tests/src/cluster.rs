//! A whole cluster: all parts started and wired up, and what scenarios do with them.

mod background;
mod builder;
pub mod kubelet;
pub mod nodes;
pub mod proxy;
pub mod real_nodes;
mod running;
mod stateful_set;

pub use builder::ClusterBuilder;
pub use real_nodes::RealNodes;
pub use running::{Cluster, POLICY_SERVER, SIDECAR, is_alias, pps_resource};
pub use stateful_set::{PodInfo, StatefulSetSpec};
