//! Asks before anything is written whether the user may write it.

use std::collections::BTreeMap;

use kube::Client;
use pps_check::facts::Right;

use crate::Failure;
use crate::cluster::read;

/// Fails if the user lacks one of these rights, each with what needs it. Where the API server does not say, the write itself
/// will tell.
pub(super) async fn require(client: &Client, rights: &[(Right, &str)]) -> Result<(), Failure> {
    let mut answers = Answers { client, known: BTreeMap::new() };
    let shared = shared(rights);
    let mut missing = Vec::new();
    for (right, action) in rights {
        // One question about all objects of the namespace covers any number of Pods.
        let general = without_name(right);
        if shared.get(&general).is_some_and(|count| *count > 1) && answers.may(&general).await == Some(true) {
            continue;
        }
        if answers.may(right).await == Some(false) {
            let line = format!("you have no permission to {right}, which is needed to {action}");
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
        if missing.len() == NAMED {
            break;
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.push("nothing was changed".into());
    Err(Failure::Unreadable(missing.join("\n")))
}

/// How many missing rights are named.
const NAMED: usize = 20;

/// How many of these rights differ only in the name of the object.
fn shared(rights: &[(Right, &str)]) -> BTreeMap<Right, usize> {
    let mut shared = BTreeMap::new();
    for (right, _) in rights.iter().filter(|(right, _)| right.name.is_some()) {
        *shared.entry(without_name(right)).or_default() += 1;
    }
    shared
}

fn without_name(right: &Right) -> Right {
    Right { name: None, ..right.clone() }
}

/// What the API server has answered.
struct Answers<'a> {
    client: &'a Client,
    known: BTreeMap<Right, Option<bool>>,
}

impl Answers<'_> {
    async fn may(&mut self, right: &Right) -> Option<bool> {
        if let Some(answer) = self.known.get(right) {
            return *answer;
        }
        let answer = read::may(self.client, right).await;
        self.known.insert(right.clone(), answer);
        answer
    }
}
