//! `forget`: drops recorded states.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use pps_core::PodState;
use pps_core::edit::{drop_states, states};

use super::states::{Address, TRIES, publish};
use super::status::{hand, scope};
use super::{nodes, rights};
use crate::args::{Connection, Forget};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::cluster::write::{Note, WriteError};
use crate::decide::forget::{Drops, Which, decide, nothing_on};
use crate::decide::relocate::describe;
use crate::print::{Role, Table, Terminal, printable};
use crate::snapshot::{Scope, Snapshot};
use crate::{Failure, Outcome};

/// What is said in place of doing it.
const UNCHANGED: &str = "nothing was changed";

/// The command, and what it needs all the time.
struct Job<'a> {
    args: &'a Forget,
    client: &'a Client,
    terminal: &'a Terminal,
    scope: Scope,
}

pub(super) async fn run(
    args: &Forget,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let client = &connected.client;
    let job = Job { args, client, terminal, scope: scope(args.all.all_namespaces, &connected.namespace) };
    let (snapshot, mut drops) = job.decide().await?;
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
    drops.notes(&hand).iter().for_each(|note| job.note(note));
    if drops.objects.is_empty() {
        if !drops.is_complete() {
            terminal.say(UNCHANGED);
        }
        return Ok(outcome);
    }
    let address = |(namespace, name): &(String, String)| Address::of(&snapshot, namespace, name);
    let needed: Vec<_> =
        drops.objects.keys().map(|object| (address(object).right(), "drop states")).collect();
    rights::require(client, &needed).await?;
    if args.consent.dry_run {
        terminal.say("dry run: nothing was changed");
        return Ok(outcome);
    }
    let shown = drops.count();
    if !terminal.ask(&format!("Drop {}?", count(shown)), args.consent)? {
        terminal.say(UNCHANGED);
        return Ok(Outcome::NotWell);
    }
    let stranded = drops.stranded.iter().filter_map(|(namespace, pod)| snapshot.pod(namespace, pod)?.node());
    for node in stranded.collect::<BTreeSet<_>>() {
        nodes::refuse_if_back(client, node).await?;
    }
    if !args.consent.yes {
        // The answer may have come long after what it is about was read.
        let (_, now) = job.decide().await?;
        drops.confirm(&now, &hand).iter().for_each(|note| job.note(note));
        if drops.objects.is_empty() {
            terminal.say(UNCHANGED);
            return Ok(Outcome::NotWell);
        }
    }
    let mut dropped = 0;
    for (object, states) in &drops.objects {
        let done = job.drop_from(&address(object), states).await;
        dropped += done.map_err(|failure| so_far(failure, dropped))?;
    }
    terminal.print(&format!("Dropped {}.\n", count(dropped)))?;
    Ok(if dropped < shown { Outcome::NotWell } else { outcome })
}

impl Job<'_> {
    fn note(&self, text: &str) {
        self.terminal.say(&self.terminal.style_of_errors().note(text));
    }

    /// Reads the cluster, and decides what is dropped.
    async fn decide(&self) -> Result<(Snapshot, Drops), Failure> {
        let wanted = Wanted { pods: true, nodes: true, ..Wanted::default() };
        let mut snapshot = Box::pin(read(self.client, &self.scope, wanted)).await?;
        nodes::confirm(self.client, &mut snapshot).await?;
        let which = self.args.node.as_deref().map_or(Which::Pods(&self.args.pods), Which::Node);
        let drops = decide(&snapshot, which)?;
        Ok((snapshot, drops))
    }

    /// Drops states from one object. What other clients change meanwhile is looked at again. Returns how many were dropped.
    async fn drop_from(
        &self,
        address: &Address,
        wanted: &BTreeMap<String, PodState>,
    ) -> Result<usize, Failure> {
        let Self { args, client, terminal, .. } = self;
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
            let mut has_asked = false;
            for (pod, state) in changed {
                let is_elsewhere = args.node.as_ref().is_some_and(|node| *node != state.node_name);
                self.note(&format!(
                    "another client has changed what is recorded of Pod {pod}: {}",
                    describe(Some(&state))
                ));
                if is_elsewhere || args.consent.yes || !terminal.ask("Drop this as well?", args.consent)? {
                    now.remove(&pod);
                } else {
                    has_asked = true;
                }
            }
            if has_asked {
                let (_, again) = self.decide().await?;
                for (_, pod) in again.ready.iter().filter(|(namespace, _)| *namespace == address.namespace) {
                    if now.remove(pod).is_some() {
                        self.note(&format!("Pod {pod} is Ready, so what is recorded of it stays"));
                    }
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
                    let message =
                        format!("the recorded states of {} were dropped with kubectl-pps", pods.join(", "));
                    let note = Note { about: &stored, reason: "StatesForgotten", action: "Forget", message };
                    publish(client, terminal, &note).await;
                    return Ok(now.len());
                }
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(address.busy())
    }
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
