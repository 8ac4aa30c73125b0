//! The answer of `explain` in English.

mod words;

use std::collections::BTreeMap;

use pps_core::INJECTION_LABEL;
use pps_scheduler::{Exclusion, ExclusionKind, UNSCHEDULABLE, Verdict as NodeVerdict};
use serde::Serialize;

use self::words::{answer, becomes, facts, labels};
use super::status::{Line, enable};
use super::text::{Text, list};
use super::{Role, Style, with_consequence};
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{Explanation, Remedy, RemedyKind, Step, Verdict};
use crate::decide::placement::Landing;
use crate::decide::subject::Subject;

/// Up to this number, all nodes are named with their exact reasons.
const ALL: usize = 6;
const MAX_GROUPS: usize = 12;
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

/// Nodes that cannot take the Pod for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    pub nodes: Vec<String>,
    pub reasons: Vec<String>,
    pub by_recorded_state: bool,
}

/// A remedy with its command and its consequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advised {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    #[serde(flatten)]
    pub landing: Landing,
}

impl Document {
    pub fn of(explanation: &Explanation, commands: &CommandLine) -> Self {
        let subject = &explanation.subject;
        let mut notes: Vec<String> = explanation
            .caveats
            .iter()
            .map(|caveat| format!("Not known: {caveat}."))
            .collect();
        notes.extend(
            explanation
                .is_stuck
                .then(|| "Nothing that was tried lets the Pod start.".to_owned()),
        );
        notes.extend(subject.snapshot.relevant_unread().map(with_consequence));
        Self {
            namespace: subject.namespace.to_owned(),
            pod: subject.name.to_owned(),
            verdict: explanation.verdict,
            answer: answer(explanation, commands),
            excluded: groups(&explanation.excluded),
            landing: explanation.landing.clone(),
            facts: facts(explanation),
            remedies: explanation
                .remedies
                .iter()
                .map(|remedy| advised(remedy, subject, commands))
                .collect(),
            notes,
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
            let nodes = if nodes.len() <= ALL {
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
            remedy
                .consequence
                .iter()
                .for_each(|consequence| text.sentence("    ", None, consequence));
        }
        text.title("What is known");
        self.facts
            .iter()
            .for_each(|fact| text.sentence("  - ", None, fact));
        if !self.notes.is_empty() {
            text.push("\n");
        }
        self.notes
            .iter()
            .for_each(|note| text.marked(Role::Warning, "note:", note));
        text.into_lines()
    }
}

/// Groups nodes by their reasons, so that a thousand nodes are a few lines: nodes with the right
/// labels first, then the largest groups.
pub(super) fn groups(verdicts: &[NodeVerdict]) -> Vec<Excluded> {
    let is_far = |verdict: &NodeVerdict| verdict.exclusions.iter().any(is_about_labels);
    let is_exact = verdicts.iter().filter(|verdict| !is_far(verdict)).count() <= ALL;
    let mut groups: BTreeMap<(bool, bool, Vec<String>), Vec<String>> = BTreeMap::new();
    for verdict in verdicts {
        let is_recorded = verdict.exclusions.iter().any(Exclusion::from_pps);
        let reasons = reasons(&verdict.exclusions, is_exact && !is_far(verdict));
        groups
            .entry((is_far(verdict), is_recorded, reasons))
            .or_default()
            .push(verdict.node.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((is_far, ..), nodes)| (*is_far, usize::MAX - nodes.len()));
    let group = |((_, by_recorded_state, reasons), nodes)| Excluded {
        nodes,
        reasons,
        by_recorded_state,
    };
    let mut groups: Vec<Excluded> = groups.into_iter().map(group).collect();
    if groups.len() > MAX_GROUPS {
        let rest = groups.split_off(MAX_GROUPS - 1);
        let by_recorded_state = rest.iter().any(|group| group.by_recorded_state);
        let nodes = rest.into_iter().flat_map(|group| group.nodes).collect();
        groups.push(Excluded {
            nodes,
            reasons: vec!["various reasons".to_owned()],
            by_recorded_state,
        });
    }
    groups
}

fn is_about_labels(exclusion: &Exclusion) -> bool {
    matches!(
        exclusion.kind(),
        ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector
    )
}

/// Why a node cannot take a Pod, each reason once. The taint of a cordon says no more than the
/// cordon.
fn reasons(exclusions: &[Exclusion], is_exact: bool) -> Vec<String> {
    let is_cordoned = exclusions.contains(&Exclusion::Cordon);
    let is_of_cordon =
        |one: &Exclusion| matches!(one, Exclusion::Taint(taint) if taint.key == UNSCHEDULABLE);
    let mut reasons: Vec<String> = Vec::new();
    for exclusion in exclusions
        .iter()
        .filter(|one| !(is_cordoned && is_of_cordon(one)))
    {
        let reason = if is_exact {
            exclusion.to_string()
        } else {
            exclusion.in_general()
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

fn advised(remedy: &Remedy, subject: &Subject, commands: &CommandLine) -> Advised {
    let Remedy { kind, landing } = remedy;
    let (namespace, pod) = (subject.namespace, subject.name);
    let pps = |words: &str| commands.pps(words, namespace);
    let mut consequence = None;
    let (text, command) = match kind {
        RemedyKind::ChangeNode { node, steps } => {
            let (texts, all): (Vec<String>, Vec<Option<String>>) =
                steps.iter().map(|step| step_on(step, node)).unzip();
            let all: Vec<String> = all
                .iter()
                .flatten()
                .map(|one| commands.kubectl(one))
                .collect();
            let text = format!("{}, and the Pod starts there", texts.join(", and "));
            (text, (!all.is_empty()).then(|| all.join(" && ")))
        }
        RemedyKind::LabelNode { labels: required } => (
            format!("Bring a node with {} back, or add one", labels(required)),
            None,
        ),
        RemedyKind::CreateAgain => {
            let would = landing.would("start on");
            let text = format!(
                "Delete it, so that it is created again from the present template and recorded \
                 state: the new Pod {would}"
            );
            (
                text,
                Some(commands.kubectl_in(&format!("delete pod {pod}"), namespace)),
            )
        }
        RemedyKind::Move { from, flags } => {
            let disk = from
                .as_ref()
                .map_or("its former node's".to_owned(), |node| format!("{node}'s"));
            consequence = Some(format!(
                "Data on {disk} local disk stays there. The new node is recorded when the Pod is \
                 Ready."
            ));
            let text = format!("Move it to another node: it {}", landing.would("start on"));
            (text, Some(pps(&format!("move {pod} --anywhere{flags}"))))
        }
        RemedyKind::FinishMove { to } => {
            let goal = to
                .as_ref()
                .map_or("--anywhere".to_owned(), |node| format!("--to {node}"));
            (
                "Finish the move".to_owned(),
                Some(pps(&format!("move {pod} {goal}"))),
            )
        }
        RemedyKind::CallMoveOff { node } => (
            "Call the move off".to_owned(),
            Some(pps(&format!("move {pod} --to {node}"))),
        ),
        RemedyKind::DeleteNode { node, next } => {
            consequence = Some(format!(
                "Kubernetes then deletes the Pod although the former process may still run: be \
                 sure that the machine is off. Data on {node}'s local disk is not there; {}. A \
                 node that returns under this name has that data again.",
                becomes(subject, next.as_ref())
            ));
            let text = format!(
                "Bring {node} back under its name. If it does not come back, delete its Node \
                 object"
            );
            (text, Some(commands.kubectl(&format!("delete node {node}"))))
        }
        RemedyKind::Forget => (
            "Drop its recorded state".to_owned(),
            Some(pps(&format!("forget {pod}"))),
        ),
        RemedyKind::ExplainOther { pod } => (
            format!("Find out what {pod} waits for"),
            Some(pps(&format!("explain {pod}"))),
        ),
        RemedyKind::EnableNamespace => {
            let Line { text, command } = enable(namespace, commands);
            (text, Some(command))
        }
        RemedyKind::Check => (
            "Find the cause, and repair it".to_owned(),
            Some(commands.check()),
        ),
        RemedyKind::DisableInjection => {
            let label = |to: &str| {
                commands.kubectl(&format!(
                    "label namespace {namespace} {INJECTION_LABEL}={to} --overwrite"
                ))
            };
            consequence = Some(format!(
                "They start anywhere, away from the data on their nodes; their recorded states \
                 stay unchanged. The controller waits longer after each refusal. The way back: {}",
                label("enabled")
            ));
            let text = "If that takes too long, let the Pods of the namespace start without their \
                        recorded states";
            (text.to_owned(), Some(label("disabled")))
        }
    };
    Advised {
        text: capitalized(&text),
        command,
        consequence,
        landing: landing.clone(),
    }
}

fn step_on(step: &Step, node: &str) -> (String, Option<String>) {
    match step {
        Step::Uncordon => (
            format!("allow Pods on {node} again"),
            Some(format!("uncordon {node}")),
        ),
        Step::RemoveCause { taint } => {
            (format!("remove the cause of {node}'s taint {taint}"), None)
        }
        Step::RemoveTaint { key, effect } => (
            format!("remove the taint {key} of {node}"),
            Some(format!("taint nodes {node} {key}:{effect}-")),
        ),
        Step::FreeCapacity { why } => (format!("free capacity on {node} ({why})"), None),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}
