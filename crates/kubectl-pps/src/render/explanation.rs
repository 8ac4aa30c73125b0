//! The answer of `explain` in English.

mod fact;
mod remedy;

use pps_core::plan::Requirement;
use pps_scheduler::ExclusionKind;
use serde::Serialize;

use super::text::Text;
use super::{Role, Style, with_consequence};
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{
    Cause, Explanation, Group, LostNode, Note, Pin, Place, Progress, Reason, Successor, Unrecorded, Verdict,
};
use crate::decide::names::list;

/// Up to so many nodes are all named.
const ALL: usize = 6;
/// What Kubernetes' garbage collector does with a Pod whose node is gone: it waits for 40 s, and looks each 20 s.
const DELETES: &str = "Kubernetes deletes the Pod after about a minute";

/// The answer, as programs read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct Document {
    pub namespace: String,
    pub pod: String,
    pub verdict: Verdict,
    pub answer: String,
    /// The nodes that cannot take the Pod, or a new Pod in its place.
    pub excluded: Vec<Excluded>,
    /// The nodes that the scheduler would choose from, and the others that could take the Pod.
    pub may_land_on: Vec<String>,
    pub could_also_land_on: Vec<String>,
    pub facts: Vec<String>,
    pub remedies: Vec<Advised>,
    pub notes: Vec<String>,
}

/// Nodes that cannot take the Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct Excluded {
    pub nodes: Vec<String>,
    pub reasons: Vec<String>,
    pub by_recorded_state: bool,
}

/// A remedy, the command that carries it out, and what else follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct Advised {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    pub may_land_on: Vec<String>,
    pub could_also_land_on: Vec<String>,
}

/// What sentences are made for.
struct Words<'a> {
    namespace: &'a str,
    pod: &'a str,
    commands: &'a CommandLine,
}

impl Document {
    /// Of an answer.
    pub fn of(explanation: &Explanation, commands: &CommandLine) -> Self {
        let Explanation { namespace, pod, verdict, landing, .. } = explanation;
        let words = Words { namespace, pod, commands };
        let excluded = |group: &Group| Excluded {
            nodes: group.nodes.clone(),
            reasons: group.reasons(),
            by_recorded_state: group.by_recorded_state,
        };
        Self {
            namespace: namespace.clone(),
            pod: pod.clone(),
            verdict: *verdict,
            answer: words.answer(explanation),
            excluded: explanation.excluded.iter().map(excluded).collect(),
            may_land_on: landing.favourites().to_vec(),
            could_also_land_on: landing.others().to_vec(),
            facts: explanation.facts.iter().map(|fact| words.fact(fact)).collect(),
            remedies: explanation.remedies.iter().map(|remedy| words.remedy(remedy)).collect(),
            notes: explanation.notes.iter().map(|note| words.note(note)).collect(),
        }
    }

    /// The answer for people.
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
            let is_pending =
                matches!(self.verdict, Verdict::Pinned | Verdict::Unschedulable | Verdict::Unscheduled);
            text.title(if is_pending {
                "Nodes that cannot take it"
            } else {
                "Nodes that could not take the new Pod"
            });
        }
        for Excluded { nodes, reasons, .. } in &self.excluded {
            let nodes = if nodes.len() <= ALL { nodes.join(", ") } else { list(nodes, "and") };
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
            remedy.consequence.iter().for_each(|consequence| text.sentence("    ", None, consequence));
        }
        if !self.facts.is_empty() {
            text.title("What is known");
        }
        self.facts.iter().for_each(|fact| text.sentence("  - ", None, fact));
        if !self.notes.is_empty() {
            text.push("\n");
        }
        self.notes.iter().for_each(|note| text.marked(Role::Warning, "note:", note));
        text.into_lines()
    }
}

