//! `move`: moves Pods, one after the other.
//!
//! Each step leaves the cluster in a state from which the same command goes on: the mark and the recorded state are as they
//! shall be already, and a Pod that is gone is created again with that state.

mod steps;
mod wait;

use std::cell::Cell;
use std::time::Duration;

use kube::Client;
use pps_core::edit::recorded_on;

use self::steps::Steps;
use super::states::TRIES;
use super::{commands, scope};
use super::{nodes, rights};
use crate::args::{Connection, Move};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::command_line::CommandLine;
use crate::decide::move_pod::{
    Decision, Destination, PodMove, PodName, Removal, Request, decide, no_node, order, others, require_keys,
    select,
};
use crate::render::move_pod as text;
use crate::render::{Terminal, printable};
use crate::snapshot::{Node, Pps, Scope, Snapshot};
use crate::{Failure, Outcome};

/// What a move reads.
const WANTED: Wanted =
    Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true, budgets: false };
/// How long a disruption budget may take to allow an eviction after the Pod before has become Ready.
const BUDGET_PATIENCE: Duration = Duration::from_secs(10);

/// How far a move has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    /// Nothing was written.
    #[default]
    Nothing,
    /// The Pod may be marked.
    Marked,
    /// The state may be written.
    Written,
    /// All is written: the successor of the Pod starts by itself.
    All,
}

/// The command, and what it needs all the time.
struct Job<'a> {
    args: &'a Move,
    client: &'a Client,
    terminal: &'a Terminal,
    /// How the commands are written that an answer names.
    commands: CommandLine,
    scope: Scope,
    /// The destination, if nodes may not be listed.
    node: Option<Node>,
    /// How far the present move has come.
    reached: Cell<Reached>,
}

/// What is done with the chosen Pods.
#[derive(Default)]
struct Plan {
    moves: Vec<PodMove>,
    /// Why the other Pods cannot be moved.
    refused: Vec<Failure>,
}

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
        commands: commands(connection, namespace),
        scope: scope(args.all_namespaces, namespace),
        node: None,
        reached: Cell::default(),
    };
    let snapshot = job.read().await?;
    require_keys(&snapshot, &args.any)?;
    // The labels of the destination are all that is needed where nodes may not be listed.
    if let Some(name) = args.to.as_deref().filter(|_| snapshot.nodes.is_none()) {
        job.node = nodes::read(&connected.client, name).await.ok().flatten();
    }
    let Some(node) = &args.node else {
        let mut pods: Vec<PodName> = Vec::new();
        for name in args.pods.iter().map(|pod| (namespace.to_owned(), pod.clone())) {
            if !pods.contains(&name) {
                pods.push(name);
            }
        }
        return job.move_pods(&snapshot, &pods).await;
    };
    let selected = select(&snapshot, node)?;
    job.notes(&text::not_selected(&selected));
    if selected.pods.is_empty() {
        return job.say_nothing_to_do(&snapshot, node).await;
    }
    job.move_pods(&snapshot, &selected.pods).await
}

