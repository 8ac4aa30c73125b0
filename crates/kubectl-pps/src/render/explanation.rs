//! The answer of `explain` in English.

mod answer;
mod excluded;
mod facts;
mod remedy;

use serde::Serialize;

use self::answer::answer;
pub use self::excluded::Excluded;
use self::excluded::MAX_EXACT_NODES;
pub(super) use self::excluded::groups;
use self::facts::facts;
pub use self::remedy::Advised;
use super::text::{Text, list};
use super::{Role, Style, with_consequence};
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{Explanation, Verdict};
use crate::decide::placement::Landing;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub namespace: String,
    pub pod: String,
    pub verdict: Verdict,
    pub answer: String,
    /// The nodes that cannot take the Pod, or a new Pod in its place.
    pub excluded: Vec<Excluded>,
    /// The nodes that the scheduler would choose from, and the others that could take the Pod.
    #[serde(flatten)]
    pub landing: Landing,
    pub facts: Vec<String>,
    pub remedies: Vec<Advised>,
    pub notes: Vec<String>,
}

impl Document {
    pub fn of(explanation: &Explanation, commands: &CommandLine) -> Self {
        let subject = &explanation.subject;
        Self {
            namespace: subject.namespace.to_owned(),
            pod: subject.name.to_owned(),
            verdict: explanation.verdict(),
            answer: answer(explanation, commands),
            excluded: groups(&explanation.excluded),
            landing: explanation.landing.clone(),
            facts: facts(explanation),
            remedies: explanation
                .remedies
                .iter()
                .map(|remedy| Advised::of(remedy, subject, commands))
                .collect(),
            notes: notes(explanation),
        }
    }

    pub fn text(&self, style: Style) -> String {
        let mut text = Text::new(style);
        let role = match self.verdict {
            Verdict::Running => Role::Good,
            Verdict::Terminating | Verdict::NotWanted | Verdict::Unscheduled | Verdict::Unknown => {
                Role::Warning
            }
            _ => Role::Bad,
        };
        text.sentence("", Some(role), &self.answer);
        if !self.excluded.is_empty() {
            text.title("Nodes that cannot take it");
        }
        for Excluded { nodes, reasons, .. } in &self.excluded {
            let nodes = if nodes.len() <= MAX_EXACT_NODES {
                nodes.join(", ")
            } else {
                list(nodes, "and")
            };
            text.sentence("  ", None, &format!("{nodes}: {}", reasons.join("; ")));
        }
        if !self.remedies.is_empty() {
            text.title("What you can do");
        }
        for remedy in &self.remedies {
            match &remedy.command {
                Some(command) => text.command("  - ", &remedy.text, command),
                None => text.sentence("  - ", None, &format!("{}.", remedy.text)),
            }
            if let Some(consequence) = &remedy.consequence {
                text.sentence("    ", None, consequence);
            }
        }
        text.title("What is known");
        for fact in &self.facts {
            text.sentence("  - ", None, fact);
        }
        if !self.notes.is_empty() {
            text.push("\n");
        }
        for note in &self.notes {
            text.marked(Role::Warning, "note:", note);
        }
        text.into_lines()
    }
}

/// What the answer leaves out.
fn notes(explanation: &Explanation) -> Vec<String> {
    let mut notes: Vec<String> = explanation
        .caveats
        .iter()
        .map(|caveat| format!("Not known: {caveat}."))
        .collect();
    if explanation.is_stuck {
        notes.push("Nothing that was tried lets the Pod start.".to_owned());
    }
    let unread = explanation.subject.snapshot.relevant_unread();
    notes.extend(unread.map(with_consequence));
    notes
}
