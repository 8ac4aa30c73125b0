//! What would let a Pod go that no node can take. Where a remedy says where the Pod goes, it was
//! tried in the simulation of the scheduler.

use pps_admission::plan::Requirement;
use pps_scheduler::{Exclusion, Selection, Taint, UNSCHEDULABLE, Verdict};
use serde_json::{Value, json};

use super::Successor;
use crate::decide::placement::Landing;
use crate::decide::subject::{Candidate, Subject};
use crate::decide::way_out::WayOut;

const MAX_TRIED: usize = 50;
const MAX_NAMED: usize = 3;
/// Kubernetes or the cloud sets these taints for a cause, and sets them again after a user removes
/// them.
const TAINTS_WITH_CAUSE: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// What would let the Pod start, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub kind: RemedyKind,
    pub landing: Landing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemedyKind {
    ChangeNode {
        node: String,
        steps: Vec<Step>,
    },
    /// No node has these labels: bring one back, or add one.
    LabelNode {
        labels: Vec<Requirement>,
    },
    /// The Pod is deleted, and created again from the present template with its present recorded
    /// state.
    CreateAgain,
    /// `move --anywhere` with these flags, away from a node.
    Move {
        from: Option<String>,
        flags: String,
    },
    /// An unfinished move goes on.
    FinishMove {
        to: Option<String>,
    },
    /// An unfinished move ends where the Pod is.
    CallMoveOff {
        node: String,
    },
    /// The Node object of a node that does not come back is deleted, and then the Pod.
    DeleteNode {
        node: String,
        successor: Option<Successor>,
    },
    Forget,
    /// The recorded state is dropped and the Pod deleted: its volume says where the new Pod starts.
    ForgetAndDelete,
    /// The Pod waits for another Pod.
    ExplainOther {
        pod: String,
    },
    /// The namespace is taken into scope.
    EnableNamespace,
    /// The installation has a defect.
    Check,
    /// The Pods of the namespace start without their recorded states.
    DisableInjection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Uncordon,
    RemoveCause { taint: String },
    RemoveTaint { key: String, effect: String },
    FreeCapacity { why: Exclusion },
}

impl Remedy {
    /// A remedy without a forecast of where the Pod goes.
    pub(super) fn new(kind: RemedyKind) -> Self {
        Self {
            kind,
            landing: Landing::default(),
        }
    }
}

/// All remedies; those that keep the recorded place come first.
pub(super) fn remedies(
    subject: &Subject,
    candidate: &Candidate,
    selection: &Selection,
) -> Vec<Remedy> {
    let mut all = of_nodes(subject, candidate, selection);
    all.extend(label_node(subject, candidate));
    // A change of a node would let a Pod of another template start; a new Pod is better.
    let at = if candidate.other_template {
        0
    } else {
        all.len()
    };
    all.splice(at..at, create_again(subject, candidate));
    all.extend(move_away(subject, candidate));
    all
}

/// Without the recorded state, its volume says where it starts.
pub(super) fn let_volume_place(subject: &Subject, candidate: &Candidate) -> Remedy {
    let freed = subject.select_freed(candidate);
    Remedy {
        kind: RemedyKind::ForgetAndDelete,
        landing: freed.as_ref().map(Landing::of).unwrap_or_default(),
    }
}

/// Changes of nodes that have no other reason for exclusion.
fn of_nodes(subject: &Subject, candidate: &Candidate, selection: &Selection) -> Vec<Remedy> {
    let recorded = subject.recorded_node().unwrap_or_default();
    let mut verdicts: Vec<&Verdict> = selection
        .verdicts
        .iter()
        .filter(|verdict| !verdict.exclusions.is_empty())
        .filter(|verdict| verdict.exclusions.iter().all(is_changeable))
        .collect();
    verdicts.sort_by_key(|verdict| (verdict.node != recorded, verdict.exclusions.len()));
    verdicts
        .into_iter()
        .take(MAX_TRIED)
        .filter_map(|verdict| change_node(subject, candidate, verdict))
        .take(MAX_NAMED)
        .collect()
}

/// Whether a user can change the node so that this reason is gone.
fn is_changeable(exclusion: &Exclusion) -> bool {
    exclusion.is_about_pods() || matches!(exclusion, Exclusion::Cordon | Exclusion::Taint(_))
}

