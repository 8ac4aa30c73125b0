//! Wire: types that deserialize only the fields used of what the API server sends, and their
//! conversion to facts. No I/O. The rest of each object is skipped and never stored. Custom
//! resources arrive as JSON; built-in kinds also as protobuf, which is smaller. Both encodings
//! share the types and the rules of a kind.

mod encoding;
mod kinds;
mod malformed;
mod object;
mod pods;
mod protobuf;
mod stream;

pub use self::encoding::{Encoded, Encoding, Message};
pub use self::kinds::{
    read_config, read_custom_workload, read_definition, read_pps, read_stateful_set,
};
pub use self::malformed::{Malformed, describe};
pub use self::object::{Item, key_of};
pub use self::pods::{read_namespace, read_node, read_pod};
pub use self::stream::{Event, Events, LONGEST_WAIT, Page, Refusal};
