//! Wire: types that deserialize only the fields used of what the API server sends, and their conversion to facts.
//! No I/O. The rest of each object's JSON is skipped and never stored.

mod config;
mod definitions;
mod metadata;
mod nodes;
mod object;
mod pods;
mod pps;
mod stream;
mod workloads;

pub use self::config::read_config;
pub use self::definitions::read_definition;
pub use self::metadata::key_of;
pub use self::nodes::{node_fact, node_key, read_node};
pub(crate) use self::object::describe;
pub use self::object::{Item, Malformed};
pub use self::pods::{Pod, pod_fact, read_pod};
pub use self::pps::{PpsObject, ReadPps, object_fact, pps_fact, read_pps};
pub use self::stream::{Line, Lines, Page};
pub use self::workloads::{
    CustomWorkload, StatefulSet, custom_workload_fact, read_custom_workload, read_stateful_set, workload_fact,
};
