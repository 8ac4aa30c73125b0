//! Several Pods: one plan and one question.

use std::time::Duration;

use pps_core::edit::recorded_on;

use super::mover::Mover;
use super::{DRY_RUN, Job, nodes};
use crate::decide::relocate::{PodName, Selected, Several, decide_all, no_node};
use crate::print::Table;
use crate::print::plan::tabled;
use crate::run::rights;
use crate::snapshot::{Pps, Scope, Snapshot};
use crate::{Failure, Outcome};

impl Job<'_> {
    /// Moves the Pods of a node.
    pub(super) async fn of_node(
        &self,
        snapshot: &Snapshot,
        node: &str,
        selected: &Selected,
    ) -> Result<Outcome, Failure> {
        let notes = selected.notes(node, &self.hand);
        if selected.pods.is_empty() {
            let outcome = if *selected == Selected::default() {
                self.nothing(snapshot, node).await?
            } else {
                self.print(&format!("No Pod of {node} has to be moved{}", self.within()))?;
                Outcome::Well
            };
            for text in &notes {
                self.note(text);
            }
            return Ok(if selected.unpinned.is_empty() { outcome } else { Outcome::NotWell });
        }
        let outcome = self.several(snapshot, &selected.pods, &notes).await?;
        Ok(if selected.unpinned.is_empty() { outcome } else { Outcome::NotWell })
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
        // A user who empties a node wants to move as many Pods as possible. A user who names Pods wants all of them moved.
        let leaves_some = self.args.node.is_some() && plan.may_leave_some();
        if let Some(refusal) = plan.refusal(&goal, &self.hand).filter(|_| !leaves_some) {
            return Err(refusal);
        }
        plan.left().iter().for_each(|text| self.note(text));
        if plan.moves.is_empty() {
            return Ok(Outcome::Well);
        }
        let movers: Vec<Mover<'_>> =
            plan.moves.iter().map(|relocation| Mover::new(self, snapshot, relocation, &[])).collect();
        let needed: Vec<_> = movers.iter().flat_map(Mover::needed).collect();
        rights::require(self.client, &needed).await?;
        if let Some(first) = movers.first() {
            match first.check(&[], Duration::ZERO).await {
                // The others may go all the same.
                Err(Failure::Refused(why)) if movers.len() > 1 => {
                    why.lines().for_each(|line| self.note(line));
                }
                checked => checked?,
            }
        }
        if self.args.consent.dry_run {
            self.terminal.say(DRY_RUN);
            return Ok(plan.outcome());
        }
        if !self.terminal.ask(&plan.question(), self.args.consent)? {
            self.terminal.say("nothing was changed");
            return Ok(Outcome::NotWell);
        }
        self.move_all(snapshot, &plan).await
    }

    /// Says that no Pod is on the node or belongs there.
    async fn nothing(&self, snapshot: &Snapshot, node: &str) -> Result<Outcome, Failure> {
        let exists = nodes::exists(self.client, snapshot, node).await;
        let is_named = |pps: &Pps| recorded_on(&pps.states().unwrap_or_default(), node).next().is_some();
        let there = match exists {
            Some(false) if !snapshot.pps.iter().any(is_named) => {
                let missing = no_node(snapshot, node);
                return Err(Failure::Usage(format!("no recorded state names {node}, and {missing}")));
            }
            Some(false) => format!("There is no node {node}, and nothing"),
            _ => "Nothing".to_owned(),
        };
        self.print(&format!("{there} that is recorded runs on {node} or waits for it{}", self.within()))?;
        if exists.is_some() {
            return Ok(Outcome::Well);
        }
        self.note(&format!("whether there is a node {node} could not be read"));
        Ok(Outcome::Incomplete)
    }

    fn within(&self) -> String {
        match &self.scope {
            Scope::All => String::new(),
            Scope::Namespace(namespace) => format!(" in namespace {namespace}"),
        }
    }

    /// The plan: a table, and what is done.
    fn plan(&self, plan: &Several) -> String {
        let style = self.terminal.style();
        let count = plan.moves.len();
        let (pods, how) = match count {
            1 => ("1 Pod".to_owned(), ""),
            _ => (format!("{count} Pods"), ", one after the other"),
        };
        let within = self.within();
        let header = ["NAMESPACE", "POD", "NOW", "RECORDED", "GOES"];
        let from = usize::from(self.scope != Scope::All);
        let mut table = Table::new(style, &header[from..]);
        for row in plan.rows() {
            let cells: Vec<_> = row[from..].iter().map(|cell| (cell.as_str(), None)).collect();
            table.row(&cells);
        }
        tabled(style, &format!("Move {pods}{within}{how}"), &table.render(), &plan.steps(self.args.force))
    }
}
