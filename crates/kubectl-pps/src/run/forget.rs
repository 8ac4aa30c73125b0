//! `forget`: drops recorded states.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use pps_core::PodState;
use pps_core::edit::{drop_states, states};

use super::states::{Address, TRIES, publish};
use super::status::hand;
use super::{nodes, rights};
use crate::args::{Connection, Forget};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::cluster::write::{Note, WriteError};
use crate::decide::forget::{Drops, Which, decide, nothing_on};
use crate::decide::relocate::describe;
use crate::print::{Role, Table, Terminal, printable};
use crate::snapshot::Scope;
use crate::{Failure, Outcome};

pub(super) async fn run(
    args: &Forget,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let client = &connected.client;
    let scope =
        if args.all.all_namespaces { Scope::All } else { Scope::Namespace(connected.namespace.clone()) };
    let mut snapshot =
        Box::pin(read(client, &scope, Wanted { pods: true, nodes: true, ..Wanted::default() })).await?;
    nodes::confirm(client, &mut snapshot).await?;
    let which = args.node.as_deref().map_or(Which::Pods(&args.pods), Which::Node);
    let drops = decide(&snapshot, which)?;
    let hand = hand(connection, &connected.namespace);
    let outcome = if drops.is_complete() { Outcome::Well } else { Outcome::NotWell };
    if !drops.objects.is_empty() {
        terminal.print(&table(&drops, terminal))?;
    } else if let Some(node) = args.node.as_deref().filter(|_| drops.is_complete()) {
        let exists = nodes::exists(client, &snapshot, node).await;
        terminal.print(&(printable(&nothing_on(&snapshot, node, exists, &hand)) + "\n"))?;
    }
    if drops.is_mistaken() {
        return Err(Failure::Usage(drops.notes(&hand).join("\n")));
    }
    for note in drops.notes(&hand) {
        terminal.say(&terminal.style_of_errors().note(&note));
    }
    if drops.objects.is_empty() {
        if !drops.is_complete() {
            terminal.say("nothing was changed");
        }
        return Ok(outcome);
    }
    let addresses: Vec<(Address, &BTreeMap<String, PodState>)> = drops
        .objects
        .iter()
        .map(|((namespace, name), states)| (Address::of(&snapshot, namespace, name), states))
        .collect();
    let needed: Vec<_> = addresses.iter().map(|(address, _)| (address.right(), "drop states")).collect();
    rights::require(client, &needed).await?;
    if args.consent.dry_run {
        terminal.say("dry run: nothing was changed");
        return Ok(outcome);
    }
    let states = count(drops.count());
    if !terminal.ask(&format!("Drop {states}?"), args.consent)? {
        terminal.say("nothing was changed");
        return Ok(Outcome::NotWell);
    }
    let stranded = drops.stranded.iter().filter_map(|(namespace, pod)| snapshot.pod(namespace, pod)?.node());
    for node in stranded.collect::<BTreeSet<_>>() {
        nodes::refuse_if_back(client, node).await?;
    }
    let mut dropped = 0;
    for (address, states) in addresses {
        let done = drop_from(client, terminal, args, &address, states).await;
        dropped += done.map_err(|failure| so_far(failure, dropped))?;
    }
    terminal.print(&format!("Dropped {}.\n", count(dropped)))?;
    Ok(if dropped < drops.count() { Outcome::NotWell } else { outcome })
}

/// Drops states from one object. What other clients change meanwhile is looked at again. Returns how many were dropped.
async fn drop_from(
    client: &Client,
    terminal: &Terminal,
    args: &Forget,
    address: &Address,
    wanted: &BTreeMap<String, PodState>,
) -> Result<usize, Failure> {
    let mut agreed = wanted.clone();
    for _ in 0..TRIES {
        let object = address.read_to_write(client).await?;
        let mut now = states(&object).map_err(|error| address.refused(&error))?;
        now.retain(|pod, _| wanted.contains_key(pod));
        // What is gone meanwhile needs no consent; what is other than it was shown does, and --yes was said of what was shown.
        let changed: Vec<(String, PodState)> = now
            .iter()
            .filter(|(pod, state)| agreed.get(*pod) != Some(state))
            .map(|(pod, state)| (pod.clone(), state.clone()))
            .collect();
        for (pod, state) in changed {
            let is_elsewhere = args.node.as_ref().is_some_and(|node| *node != state.node_name);
            let what = format!(
                "another client has changed what is recorded of Pod {pod}: {}",
                describe(Some(&state))
            );
            terminal.say(&terminal.style_of_errors().note(&what));
            if is_elsewhere || args.consent.yes || !terminal.ask("Drop this as well?", args.consent)? {
                now.remove(&pod);
            }
        }
        agreed.clone_from(&now);
        let pods = now.keys().map(String::as_str);
        let Some(edit) = drop_states(&object, pods).map_err(|error| address.refused(&error))? else {
            return Ok(0);
        };
        match address.write(client, &edit).await {
            Ok(stored) => {
                let pods: Vec<&str> = now.keys().map(String::as_str).collect();
                let note = Note {
                    about: &stored,
                    reason: "StatesForgotten",
                    action: "Forget",
                    message: format!(
                        "the recorded states of {} were dropped with kubectl-pps",
                        pods.join(", ")
                    ),
                };
                publish(client, terminal, &note).await;
                return Ok(now.len());
            }
            Err(WriteError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(address.busy())
}

fn table(drops: &Drops, terminal: &Terminal) -> String {
    let mut table = Table::new(terminal.style(), &["NAMESPACE", "PPS", "POD", "RECORDED"]);
    for ((namespace, pps), states) in &drops.objects {
        for (pod, state) in states {
            let state = describe(Some(state));
            table.row(&[(namespace, None), (pps, None), (pod, None), (&state, Some(Role::Removed))]);
        }
    }
    table.render()
}

fn count(states: usize) -> String {
    if states == 1 { "1 recorded state".into() } else { format!("{states} recorded states") }
}

/// A failure after something was dropped already says so.
fn so_far(failure: Failure, dropped: usize) -> Failure {
    if dropped == 0 { failure } else { failure.with(&format!("{} dropped before that", count(dropped))) }
}
