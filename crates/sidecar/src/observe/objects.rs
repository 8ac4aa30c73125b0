//! Objects: types that deserialize only the fields used of what the API server sends, and their
//! conversion to facts. No I/O. The rest of each object is skipped and never stored.

mod config;
mod definitions;
mod item;
mod malformed;
mod nodes;
mod pods;
mod pps;
mod workloads;

pub use self::config::read_config;
pub use self::definitions::read_definition;
pub use self::item::Item;
pub use self::malformed::Malformed;
pub use self::nodes::{read_namespace, read_node};
pub use self::pods::read_pod;
pub use self::pps::read_pps;
pub use self::workloads::{read_custom_workload, read_stateful_set};
