//! Wire: types that deserialize only the fields used of what the API server sends, and their conversion to
//! facts. No I/O. The rest of each object is skipped and never stored. Custom resources arrive as JSON;
//! built-in kinds also as protobuf, which is smaller. Both encodings share the types and the rules of a kind.

mod definitions;
mod encoding;
mod object;
mod pods;
mod pps;
mod protobuf;
mod refusal;
mod stream;
mod workloads;

pub use self::definitions::{read_config, read_definition};
pub use self::encoding::{Encoded, Encoding, Message};
pub(crate) use self::object::describe;
pub use self::object::{Item, Malformed, key_of};
pub use self::pods::{read_node, read_pod};
pub use self::pps::read_pps;
pub(crate) use self::refusal::{LONGEST_WAIT, Refusal};
pub use self::stream::{Event, Events, Page};
pub use self::workloads::{read_custom_workload, read_stateful_set};
