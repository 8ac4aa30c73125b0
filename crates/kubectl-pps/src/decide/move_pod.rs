//! Decides the move of one Pod: which state is recorded instead, where the Pod may start, and how
//! it is removed.

mod new_state;
mod select;

use pps_core::succession::name_order;
use pps_core::{MOVE_ANNOTATION, PodState, RECORD_ANNOTATION, Spec};
use pps_recorder::facts::NamespacedName;
use pps_scheduler::{Exclusion, Selection, Verdict};
use serde_json::{Value, json};

pub use self::new_state::{NewState, require_keys};
pub use self::select::{Selected, select};
use crate::decide::placement::Landing;
use crate::decide::subject::Subject;
use crate::decide::way_out::WayOut;
use crate::snapshot::{Index, Node, Pod, Pps, Resource, Snapshot, Unread, WorkloadKey};

/// The value of the mark of a Pod that a user has exempted from recording.
const EXEMPT: &str = "exempt";

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    /// The destination; none for any node that has the other recorded values of the Pod.
    pub to: Option<&'a Node>,
    /// The topology keys whose recorded values are given up, as the user writes them.
    pub any: &'a [String],
    pub drop_annotations: bool,
}

/// How a Pod is removed, so that its controller creates it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Not at all: it does not exist, is terminating, or was created with the new state.
    Unneeded,
    /// It is evicted, as `PodDisruptionBudgets` allow.
    Evict,
    /// It is Pending, and is deleted.
    Delete,
    /// It stays: it is at its destination. An unfinished move is called off.
    Stay,
}

/// A move that is possible, unless something is in its way.
#[derive(Clone, Debug)]
pub struct PodMove {
    pub namespace: String,
    pub pod: String,
    pub present: Option<Pod>,
    pub removal: Removal,
    /// Whether the Pod's node is gone: Kubernetes deletes the Pod soon, whatever is done.
    pub is_stranded: bool,
    pub pps: String,
    pub before: Option<PodState>,
    pub new_state: NewState,
    pub to: Option<String>,
    /// Where the Pod may start; none if nodes or the workload may not be read.
    pub forecast: Option<Selection>,
    pub obstacle: Option<Obstacle>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    Excluded(Vec<Exclusion>),
    /// The destination could take the Pod, and the scheduler chooses another node.
    NotChosen,
    /// No node can take the Pod.
    NoNode {
        excluded: Vec<Verdict>,
        /// The values to give up.
        way_out: Option<WayOut>,
    },
}

/// Why a Pod cannot be moved. A Pod that `waits` was created while a PersistentPodState named its
/// workload; a `word` of `--any` names several keys of its PersistentPodState, or no key of any.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    Unread(Unread),
    UnreadablePps {
        pps: String,
        why: String,
    },
    NoPod {
        namespace: String,
        pod: String,
    },
    NoController {
        pod: String,
    },
    NoWorkload {
        pod: String,
        workload: Box<WorkloadKey>,
    },
    NotGoverned {
        pod: String,
        workload: Box<WorkloadKey>,
        waits: bool,
    },
    NotEnabled {
        namespace: String,
    },
    NotWanted {
        pod: String,
        workload: Box<WorkloadKey>,
        replicas: u64,
        is_terminating: bool,
    },
    AmbiguousKey {
        word: String,
        keys: Vec<String>,
    },
    UnknownKey {
        word: String,
        keys: Vec<String>,
    },
}

impl From<&Unread> for Refusal {
    fn from(unread: &Unread) -> Self {
        Self::Unread(unread.clone())
    }
}

impl PodMove {
    pub fn name(&self) -> NamespacedName {
        NamespacedName::new(self.namespace.as_str(), self.pod.as_str())
    }

    pub fn after(&self) -> PodState {
        self.new_state.of(self.before.as_ref()).unwrap_or_default()
    }

    pub fn changes_state(&self) -> bool {
        self.new_state.changes(self.before.as_ref())
    }

    pub fn from(&self) -> Option<&str> {
        self.present.as_ref()?.node()
    }

    /// The required values that are given up, beside the node itself.
    pub fn gives_up(&self) -> Vec<(&str, &str)> {
        let after = self.after().node_topology_labels;
        let before = self.new_state.required_of(self.before.as_ref());
        before
            .into_iter()
            .filter(|(key, value)| after.get(*key).is_none_or(|after| after != value))
            .collect()
    }

