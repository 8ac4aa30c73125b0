//! What would let a Pending Pod go: each is tried in the simulation of the scheduler first.

use pps_simulation::scheduler::{ExclusionKind, Selection, Verdict};
use serde::Serialize;
use serde_json::{Value, json};

use super::Question;
use super::groups::groups;
use super::subject::{Subject, list, words};

const HOSTNAME: &str = "kubernetes.io/hostname";
/// How many nodes are tried for one kind of remedy.
const MAX_TRIED: usize = 50;
/// How many remedies of one kind are named.
const MAX_NAMED: usize = 3;

/// Something that would let the Pod go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// What it does, and where the Pod could go then.
    pub text: String,
    /// The command, if one does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The nodes that the Pod could go to.
    pub may_land_on: Vec<String>,
}

/// What helps, what keeps the Pod's place first.
pub(super) fn remedies(question: &Question, subject: &Subject, selection: &Selection) -> Vec<Remedy> {
    let mut all = Vec::new();
    all.extend(of_nodes(question, subject, selection));
    all.extend(bring_back(question, subject));
    all.extend(create_again(question, subject));
    all.extend(let_go(question, subject));
    all
}

/// Where the Pod could go without its recorded place; none if nothing keeps it in one.
pub(super) fn freed(subject: &Subject) -> Option<Selection> {
    if subject.required().is_empty() {
        return None;
    }
    Some(subject.nodes.as_ref()?.select(&subject.before(), None, subject.selector()))
}

/// Why a Pod has no remedy.
pub(super) fn nothing_helps(subject: &Subject) -> String {
    match freed(subject) {
        Some(freed) => {
            let reasons = groups(&freed.verdicts).into_iter().next();
            let example = reasons
                .map(|group| format!(" ({}: {})", list(&group.nodes, "and"), group.reasons.join(", and ")));
            format!(
                "Giving up the recorded place would not help: no other node can take the Pod, either{}.",
                example.unwrap_or_default()
            )
        }
        None => "No single change of a node that was tried lets the Pod go.".to_owned(),
    }
}

/// Changes of one node that is excluded for nothing else.
fn of_nodes(question: &Question, subject: &Subject, selection: &Selection) -> Vec<Remedy> {
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
    tried.filter_map(|verdict| of_node(question, subject, verdict)).take(MAX_NAMED).collect()
}

/// The change of a node that lets it take the Pod.
fn of_node(question: &Question, subject: &Subject, verdict: &Verdict) -> Option<Remedy> {
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
    let selection = nodes.with(&node, pods).select(&subject.present(), None, subject.selector());
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
    Some(Remedy {
        text: format!("{text}{more}, and the Pod starts there"),
        command,
        may_land_on: vec![name.clone()],
    })
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
fn bring_back(question: &Question, subject: &Subject) -> Option<Remedy> {
    let required = subject.required();
    let nodes = question.snapshot.nodes.as_ref()?;
    let has_all = |node: &crate::snapshot::Node| {
        required.iter().all(|one| node.label(&one.key) == Some(one.value.as_str()))
    };
    if required.is_empty() || subject.has_changed() || nodes.values().any(has_all) {
        return None;
    }
    let name = subject.recorded()?.node_name.as_str();
    if !could_take(subject, name) {
        return None;
    }
    let text = match nodes.get(name) {
        Some(_) => format!("Give a node these labels again: {}", words(required)),
        None if !name.is_empty() => format!("Bring {name} back, or another node with {}", words(required)),
        None => format!("Add a node with {}", words(required)),
    };
    Some(Remedy { text: format!("{text}, and the Pod starts there"), command: None, may_land_on: Vec::new() })
}

/// Whether an empty node with what is recorded could take the Pod. What the Pod itself requires of labels is not known of
/// it: the Pod has run there.
fn could_take(subject: &Subject, name: &str) -> bool {
    let Some(nodes) = &subject.nodes else { return false };
    let name = if name.is_empty() { "a-node-with-what-is-recorded" } else { name };
    let mut labels = serde_json::Map::new();
    labels.insert(HOSTNAME.into(), name.into());
    let recorded = subject.recorded().into_iter().flat_map(|state| &state.node_topology_labels);
    labels.extend(recorded.map(|(key, value)| (key.clone(), value.as_str().into())));
    labels.extend(subject.required().iter().map(|one| (one.key.clone(), one.value.as_str().into())));
    let node = json!({"metadata": {"name": name, "labels": labels}});
    let nodes = nodes.with(&node, Vec::new());
    let selection = nodes.select(&subject.present(), Some(&subject.before()), subject.selector());
    let Some(verdict) = selection.verdicts.iter().find(|verdict| verdict.node == name) else { return false };
    verdict.exclusions.iter().all(|exclusion| {
        let is_about_labels =
            matches!(exclusion.what, ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector);
        is_about_labels && !exclusion.from_pps
    })
}

/// A Pod that is created again gets what is recorded now.
fn create_again(question: &Question, subject: &Subject) -> Option<Remedy> {
    if !subject.has_changed() {
        return None;
    }
    let (before, after) = subject.successor();
    let selection = subject.nodes.as_ref()?.select(&after, Some(&before), subject.selector());
    selection.chosen.as_ref()?;
    let name = subject.pod.name();
    Some(Remedy {
        text: format!(
            "Delete it, so that it is created again with what is recorded now: it could start on {}",
            list(&selection.may_land_on, "or")
        ),
        command: Some(question.hand.kubectl_in(&format!("delete pod {name}"), question.namespace)),
        may_land_on: selection.may_land_on,
    })
}

/// Without its recorded place it can go elsewhere.
fn let_go(question: &Question, subject: &Subject) -> Option<Remedy> {
    let freed = freed(subject)?;
    freed.chosen.as_ref()?;
    let name = subject.pod.name();
    Some(Remedy {
        text: format!("Give up its place: it could start on {}", list(&freed.may_land_on, "or")),
        command: Some(question.hand.pps(&format!("move {name} --anywhere"), question.namespace)),
        may_land_on: freed.may_land_on,
    })
}
