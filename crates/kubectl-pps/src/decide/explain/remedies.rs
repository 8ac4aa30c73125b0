//! What would let a Pending Pod go: each is tried in the simulation of the scheduler first.

use pps_core::spread_constraint::{UnreachableSpread, unreachable_spreads};
use pps_simulation::scheduler::{ExclusionKind, Selection, Verdict};
use serde::Serialize;
use serde_json::{Value, json};

use super::groups::groups;
use super::subject::{Candidate, Subject, words};
use super::{HOSTNAME, Question};
use crate::decide::landing::Landing;
use crate::decide::names::list;
use crate::decide::relocate::WayOut;

/// How many nodes are tried for one kind of remedy.
const MAX_TRIED: usize = 50;
/// How many remedies of one kind are named.
const MAX_NAMED: usize = 3;

/// Something that would let the Pod go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// What it does, and where the Pod would go then.
    pub text: String,
    /// The command, if one does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What else follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// The nodes that the scheduler would choose from.
    pub may_land_on: Vec<String>,
    /// The other nodes that could take the Pod.
    pub could_also_land_on: Vec<String>,
}

impl Remedy {
    /// One that says what to do, and no more.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The same with the command that does it.
    pub(super) fn with_command(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }

    /// The same with what else follows from it.
    pub(super) fn with_consequence(self, consequence: String) -> Self {
        Self { consequence: Some(consequence), ..self }
    }

    fn landing(mut self, landing: &Landing) -> Self {
        self.may_land_on = landing.favourites().to_vec();
        self.could_also_land_on = landing.others().to_vec();
        self
    }
}

/// What helps, what keeps the Pod's place first.
pub(super) fn remedies(
    question: &Question,
    subject: &Subject,
    candidate: &Candidate,
    selection: &Selection,
) -> Vec<Remedy> {
    let mut all = Vec::new();
    let again = create_again(question, subject, candidate);
    // A change of a node helps the Pod as it is: it should not be as it is.
    let (first, later) = if candidate.is_former { (again, None) } else { (None, again) };
    all.extend(first);
    all.extend(of_nodes(question, subject, candidate, selection));
    all.extend(bring_back(question, subject, candidate));
    all.extend(later);
    all.extend(spread(subject, candidate));
    all.extend(let_go(question, subject, candidate));
    all
}

/// A spread constraint whose `minDomains` the required labels leave out of reach may count the domains of all nodes.
pub(super) fn spread(subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    let unreachable = unreachable_spreads(&candidate.pod["spec"], &candidate.required);
    let UnreachableSpread { topology_key, min_domains, requirement, .. } = unreachable.first()?;
    let mut pod = candidate.pod.clone();
    for UnreachableSpread { index, .. } in &unreachable {
        let constraint = pod.pointer_mut(&format!("/spec/topologySpreadConstraints/{index}"))?;
        constraint.as_object_mut()?.insert("nodeAffinityPolicy".into(), "Ignore".into());
    }
    let landing = Landing::of(&subject.nodes.as_ref()?.select(&pod, None, subject.selector()));
    if landing.is_nowhere() {
        return None;
    }
    let text = format!(
        "Set nodeAffinityPolicy: Ignore in the template's spread constraint over {topology_key}, and delete the Pod: the constraint \
         wants {min_domains} domains, and {}={} leaves one. The new Pod {}",
        requirement.key,
        requirement.value,
        landing.would("start on")
    );
    Some(Remedy::new(text).landing(&landing))
}

/// Where the Pod could go without its recorded place; none if nothing keeps it in one.
pub(super) fn freed(subject: &Subject, candidate: &Candidate) -> Option<Selection> {
    if candidate.required.is_empty() {
        return None;
    }
    Some(subject.nodes.as_ref()?.select(&candidate.before, None, subject.selector()))
}

/// Why a Pod has no remedy.
pub(super) fn nothing_helps(subject: &Subject, candidate: &Candidate) -> String {
    match freed(subject, candidate) {
        Some(freed) => {
            let reasons = groups(&freed.verdicts).into_iter().next();
            let example = reasons
                .map(|group| format!(" ({}: {})", list(&group.nodes, "and"), group.reasons.join(", and ")));
            format!(
                "Moving it elsewhere would not help: no other node could take it, either{}.",
                example.unwrap_or_default()
            )
        }
        None => "No single change of a node that was tried lets the Pod go.".to_owned(),
    }
}

