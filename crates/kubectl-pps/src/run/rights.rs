//! Asks before anything is written whether the user may write it.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use pps_check::read::Right;

use crate::Failure;
use crate::cluster::read;

/// How many missing rights are named.
const NAMED: usize = 20;

/// Fails if the user lacks one of these rights, each with what needs it. Where the API server does not say, the write
/// itself will tell.
pub(super) async fn require(client: &Client, rights: &[(Right, &str)]) -> Result<(), Failure> {
    let general = |right: &Right| Right { name: None, ..right.clone() };
    let mut shared: BTreeMap<Right, usize> = BTreeMap::new();
    for (right, _) in rights {
        *shared.entry(general(right)).or_default() += 1;
    }
    // One question about all objects of a namespace covers any number of them.
    let mut granted = BTreeSet::new();
    for right in shared.iter().filter(|(_, count)| **count > 1).map(|(right, _)| right) {
        if read::may(client, right).await == Some(true) {
            granted.insert(right);
        }
    }
    let mut missing: Vec<String> = Vec::new();
    for (right, action) in rights.iter().filter(|(right, _)| !granted.contains(&general(right))) {
        let line = format!("you have no permission to {right}, which is needed to {action}");
        if missing.len() < NAMED && !missing.contains(&line) && read::may(client, right).await == Some(false)
        {
            missing.push(line);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.push("nothing was changed".into());
    Err(Failure::Unreadable(missing.join("\n")))
}
