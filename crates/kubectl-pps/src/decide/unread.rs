//! Whether all objects of a kind that a command asked for were read.

use crate::Failure;
pub use crate::snapshot::PPS;
use crate::snapshot::Snapshot;

/// Fails if objects of this resource, such as `pods`, could not be read within the scope of a snapshot.
///
/// # Errors
///
/// If they could not. The text names a missing right.
pub fn require(snapshot: &Snapshot, resource: &str) -> Result<(), Failure> {
    match snapshot.unread(resource) {
        Some(unseen) => Err(Failure::Unreadable(unseen.to_string())),
        None => Ok(()),
    }
}
