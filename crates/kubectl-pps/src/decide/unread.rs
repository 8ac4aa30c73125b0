//! Whether all objects of a kind that a command asked for were read.

use pps_core::pps::GROUP;

use crate::Failure;
pub use crate::snapshot::PPS;
use crate::snapshot::{KRUISE_WORKLOADS, Snapshot, WORKLOADS};

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

/// The same of all workloads. OpenKruise's do not matter where nothing names one.
pub(super) fn require_workloads(snapshot: &Snapshot) -> Result<(), Failure> {
    require(snapshot, WORKLOADS)?;
    if snapshot.names_workload_of(GROUP) { require(snapshot, KRUISE_WORKLOADS) } else { Ok(()) }
}
