//! What cannot be read, and why.

/// Why not even the name of an object can be read. Says nothing of what was there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl From<Malformed> for pps_api::Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Unreadable(malformed.0)
    }
}
