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
use crate::decide::forget::decide;
use crate::render::forget as text;
use crate::render::{Answer, Terminal};
use crate::snapshot::{Namespaces, Snapshot};
use crate::{CommandResult, Failure, Outcome};

pub(super) async fn run(
    args: &Forget,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let client = &connected.client;
    let namespaces = namespaces(args.all.all_namespaces, &connected.namespace);
    let snapshot = read_pods(client, &namespaces).await?;
    let mut drops = decide(&snapshot, &args.pods, args.node.as_deref())?;
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
        if let Some(node) = &args.node {
            if drops.is_complete() && snapshot.lacks_node(node) {
                return Err(Failure::NoNode(node.clone()));
            }
            terminal.print(&text::nothing_on(node))?;
        }
        return Ok(outcome);
    }
    let shown = drops.count();
    if let Answer::End(outcome) = terminal.ask(&text::question(shown), args.consent, outcome)? {
        return Ok(outcome);
    }
    if !args.consent.yes {
        // The answer may have come long after the cluster was read.
        let now = read_pods(client, &namespaces).await?;
        drops.retain(&decide(&now, &args.pods, args.node.as_deref())?);
    }
    let mut dropped = 0;
    for (object, states) in &drops.objects {
        let address = Address::of(&snapshot, &object.namespace, &object.name);
        dropped += drop_states_of(client, terminal, &address, states)
            .await
            .map_err(|failure| failure.with(&text::dropped_before(dropped)))?;
    }
    terminal.print(&text::dropped(dropped))?;
    if dropped == shown {
        return Ok(outcome);
    }
    terminal.say(&text::kept(shown - dropped));
    Ok(Outcome::NotWell)
}

async fn read_pods(client: &Client, namespaces: &Namespaces) -> Result<Snapshot, Failure> {
    let wanted = Wanted {
        pods: true,
        ..Wanted::default()
    };
    read_confirmed(client, namespaces, wanted).await
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
        let pods: Vec<&str> = agreed
            .iter()
            .filter(|(pod, state)| now.get(*pod) == Some(*state))
            .map(|(pod, _)| pod.as_str())
            .collect();
        let edit =
            drop_states(&object, pods.iter().copied()).map_err(|error| address.refused(&error))?;
        let Some(edit) = edit else { return Ok(0) };
        match write::send(client, address.patch(&edit.body)).await {
            Ok(stored) => {
                let note = Note {
                    about: &stored,
                    reason: "StatesForgotten",
                    action: "Forget",
                    message: text::event(&pods),
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
