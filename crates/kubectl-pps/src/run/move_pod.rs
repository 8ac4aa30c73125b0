//! `move`: moves Pods.
//!
//! Each step leaves the cluster in a state from which the same command goes on: the annotation and the state are as they
//! shall be already, and a Pod that is gone is created again with that state.

mod in_turn;
mod mark;
mod mover;
mod several;
mod turn;
mod wait;

use std::cell::Cell;
use std::time::Duration;

use kube::Client;
use tokio::time::sleep;

use self::mover::{Mover, PERIOD, read_pod};
use self::turn::Step;
use super::nodes;
use super::status::{hand, scope};
use crate::args::{Connection, Move};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::hand::Hand;
use crate::decide::relocate::{
    Decision, Destination, Goal, PodName, Reached, Relocation, decide, peers, require_keys, select, waits_for,
};
use crate::print::plan::titled;
use crate::print::{Terminal, printable};
use crate::snapshot::{Node, Pod, Scope, Snapshot};
use crate::{Failure, Outcome};

/// What is said in place of doing it.
const DRY_RUN: &str = "dry run: nothing was changed";
/// What a move reads.
const WANTED: Wanted = Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true };

pub(super) async fn run(
    args: &Move,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let namespace = connected.namespace.as_str();
    let mut job = Job {
        args,
        client: &connected.client,
        terminal,
        hand: hand(connection, namespace),
        scope: scope(args.all_namespaces, namespace),
        node: None,
        reached: Cell::default(),
    };
    let snapshot = job.read().await?;
    require_keys(&snapshot, &args.any)?;
    job.node = job.read_alone(&snapshot).await?;
    if let Some(node) = &args.node {
        let selected = select(&snapshot, node)?;
        return job.of_node(&snapshot, node, &selected).await;
    }
    let mut pods: Vec<PodName> = Vec::new();
    for pod in &args.pods {
        let name = (namespace.to_owned(), pod.clone());
        if !pods.contains(&name) {
            pods.push(name);
        }
    }
    match pods.as_slice() {
        [pod] => job.one(&snapshot, pod).await,
        pods => job.several(&snapshot, pods, &[]).await,
    }
}

/// What has happened on Ctrl-C.
const INTERRUPTED: &str = "interrupted";

/// Does this until the user presses Ctrl-C.
async fn until_interrupted<T>(moved: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        moved = moved => moved,
        _ = tokio::signal::ctrl_c() => Err(Failure::Refused(INTERRUPTED.into())),
    }
}

/// The command, and what it needs all the time.
struct Job<'a> {
    args: &'a Move,
    client: &'a Client,
    terminal: &'a Terminal,
    /// How the commands are written that an answer names.
    hand: Hand,
    scope: Scope,
    /// The node that Pods should go to, if nodes may not be listed.
    node: Option<Node>,
    /// How far the move has come that is being made.
    reached: Cell<Reached>,
}

