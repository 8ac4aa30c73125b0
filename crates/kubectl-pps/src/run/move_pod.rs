//! `move`: moves Pods.
//!
//! Each step leaves the cluster in a state from which the same command goes on: the annotation and the state are as they
//! shall be already, and a Pod that is gone is created again with that state.

mod in_turn;
mod mover;
mod several;
mod turn;
mod wait;

use std::time::Duration;

use kube::Client;
use tokio::time::sleep;

use self::mover::{Mover, PERIOD, read_pod};
use self::turn::Turn;
use super::nodes;
use super::status::{hand, scope};
use crate::args::{Connection, Move};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::hand::Hand;
use crate::decide::relocate::{
    Decision, Destination, Goal, PodName, Relocation, Removal, decide, peers, select, waits_for,
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
    };
    let snapshot = job.read().await?;
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

/// What is to be done after the answer.
enum Again {
    /// The move, as is decided then.
    Go(Box<Snapshot>, Box<Relocation>),
    /// Nothing any more, which was said.
    Done,
}

/// What became of a move.
enum Carried {
    Out(Outcome),
    /// Nothing was written: the Pod has changed so that this is another move.
    Overtaken(String),
}

fn overtaken(what: &str) -> Failure {
    Failure::Refused(format!("{what}: nothing was changed; run the command again"))
}

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
        let mover = Mover::new(self, snapshot, &relocation);
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
        let again = until_interrupted(self.again(snapshot, &mover)).await;
        let Again::Go(snapshot, now) = again.map_err(|failure| match failure {
            Failure::Refused(text) if text == INTERRUPTED => {
                Failure::Refused(format!("{text}: nothing was changed"))
            }
            failure => failure,
        })?
        else {
            return Ok(Outcome::Well);
        };
        let mover = Mover::new(self, &snapshot, &now);
        match until_interrupted(self.carry_out(&mover)).await {
            Ok(Carried::Out(outcome)) => Ok(outcome),
            Ok(Carried::Overtaken(what)) => Err(overtaken(&what)),
            Err(Failure::Refused(text)) if text == INTERRUPTED => {
                let next = now.how_to_go_on(self.has_removed(&now).await, &self.hand);
                Err(Failure::Refused(format!("{text}: {next}")))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Whether a move that has not ended has removed its Pod. The API server may have been about to do it.
    async fn has_removed(&self, moved: &Relocation) -> bool {
        sleep(PERIOD).await;
        let now = read_pod(self.client, &moved.namespace, &moved.pod).await;
        now.is_ok_and(|now| moved.has_removed(now.and_then(Pod::read).as_ref()))
    }

    /// Decides again and asks again whether the Pod may be evicted, since the answer may have come long after the question, and
    /// waits until the others of its workload let it go.
    async fn again(&self, snapshot: &Snapshot, mover: &Mover<'_>) -> Result<Again, Failure> {
        let shown = mover.relocation;
        let has_asked = !self.args.consent.yes;
        if !has_asked && self.peers(snapshot, shown, &[]).is_none() {
            return Ok(Again::Go(Box::new(snapshot.clone()), Box::new(shown.clone())));
        }
        if let Some(what) = mover.overtaken().await? {
            return Err(overtaken(&what));
        }
        let (snapshot, now, has_waited) = match self.turn(shown, &[], true).await? {
            Turn::Come { snapshot, now, has_waited } => (snapshot, now, has_waited),
            Turn::Over(text) => {
                self.print(&text)?;
                return Ok(Again::Done);
            }
            Turn::Left(why) => return Err(Failure::Refused(why)),
            Turn::HeldUp(why) => {
                let force = format!("nothing was changed; --force evicts Pod {} all the same", shown.pod);
                return Err(Failure::Refused(why).with(&force));
            }
        };
        if let Some(what) = shown.changed(&now).filter(|_| has_asked) {
            return Err(overtaken(&what));
        }
        let patience = if has_waited { self.args.timeout } else { Duration::ZERO };
        Mover::new(self, &snapshot, &now).check(&[], patience).await?;
        Ok(Again::Go(snapshot, now))
    }

    /// Does all that has to be written, and waits.
    async fn carry_out(&self, mover: &Mover<'_>) -> Result<Carried, Failure> {
        match self.write(mover).await? {
            Some(carried) => Ok(carried),
            None => Ok(Carried::Out(match mover.wait(self.args.timeout).await? {
                Outcome::Well => mover.wait_for_record(self.args.timeout).await,
                outcome => outcome,
            })),
        }
    }

    /// Does all that has to be written. None if the Pod goes on by itself then, and can be waited for.
    async fn write(&self, mover: &Mover<'_>) -> Result<Option<Carried>, Failure> {
        if let Some(what) = mover.write().await? {
            return Ok(Some(Carried::Overtaken(what)));
        }
        let relocation = mover.relocation;
        if relocation.present.as_ref().is_some_and(|present| present.removal == Removal::Stay) {
            let node = self.args.to.as_deref().unwrap_or_default();
            self.print(&format!("Pod {} stays on {node}, and is recorded again", relocation.pod))?;
            return Ok(Some(Carried::Out(Outcome::Well)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
