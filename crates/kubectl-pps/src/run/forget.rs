//! `forget`: drops recorded states.

use std::collections::BTreeMap;

use pps_core::PodState;
use pps_core::edit::{drop_states, states};

use super::states::{Address, TRIES, publish};
use super::{namespaces, read_confirmed};
use crate::args::{Connection, Forget};
use crate::cluster::read::Wanted;
use crate::cluster::write::{self, Note, WriteError};
use crate::cluster::{Client, connect};
use crate::decide::forget::{Drops, decide};
use crate::render::forget as text;
use crate::render::text::count;
use crate::render::{Answer, Terminal};
use crate::snapshot::{Namespaces, Snapshot};
use crate::{CommandResult, Failure, Outcome};

const STATE: &str = "recorded state";

pub(super) async fn run(
    args: &Forget,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let client = &connected.client;
    let namespaces = namespaces(args.all.all_namespaces, &connected.namespace);
    let (snapshot, mut drops) = read_and_decide(args, client, &namespaces).await?;
    let outcome = if drops.is_complete() {
        Outcome::Well
    } else {
        Outcome::NotWell
    };
    if !drops.objects.is_empty() {
        terminal.print(&text::drops(&drops, terminal.style()))?;
    }
    for note in text::notes(&drops, &namespaces) {
        terminal.note(&note);
    }
    if drops.objects.is_empty() {
        let is_typo = |node: &&String| drops.is_complete() && snapshot.lacks_node(node);
        if let Some(node) = args.node.as_ref().filter(is_typo) {
            return Err(Failure::NoNode(node.clone()));
        }
        let node = args
            .node
            .iter()
            .map(|node| format!("No recorded state on node {node} is dropped\n"));
        terminal.print(&node.collect::<String>())?;
        return Ok(outcome);
    }
    let shown = drops.count();
    let question = format!("Drop {}?", count(shown, STATE));
    if let Answer::End(outcome) = terminal.ask(&question, args.consent, outcome)? {
        return Ok(outcome);
    }
    if !args.consent.yes {
        // The answer may have come long after the cluster was read.
        drops.retain(&read_and_decide(args, client, &namespaces).await?.1);
    }
    let mut dropped = 0;
    for (object, states) in &drops.objects {
        let address = Address::of(&snapshot, &object.namespace, &object.name);
        let failed = |failure: Failure| {
            failure.with(&format!("{} dropped before that", count(dropped, STATE)))
        };
        dropped += drop_states_of(client, terminal, &address, states)
            .await
            .map_err(failed)?;
    }
    terminal.print(&format!("Dropped {}.\n", count(dropped, STATE)))?;
    if dropped == shown {
        return Ok(outcome);
    }
    terminal.say(&format!(
        "{} kept: the Pods or the states have changed meanwhile",
        count(shown - dropped, STATE)
    ));
    Ok(Outcome::NotWell)
}

async fn read_and_decide(
    args: &Forget,
    client: &Client,
    namespaces: &Namespaces,
) -> Result<(Snapshot, Drops), Failure> {
    let wanted = Wanted {
        pods: true,
        ..Wanted::default()
    };
    let snapshot = read_confirmed(client, namespaces, wanted).await?;
    let drops = decide(&snapshot, &args.pods, args.node.as_deref())?;
    Ok((snapshot, drops))
}

/// Drops the unchanged ones of these states from one object. Returns their number.
async fn drop_states_of(
    client: &Client,
    terminal: &Terminal,
    address: &Address,
    agreed: &BTreeMap<String, PodState>,
) -> Result<usize, Failure> {
    for _ in 0..TRIES {
        let object = address.read_to_write(client).await?;
        let now = states(&object).map_err(|error| address.refused(&error))?;
        let is_same = |(pod, state): &(&String, &PodState)| now.get(*pod) == Some(*state);
        let pods: Vec<&str> = agreed
            .iter()
            .filter(is_same)
            .map(|(pod, _)| pod.as_str())
            .collect();
        let edit =
            drop_states(&object, pods.iter().copied()).map_err(|error| address.refused(&error))?;
        let Some(edit) = edit else { return Ok(0) };
        match write::send(client, address.patch(&edit.body)).await {
            Ok(stored) => {
                let message = format!(
                    "the recorded states of {} were dropped with kubectl-pps",
                    pods.join(", ")
                );
                let note = Note {
                    about: &stored,
                    reason: "StatesForgotten",
                    action: "Forget",
                    message,
                };
                publish(client, terminal, &note).await;
                return Ok(pods.len());
            }
            Err(WriteError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(address.busy())
}
