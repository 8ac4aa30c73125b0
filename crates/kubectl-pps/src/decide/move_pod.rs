//! Decides the move of one Pod: which state is recorded instead, where the Pod may start, and how
//! it is removed.

mod new_state;
mod obstacle;
mod removal;
mod select;

use pps_core::PodState;
use pps_core::succession::name_order;
use pps_recorder::facts::NamespacedName;
use pps_scheduler::Selection;

pub use self::new_state::{NewState, require_keys};
pub use self::obstacle::Obstacle;
use self::obstacle::{Constraint, obstacle};
pub use self::removal::{Removal, mark};
pub use self::select::{Selected, select};
use crate::decide::subject::Subject;
use crate::snapshot::{Index, Node, Pod, Pps, Resource, Snapshot, Unread, WorkloadKey};

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
        let evicts_no_other = now.evicted().is_none() || now.evicted() == self.evicted();
        self.pps == now.pps && self.after() == now.after() && evicts_no_other
    }

    /// The UID of the Pod that is evicted. A stranded Pod is deleted in any case.
    fn evicted(&self) -> Option<&str> {
        let is_evicted = self.removal == Removal::Evict && !self.is_stranded;
        let pod = self.present.as_ref().filter(|_| is_evicted)?;
        Some(pod.uid())
    }

    /// Whether this Pod may stay: it is a new one, or need not be removed and is not terminating.
    pub fn is_successor(&self, pod: &Pod) -> bool {
        let present = self.present.as_ref();
        let is_new = present.is_none_or(|present| present.uid() != pod.uid());
        let is_kept = self.removal == Removal::Unneeded && self.from().is_none();
        !pod.is_finished() && !pod.is_terminating() && (is_kept || is_new)
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
    snapshot.require(Resource::PersistentPodStates)?;
    let Some(subject) = Subject::of(snapshot, &index, request.namespace, request.pod) else {
        snapshot.require(Resource::Pods)?;
        return Err(Refusal::NoPod {
            namespace: request.namespace.to_owned(),
            pod: request.pod.to_owned(),
        });
    };
    let pod = subject.pod.filter(|pod| !pod.is_finished());
    let pps = governing(snapshot, &index, &subject, pod)?;
    let spec = pps.spec().map_err(|why| unreadable(pps, why))?;
    let before = pps
        .state(request.pod)
        .map_err(|damaged| unreadable(pps, damaged.to_string()))?;
    let is_bound = pod.is_some_and(|pod| pod.node().is_some());
    let new_state = NewState::new(request, &spec, is_bound)?;
    let to = request.to.map(Node::name);
    let is_there = pod.is_some_and(|pod| to.is_some() && pod.node() == to && !pod.is_terminating());
    let is_marked = pod.is_some_and(Pod::is_marked);
    if is_there && !is_marked && !new_state.changes(before.as_ref()) {
        return Ok(None);
    }
    let after = new_state.of(before.as_ref());
    let next = subject.successor_with(after.as_ref());
    let forecast = next.as_ref().and_then(|next| subject.select(next));
    let removal = match pod {
        None => Removal::Unneeded,
        Some(_) if is_there => Removal::Stay,
        Some(pod) => {
            let has_replaced = subject
                .workload
                .is_some_and(|workload| workload.has_replaced(pod));
            let next = next.as_ref().filter(|_| !has_replaced);
            Removal::of(pod, next.map(|next| &next.pod), &spec)
        }
    };
    let constraint = Constraint {
        subject: &subject,
        spec: &spec,
        after: after.as_ref(),
    };
    let obstacle = forecast
        .as_ref()
        .filter(|_| removal != Removal::Stay)
        .and_then(|forecast| obstacle(forecast, to, &constraint));
    Ok(Some(PodMove {
        namespace: request.namespace.to_owned(),
        pod: request.pod.to_owned(),
        present: pod.cloned(),
        removal,
        is_stranded: pod.is_some_and(|pod| snapshot.is_stranded(pod)),
        pps: pps.name().to_owned(),
        before,
        new_state,
        to: to.map(str::to_owned),
        forecast,
        obstacle,
    }))
}

fn unreadable(pps: &Pps, why: String) -> Refusal {
    Refusal::UnreadablePps {
        pps: pps.name().to_owned(),
        why,
    }
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

#[cfg(test)]
mod tests;