    /// Whether `now`, a later decision, does no more than this move, which the user has seen: it
    /// records the same state, and evicts the same Pod or none.
    pub fn covers(&self, now: &Self) -> bool {
        let evicted = |one: &Self| {
            let is_evicted = one.removal == Removal::Evict && !one.is_stranded;
            one.present
                .as_ref()
                .filter(|_| is_evicted)
                .map(|pod| pod.uid().to_owned())
        };
        let evicted_now = evicted(now);
        self.pps == now.pps
            && self.after() == now.after()
            && (evicted_now.is_none() || evicted_now == evicted(self))
    }

    /// Whether this Pod may stay: it is a new one, or need not be removed and is not terminating.
    pub fn is_successor(&self, pod: &Pod) -> bool {
        let is_same = |present: &Pod| present.uid() == pod.uid();
        let is_kept = self.removal == Removal::Unneeded && self.from().is_none();
        !pod.is_finished()
            && !pod.is_terminating()
            && (is_kept || !self.present.as_ref().is_some_and(is_same))
    }

    fn order(&self) -> (bool, &str, (&str, u64)) {
        (
            self.removal == Removal::Evict,
            &self.namespace,
            name_order(&self.pod),
        )
    }
}

/// Sorts moves into their order: Pods that do not run first, and by ordinal, since their controller
/// may create one Pod after the other.
pub fn order(moves: &mut [PodMove]) {
    moves.sort_by(|one, other| one.order().cmp(&other.order()));
}

/// Decides a move. None if the Pod is at its destination already, and recorded there.
pub fn decide(snapshot: &Snapshot, request: &Request<'_>) -> Result<Option<PodMove>, Refusal> {
    let index = Index::of(snapshot);
    let Request {
        namespace,
        pod: name,
        to,
        ..
    } = *request;
    snapshot.require(Resource::PersistentPodStates)?;
    let Some(subject) = Subject::of(snapshot, &index, namespace, name) else {
        snapshot.require(Resource::Pods)?;
        return Err(Refusal::NoPod {
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
        });
    };
    let pod = subject.pod.filter(|pod| !pod.is_finished());
    let pps = governing(snapshot, &index, &subject, pod)?;
    let unreadable = |why: String| Refusal::UnreadablePps {
        pps: pps.name().to_owned(),
        why,
    };
    let spec = pps.spec().map_err(unreadable)?;
    let before = pps
        .state(name)
        .map_err(|damaged| unreadable(damaged.to_string()))?;
    let new_state = NewState::new(request, &spec, pod.is_some_and(|pod| pod.node().is_some()))?;
    let after = new_state.of(before.as_ref());
    let is_there = pod
        .zip(to)
        .is_some_and(|(pod, to)| pod.node() == Some(to.name()) && !pod.is_terminating());
    if is_there && !pod.is_some_and(Pod::is_marked) && !new_state.changes(before.as_ref()) {
        return Ok(None);
    }
    let next = subject.successor_with(after.as_ref());
    let forecast = next.as_ref().and_then(|next| subject.select(next));
    let other_template = pod
        .zip(subject.workload)
        .is_some_and(|(pod, workload)| workload.has_replaced(pod));
    let removal = match pod {
        None => Removal::Unneeded,
        Some(_) if is_there => Removal::Stay,
        Some(pod) => removal(
            pod,
            next.as_ref()
                .filter(|_| !other_template)
                .map(|next| &next.pod),
            &spec,
        ),
    };
    let obstacle = forecast
        .as_ref()
        .filter(|_| removal != Removal::Stay)
        .and_then(|forecast| {
            let way_out = || {
                let free = Landing::of(&subject.select(&subject.successor_with(None)?)?);
                let nodes = free.favourites().iter().chain(free.others());
                WayOut::of(
                    &spec,
                    after.as_ref()?,
                    nodes.filter_map(|node| snapshot.node(node)),
                )
            };
            obstacle(forecast, to.map(Node::name), way_out)
        });
    Ok(Some(PodMove {
        namespace: namespace.to_owned(),
        pod: name.to_owned(),
        present: pod.cloned(),
        removal,
        is_stranded: pod.is_some_and(|pod| snapshot.is_stranded(pod)),
        pps: pps.name().to_owned(),
        before,
        new_state,
        to: to.map(|to| to.name().to_owned()),
        forecast,
        obstacle,
    }))
}

