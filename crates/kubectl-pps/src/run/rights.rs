//! Asks before anything is written whether the user may write it.

use kube::Client;
use pps_check::facts::Right;

use crate::Failure;
use crate::cluster::read;

/// Fails if the user lacks one of these rights, each with what needs it. Where the API server does not say, the write itself
/// will tell.
pub(super) async fn require(client: &Client, rights: &[(Right, &str)]) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for (right, action) in rights {
        if read::may(client, right).await == Some(false) {
            missing.push(format!("you have no permission to {right}, which is needed to {action}"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.push("nothing was changed".into());
    Err(Failure::Unreadable(missing.join("\n")))
}
