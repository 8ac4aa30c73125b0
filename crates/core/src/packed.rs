//! The compact form of recorded states, for large objects.
//!
//! The API server decodes and encodes an object as a tree at each read and each write. In
//! `podStates` a Pod is several maps of that tree; here a hundred Pods are one string, at a quarter
//! of the size. The Pod's name alone says in which [`Bucket`] its state is, so a reader asks for
//! one bucket.
//!
//! A bucket is a table in text that people can read. The first line says how many Pods follow, and
//! what is in each column: the Pod, the node, labels and annotations by key. What all values of a
//! column begin and end with is written there once, around a `*`:
//!
//! ```text
//! 3 web-* node-* label:kubernetes.io/hostname=* label:topology.kubernetes.io/zone=eu-* annotation:example.io/ip=10.16.*
//! 0 37 = 1a 0.17
//! 1 12 = 1b 0.9
//! 2 4 = 1a -
//! ```
//!
//! A cell is `-` if the Pod has no such label or annotation, `=` for a label that is the name of
//! the node, and `%` if it is empty. `%` and two hexadecimal digits stand for a byte of UTF-8: all
//! but printable ASCII is written so.
//!
//! What does not fit this description is [`Damaged`], and never read as another state. Nothing can
//! be told from a value that was replaced by another one.

mod bucket;
mod claim;
mod damaged;
mod read;
mod recorded;
mod text;
mod version;
mod write;

pub use bucket::Bucket;
pub use claim::PackedClaim;
pub use damaged::Damaged;
pub use read::{find, read_bucket, read_states};
pub use recorded::{field_masks, hides_states, may_hide_states, recorded_state};
pub(crate) use recorded::{fields, plain_state};
pub use version::{VERSION, check_version};
pub use write::{Row, write_bucket};

/// From this many states on, an object gets the compact form. Smaller objects stay as `OpenKruise`
/// has them: at 100 states the compact form saves the API server less than 2 ms for each Pod that
/// is created.
pub const COMPACT_FROM: usize = 200;
/// Below this many states, an object in the compact form returns to `podStates`.
pub const COMPACT_UNTIL: usize = 100;

/// The bucket of this name.
pub fn parse_bucket(name: &str) -> Result<Bucket, Damaged> {
    Bucket::parse(name).ok_or_else(|| {
        Damaged::Content(
            "status.packed.buckets is damaged: no bucket can have one of the names".into(),
        )
    })
}

#[cfg(test)]
mod tests;