/// Changes of one node that is excluded for nothing else.
fn of_nodes(
    question: &Question,
    subject: &Subject,
    candidate: &Candidate,
    selection: &Selection,
) -> Vec<Remedy> {
    let recorded = subject.recorded().map(|state| state.node_name.clone()).unwrap_or_default();
    let mut verdicts: Vec<&Verdict> =
        selection.verdicts.iter().filter(|one| !one.exclusions.is_empty()).collect();
    verdicts.sort_by_key(|verdict| (verdict.node != recorded, verdict.exclusions.len()));
    let is_possible = |verdict: &&&Verdict| {
        verdict.exclusions.iter().all(|exclusion| {
            matches!(
                exclusion.what,
                ExclusionKind::Cordon
                    | ExclusionKind::Taint
                    | ExclusionKind::Room
                    | ExclusionKind::PodAntiAffinity
                    | ExclusionKind::TopologySpread
            )
        })
    };
    let tried = verdicts.iter().filter(is_possible).take(MAX_TRIED);
    tried.filter_map(|verdict| of_node(question, subject, candidate, verdict)).take(MAX_NAMED).collect()
}

/// The change of a node that lets it take the Pod.
fn of_node(
    question: &Question,
    subject: &Subject,
    candidate: &Candidate,
    verdict: &Verdict,
) -> Option<Remedy> {
    let name = &verdict.node;
    let view = subject.nodes.as_ref()?.view(name)?.clone();
    let has = |kind: ExclusionKind| verdict.exclusions.iter().any(|exclusion| exclusion.what == kind);
    let mut node = view.node.clone();
    let mut pods = view.pods.clone();
    let mut steps: Vec<String> = Vec::new();
    let mut commands: Vec<String> = Vec::new();
    if has(ExclusionKind::Cordon) {
        if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("unschedulable".into(), json!(false));
        }
        commands.push(question.hand.kubectl(&format!("uncordon {name}")));
        steps.push(format!("allow Pods on {name} again"));
    }
    if has(ExclusionKind::Taint) || has(ExclusionKind::Cordon) {
        let taints = remove_taints(&mut node);
        for (key, effect) in &taints {
            let is_kept_by_kubernetes = key.starts_with("node.kubernetes.io/")
                || key.starts_with("node.cloudprovider.kubernetes.io/");
            match key.as_str() {
                // It goes with the cordon.
                "node.kubernetes.io/unschedulable" => {}
                "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable" => {
                    steps.push(format!("make {name} Ready again"));
                }
                _ if is_kept_by_kubernetes => steps.push(format!("remove the cause of {name}'s taint {key}")),
                _ => {
                    commands.push(question.hand.kubectl(&format!("taint nodes {name} {key}:{effect}-")));
                    steps.push(format!("remove the taint {key} of {name}"));
                }
            }
        }
    }
    let is_about_pods = [ExclusionKind::Room, ExclusionKind::PodAntiAffinity, ExclusionKind::TopologySpread];
    if is_about_pods.into_iter().any(has) {
        pods.clear();
        let why = verdict.exclusions.iter().find(|one| is_about_pods.contains(&one.what))?;
        let why = why.text.strip_prefix(name.as_str()).unwrap_or(&why.text).trim_start_matches([':', ' ']);
        steps.push(format!("free capacity on {name} ({why})"));
    }
    let nodes = subject.nodes.as_ref()?;
    let selection = nodes.with(&node, pods).select(&candidate.pod, None, subject.selector());
    let takes_it = selection.verdicts.iter().any(|one| one.node == *name && one.exclusions.is_empty());
    if !takes_it || steps.is_empty() {
        return None;
    }
    steps.dedup();
    let mut text = steps.join(", and ");
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    let command = (commands.len() == 1 && steps.len() == 1).then(|| commands.remove(0));
    let more = if commands.is_empty() { String::new() } else { format!(" ({})", commands.join("; ")) };
    let remedy = Remedy::new(format!("{text}{more}, and the Pod starts there"));
    Some(Remedy { command, may_land_on: vec![name.clone()], ..remedy })
}

/// Removes all taints that may keep a Pod out, and returns them.
fn remove_taints(node: &mut Value) -> Vec<(String, String)> {
    let mut removed = Vec::new();
    if let Some(taints) = node.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| {
            let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
            let keeps_out = matches!(text("effect").as_str(), "NoSchedule" | "NoExecute");
            if keeps_out {
                removed.push((text("key"), text("effect")));
            }
            !keeps_out
        });
    }
    removed
}

