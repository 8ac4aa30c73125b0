//! `forget`: drops recorded states.

use std::collections::BTreeMap;

use kube::Client;
use pps_core::PodState;
use pps_core::edit::{drop_states, states};

use super::states::{Address, TRIES, publish};
use super::{commands, scope};
use super::{nodes, rights};
use crate::args::{Connection, Forget};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::cluster::write::{Note, WriteError};
use crate::decide::forget::{Drops, Which, decide};
use crate::render::forget as text;
use crate::render::{Terminal, printable};
use crate::snapshot::{Scope, Snapshot};
use crate::{Failure, Outcome};

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
    let commands = commands(connection, &connected.namespace);
    let unchanged = |outcome| {
        terminal.say("nothing was changed");
        Ok(outcome)
    };
    let (snapshot, mut drops) = job.decide().await?;
    let notes = text::notes(&drops, &commands);
    if drops.is_mistaken() {
        return Err(Failure::Usage(notes.join("\n")));
    }
    let outcome = if drops.is_complete() { Outcome::Well } else { Outcome::NotWell };
    if !drops.objects.is_empty() {
        terminal.print(&text::table(&drops, terminal.style()))?;
    }
    job.notes(&notes);
    if drops.objects.is_empty() {
        let Some(node) = args.node.as_deref().filter(|_| drops.is_complete()) else {
            return unchanged(outcome);
        };
        let exists = nodes::exists(client, &snapshot, node).await;
        for line in text::nothing_on(&snapshot, node, exists, &commands).lines() {
            terminal.print(&(printable(line) + "\n"))?;
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
    if !terminal.ask(&format!("Drop {}?", text::count(shown)), args.consent)? {
        return unchanged(Outcome::NotWell);
    }
    if !args.consent.yes {
        // The answer may have come long after the cluster was read.
        drops = drops.confirmed_by(job.decide().await?.1);
        job.notes(&text::notes(&drops, &commands));
        if drops.objects.is_empty() {
            return unchanged(Outcome::NotWell);
        }
    }
    let mut dropped = 0;
    for (object, states) in &drops.objects {
        dropped += job.drop_from(&address(object), states).await.map_err(|failure| match dropped {
            0 => failure,
            _ => failure.with(&format!("{} dropped before that", text::count(dropped))),
        })?;
    }
    terminal.print(&format!("Dropped {}.\n", text::count(dropped)))?;
    Ok(if dropped < shown { Outcome::NotWell } else { outcome })
}

impl Job<'_> {
    fn note(&self, text: &str) {
        self.terminal.say(&self.terminal.style_of_errors().note(text));
    }

    fn notes(&self, texts: &[String]) {
        for text in texts {
            self.note(text);
        }
    }

    async fn decide(&self) -> Result<(Snapshot, Drops), Failure> {
        let wanted = Wanted { pods: true, nodes: true, ..Wanted::default() };
        let mut snapshot = Box::pin(read(self.client, &self.scope, wanted)).await?;
        nodes::confirm(self.client, &mut snapshot).await?;
        let which = self.args.node.as_deref().map_or(Which::Pods(&self.args.pods), Which::Node);
        let drops = decide(&snapshot, which)?;
        Ok((snapshot, drops))
    }

    /// Drops these states from one object, as far as they are still the same. Returns how many.
    async fn drop_from(
        &self,
        address: &Address,
        agreed: &BTreeMap<String, PodState>,
    ) -> Result<usize, Failure> {
        for _ in 0..TRIES {
            let object = address.read_to_write(self.client).await?;
            let now = states(&object).map_err(|error| address.refused(&error))?;
            let recorded =
                agreed.iter().filter_map(|(pod, state)| Some((pod.as_str(), now.get(pod)? == state)));
            let (same, changed): (Vec<_>, Vec<_>) = recorded.partition(|(_, is_same)| *is_same);
            let pods: Vec<&str> = same.into_iter().map(|(pod, _)| pod).collect();
            let edit = drop_states(&object, pods.iter().copied()).map_err(|error| address.refused(&error))?;
            if let Some(edit) = edit {
                match address.write(self.client, &edit).await {
                    Ok(stored) => {
                        let message = format!(
                            "the recorded states of {} were dropped with kubectl-pps",
                            pods.join(", ")
                        );
                        let note =
                            Note { about: &stored, reason: "StatesForgotten", action: "Forget", message };
                        publish(self.client, self.terminal, &note).await;
                    }
                    Err(WriteError::Conflict(_)) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            for (pod, _) in changed {
                self.note(&format!(
                    "another client has changed the recorded state of Pod {pod}: it was not dropped"
                ));
            }
            return Ok(pods.len());
        }
        Err(address.busy())
    }
}
