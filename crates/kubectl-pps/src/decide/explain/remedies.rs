//! What would let a Pending Pod go: each is tried in the simulation of the scheduler first.

use pps_core::plan::Requirement;
use pps_core::spread_constraint::{UnreachableSpread, unreachable_spreads};
use pps_scheduler::{Exclusion, ExclusionKind, Selection, Verdict};
use serde_json::{Value, json};

use super::groups::is_about_labels;
use super::subject::{Candidate, Subject};
use super::{HOSTNAME, Question, Successor};
use crate::decide::landing::Landing;
use crate::decide::move_pod::WayOut;

/// How many nodes are tried for one kind of remedy.
const MAX_TRIED: usize = 50;
/// How many remedies of one kind are named.
const MAX_NAMED: usize = 3;

/// Something that would let the Pod go, and where it could go then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct Remedy {
    pub kind: RemedyKind,
    pub landing: Landing,
}

/// What can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum RemedyKind {
    /// Changes of one node.
    ChangeNode { node: String, steps: Vec<Step> },
    /// A node with these labels, which none has. `node` is the recorded one.
    LabelNode { node: String, is_there: bool, labels: Vec<Requirement> },
    /// The Pod is deleted, and created again from the present template, or with its present recorded state.
    CreateAgain { is_recorded: bool, is_former: bool, is_outdated: bool },
    /// A spread constraint is to count the domains of all nodes.
    IgnoreAffinity { topology_key: String, min_domains: i64, requirement: Requirement },
    /// `move --anywhere` with these flags, away from a node.
    Move { from: Option<String>, flags: String },
    /// An unfinished move goes on.
    FinishMove { to: Option<String> },
    /// An unfinished move ends where the Pod is.
    CallMoveOff { node: String },
    /// The node that is not Ready comes back.
    BringNodeBack { node: String },
    /// The Node object is deleted, and then the Pod.
    DeleteNode { node: String, next: Successor },
    /// Kubernetes deletes the Pod by itself.
    WaitForDeletion,
    /// The Pod object is deleted although nothing confirms that it has stopped.
    ForceDeletion,
    /// Its recorded state is dropped.
    Forget,
    /// Another Pod is why.
    ExplainOther { pod: String },
    /// The installation is why.
    Check,
    /// The Pods of the namespace start without their recorded states.
    DisableInjection,
}

/// A change of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum Step {
    Uncordon,
    MakeReady,
    /// Kubernetes sets this taint, and again if a user removes it.
    RemoveCause {
        taint: String,
    },
    RemoveTaint {
        key: String,
        effect: String,
    },
    FreeCapacity {
        why: Exclusion,
    },
}

impl Remedy {
    /// One after which it is not said where the Pod goes.
    pub(super) fn new(kind: RemedyKind) -> Self {
        Self { kind, landing: Landing::default() }
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
    let again = create_again(subject, candidate);
    // A change of a node helps the Pod as it is: it should not be as it is.
    let (first, later) = if candidate.is_former { (again, None) } else { (None, again) };
    all.extend(first);
    all.extend(of_nodes(subject, candidate, selection));
    all.extend(label_node(question, subject, candidate));
    all.extend(later);
    all.extend(spread(subject, candidate));
    all.extend(move_away(question, subject, candidate));
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
    let kind = RemedyKind::IgnoreAffinity {
        topology_key: (*topology_key).to_owned(),
        min_domains: *min_domains,
        requirement: (*requirement).clone(),
    };
    (!landing.is_nowhere()).then_some(Remedy { kind, landing })
}

/// Where the Pod could go without its recorded place; none if nothing keeps it in one.
pub(super) fn freed(subject: &Subject, candidate: &Candidate) -> Option<Selection> {
    if candidate.required.is_empty() {
        return None;
    }
    Some(subject.nodes.as_ref()?.select(&candidate.before, None, subject.selector()))
}

/// Changes of one node that is excluded for nothing else.
fn of_nodes(subject: &Subject, candidate: &Candidate, selection: &Selection) -> Vec<Remedy> {
    let recorded = subject.recorded_node().unwrap_or_default();
    let mut verdicts: Vec<&Verdict> =
        selection.verdicts.iter().filter(|one| !one.exclusions.is_empty()).collect();
    verdicts.sort_by_key(|verdict| (verdict.node != recorded, verdict.exclusions.len()));
    let can_change = |exclusion: &Exclusion| {
        exclusion.is_about_pods() || matches!(exclusion, Exclusion::Cordon | Exclusion::Taint { .. })
    };
    let tried = verdicts.iter().filter(|verdict| verdict.exclusions.iter().all(can_change)).take(MAX_TRIED);
    tried.filter_map(|verdict| of_node(subject, candidate, verdict)).take(MAX_NAMED).collect()
}

/// The changes of a node that let it take the Pod.
fn of_node(subject: &Subject, candidate: &Candidate, verdict: &Verdict) -> Option<Remedy> {
    let name = &verdict.node;
    let nodes = subject.nodes.as_ref()?;
    let view = nodes.view(name)?;
    let (mut node, mut pods) = (view.node.clone(), view.pods.clone());
    let mut steps: Vec<Step> = Vec::new();
    let is_cordoned = verdict.exclusions.contains(&Exclusion::Cordon);
    if is_cordoned {
        node["spec"]["unschedulable"] = json!(false);
        steps.push(Step::Uncordon);
    }
    if is_cordoned || verdict.exclusions.iter().any(|one| one.kind() == ExclusionKind::Taint) {
        steps.extend(remove_taints(&mut node).into_iter().filter_map(|(key, effect)| {
            match key.as_str() {
                // It goes with the cordon.
                "node.kubernetes.io/unschedulable" => None,
                "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable" => Some(Step::MakeReady),
                _ if ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"]
                    .iter()
                    .any(|of| key.starts_with(of)) =>
                {
                    Some(Step::RemoveCause { taint: key })
                }
                _ => Some(Step::RemoveTaint { key, effect }),
            }
        }));
    }
    if let Some(why) = verdict.exclusions.iter().find(|one| one.is_about_pods()) {
        pods.clear();
        steps.push(Step::FreeCapacity { why: why.clone() });
    }
    steps.dedup();
    let selection = nodes.with(&node, pods).select(&candidate.pod, None, subject.selector());
    let takes_it = selection.verdicts.iter().any(|one| one.node == *name && one.exclusions.is_empty());
    (takes_it && !steps.is_empty()).then(|| Remedy {
        kind: RemedyKind::ChangeNode { node: name.clone(), steps },
        landing: Landing::new(vec![name.clone()], Vec::new()),
    })
}

/// Removes all taints that may keep a Pod out, and returns their keys and effects.
fn remove_taints(node: &mut Value) -> Vec<(String, String)> {
    let mut removed = Vec::new();
    if let Some(taints) = node.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| {
            let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
            let keeps_out = matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
            removed.extend(keeps_out.then(|| (text("key"), text("effect"))));
            !keeps_out
        });
    }
    removed
}

