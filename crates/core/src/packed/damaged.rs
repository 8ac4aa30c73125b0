//! The error of recorded states that cannot be read.

use std::fmt;

use super::bucket::Bucket;

/// Why recorded states cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// What is wrong, with the path of the field.
    Content(String),
    /// The compact form has this version, which only a newer release reads.
    NewerVersion(i64),
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content(reason) => f.write_str(reason),
            Self::NewerVersion(version) => write!(
                f,
                "status.packed.version is {version}, which this release cannot read: upgrade \
                 PersistentPodState"
            ),
        }
    }
}

impl std::error::Error for Damaged {}

impl Damaged {
    /// A bucket that cannot be read.
    pub(crate) fn at(bucket: Bucket, reason: impl fmt::Display) -> Self {
        Self::Content(format!(
            "status.packed.buckets.{bucket} is damaged: {reason}"
        ))
    }
}
