//! `move`: moves Pods, one after the other.
//!
//! After each step the same command can go on: the mark and the new recorded state are written
//! before the Pod is removed, and its successor is created with that state.

mod steps;

use std::time::Duration;

use pps_recorder::facts::NamespacedName;

use self::steps::{Budget, Steps};
use super::{commands, namespaces, read_confirmed};
use crate::args::{Connection, Move};
use crate::cluster::read::Wanted;
use crate::cluster::{Client, connect};
use crate::decide::command_line::CommandLine;
use crate::decide::move_pod::{PodMove, Refusal, Request, decide, order, require_keys, select};
use crate::render::move_pod as text;
use crate::render::{Answer, Terminal};
use crate::snapshot::{Namespaces, Node, Resource, Snapshot};
use crate::{CommandResult, Failure, Outcome};

/// How long a disruption budget may take to allow an eviction after the Pod before has become
/// Ready.
const BUDGET_PATIENCE: Duration = Duration::from_secs(10);

struct Job<'a> {
    args: &'a Move,
    client: &'a Client,
    terminal: &'a Terminal,
    commands: CommandLine,
    namespaces: Namespaces,
}

pub(super) async fn run(
    args: &Move,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let namespace = connected.namespace.as_str();
    let job = Job {
        args,
        client: &connected.client,
        terminal,
        commands: commands(connection, namespace),
        namespaces: namespaces(args.all_namespaces, namespace),
    };
    let snapshot = job.read().await?;
    job.destination(&snapshot)?;
    require_keys(&snapshot, &args.any).map_err(|why| job.refusal(why))?;
    let pods = if let Some(node) = &args.node {
        let selected = select(&snapshot, node).map_err(|why| job.refusal(why))?;
        job.notes(&text::not_selected(&selected, &job.namespaces));
        if selected.pods.is_empty() && selected.returning.is_empty() && snapshot.lacks_node(node) {
            return Err(Failure::NoNode(node.clone()));
        }
        selected.pods
    } else {
        args.pods
            .iter()
            .map(|pod| NamespacedName::new(namespace, pod.as_str()))
            .collect()
    };
    job.move_pods(&snapshot, &pods).await
}

/// The moves, and why the other Pods cannot be moved.
#[derive(Default)]
struct Planned {
    moves: Vec<PodMove>,
    refused: Vec<Failure>,
}

/// A move that was decided again just before it is made.
struct Prepared {
    snapshot: Snapshot,
    now: PodMove,
}