/// A node with the recorded labels, if no node has them.
fn label_node(question: &Question, subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    let required = candidate.required.as_slice();
    if required.is_empty() || candidate.is_outdated || question.snapshot.has_node(required)? {
        return None;
    }
    let name = subject.recorded()?.node_name.as_str();
    could_take(subject, candidate, name).then(|| {
        let (node, is_there) = (name.to_owned(), question.snapshot.node(name).is_some());
        Remedy::new(RemedyKind::LabelNode { node, is_there, labels: required.to_vec() })
    })
}

/// Whether an empty node with the recorded labels could take the Pod. What the Pod itself requires of labels is not known
/// of such a node: the Pod has run there.
fn could_take(subject: &Subject, candidate: &Candidate, name: &str) -> bool {
    let Some(nodes) = &subject.nodes else { return false };
    let name = if name.is_empty() { "a-node-with-the-recorded-labels" } else { name };
    let recorded = subject.recorded().into_iter().flat_map(|state| &state.node_topology_labels);
    let recorded = recorded.map(|(key, value)| (key.clone(), value.as_str().into()));
    let required = candidate.required.iter().map(|one| (one.key.clone(), one.value.as_str().into()));
    let labels: serde_json::Map<String, Value> =
        [(HOSTNAME.to_owned(), name.into())].into_iter().chain(recorded).chain(required).collect();
    let node = json!({"metadata": {"name": name, "labels": labels}});
    let nodes = nodes.with(&node, Vec::new());
    let selection = nodes.select(&candidate.pod, Some(&candidate.before), subject.selector());
    let verdict = selection.verdicts.iter().find(|verdict| verdict.node == name);
    let is_own_label = |exclusion: &Exclusion| is_about_labels(exclusion) && !exclusion.from_pps();
    verdict.is_some_and(|verdict| verdict.exclusions.iter().all(is_own_label))
}

/// A Pod that is created again has its present recorded state.
fn create_again(subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    let &Candidate { is_outdated, is_former, .. } = candidate;
    if !is_outdated && !is_former {
        return None;
    }
    let landing = Landing::of(&subject.select(&subject.successor()?)?);
    let kind = RemedyKind::CreateAgain { is_recorded: subject.recorded().is_some(), is_former, is_outdated };
    (!landing.is_nowhere()).then_some(Remedy { kind, landing })
}

/// Without its recorded place it can go elsewhere.
fn move_away(question: &Question, subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    // A move must know the recorded state.
    let successor = subject.successor()?;
    // The recorded state would not be changed: it is enough to delete the Pod.
    if candidate.is_outdated && successor.required.is_empty() {
        return None;
    }
    // A move creates the Pod again too.
    let landing = Landing::of(&freed(subject, if candidate.is_former { &successor } else { candidate })?);
    if landing.is_nowhere() {
        return None;
    }
    // A move keeps each recorded value that a node which could take the Pod has.
    let nodes = landing.favourites().iter().chain(landing.others());
    let nodes = nodes.filter_map(|node| question.snapshot.node(node));
    let way_out = subject.spec.as_ref().zip(subject.recorded());
    let way_out = way_out.and_then(|(spec, state)| WayOut::of(spec, state, nodes));
    let (landing, flags) = match way_out {
        Some(way_out) => (landing.within(&way_out.nodes), way_out.flags),
        None => (landing, String::new()),
    };
    let from = subject.recorded_node().map(str::to_owned);
    Some(Remedy { kind: RemedyKind::Move { from, flags }, landing })
}