impl Words<'_> {
    fn pps(&self, words: &str) -> String {
        self.commands.pps(words, self.namespace)
    }

    fn answer(&self, explanation: &Explanation) -> String {
        let pod = self.pod;
        let on = |node: &Option<String>| node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let ending = format!("{pod} is being deleted");
        let mut answer = match &explanation.cause {
            Cause::OnNode { node, place, progress } => on_node(pod, node, place, *progress),
            Cause::Misplaced { node, drift } => {
                format!("{pod} runs on {node}, where it should not: {drift}.")
            }
            Cause::NotRecorded { node, why } => {
                format!("{pod} runs on {node} and is not recorded: {}.", unrecorded(why))
            }
            Cause::NodeGone { node, next } => format!(
                "{pod} is bound to {node}, which does not exist any more. {DELETES}; {}.",
                successor(next)
            ),
            Cause::Ended { node, phase } => format!(
                "{pod} has ended{} ({phase}); its controller creates it again, or it is not needed.",
                on(node)
            ),
            Cause::Terminating { node } => {
                format!("{ending}{}; the new Pod is created when it is gone.", on(node))
            }
            Cause::Overdue { node, deadline } => format!(
                "{ending}{}, and should have been gone by {deadline}: its node does not answer, or a finalizer keeps it.",
                on(node)
            ),
            Cause::TerminatingWithoutNode { node } => format!(
                "{ending}, and its node {node} does not exist any more, so nothing confirms that it has stopped. {DELETES} in \
                 spite of that."
            ),
            Cause::TerminatingOnLostNode { node } => format!(
                "{ending}, and its node {} that the Pod has stopped. It ends when {} is back, or when its Node object is deleted.",
                lost(node),
                node.name
            ),
            Cause::Gated => format!("{pod} is Pending: its scheduling gates keep it until they are removed."),
            Cause::RefutedBy { message } => {
                let landing = &explanation.landing;
                let can = list(&[landing.favourites(), landing.others()].concat(), "and");
                format!(
                    "{pod} is Pending, although {can} could take it as far as is known here. The scheduler says: {message}"
                )
            }
            Cause::NotLookedAt => {
                let landing = &explanation.landing;
                let then = if landing.is_nowhere() {
                    String::new()
                } else {
                    format!(" It {}.", landing.would("start on"))
                };
                format!("{pod} has no node yet: the scheduler has not looked at it.{then}")
            }
            Cause::NoNode { pin, matching, common, is_governed } => {
                no_node(pod, pin.as_ref(), matching, *common, *is_governed)
            }
            Cause::NoNodeKnown { pin } => {
                format!(
                    "{}.",
                    pin.as_ref().map_or_else(|| format!("{pod} is Pending"), |pin| pinned(pod, pin))
                )
            }
            Cause::NotWanted { workload, replicas } => {
                format!(
                    "{pod} does not exist, and StatefulSet {workload} does not want it (replicas: {replicas})."
                )
            }
            Cause::NoWorkload { pps, is_known } => {
                let whether = if *is_known {
                    "no workload that was read wants it"
                } else {
                    "whether a workload wants it is not known"
                };
                format!("{pod} does not exist, and {whether}. PersistentPodState {pps} has a state of it.")
            }
            Cause::WaitsFor { workload, pod: other } => format!(
                "{pod} is not created yet: StatefulSet {workload} creates one Pod after the other, and {other} is not Ready."
            ),
            Cause::Refused => format!("{pod} does not exist: its creation is refused."),
            Cause::NotCreated { workload } => {
                format!("{pod} does not exist, although StatefulSet {workload} wants it.")
            }
        };
        if explanation.is_kept_by_template {
            answer +=
                " It was made from another template than its workload has now, with which it could start.";
        }
        answer
    }

    fn note(&self, note: &Note) -> String {
        match note {
            Note::Caveat(caveat) => format!("Not known: {caveat}."),
            Note::Unread(unread) => with_consequence(unread),
            Note::NothingHelps { is_pinned: true } => {
                "Moving it elsewhere would not help: no other node could take it, either.".to_owned()
            }
            Note::NothingHelps { is_pinned: false } => {
                "No single change of a node that was tried lets the Pod go.".to_owned()
            }
            Note::MoveMayHelp => format!(
                "{} lets it start on another node; only a user who may list nodes learns whether one can take it.",
                self.pps(&format!("move {} --anywhere", self.pod))
            ),
        }
    }
}

impl Group {
    /// Why, in words.
    pub fn reasons(&self) -> Vec<String> {
        if self.reasons.is_empty() { vec!["various reasons".to_owned()] } else { reasons(&self.reasons) }
    }
}

fn reasons(reasons: &[Reason]) -> Vec<String> {
    let words = |reason: &Reason| match reason {
        Reason::Exact(exclusion) => exclusion.to_string(),
        Reason::General(exclusion) => exclusion.in_general(),
    };
    reasons.iter().map(words).collect()
}