/// The changes of a node that let it take the Pod.
fn change_node(subject: &Subject, candidate: &Candidate, verdict: &Verdict) -> Option<Remedy> {
    let name = &verdict.node;
    let nodes = subject.nodes.as_ref()?;
    let view = nodes.view(name)?;
    let mut node = view.node.clone();
    let mut pods = view.pods.clone();
    let mut steps: Vec<Step> = Vec::new();
    for exclusion in &verdict.exclusions {
        let step = match exclusion {
            Exclusion::Cordon => {
                node["spec"]["unschedulable"] = json!(false);
                Step::Uncordon
            }
            Exclusion::Taint(taint) => {
                remove_taint(&mut node, taint);
                // Kubernetes removes this taint with the cordon.
                if taint.key == UNSCHEDULABLE {
                    continue;
                }
                Step::of_taint(taint)
            }
            // One reason stands for all reasons about the Pods on the node.
            _ if steps.iter().any(Step::is_about_capacity) => continue,
            why => {
                pods.clear();
                Step::FreeCapacity { why: why.clone() }
            }
        };
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    let selection = subject.select_on(&nodes.with(name, &node, pods), &candidate.pod, None);
    let takes_it = selection
        .verdicts
        .iter()
        .any(|one| one.node == *name && one.exclusions.is_empty());
    (takes_it && !steps.is_empty()).then(|| Remedy {
        kind: RemedyKind::ChangeNode {
            node: name.clone(),
            steps,
        },
        landing: Landing::new(vec![name.clone()], Vec::new()),
    })
}

fn remove_taint(node: &mut Value, taint: &Taint) {
    let taints = node
        .pointer_mut("/spec/taints")
        .and_then(Value::as_array_mut);
    if let Some(taints) = taints {
        taints.retain(|one| one["key"] != *taint.key || one["effect"] != *taint.effect);
    }
}

impl Step {
    fn of_taint(taint: &Taint) -> Self {
        let has_cause = TAINTS_WITH_CAUSE
            .iter()
            .any(|prefix| taint.key.starts_with(prefix));
        if has_cause {
            Self::RemoveCause {
                taint: taint.key.clone(),
            }
        } else {
            Self::RemoveTaint {
                key: taint.key.clone(),
                effect: taint.effect.clone(),
            }
        }
    }

    fn is_about_capacity(&self) -> bool {
        matches!(self, Self::FreeCapacity { .. })
    }
}

/// A node with the recorded labels, if no node has them.
fn label_node(subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    let labels = candidate.required.as_slice();
    if labels.is_empty() || candidate.is_outdated || subject.snapshot.has_node(labels)? {
        return None;
    }
    Some(Remedy::new(RemedyKind::LabelNode {
        labels: labels.to_vec(),
    }))
}

/// A Pod that is created again has its present recorded state.
fn create_again(subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    if !candidate.is_outdated && !candidate.other_template {
        return None;
    }
    let landing = Landing::of(&subject.select(&subject.successor()?)?);
    (!landing.is_nowhere()).then_some(Remedy {
        kind: RemedyKind::CreateAgain,
        landing,
    })
}

/// Without its recorded place it can go elsewhere.
fn move_away(subject: &Subject, candidate: &Candidate) -> Option<Remedy> {
    // A move must know the recorded state.
    let successor = subject.successor()?;
    // The recorded state would not be changed: it is enough to delete the Pod.
    if candidate.is_outdated && successor.required.is_empty() {
        return None;
    }
    // A move creates the Pod again too.
    let next = if candidate.other_template {
        &successor
    } else {
        candidate
    };
    let landing = Landing::of(&subject.select_freed(next)?);
    if landing.is_nowhere() {
        return None;
    }
    let way_out = way_out(subject, &landing);
    Some(Remedy {
        landing: match &way_out {
            Some(way_out) => landing.within(&way_out.nodes),
            None => landing,
        },
        kind: RemedyKind::Move {
            from: subject.recorded_node().map(str::to_owned),
            flags: way_out.map(|way_out| way_out.flags).unwrap_or_default(),
        },
    })
}

/// The recorded values to give up. A move keeps each recorded value that one of the possible nodes
/// has.
fn way_out(subject: &Subject, landing: &Landing) -> Option<WayOut> {
    let nodes = landing.favourites().iter().chain(landing.others());
    let nodes = nodes.filter_map(|node| subject.snapshot.node(node));
    WayOut::of(subject.spec.as_ref()?, subject.recorded()?, nodes)
}
