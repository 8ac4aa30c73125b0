//! Whether all objects of a kind that a command asked for were read.

use crate::Failure;
use crate::snapshot::{Scope, Snapshot};

/// Fails if objects of this resource, such as `pods`, could not be read within the scope of a snapshot.
///
/// # Errors
///
/// If they could not. The text names a missing right.
pub fn require(snapshot: &Snapshot, resource: &str) -> Result<(), Failure> {
    let what = match &snapshot.scope {
        Scope::Namespace(namespace) if resource != "nodes" => {
            format!("list {resource} in namespace {namespace}")
        }
        _ => format!("list {resource}"),
    };
    match snapshot.unseen.iter().find(|unseen| unseen.what == what) {
        Some(unseen) => Err(Failure::Unreadable(unseen.to_string())),
        None => Ok(()),
    }
}

/// The resource of PersistentPodStates.
pub const PPS: &str = "persistentpodstates.apps.kruise.io";
