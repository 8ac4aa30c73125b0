//! Shows the answer of `explain`.

use super::text::Text;
use super::{Role, Style};
use crate::decide::explain::{Explanation, Verdict};
use crate::decide::names::list;

/// Up to so many nodes are all named.
const ALL: usize = 6;

/// The answer for people.
pub fn explanation(explanation: &Explanation, style: Style) -> String {
    let mut text = Text::new(style);
    let role = match explanation.verdict {
        Verdict::Running => Role::Good,
        Verdict::Terminating | Verdict::NotWanted | Verdict::Unscheduled | Verdict::Unknown => Role::Warning,
        _ => Role::Bad,
    };
    text.sentence("", Some(role), &explanation.answer);
    if !explanation.excluded.is_empty() {
        let is_pending =
            matches!(explanation.verdict, Verdict::Pinned | Verdict::Unschedulable | Verdict::Unscheduled);
        let title =
            if is_pending { "Nodes that cannot take it" } else { "Nodes that could not take the new Pod" };
        text.title(title);
        for group in &explanation.excluded {
            let sentence = format!("{}: {}", names(&group.nodes), group.reasons.join("; "));
            text.sentence("  ", None, &sentence);
        }
    }
    if !explanation.remedies.is_empty() {
        text.title("What you can do");
        for remedy in &explanation.remedies {
            match &remedy.command {
                Some(command) => text.command("  - ", &remedy.text, command),
                None => text.sentence("  - ", None, &format!("{}.", remedy.text)),
            }
            if let Some(consequence) = &remedy.consequence {
                text.sentence("    ", None, consequence);
            }
        }
    }
    if !explanation.facts.is_empty() {
        text.title("What is known");
        for fact in &explanation.facts {
            text.sentence("  - ", None, fact);
        }
    }
    if !explanation.notes.is_empty() {
        text.push("\n");
        for note in &explanation.notes {
            text.marked(Role::Warning, "note:", note);
        }
    }
    text.into_lines()
}

/// `node-1, node-2, node-3 and 997 others`
fn names(names: &[String]) -> String {
    if names.len() <= ALL { names.join(", ") } else { list(names, "and") }
}