/// The PersistentPodState that governs the workload, which has to create the Pod again.
fn governing<'a>(
    snapshot: &Snapshot,
    index: &Index<'a>,
    subject: &Subject<'a>,
    pod: Option<&Pod>,
) -> Result<&'a Pps, Refusal> {
    let name = subject.name.to_owned();
    let Some(key) = subject.owner.clone() else {
        return Err(Refusal::NoController { pod: name });
    };
    let Some(pps) = subject.pps.known() else {
        let waits = pod.is_some_and(|pod| pod.node().is_none() && pod.injected_from().is_some());
        return Err(Refusal::NotGoverned {
            pod: name,
            workload: Box::new(key),
            waits,
        });
    };
    if !pps.is_enabled() {
        return Err(Refusal::NotEnabled {
            namespace: key.namespace,
        });
    }
    match index.workload(&key) {
        Some(workload) if !workload.wants(&name) => Err(Refusal::NotWanted {
            pod: name,
            workload: Box::new(key),
            replicas: workload.replicas(),
            is_terminating: workload.is_terminating(),
        }),
        None if snapshot.has_all_like(&key) => Err(Refusal::NoWorkload {
            pod: name,
            workload: key.into(),
        }),
        None if pod.is_none() => {
            unread(snapshot, &key).map_or(Ok(pps), |unread| Err(unread.into()))
        }
        _ => Ok(pps),
    }
}

/// Why the workload is not known. Workloads of other kinds than StatefulSet are never read.
fn unread<'a>(snapshot: &'a Snapshot, key: &WorkloadKey) -> Option<&'a Unread> {
    snapshot
        .unread(Resource::stateful_sets_of(&key.group))
        .filter(|_| key.kind == "StatefulSet")
}

/// How a Pod that is not at its destination is removed. `successor` is the Pod that would be
/// created now.
fn removal(pod: &Pod, successor: Option<&Value>, spec: &Spec) -> Removal {
    // The fields that the policy may inject. A Pod that was created after a change of the state may
    // wait for a node.
    let injectable = |pod: &Value| {
        let keys = spec
            .persistent_pod_annotations
            .iter()
            .map(|annotation| &annotation.key);
        let annotations: Vec<Value> = keys
            .map(|key| pod["metadata"]["annotations"][key].clone())
            .collect();
        (pod["spec"]["affinity"]["nodeAffinity"].clone(), annotations)
    };
    match pod {
        _ if pod.is_terminating() => Removal::Unneeded,
        _ if pod.node().is_some() => Removal::Evict,
        _ if successor.is_some_and(|next| injectable(next) == injectable(pod.object())) => {
            Removal::Unneeded
        }
        _ => Removal::Delete,
    }
}

fn obstacle(
    forecast: &Selection,
    to: Option<&str>,
    way_out: impl FnOnce() -> Option<WayOut>,
) -> Option<Obstacle> {
    let mut excluded = forecast
        .verdicts
        .iter()
        .filter(|verdict| !verdict.exclusions.is_empty());
    let may_land_on = &forecast.may_land_on;
    match to {
        None if may_land_on.is_empty() => Some(Obstacle::NoNode {
            excluded: excluded.cloned().collect(),
            way_out: way_out(),
        }),
        Some(to) if !may_land_on.iter().any(|node| node == to) => {
            Some(match excluded.find(|verdict| verdict.node == to) {
                Some(verdict) => Obstacle::Excluded(verdict.exclusions.clone()),
                None => Obstacle::NotChosen,
            })
        }
        _ => None,
    }
}

/// The annotations that mark a Pod, so that the sidecar does not record it, or that remove the
/// mark; none if the Pod has them. A Pod that a user has exempted stays exempt.
pub fn mark(pod: &Pod, is_moved: bool) -> Option<Value> {
    match (is_moved, pod.is_marked()) {
        (true, false) => {
            let before = if pod.is_exempt() { EXEMPT } else { "recorded" };
            Some(json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: before}))
        }
        (false, true) if pod.annotation(MOVE_ANNOTATION) == Some(EXEMPT) => {
            Some(json!({MOVE_ANNOTATION: null}))
        }
        (false, true) => Some(json!({RECORD_ANNOTATION: null, MOVE_ANNOTATION: null})),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