impl Job<'_> {
    async fn read(&self) -> Result<Snapshot, Failure> {
        read_confirmed(self.client, &self.namespaces, Wanted::SCHEDULING).await
    }

    fn refusal(&self, why: Refusal) -> Failure {
        text::refusal(why, &self.commands)
    }

    fn notes(&self, texts: &[String]) {
        for text in texts {
            self.terminal.note(text);
        }
    }

    /// The node of `--to`.
    fn destination<'a>(&self, snapshot: &'a Snapshot) -> Result<Option<&'a Node>, Failure> {
        let Some(to) = &self.args.to else {
            return Ok(None);
        };
        snapshot.require(Resource::Nodes)?;
        snapshot
            .node(to)
            .map(Some)
            .ok_or_else(|| Failure::NoNode(to.clone()))
    }

    /// None if the Pod is at its destination already; a line says so.
    fn decide(
        &self,
        snapshot: &Snapshot,
        name: &NamespacedName,
    ) -> Result<Option<PodMove>, Failure> {
        let to = self.destination(snapshot)?;
        let request = Request {
            namespace: &name.namespace,
            pod: &name.name,
            to,
            any: &self.args.any,
            drop_annotations: self.args.drop_annotations,
        };
        let decided = decide(snapshot, &request).map_err(|why| self.refusal(why))?;
        if let (None, Some(to)) = (&decided, to) {
            self.terminal
                .print(&text::already_there(&name.name, to.name()))?;
        }
        Ok(decided)
    }

    /// Plans all moves, asks once, and makes one after the other.
    async fn move_pods(
        &self,
        snapshot: &Snapshot,
        pods: &[NamespacedName],
    ) -> Result<Outcome, Failure> {
        let Planned { moves, mut refused } = self.plan(snapshot, pods).await?;
        // The exit code does not depend on the order of the names.
        refused.sort_by_key(Failure::exit_code);
        // A user who empties a node wants to move as many Pods as possible. A user who names Pods
        // wants all of them moved.
        if self.args.node.is_none() || moves.is_empty() {
            let all = refused
                .iter()
                .cloned()
                .reduce(|all, one| all.with(&one.to_string()));
            if let Some(all) = all {
                return Err(all.with("nothing was changed"));
            }
        }
        for why in &refused {
            self.terminal.note(&text::not_moved(why));
        }
        if moves.is_empty() {
            return self.end_without_moves(snapshot);
        }
        let outcome = if refused.is_empty() {
            Outcome::Well
        } else {
            Outcome::NotWell
        };
        let question = text::question(&moves);
        if let Answer::End(outcome) = self.terminal.ask(&question, self.args.consent, outcome)? {
            return Ok(outcome);
        }
        Ok(self.move_all(&moves).await?.max(outcome))
    }

    /// Nothing has to be moved.
    fn end_without_moves(&self, snapshot: &Snapshot) -> Result<Outcome, Failure> {
        let Some(node) = &self.args.node else {
            return Ok(Outcome::Well);
        };
        self.terminal.print(&text::nothing_to_move(node))?;
        let Err(unread) = snapshot.require(Resource::Nodes) else {
            return Ok(Outcome::Well);
        };
        self.terminal.note(&text::unknown_node(node, unread));
        Ok(Outcome::Incomplete)
    }

    /// Decides, rehearses and shows the move of each Pod.
    async fn plan(&self, snapshot: &Snapshot, pods: &[NamespacedName]) -> Result<Planned, Failure> {
        let mut decided = Vec::new();
        let mut planned = Planned::default();
        let mut notes = Vec::new();
        for (number, pod) in pods.iter().enumerate() {
            match self.decide(snapshot, pod) {
                Ok(one) => decided.extend(one.filter(|_| !pods[..number].contains(pod))),
                Err(failure) => planned.refused.push(failure),
            }
        }
        order(&mut decided);
        for one in decided {
            // A budget that allows one eviction at a time may allow this one after the moves
            // before.
            let budget = if planned.moves.is_empty() {
                Budget::Within(Duration::ZERO)
            } else {
                Budget::Later
            };
            if let Err(failure) = self.check(snapshot, &one, budget).await {
                planned.refused.push(failure);
                continue;
            }
            self.terminal
                .print(&text::plan(&one, self.terminal.style()))?;
            notes.extend(text::notes(&one, snapshot.unread(Resource::Nodes)));
            planned.moves.push(one);
        }
        notes.dedup();
        self.notes(&notes);
        Ok(planned)
    }

    /// Fails if a node cannot take the Pod, or if the API server refuses a step.
    async fn check(
        &self,
        snapshot: &Snapshot,
        one: &PodMove,
        budget: Budget,
    ) -> Result<(), Failure> {
        if let Some(why) = text::obstacle(one).filter(|_| !self.args.force) {
            return Err(Failure::Refused(why).with(&text::force(one)));
        }
        Steps::new(self, snapshot, one, Some(budget))
            .rehearse()
            .await
    }

    /// Moves one Pod after the other: each when the Pod before is Ready and recorded. Stops at the
    /// first Pod that does not become Ready and recorded; with `--node`, a refused Pod is skipped.
    async fn move_all(&self, moves: &[PodMove]) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::Well;
        for (number, shown) in moves.iter().enumerate() {
            let ended = match self.prepare(shown).await {
                Ok(None) => Ok(Outcome::Well),
                Ok(Some(Prepared { snapshot, now })) => {
                    Steps::new(self, &snapshot, &now, None)
                        .carry_out(self.args.timeout)
                        .await
                }
                Err(failure @ Failure::Refused(_)) if self.args.node.is_some() => {
                    self.terminal.note(&text::not_moved(&failure));
                    outcome = Outcome::NotWell;
                    continue;
                }
                Err(failure) => Err(failure.with(&text::left_alone(shown))),
            };
            if ended != Ok(Outcome::Well) {
                self.notes(text::rest(&moves[number + 1..], &self.namespaces).as_slice());
                return ended;
            }
        }
        if moves.len() > 1 && outcome == Outcome::Well {
            self.terminal.print(&text::moved_all(moves.len()))?;
        }
        Ok(outcome)
    }

    /// Decides a shown move again, since the cluster may have changed. None if nothing is left to
    /// do.
    async fn prepare(&self, shown: &PodMove) -> Result<Option<Prepared>, Failure> {
        let snapshot = self.read().await?;
        let Some(now) = self.decide(&snapshot, &shown.name())? else {
            return Ok(None);
        };
        if !shown.covers(&now) {
            return Err(text::changed(&shown.pod));
        }
        self.check(&snapshot, &now, Budget::Within(BUDGET_PATIENCE))
            .await?;
        Ok(Some(Prepared { snapshot, now }))
    }
}

#[cfg(test)]
mod tests;