impl Job<'_> {
    async fn read(&self) -> Result<Snapshot, Failure> {
        let mut snapshot = Box::pin(read(self.client, &self.scope, WANTED)).await?;
        nodes::confirm(self.client, &mut snapshot).await?;
        Ok(snapshot)
    }

    fn note(&self, text: &str) {
        self.terminal.say(&self.terminal.style_of_errors().note(text));
    }

    fn notes(&self, texts: &[String]) {
        for text in texts {
            self.note(text);
        }
    }

    fn print(&self, line: &str) -> Result<(), Failure> {
        self.terminal.print(&(printable(line) + "\n"))
    }

    fn decide(&self, snapshot: &Snapshot, (namespace, pod): &PodName) -> Result<Decision, Failure> {
        let to = self.args.to.as_deref().map(Destination::Node);
        let request = Request {
            namespace,
            pod,
            destination: to.or(self.args.anywhere.then_some(Destination::Anywhere)),
            any: &self.args.any,
            drop_annotations: self.args.drop_annotations,
            node: self.node.as_ref(),
        };
        Ok(decide(snapshot, &request)?)
    }

    /// Why a move is not made without `--force`. The Pods in `before` are moved first.
    fn obstacle(&self, snapshot: &Snapshot, one: &PodMove, before: &[PodName]) -> Option<String> {
        let others = || Some(text::others(one, &others(snapshot, one, before)?, &self.commands));
        one.obstacle.as_ref().map(|obstacle| text::obstacle(obstacle, &one.pod)).or_else(others)
    }

    /// Plans all moves, asks once, and makes one after the other.
    async fn move_pods(&self, snapshot: &Snapshot, pods: &[PodName]) -> Result<Outcome, Failure> {
        let mut plan = self.plan(snapshot, pods)?;
        // A user who empties a node wants to move as many Pods as possible. A user who names Pods wants all of them moved.
        if plan.moves.is_empty() {
            let refused = plan.refused.into_iter().reduce(|all, one| all.with(&one.to_string()));
            return refused.map_or(Ok(Outcome::Well), |refused| Err(refused.with("nothing was changed")));
        }
        if let Some(refused) = plan.refused.first().filter(|_| self.args.node.is_none()) {
            return Err(refused.clone().with("nothing was changed"));
        }
        for why in &plan.refused {
            self.note(&format!("not moved: {why}"));
        }
        let needed: Vec<_> =
            plan.moves.iter().flat_map(|one| Steps::new(self, snapshot, one).needed()).collect();
        rights::require(self.client, &needed).await?;
        while let Err(failure) = Steps::new(self, snapshot, &plan.moves[0]).check(Duration::ZERO).await {
            // The other Pods of the node are moved all the same.
            if self.args.node.is_none() || plan.moves.len() == 1 || !matches!(failure, Failure::Refused(_)) {
                return Err(failure);
            }
            self.note(&format!("not moved: {failure}"));
            plan.refused.push(failure);
            plan.moves.remove(0);
        }
        if self.args.consent.dry_run {
            self.terminal.say("dry run: nothing was changed");
            return Ok(plan.outcome());
        }
        let question = match plan.moves.len() {
            1 => format!("Move Pod {}?", plan.moves[0].pod),
            count => format!("Move these {count} Pods?"),
        };
        if !self.terminal.ask(&question, self.args.consent)? {
            self.terminal.say("nothing was changed");
            return Ok(Outcome::NotWell);
        }
        self.move_all(&plan).await
    }

    /// Decides and shows the move of each Pod.
    fn plan(&self, snapshot: &Snapshot, pods: &[PodName]) -> Result<Plan, Failure> {
        let (mut plan, mut decided) = (Plan::default(), Vec::new());
        for pod in pods {
            match self.decide(snapshot, pod) {
                Ok(Decision::Move(one)) => decided.push(*one),
                Ok(Decision::Done) => self.print_done(&pod.1)?,
                // The same would be said of each Pod.
                Err(failure @ Failure::Usage(_)) => return Err(failure),
                Err(failure) => plan.refused.push(failure),
            }
        }
        order(&mut decided);
        let mut notes = Vec::new();
        for one in decided {
            let before: Vec<PodName> = plan.moves.iter().map(PodMove::name).collect();
            let obstacle = self.obstacle(snapshot, &one, &before);
            if let Some(why) = obstacle.clone().filter(|_| !self.args.force) {
                let force = format!("--force moves Pod {} all the same", one.pod);
                plan.refused.push(Failure::Refused(why).with(&force));
                continue;
            }
            self.terminal.print(&text::plan(&one, self.terminal.style()))?;
            notes.extend(text::notes(&one, &self.commands).into_iter().chain(obstacle));
            plan.moves.push(one);
        }
        notes.sort();
        notes.dedup();
        self.notes(&notes);
        Ok(plan)
    }

    fn print_done(&self, pod: &str) -> Result<(), Failure> {
        self.print(&format!("Pod {pod} is on {} already", self.args.to.as_deref().unwrap_or_default()))
    }

    /// Moves one Pod after the other, and stops at the first one that does not become Ready and recorded. Of a
    /// node, it goes on after a Pod that it has to leave alone.
    async fn move_all(&self, plan: &Plan) -> Result<Outcome, Failure> {
        let count = plan.moves.len();
        let (mut moved, mut left) = (Vec::new(), Vec::new());
        for (number, shown) in plan.moves.iter().enumerate() {
            self.reached.set(Reached::Nothing);
            let patience = if number == 0 { Duration::ZERO } else { BUDGET_PATIENCE };
            let (ended, is_interrupted) = tokio::select! {
                ended = self.move_one(shown, patience) => (ended, false),
                _ = tokio::signal::ctrl_c() => (Err(self.interrupted(shown).await), true),
            };
            let is_untouched = self.reached.get() == Reached::Nothing && !is_interrupted;
            match &ended {
                Ok(Outcome::Well) => {
                    moved.push(shown.name());
                    continue;
                }
                Err(Failure::Refused(why)) if is_untouched && self.args.node.is_some() && count > 1 => {
                    self.note(&format!("not moved: {why}"));
                    left.push(shown.name());
                    continue;
                }
                _ => {}
            }
            // A Pod whose successor starts by itself must not be removed once more.
            let next = number + usize::from(self.reached.get() == Reached::All);
            let rest: Vec<PodName> =
                left.into_iter().chain(plan.moves[next..].iter().map(PodMove::name)).collect();
            let lines =
                if count > 1 { text::stopped(self.args, &moved, &rest, &self.commands) } else { Vec::new() };
            return match ended {
                Err(failure) if !lines.is_empty() => Err(failure.with(&lines.join("\n"))),
                ended => {
                    for line in lines {
                        self.terminal.say(&printable(&line));
                    }
                    ended
                }
            };
        }
        if !left.is_empty() {
            for line in text::stopped(self.args, &moved, &left, &self.commands) {
                self.terminal.say(&printable(&line));
            }
            return Ok(Outcome::NotWell);
        }
        if count > 1 {
            self.print(&format!("Moved {count} Pods"))?;
        }
        Ok(plan.outcome())
    }

    /// Moves one Pod as it was shown. Much may have changed meanwhile, so the move is decided again.
    async fn move_one(&self, shown: &PodMove, patience: Duration) -> Result<Outcome, Failure> {
        let pod = &shown.pod;
        for _ in 0..TRIES {
            let snapshot = self.read().await?;
            let now = match self.decide(&snapshot, &shown.name())? {
                Decision::Move(now) => now,
                Decision::Done => return self.print_done(pod).map(|()| Outcome::Well),
            };
            let changed = (!shown.covers(&now)).then(|| {
                format!("Pod {pod} or its recorded state has changed meanwhile; run the command again to see the new plan")
            });
            let obstacle = || self.obstacle(&snapshot, &now, &[]).filter(|_| !self.args.force);
            if let Some(why) = changed.or_else(obstacle) {
                return Err(
                    Failure::Refused(why).with(&format!("Pod {pod} was left alone: nothing was changed"))
                );
            }
            let steps = Steps::new(self, &snapshot, &now);
            steps.check(patience).await?;
            if !steps.write().await? {
                continue;
            }
            if let Some(present) = now.removed_by(&[Removal::Stay]) {
                let node = present.node.as_deref().unwrap_or_default();
                let again = if present.is_recorded_unmarked { ", and is recorded there" } else { "" };
                return self.print(&format!("Pod {pod} stays on {node}{again}")).map(|()| Outcome::Well);
            }
            return steps.wait(self.args.timeout).await;
        }
        Err(Failure::Refused(format!("Pod {pod} changes all the time; run the command again")))
    }

    /// Removes the mark of an interrupted move if nothing else was done, and says how to go on.
    async fn interrupted(&self, shown: &PodMove) -> Failure {
        let snapshot = Snapshot::empty(self.scope.clone());
        let steps = Steps::new(self, &snapshot, shown);
        steps.see_whether_removed().await;
        let is_clean = match (self.reached.get(), &shown.present) {
            (Reached::Nothing, _) => true,
            (Reached::Marked, Some(present)) => steps.mark(&present.uid, false).await.is_ok(),
            _ => false,
        };
        Failure::Refused(text::interrupted(
            shown,
            is_clean,
            self.reached.get() == Reached::All,
            &self.commands,
        ))
    }

    /// Says that no Pod of the node has to be moved, or that nobody knows the node.
    async fn say_nothing_to_do(&self, snapshot: &Snapshot, node: &str) -> Result<Outcome, Failure> {
        let exists = nodes::exists(self.client, snapshot, node).await;
        let is_named = |pps: &Pps| recorded_on(&pps.states().unwrap_or_default(), node).next().is_some();
        if exists == Some(false) && !snapshot.pps.iter().any(is_named) {
            let missing = Failure::from(no_node(snapshot, node));
            return Err(Failure::Usage(format!("no recorded state names {node}, and {missing}")));
        }
        let within = self.scope.namespace().map(|own| format!(" in namespace {own}")).unwrap_or_default();
        self.print(&format!("No Pod of {node} has to be moved{within}"))?;
        if exists.is_some() {
            return Ok(Outcome::Well);
        }
        self.note(&format!("whether there is a node {node} could not be read"));
        Ok(Outcome::Incomplete)
    }
}

impl Plan {
    /// How it ends if all moves are made.
    fn outcome(&self) -> Outcome {
        if self.refused.is_empty() { Outcome::Well } else { Outcome::NotWell }
    }
}

#[cfg(test)]
mod tests;
