//! Several Pods: one plan and one question.

use std::time::Duration;

use super::mover::Mover;
use super::{DRY_RUN, Job, nodes};
use crate::decide::relocate::{PodName, Selected, Several, decide_all};
use crate::print::Table;
use crate::print::plan::tabled;
use crate::run::rights;
use crate::snapshot::{Scope, Snapshot};
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
            return Ok(if selected.is_complete() { Outcome::Well } else { Outcome::NotWell });
        }
        let outcome = self.several(snapshot, &selected.pods, &notes).await?;
        Ok(if selected.is_complete() { outcome } else { Outcome::NotWell })
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
            plan.moves.iter().map(|relocation| Mover::new(self, snapshot, relocation)).collect();
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
        tabled(style, &format!("Move {pods}{within}{how}"), &table.render(), &plan.steps(self.args.force))
    }
}
