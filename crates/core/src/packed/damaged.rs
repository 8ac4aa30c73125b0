//! The error of what cannot be read.

use std::fmt;

use super::bucket::Bucket;

/// Why recorded states cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub(super) String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

impl Damaged {
    /// What is wrong, with the path of the field.
    pub(crate) fn new(reason: String) -> Self {
        Self(reason)
    }

    /// A bucket that cannot be read.
    pub(crate) fn at(bucket: Bucket, reason: impl fmt::Display) -> Self {
        Self(format!(
            "status.packed.buckets.{bucket} is damaged: {reason}"
        ))
    }
}
