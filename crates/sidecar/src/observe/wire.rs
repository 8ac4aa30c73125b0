//! Wire: types that deserialize only the fields used of what the API server sends, and their conversion to facts.
//! No I/O. The rest of each object's JSON is skipped and never stored.

mod config;
mod definitions;
mod metadata;
mod nodes;
mod pods;
mod pps;
mod workloads;

pub(crate) use self::config::{ConfigMap, config_fact};
pub(crate) use self::definitions::{CustomResourceDefinition, definition_fact, definition_key};
pub use self::metadata::key_of;
pub use self::nodes::{node_fact, node_key};
pub use self::pods::{Pod, pod_fact};
pub use self::pps::{PpsObject, object_fact};
pub(crate) use self::pps::{ReadPps, pps_fact};
pub use self::workloads::{CustomWorkload, StatefulSet, custom_workload_fact, workload_fact};
