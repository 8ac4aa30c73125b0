//! The answer of `explain` in English.

use std::collections::BTreeMap;

use pps_check::INJECTION;
use pps_check::read::Read;
use pps_core::plan::{Preference, Requirement};
use pps_core::{PodState, RECORD_ANNOTATION};
use pps_scheduler::{Exclusion, ExclusionKind, Verdict as NodeVerdict};
use serde::Serialize;

use super::text::Text;
use super::{Role, Style, with_consequence};
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{
    Cause, Explanation, LostNode, Next, Remedy, RemedyKind, Step, Subject, Verdict,
};
use crate::decide::names::list;
use crate::decide::placement::Landing;
use crate::decide::status::Drift;
use crate::snapshot::{Pod, Workload, WorkloadKey};

/// Up to so many nodes are all named, and have their exact reasons.
const ALL: usize = 6;
/// How many groups of nodes are shown.
const MAX_GROUPS: usize = 12;
/// The taint that a cordon sets.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";
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
    #[serde(flatten)]
    pub landing: Landing,
    pub facts: Vec<String>,
    pub remedies: Vec<Advised>,
    pub notes: Vec<String>,
}

/// Nodes that cannot take the Pod for the same reasons.
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
    #[serde(flatten)]
    pub landing: Landing,
}