/// A node with the recorded labels, if no node has them.
fn bring_back(question: &Question, subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    let required = candidate.required.as_slice();
    if required.is_empty() || candidate.is_outdated || question.snapshot.has_node(required)? {
        return None;
    }
    let name = subject.recorded()?.node_name.as_str();
    if !could_take(subject, candidate, name) {
        return None;
    }
    let text = match question.snapshot.node(name) {
        Some(_) => format!("Give a node these labels again: {}", words(required)),
        None if !name.is_empty() => format!("Bring {name} back, or another node with {}", words(required)),
        None => format!("Add a node with {}", words(required)),
    };
    Some(Remedy::new(format!("{text}, and the Pod starts there")))
}

/// Whether an empty node with what is recorded could take the Pod. What the Pod itself requires of labels is not known of
/// it: the Pod has run there.
fn could_take(subject: &Subject, candidate: &Candidate, name: &str) -> bool {
    let Some(nodes) = &subject.nodes else { return false };
    let name = if name.is_empty() { "a-node-with-what-is-recorded" } else { name };
    let mut labels = serde_json::Map::new();
    labels.insert(HOSTNAME.into(), name.into());
    let recorded = subject.recorded().into_iter().flat_map(|state| &state.node_topology_labels);
    labels.extend(recorded.map(|(key, value)| (key.clone(), value.as_str().into())));
    labels.extend(candidate.required.iter().map(|one| (one.key.clone(), one.value.as_str().into())));
    let node = json!({"metadata": {"name": name, "labels": labels}});
    let nodes = nodes.with(&node, Vec::new());
    let selection = nodes.select(&candidate.pod, Some(&candidate.before), subject.selector());
    let Some(verdict) = selection.verdicts.iter().find(|verdict| verdict.node == name) else { return false };
    verdict.exclusions.iter().all(|exclusion| {
        let is_about_labels =
            matches!(exclusion.what, ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector);
        is_about_labels && !exclusion.from_pps
    })
}

/// A Pod that is created again gets what is recorded now.
fn create_again(question: &Question, subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    if !candidate.is_outdated && !candidate.is_former {
        return None;
    }
    let next = subject.successor()?;
    let landing = Landing::of(&subject.select(&next)?);
    if landing.is_nowhere() {
        return None;
    }
    let recorded = match (candidate.is_former, candidate.is_outdated) {
        (false, _) if subject.recorded().is_none() => {
            "Delete it: nothing is recorded of it now, so the new Pod"
        }
        (false, _) => "Delete it, so that it is created again with what is recorded now: the new Pod",
        (true, false) => "Delete it, so that it is created again from the present template: the new Pod",
        (true, true) => {
            "Delete it, so that it is created again from the present template and with what is recorded now: the new Pod"
        }
    };
    let command = question.hand.kubectl_in(&format!("delete pod {}", subject.pod.name()), question.namespace);
    Some(
        Remedy::new(format!("{recorded} {}", landing.would("start on")))
            .with_command(command)
            .landing(&landing),
    )
}

/// Without its recorded place it can go elsewhere.
fn let_go(question: &Question, subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    // A move must know what is recorded.
    let successor = subject.successor()?;
    // Nothing would be changed in what is recorded: it is enough to delete the Pod.
    if candidate.is_outdated && successor.required.is_empty() {
        return None;
    }
    // A move creates the Pod again, too.
    let landing = Landing::of(&freed(subject, if candidate.is_former { &successor } else { candidate })?);
    if landing.is_nowhere() {
        return None;
    }
    // A move keeps what a node that could take the Pod has.
    let nodes = landing.favourites().iter().chain(landing.others());
    let nodes = nodes.filter_map(|node| question.snapshot.node(node));
    let way_out = subject.spec.as_ref().zip(subject.recorded());
    let way_out = way_out.and_then(|(spec, state)| WayOut::of(spec, state, nodes));
    let landing = way_out.as_ref().map_or(landing.clone(), |way_out| landing.within(&way_out.nodes));
    let flags = way_out.map(|way_out| way_out.flags).unwrap_or_default();
    let text = format!("Move it to another node: it {}", landing.would("start on"));
    let command = format!("move {} --anywhere{flags}", subject.pod.name());
    let command = question.hand.pps(&command, question.namespace);
    let node = subject.recorded().map(|state| state.node_name.as_str()).filter(|node| !node.is_empty());
    let disk = node.map_or_else(|| "its former node's".to_owned(), |node| format!("{node}'s"));
    let consequence =
        format!("Data on {disk} local disk stays there. The new node is recorded when the Pod is Ready.");
    Some(Remedy::new(text).with_command(command).with_consequence(consequence).landing(&landing))
}