impl Job<'_> {
    async fn read(&self) -> Result<Snapshot, Failure> {
        let mut snapshot = Box::pin(read(self.client, &self.scope, WANTED)).await?;
        nodes::confirm(self.client, &mut snapshot).await?;
        Ok(snapshot)
    }

    /// Reads the node to go to where nodes may not be listed: its labels are all that is needed.
    async fn read_alone(&self, snapshot: &Snapshot) -> Result<Option<Node>, Failure> {
        let Some(name) = self.args.to.as_deref().filter(|_| snapshot.nodes.is_none()) else {
            return Ok(None);
        };
        match nodes::read(self.client, name).await {
            Ok(None) => Err(Failure::Usage(format!("there is no node {name}"))),
            Ok(node) => Ok(node),
            // What is missing is said where it is needed.
            Err(_) => Ok(None),
        }
    }

    fn goal(&self) -> Goal<'_> {
        let to = self.args.to.as_deref().map(Destination::Node);
        Goal {
            destination: to.or(self.args.anywhere.then_some(Destination::Anywhere)),
            any: &self.args.any,
            drop_annotations: self.args.drop_annotations,
            force: self.args.force,
            node: self.node.as_ref(),
        }
    }

    fn note(&self, text: &str) {
        self.terminal.say(&self.terminal.style_of_errors().note(text));
    }

    fn print(&self, line: &str) -> Result<(), Failure> {
        self.terminal.print(&(printable(line) + "\n"))
    }

    /// Moves one Pod.
    async fn one(&self, snapshot: &Snapshot, pod: &PodName) -> Result<Outcome, Failure> {
        let (namespace, name) = pod;
        let relocation = match decide(snapshot, &self.goal().of(pod))? {
            Decision::Move(relocation) => *relocation,
            Decision::Done(text) => {
                self.print(&text)?;
                return Ok(Outcome::Well);
            }
        };
        let head = format!("Move Pod {name} in namespace {namespace}");
        self.terminal.print(&titled(self.terminal.style(), &head, &relocation.plan()))?;
        relocation.notes().iter().for_each(|text| self.note(text));
        relocation.return_note(&self.hand).iter().for_each(|text| self.note(text));
        if let Some(obstacle) = relocation.obstacle() {
            if !self.args.force {
                return Err(Failure::Refused(format!(
                    "{obstacle}\nnothing was changed; --force changes what is recorded all the same"
                )));
            }
            obstacle.lines().for_each(|line| self.note(line));
        }
        // Named with --force as well: others are down already.
        let down = peers(snapshot, &relocation, None);
        if let Some((wait, pods)) = &down {
            self.note(&waits_for(&relocation, *wait, pods, self.args.force));
        }
        let mover = Mover::new(self, snapshot, &relocation, &[]);
        if down.is_some() && !self.args.force {
            // A disruption budget allows nothing as long as the others are down.
            mover.check_record(&mover.needed()).await?;
        } else {
            mover.check(&mover.needed(), Duration::ZERO).await?;
        }
        if self.args.consent.dry_run {
            self.terminal.say(DRY_RUN);
            return Ok(Outcome::Well);
        }
        if !self.terminal.ask(&format!("Move Pod {name}?"), self.args.consent)? {
            self.terminal.say("nothing was changed");
            return Ok(Outcome::NotWell);
        }
        let carried = async {
            match self.step(&relocation, &[], true, !self.args.consent.yes).await? {
                Step::Done => Ok(Outcome::Well),
                Step::Left(why) => Err(Failure::Refused(why)),
                Step::HeldUp(why) => Err(Failure::Refused(format!(
                    "{why}\nnothing was changed; --force evicts Pod {name} all the same"
                ))),
                Step::Written(now) => {
                    let mover = Mover::new(self, snapshot, &now, &[]);
                    match mover.wait(self.args.timeout).await? {
                        Outcome::Well => Ok(mover.wait_for_record(self.args.timeout).await),
                        outcome => Ok(outcome),
                    }
                }
            }
        };
        match until_interrupted(carried).await {
            Err(Failure::Refused(text)) if text == INTERRUPTED => {
                let has_removed = self.has_removed(&relocation).await;
                let back = if has_removed { None } else { self.take_back(&relocation).await };
                let back = back.map(|command| format!("; to call it off: {command}")).unwrap_or_default();
                let next = relocation.how_to_go_on(has_removed, &self.hand);
                Err(Failure::Refused(format!("{text}: {next}{back}")))
            }
            carried => carried,
        }
    }

    /// Whether a move that has not ended has removed its Pod. The API server may have been about to do it.
    async fn has_removed(&self, moved: &Relocation) -> bool {
        sleep(PERIOD).await;
        let now = read_pod(self.client, &moved.namespace, &moved.pod).await;
        // Before the state is written, something else has removed the Pod.
        let is_written = self.reached.get() == Reached::Written;
        is_written && now.is_ok_and(|now| moved.has_removed(now.and_then(Pod::read).as_ref()))
    }

    /// Takes the mark of an interrupted move back, if nothing else was done. Returns the command that calls off what is left.
    async fn take_back(&self, moved: &Relocation) -> Option<String> {
        let snapshot = Snapshot::empty(self.scope.clone());
        let mover = Mover::new(self, &snapshot, moved, &[]);
        let is_clean = match (self.reached.get(), &moved.present) {
            (Reached::Nothing, _) => true,
            (Reached::Marked, Some(present)) => mover.annotate(&present.uid, false).await.is_ok(),
            _ => false,
        };
        moved.call_off(&self.hand).filter(|_| !is_clean)
    }
}

#[cfg(test)]
mod tests;