impl Document {
    /// Of an answer.
    pub fn of(explanation: &Explanation, commands: &CommandLine) -> Self {
        let subject = &explanation.subject;
        let mut notes: Vec<String> =
            explanation.caveats.iter().map(|caveat| format!("Not known: {caveat}.")).collect();
        notes.extend(explanation.is_stuck.then(|| "Nothing that was tried lets the Pod start.".to_owned()));
        notes.extend(explanation.unread.iter().map(with_consequence));
        let remedy = |remedy: &Remedy| advised(remedy, subject, commands);
        Self {
            namespace: subject.namespace.to_owned(),
            pod: subject.name.to_owned(),
            verdict: explanation.verdict,
            answer: answer(explanation, commands),
            excluded: groups(&explanation.excluded),
            landing: explanation.landing.clone(),
            facts: facts(explanation),
            remedies: explanation.remedies.iter().map(remedy).collect(),
            notes,
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
            text.title("Nodes that cannot take it");
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

/// Groups nodes by their reasons, so that a thousand nodes are a few lines: first those whose labels are right, then the
/// largest groups.
fn groups(verdicts: &[NodeVerdict]) -> Vec<Excluded> {
    let is_far = |verdict: &NodeVerdict| verdict.exclusions.iter().any(is_about_labels);
    let is_exact = verdicts.iter().filter(|verdict| !is_far(verdict)).count() <= ALL;
    let mut groups: BTreeMap<(bool, bool, Vec<String>), Vec<String>> = BTreeMap::new();
    for verdict in verdicts {
        let is_recorded = verdict.exclusions.iter().any(Exclusion::from_pps);
        let reasons = reasons(&verdict.exclusions, is_exact && !is_far(verdict));
        groups.entry((is_far(verdict), is_recorded, reasons)).or_default().push(verdict.node.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((is_far, ..), nodes)| (*is_far, usize::MAX - nodes.len()));
    let group = |((_, by_recorded_state, reasons), nodes)| Excluded { nodes, reasons, by_recorded_state };
    let mut groups: Vec<Excluded> = groups.into_iter().map(group).collect();
    if groups.len() > MAX_GROUPS {
        let rest = groups.split_off(MAX_GROUPS - 1);
        let by_recorded_state = rest.iter().any(|group| group.by_recorded_state);
        let nodes = rest.into_iter().flat_map(|group| group.nodes).collect();
        groups.push(Excluded { nodes, reasons: vec!["various reasons".to_owned()], by_recorded_state });
    }
    groups
}

fn is_about_labels(exclusion: &Exclusion) -> bool {
    matches!(exclusion.kind(), ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector)
}

/// Why a node cannot take a Pod, each reason once. A cordon sets a taint too, which says nothing more.
fn reasons(exclusions: &[Exclusion], is_exact: bool) -> Vec<String> {
    let is_cordoned = exclusions.contains(&Exclusion::Cordon);
    let is_of_cordon = |one: &Exclusion| matches!(one, Exclusion::Taint { key, .. } if key == CORDON_TAINT);
    let mut reasons: Vec<String> = Vec::new();
    for exclusion in exclusions.iter().filter(|one| !(is_cordoned && is_of_cordon(one))) {
        let reason = if is_exact { exclusion.to_string() } else { exclusion.in_general() };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// The answer in a sentence or two.
fn answer(explanation: &Explanation, commands: &CommandLine) -> String {
    let subject = &explanation.subject;
    let pod = subject.name;
    let node = subject.pod.and_then(Pod::node);
    let on = node.map(|node| format!(" on {node}")).unwrap_or_default();
    let node = node.unwrap_or_default();
    let workload = subject.owner.as_ref().map_or("", |owner| owner.name.as_str());
    let message = subject.pod.and_then(Pod::unschedulable).filter(|message| !message.is_empty());
    let says = message.map(|message| format!(" The scheduler says: {message}")).unwrap_or_default();
    match &explanation.cause {
        Cause::OnNode(lost) => on_node(subject, node, lost.as_ref()),
        Cause::Misplaced(drift) => format!("{pod} runs on {node}, where it should not: {drift}."),
        Cause::NotRecorded => {
            format!("{pod} runs on {node} and is not recorded: {}.", problem(subject).unwrap_or_default())
        }
        Cause::NodeGone(next) => format!(
            "{pod} is bound to {node}, which does not exist any more. {DELETES}; {}.",
            becomes(subject, next.as_ref())
        ),
        Cause::Ended => format!("{pod} has ended{on} ({}).", subject.pod.map_or("", Pod::phase)),
        Cause::Terminating(None) => {
            format!("{pod} is being deleted{on}; the new Pod is created when it is gone.")
        }
        Cause::Terminating(Some(lost)) => format!(
            "{pod} is being deleted, and its node {} that the Pod has stopped. It ends when {node} is back, or when its Node \
             object is deleted.",
            nothing_confirms(lost)
        ),
        Cause::Unscheduled if message.is_some() => {
            let would = explanation.landing.would("start on");
            format!("{pod} is Pending, although it {would}, as far as is known here.{says}")
        }
        Cause::Unscheduled => format!("{pod} has no node yet: the scheduler has not looked at it."),
        Cause::NoNode(matching) => {
            no_node(subject, matching.as_deref()) + if matching.is_some() { "" } else { &says }
        }
        Cause::NotWanted => {
            let replicas = subject.workload.map_or(0, Workload::replicas);
            format!(
                "{pod} does not exist, and StatefulSet {workload} does not want it (replicas: {replicas})."
            )
        }
        Cause::NoWorkload { is_known } => {
            let whether = if *is_known {
                "no workload that was read wants it"
            } else {
                "whether a workload wants it is not known"
            };
            format!("{pod} does not exist, and {whether}.")
        }
        Cause::WaitsFor(other) => format!(
            "{pod} is not created yet: StatefulSet {workload} creates one Pod after the other, and {other} is not Ready."
        ),
        Cause::Refused(message) => {
            format!(
                "{pod} does not exist: its creation is refused. StatefulSet {workload} reports: {message}"
            )
        }
        Cause::NotCreated => {
            let command = commands.kubectl_in(&format!("describe statefulset {workload}"), subject.namespace);
            format!(
                "{pod} does not exist, although StatefulSet {workload} wants it. If this lasts, its Events may say why: {command}"
            )
        }
    }
}

fn on_node(subject: &Subject, node: &str, lost: Option<&LostNode>) -> String {
    let verb = match subject.pod {
        _ if lost.is_some() => "is",
        Some(pod) if pod.is_ready() => "runs",
        Some(pod) if pod.phase() == "Running" => "is not Ready",
        _ => "does not run yet",
    };
    let place = match subject.recorded_node() {
        Some(recorded) if recorded == node => ", where it is recorded".to_owned(),
        Some(recorded) => format!(". It is recorded on {recorded}"),
        None => String::new(),
    };
    let lost = lost.map(|lost| format!(" {} whether the Pod still runs.", nothing_confirms(lost)));
    format!("{} {verb} on {node}{place}.{}", subject.name, lost.unwrap_or_default())
}

/// Why no node can take a Pod. `matching` have what was injected.
fn no_node(subject: &Subject, matching: Option<&[NodeVerdict]>) -> String {
    let (pod, required) = (subject.name, subject.required());
    if required.is_empty() {
        let why = if matching.is_some() { ": no node can take it" } else { "" };
        return format!("{pod} is Pending{why}.");
    }
    let is_former = subject.has_changed() || subject.state.is_err();
    let when = if is_former {
        "when it was created, its recorded state required"
    } else {
        "its recorded state requires"
    };
    let gone =
        subject.gone_node().map(|node| format!(": {node} does not exist any more")).unwrap_or_default();
    let who = match matching {
        None => ".".to_owned(),
        Some([]) => format!(", and no node has that{gone}."),
        Some([only]) => {
            format!(". Only {} has that: {}.", only.node, reasons(&only.exclusions, true).join(", and "))
        }
        Some(several) => {
            let nodes: Vec<String> = several.iter().map(|one| one.node.clone()).collect();
            format!(". {} have that, and none of them can take it.", list(&nodes, "and"))
        }
    };
    format!("{pod} is Pending: {when} {}{who}", labels(required))
}

/// The beginning of a sentence about a node that is not Ready.
fn nothing_confirms(node: &LostNode) -> String {
    let since = node.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    format!("{} has not been Ready{since}, so nothing confirms", node.name)
}

/// What becomes of the Pod that is created next.
fn becomes(subject: &Subject, next: Option<&Next>) -> String {
    match next {
        None if subject.owner.is_none() => "nothing creates it again".to_owned(),
        None => "where the new Pod would start is not known".to_owned(),
        Some(next) if !next.landing.is_nowhere() => format!("the new Pod {}", next.landing.would("start on")),
        Some(next) if next.required.is_empty() => {
            "the new Pod would be Pending: no node could take it".to_owned()
        }
        Some(next) => {
            format!("the new Pod would be Pending: its recorded state requires {}", labels(&next.required))
        }
    }
}

/// What the answer follows from, the most important first.
fn facts(explanation: &Explanation) -> Vec<String> {
    let subject = &explanation.subject;
    let mut facts: Vec<String> = explanation.next.iter().map(|next| if_deleted(subject, next)).collect();
    let drift = explanation.drift.iter().filter(|one| matches!(one, Drift::Annotation { .. }));
    facts.extend(drift.map(|drift| format!("It differs from its recorded state: {drift}.")));
    facts.push(governance(subject));
    facts.extend(recorded(subject));
    facts.extend(subject.pod.and_then(|pod| injected(subject, pod)));
    let would_require = match subject.pod {
        Some(_) => subject.has_changed(),
        None => subject.spec.is_some(),
    };
    if would_require && subject.recorded().is_some() {
        let required = subject.plan().required;
        let required = if required.is_empty() { "no label of a node".to_owned() } else { labels(&required) };
        facts.push(format!("A Pod of this name that is created now would require {required}."));
    }
    if let Some(pod) = subject.pod.filter(|pod| pod.is_exempt()) {
        let what = if pod.is_marked() { "A move of this Pod is not finished, and the" } else { "The" };
        facts.push(format!(
            "{what} sidecar does not record the Pod (annotation {RECORD_ANNOTATION}: \"false\")."
        ));
    }
    // An answer that is about the problem has it already.
    if let (Read::Known(pps), false) = (&subject.pps, explanation.cause == Cause::NotRecorded) {
        facts.extend(problem(subject).map(|why| format!("PersistentPodState {}: {why}.", pps.name())));
    }
    facts
}

/// Where the Pod would go that its controller created if this one were deleted.
fn if_deleted(subject: &Subject, next: &Next) -> String {
    let node = subject.pod.and_then(Pod::node).unwrap_or_default();
    let landing = &next.landing;
    let would = if landing.is_nowhere() {
        "the new Pod would be Pending: no node could take it".to_owned()
    } else if next.excluded.is_empty() {
        let is_same = landing.may_be(node) && landing.favourites().len() == 1;
        format!("it {}", landing.would(if is_same { "come back to" } else { "start on" }))
    } else {
        let why = reasons(&next.excluded, true).join(", and ");
        format!("it would not come back to {node} ({why}). It {}", landing.would("start on"))
    };
    let preferred = if next.required.is_empty() { subject.plan().preferred } else { Vec::new() };
    let demands = demands(&next.required, &preferred).join("; ");
    let why = if demands.is_empty() { String::new() } else { format!(" Its recorded state {demands}.") };
    format!("If it were deleted now, {would}.{why}")
}

/// Which PersistentPodState governs the workload.
fn governance(subject: &Subject) -> String {
    let Some(workload) = &subject.owner else {
        return "No PersistentPodState concerns it: it has no controller, so nothing creates it again."
            .to_owned();
    };
    let WorkloadKey { kind, name, .. } = workload;
    match subject.pps {
        Read::Known(pps) => format!("PersistentPodState {} governs {kind} {name}.", pps.name()),
        Read::Unknown => format!("Whether a PersistentPodState governs {kind} {name} is not known."),
        Read::Absent if workload.has_stable_names() => {
            format!("No PersistentPodState governs {kind} {name}, so the Pod is not recorded.")
        }
        Read::Absent => {
            format!("No PersistentPodState concerns it: the Pods of {kind} {name} get new names each time.")
        }
    }
}

/// `Recorded in status.podStates: on node-1; zone=a.`
fn recorded(subject: &Subject) -> Option<String> {
    let pps = subject.pps.known()?;
    if let Err(damaged) = &subject.state {
        return damaged.as_ref().map(|damaged| format!("The recorded state cannot be read: {damaged}."));
    }
    let Some(PodState { node_name, node_topology_labels, annotations, .. }) = subject.recorded() else {
        return Some("Nothing is recorded of the Pod.".to_owned());
    };
    let is_plain = pps.object()["status"]["podStates"][subject.name].is_object();
    let form = if is_plain { "status.podStates" } else { "status.packed" };
    let gone = if subject.gone_node() == Some(node_name) { ", which does not exist any more" } else { "" };
    let node = (!node_name.is_empty()).then(|| format!("on {node_name}{gone}"));
    let values = pairs(node_topology_labels.iter().chain(annotations));
    let place = node.into_iter().chain(values).collect::<Vec<_>>().join("; ");
    Some(format!("Recorded in {form}: {place}."))
}

/// What the policy has injected, and when.
fn injected(subject: &Subject, pod: &Pod) -> Option<String> {
    let created = pod.created();
    let Some(injected) = &subject.injected else {
        subject.pps.known()?;
        return Some(format!(
            "Nothing was injected when the Pod was created, {created}: nothing was recorded then, or the policy was not asked."
        ));
    };
    let is_foreign = subject.pps.known().is_none_or(|pps| pps.name() != injected.pps);
    let from = if is_foreign { format!(" from PersistentPodState {}", injected.pps) } else { String::new() };
    let all = demands(&injected.required, &injected.preferred);
    let what =
        if all.is_empty() { "no label of a node, as far as is known".to_owned() } else { all.join("; ") };
    Some(format!("Injected{from} when the Pod was created, {created}: {what}."))
}

fn problem(subject: &Subject) -> Option<String> {
    let (reason, message) = subject.problem.as_ref()?.words();
    Some(format!("{reason}: {message}"))
}

/// `requires zone=a`, `prefers zone=a (weight 100)`
fn demands(required: &[Requirement], preferred: &[Preference]) -> Vec<String> {
    let preferred =
        preferred.iter().map(|one| format!("prefers {} (weight {})", labels(&one.requirements), one.weight));
    let required = (!required.is_empty()).then(|| format!("requires {}", labels(required)));
    required.into_iter().chain(preferred).collect()
}

/// `zone=a and disk=ssd`
fn labels(requirements: &[Requirement]) -> String {
    pairs(requirements.iter().map(|one| (&one.key, &one.value))).join(" and ")
}

/// `key=value` of each.
fn pairs<'a>(all: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// A remedy, and the command that carries it out.
fn advised(remedy: &Remedy, subject: &Subject, commands: &CommandLine) -> Advised {
    let Remedy { kind, landing } = remedy;
    let (namespace, pod) = (subject.namespace, subject.name);
    let pps = |words: &str| commands.pps(words, namespace);
    let mut consequence = None;
    let (text, command) = match kind {
        RemedyKind::ChangeNode { node, steps } => {
            let (texts, all): (Vec<String>, Vec<Option<String>>) =
                steps.iter().map(|step| step_on(step, node)).unzip();
            let all: Vec<String> = all.iter().flatten().map(|one| commands.kubectl(one)).collect();
            let text = format!("{}, and the Pod starts there", texts.join(", and "));
            (text, (!all.is_empty()).then(|| all.join(" && ")))
        }
        RemedyKind::LabelNode { labels: required } => {
            (format!("Bring a node with {} back, or add one", labels(required)), None)
        }
        RemedyKind::CreateAgain => {
            let would = landing.would("start on");
            let text = format!(
                "Delete it, so that it is created again from the present template and recorded state: the new Pod {would}"
            );
            (text, Some(commands.kubectl_in(&format!("delete pod {pod}"), namespace)))
        }
        RemedyKind::Move { from, flags } => {
            let disk = from.as_ref().map_or("its former node's".to_owned(), |node| format!("{node}'s"));
            consequence = Some(format!(
                "Data on {disk} local disk stays there. The new node is recorded when the Pod is Ready."
            ));
            let text = format!("Move it to another node: it {}", landing.would("start on"));
            (text, Some(pps(&format!("move {pod} --anywhere{flags}"))))
        }
        RemedyKind::FinishMove { to } => {
            let goal = to.as_ref().map_or("--anywhere".to_owned(), |node| format!("--to {node}"));
            ("Finish the move".to_owned(), Some(pps(&format!("move {pod} {goal}"))))
        }
        RemedyKind::CallMoveOff { node } => {
            ("Call the move off".to_owned(), Some(pps(&format!("move {pod} --to {node}"))))
        }
        RemedyKind::DeleteNode { node, next } => {
            consequence = Some(format!(
                "Kubernetes then deletes the Pod although the former process may still run: be sure that the machine is off. \
                 Data on {node}'s local disk is not there; {}. A node that returns under this name has that data again.",
                becomes(subject, next.as_ref())
            ));
            let text =
                format!("Bring {node} back under its name. If it does not come back, delete its Node object");
            (text, Some(commands.kubectl(&format!("delete node {node}"))))
        }
        RemedyKind::Forget => ("Drop its recorded state".to_owned(), Some(pps(&format!("forget {pod}")))),
        RemedyKind::ExplainOther { pod } => {
            (format!("Find out what {pod} waits for"), Some(pps(&format!("explain {pod}"))))
        }
        RemedyKind::Check => ("Find the cause, and repair it".to_owned(), Some(commands.check())),
        RemedyKind::DisableInjection => {
            let label = |to: &str| {
                commands.kubectl(&format!("label namespace {namespace} {INJECTION}={to} --overwrite"))
            };
            consequence = Some(format!(
                "They start anywhere, away from the data on their nodes, and a sidecar that runs may record them there. The \
                 controller waits longer after each refusal. The way back: {}",
                label("enabled")
            ));
            let text =
                "If that takes too long, let the Pods of the namespace start without their recorded states";
            (text.to_owned(), Some(label("disabled")))
        }
    };
    Advised { text: capitalized(&text), command, consequence, landing: landing.clone() }
}

/// What to do, and the command for it, if there is one.
fn step_on(step: &Step, node: &str) -> (String, Option<String>) {
    match step {
        Step::Uncordon => (format!("allow Pods on {node} again"), Some(format!("uncordon {node}"))),
        Step::RemoveCause { taint } => (format!("remove the cause of {node}'s taint {taint}"), None),
        Step::RemoveTaint { key, effect } => {
            (format!("remove the taint {key} of {node}"), Some(format!("taint nodes {node} {key}:{effect}-")))
        }
        Step::FreeCapacity { why } => (format!("free capacity on {node} ({why})"), None),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
