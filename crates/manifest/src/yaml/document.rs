//! A document, why a text is none, and how large one may be.

use std::fmt;

use serde_json::Value;

use super::positions::{Place, Positions};

/// The largest text that is read.
pub const MAX_BYTES: usize = 1 << 20;
/// How deep lists and mappings may be nested.
pub const MAX_DEPTH: usize = 64;
/// What all documents may hold after aliases have been replaced, in bytes of text and `NODE_COST` for each value.
pub(super) const MAX_EXPANDED: usize = 8 << 20;
pub(super) const NODE_COST: usize = 16;
/// The same for a large text, for each of its bytes.
pub(super) const EXPANSION: usize = 4;

/// One document.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// Where it says so.
    pub positions: Positions,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// Where.
    pub place: Place,
    /// Why, and what to do about it.
    pub message: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.place.line, self.place.column, self.message)
    }
}