fn on_node(pod: &str, node: &str, place: &Place, progress: Progress) -> String {
    let place = match place {
        Place::Here => format!("{node}, where it is recorded"),
        Place::Elsewhere(recorded) => format!("{node}. It is recorded on {recorded}"),
        Place::Nowhere => format!("{node}. Nothing is recorded of it yet"),
        Place::NotGoverned => format!("{node}. The scheduler chose that node; the Pod is not recorded"),
        Place::Unknown => node.to_owned(),
    };
    match progress {
        Progress::Ready => format!("{pod} runs on {place}."),
        Progress::NotReady => format!("{pod} runs on {place}. It is not Ready."),
        Progress::NodeNotReady => format!("{pod} is not Ready, and neither is its node. It is on {place}."),
        Progress::NotStarted => format!("{pod} has its node and does not run yet. It is on {place}."),
    }
}

fn no_node(
    pod: &str,
    pin: Option<&Pin>,
    matching: &[String],
    common: Option<ExclusionKind>,
    is_governed: bool,
) -> String {
    let shared = common.map(|kind| match kind {
        ExclusionKind::Cordon => "are cordoned",
        ExclusionKind::Resources => "have too little room for it",
        ExclusionKind::Taint => "have taints that it does not tolerate",
        ExclusionKind::NodeSelector => "lack what its nodeSelector asks for",
        _ => "lack what its required node affinity asks for",
    });
    let Some(pin) = pin else {
        let why = match shared {
            _ if matching.is_empty() => "there is no node".to_owned(),
            Some(shared) => format!("all nodes {shared}"),
            None => "no node can take it".to_owned(),
        };
        let whether = if is_governed { ". No recorded state keeps it from a node" } else { "" };
        return format!("{pod} is Pending because {why}{whether}.");
    };
    let pinned = pinned(pod, pin);
    let answer = match (matching, &pin.gone_node) {
        ([], Some(node)) => format!("{pinned}, and no node has that: {node} does not exist any more."),
        ([], None) => format!("{pinned}, and no node has that."),
        ([node], _) if common == Some(ExclusionKind::Cordon) && pin.only.len() == 1 => {
            format!("{pinned}. Only {node} has that, and it is cordoned.")
        }
        ([node], _) => format!("{pinned}. Only {node} has that: {}.", reasons(&pin.only).join(", and ")),
        (several, _) => {
            let why =
                shared.map_or("none of them can take it".to_owned(), |why| format!("all of them {why}"));
            format!("{pinned}. {} have that, and {why}.", list(several, "and"))
        }
    };
    let now = if pin.is_forgotten { " Nothing is recorded of it now." } else { "" };
    format!("{answer}{now}")
}

/// Why the Pod waits for nodes with these labels, in words that a reason follows.
fn pinned(pod: &str, pin: &Pin) -> String {
    let required = labels(&pin.required);
    if pin.is_former {
        return format!("{pod} is Pending: when it was created, its recorded state required {required}");
    }
    format!("{pod} is Pending: its recorded state requires {required}")
}

fn unrecorded(why: &Unrecorded) -> String {
    match why {
        Unrecorded::Condition(reason, message) => format!("{reason}: {message}"),
        Unrecorded::NotSeen(pps) => format!("no sidecar has looked at PersistentPodState {pps} yet"),
    }
}

/// The beginning of a sentence about what nothing confirms.
fn lost(node: &LostNode) -> String {
    let since = node.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    format!("{} has not been Ready{since}, so nothing confirms", node.name)
}

fn successor(next: &Successor) -> String {
    match next {
        Successor::None => "nothing creates it again".to_owned(),
        Successor::Unknown => "where the new Pod would start is not known".to_owned(),
        Successor::Starts(landing) => format!("the new Pod {}", landing.would("start on")),
        Successor::Pending(required) if required.is_empty() => {
            "the new Pod would be Pending: no node could take it".to_owned()
        }
        Successor::Pending(required) => {
            format!("the new Pod would be Pending: its recorded state requires {}", labels(required))
        }
    }
}

/// Where an unfinished move goes.
pub(super) fn goal_flag(goal: Option<&str>) -> String {
    goal.map_or_else(|| "--anywhere".to_owned(), |node| format!("--to {node}"))
}

/// `zone=a and disk=ssd`
fn labels(requirements: &[Requirement]) -> String {
    pairs(requirements.iter().map(|one| (&one.key, &one.value))).join(" and ")
}

/// `key=value` of each.
fn pairs<'a>(all: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}
