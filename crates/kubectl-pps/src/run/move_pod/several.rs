//! Several Pods: one plan, one question, then one move after the other.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::mover::{Mover, PERIOD, read_pod};
use super::{Carried, DRY_RUN, Job, nodes, until_interrupted};
use crate::decide::relocate::{
    Also, PodName, Relocation, Selected, Several, also, decide, decide_all, so_far,
};
use crate::print::plan::tabled;
use crate::print::{Table, printable};
use crate::run::rights;
use crate::run::states::TRIES;
use crate::snapshot::{Pod, Scope, Snapshot};
use crate::{Failure, Outcome};

impl Job<'_> {
    /// Moves the Pods of a node.
    pub(super) async fn of_node(
        &self,
        snapshot: &Snapshot,
        node: &str,
        selected: &Selected,
    ) -> Result<Outcome, Failure> {
        let notes = selected.notes(node, &self.goal(), &self.hand);
        if selected.pods.is_empty() {
            self.nothing(snapshot, node).await?;
            for text in &notes {
                self.note(text);
            }
            return Ok(if selected.unsure.is_empty() { Outcome::Well } else { Outcome::NotWell });
        }
        self.several(snapshot, &selected.pods, &notes).await
    }

    /// Moves these Pods. `notes` are said beside the plan.
    pub(super) async fn several(
        &self,
        snapshot: &Snapshot,
        pods: &[PodName],
        notes: &[String],
    ) -> Result<Outcome, Failure> {
        let goal = self.goal();
        let plan = decide_all(snapshot, pods, &goal)?;
        for text in &plan.done {
            self.print(text)?;
        }
        if !plan.moves.is_empty() {
            self.terminal.print(&self.plan(&plan))?;
        }
        plan.notes(self.args.node.as_deref(), &self.hand).iter().for_each(|text| self.note(text));
        for text in notes {
            self.note(text);
        }
        // Who empties a node wants what can go to go. Who names Pods wants these.
        let leaves_some = self.args.node.is_some() && plan.may_leave_some();
        if let Some(refusal) = plan.refusal(&goal, &self.hand).filter(|_| !leaves_some) {
            return Err(refusal);
        }
        plan.left().iter().for_each(|text| self.note(text));
        if plan.moves.is_empty() {
            return Ok(Outcome::Well);
        }
        let movers: Vec<Mover<'_>> =
            plan.moves.iter().map(|relocation| Mover::new(self, snapshot, relocation)).collect();
        let needed: Vec<_> = movers.iter().flat_map(Mover::needed).collect();
        rights::require(self.client, &needed).await?;
        if let Some(first) = movers.first() {
            first.check(&[], Duration::ZERO).await?;
        }
        if self.args.consent.dry_run {
            self.terminal.say(DRY_RUN);
            return Ok(plan.outcome());
        }
        if !self.terminal.ask(&plan.question(), self.args.consent)? {
            self.terminal.say("nothing was changed");
            return Ok(Outcome::NotWell);
        }
        self.move_all(&plan).await
    }

    async fn nothing(&self, snapshot: &Snapshot, node: &str) -> Result<(), Failure> {
        let within = match &self.scope {
            Scope::All => String::new(),
            Scope::Namespace(namespace) => format!(" in namespace {namespace}"),
        };
        let first = match nodes::exists(self.client, snapshot, node).await {
            Some(false) => format!("There is no node {node}, and nothing"),
            _ => "Nothing".to_owned(),
        };
        self.print(&format!("{first} that is recorded runs on {node} or waits for it{within}"))
    }

    /// The plan: a table, and what is done.
    fn plan(&self, plan: &Several) -> String {
        let style = self.terminal.style();
        let count = plan.moves.len();
        let (pods, how) = match count {
            1 => ("1 Pod".to_owned(), ""),
            _ => (format!("{count} Pods"), ", one after the other"),
        };
        let within = match &self.scope {
            Scope::All => String::new(),
            Scope::Namespace(namespace) => format!(" in namespace {namespace}"),
        };
        let header = ["NAMESPACE", "POD", "NOW", "RECORDED", "GOES"];
        let from = usize::from(self.scope != Scope::All);
        let mut table = Table::new(style, &header[from..]);
        for row in plan.rows() {
            let cells: Vec<_> = row[from..].iter().map(|cell| (cell.as_str(), None)).collect();
            table.row(&cells);
        }
        tabled(style, &format!("Move {pods}{within}{how}"), &table.render(), &plan.steps())
    }

    /// Moves them, and stops at the first one that does not land.
    async fn move_all(&self, plan: &Several) -> Result<Outcome, Failure> {
        let pods = plan.pods();
        let goal = self.goal();
        for (number, shown) in plan.moves.iter().enumerate() {
            let moved = &pods[..number];
            match until_interrupted(self.next(shown, &plan.moves[..number])).await {
                Ok(Outcome::Well) => {}
                // It has said where it is.
                Ok(outcome) => {
                    for line in so_far(moved, &pods[number + 1..], &goal, &self.hand) {
                        self.terminal.say(&printable(&line));
                    }
                    return Ok(outcome);
                }
                Err(failure) => {
                    return Err(failure.with(&so_far(moved, &pods[number..], &goal, &self.hand).join("\n")));
                }
            }
        }
        self.print(&plan.end())?;
        Ok(plan.outcome())
    }

    /// Moves the next one. It is decided again: those before it have landed somewhere, and the user was asked before the first.
    async fn next(&self, shown: &Relocation, before: &[Relocation]) -> Result<Outcome, Failure> {
        let mut overtaken = String::new();
        // Kubernetes deletes the Pods of a node that is gone, and their controllers create them again, meanwhile.
        for _ in 0..TRIES {
            match self.try_next(shown, before).await? {
                Carried::Out(outcome) => return Ok(outcome),
                Carried::Overtaken(what) => overtaken = what,
            }
        }
        Err(Failure::Refused(format!("{overtaken}: it was left alone")))
    }

    async fn try_next(&self, shown: &Relocation, before: &[Relocation]) -> Result<Carried, Failure> {
        let peers: Vec<&Relocation> = before.iter().filter(|one| one.workload == shown.workload).collect();
        let mut has_waited = peers.is_empty();
        let (snapshot, now) = loop {
            let snapshot = self.read().await?;
            let decision = decide(&snapshot, &self.goal().of(&shown.name()));
            let now = match also(shown, decision, self.args.force)? {
                Also::Go(now) => *now,
                Also::Skip(text) => {
                    self.print(&text)?;
                    return Ok(Carried::Out(Outcome::Well));
                }
            };
            // It may have become Ready meanwhile.
            if has_waited || !now.is_serving() {
                break (snapshot, now);
            }
            for peer in &peers {
                self.wait_until_ready(peer, &now).await?;
            }
            has_waited = true;
        };
        let mover = Mover::new(self, &snapshot, &now);
        let patience = if peers.is_empty() { Duration::ZERO } else { self.args.timeout };
        mover.check(&[], patience).await?;
        self.carry_out(&mover).await
    }

    /// Waits until a Pod that was moved is Ready, before another one of its workload is evicted.
    async fn wait_until_ready(&self, peer: &Relocation, next: &Relocation) -> Result<(), Failure> {
        let deadline = Instant::now() + self.args.timeout;
        let mut has_said = false;
        loop {
            let pod = read_pod(self.client, &peer.namespace, &peer.pod).await;
            match pod.map(|pod| pod.and_then(Pod::read)) {
                Ok(Some(pod)) if pod.is_ready() && !pod.is_terminating() => return Ok(()),
                Err(failure) if Instant::now() >= deadline => return Err(failure),
                _ => {}
            }
            if Instant::now() >= deadline {
                return Err(Failure::Refused(format!(
                    "Pod {} is not Ready after {} s, and Pod {} of the same {} was left alone until it is",
                    peer.pod,
                    self.args.timeout.as_secs(),
                    next.pod,
                    next.workload.kind
                )));
            }
            if !has_said {
                self.terminal.say(&printable(&format!("waiting until Pod {} is Ready …", peer.pod)));
                has_said = true;
            }
            sleep(PERIOD).await;
        }
    }
}
