//! Wire: types that deserialize only the fields used of what the API server sends, and their conversion to facts.
//! No I/O. The rest of each object is skipped and never stored. Custom resources arrive as JSON; of built-in kinds the
//! large ones are also read from protobuf, which is smaller.

mod config;
mod definitions;
mod encoding;
mod metadata;
mod nodes;
mod object;
mod pods;
mod pps;
mod protobuf;
mod status;
mod stream;
mod workloads;

pub use self::config::read_config;
pub use self::definitions::read_definition;
pub use self::encoding::{Answer, Encoded, Encoding, Message, in_either};
pub use self::metadata::key_of;
pub use self::nodes::{node_fact, node_key, read_node, read_node_message};
pub(crate) use self::object::describe;
pub use self::object::{Item, Malformed};
pub use self::pods::{Pod, pod_fact, read_pod, read_pod_message};
pub use self::pps::{PpsObject, object_fact, read_pps};
pub(crate) use self::status::{Refusal, wait_seconds};
pub use self::stream::{Event, Events, Line, Lines, Page};
pub use self::workloads::{
    CustomWorkload, StatefulSet, custom_workload_fact, read_custom_workload, read_stateful_set,
    read_stateful_set_message, workload_fact,
};
