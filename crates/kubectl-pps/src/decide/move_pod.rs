//! Decides the move of one Pod: which state is recorded instead, where the Pod may land, and how it is removed.

mod governing;
mod keep;
mod mark;
mod new_state;
mod obstacle;
mod progress;
mod refusal;
mod select;
mod successor;

use pps_core::PodState;
use pps_recorder::workload::ordinal;
use pps_scheduler::Selection;
use serde_json::Value;

use self::governing::governing;
pub use self::keep::{WayOut, require_keys, short};
pub use self::mark::{is_recorded_unmarked, mark};
pub use self::new_state::{NewState, no_node};
pub use self::obstacle::{Obstacle, Others, others};
pub use self::progress::{Stage, has_address};
pub use self::refusal::Refusal;
pub use self::select::{Selected, select};
use self::successor::Successor;
use crate::decide::landing::Landing;
use crate::snapshot::{Index, Node, Pod, Resource, Snapshot, WorkloadKey};

/// The label of a node that is its name, as a rule.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The namespace and the name of a Pod.
pub type PodName = (String, String);

/// Which Pod to move, and how.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub struct Request<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    /// None if the user does not say.
    pub destination: Option<Destination<'a>>,
    /// The topology keys whose recorded values are given up, as the user writes them.
    pub any: &'a [String],
    pub drop_annotations: bool,
    /// The destination, if it was read alone because nodes may not be listed.
    pub node: Option<&'a Node>,
}

/// Where a Pod should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// To this node.
    Node(&'a str),
    /// To any node that has the other recorded values of the Pod.
    Anywhere,
}

/// The Pod that has to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub struct Present {
    pub uid: String,
    pub node: Option<String>,
    pub removal: Removal,
    /// Whether an unfinished move has left its mark.
    pub is_marked: bool,
    /// Whether the sidecar records the Pod once it has no mark: a user may have exempted it.
    pub is_recorded_unmarked: bool,
    pub is_ready: bool,
    /// Whether its node is gone: Kubernetes deletes the Pod soon, whatever is done.
    pub is_stranded: bool,
}

/// How a Pod is removed, so that its controller creates it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Not at all: it is terminating, or was created with the new state.
    Unneeded,
    /// It is evicted, as `PodDisruptionBudgets` allow.
    Evict,
    /// It is Pending, and is deleted.
    Delete,
    /// It stays: it is at its destination, and an unfinished move is called off.
    Stay,
}

/// A move that is possible, unless something is in its way.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub struct PodMove {
    pub namespace: String,
    pub pod: String,
    /// None if the Pod does not exist.
    pub present: Option<Present>,
    pub workload: WorkloadKey,
    /// The PersistentPodState that governs the workload.
    pub pps: String,
    /// The recorded state.
    pub before: Option<PodState>,
    pub new_state: NewState,
    /// The destination; none for any node.
    pub to: Option<String>,
    /// Where the Pod may land; none if nodes or the workload may not be read.
    pub forecast: Option<Selection>,
    /// Why no suitable node can take the Pod.
    pub obstacle: Option<Obstacle>,
}

impl PodMove {
    /// Its namespace and name.
    pub fn name(&self) -> PodName {
        (self.namespace.clone(), self.pod.clone())
    }

    /// The state after the move.
    pub fn after(&self) -> PodState {
        self.new_state.of(self.before.as_ref()).unwrap_or_default()
    }

    /// Whether the recorded state has to be changed.
    pub fn changes_state(&self) -> bool {
        self.new_state.changes(self.before.as_ref())
    }

    /// The Pod, if it is removed in this way.
    pub fn removed_by(&self, removals: &[Removal]) -> Option<&Present> {
        self.present.as_ref().filter(|present| removals.contains(&present.removal))
    }

    /// Whether a service loses a Ready Pod.
    pub fn is_serving(&self) -> bool {
        self.removed_by(&[Removal::Evict]).is_some_and(|present| present.is_ready && !present.is_stranded)
    }

    /// The required values that are given up, beside the node itself.
    pub fn gives_up(&self) -> Vec<(&str, &str)> {
        let after = self.after().node_topology_labels;
        let before = self.before.iter().flat_map(|before| &before.node_topology_labels);
        let is_lost = |key: &str, value: &String| {
            key != HOSTNAME
                && self.new_state.spec.required_keys().any(|one| one == key)
                && after.get(key) != Some(value)
        };
        before.filter(|(key, value)| is_lost(key, value)).map(|(key, value)| (&**key, &**value)).collect()
    }

    /// Whether `now`, which was decided after the user had agreed to this move, does no more than this move: it records
    /// the same state, and evicts the same Pod or none.
    pub fn covers(&self, now: &Self) -> bool {
        let evicted = |one: &Self| {
            one.removed_by(&[Removal::Evict]).filter(|pod| !pod.is_stranded).map(|pod| pod.uid.clone())
        };
        let evicted_now = evicted(now);
        self.pps == now.pps
            && self.after() == now.after()
            && (evicted_now.is_none() || evicted_now == evicted(self))
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The Pod is moved.
    Move(Box<PodMove>),
    /// The Pod is at its destination already, and recorded there.
    Done,
}

/// Decides a move.
///
/// # Errors
///
/// If it is not possible, or too little could be read.
pub fn decide(snapshot: &Snapshot, request: &Request<'_>) -> Result<Decision, Refusal> {
    let index = Index::of(snapshot);
    let (namespace, name) = (request.namespace, request.pod);
    let pod = index.pod(namespace, name).filter(|pod| !pod.is_finished());
    if pod.is_none() {
        snapshot.require(Resource::Pods)?;
    }
    snapshot.require(Resource::PersistentPodStates)?;
    let (workload, pps) = governing(&index, namespace, name, pod)?;
    let unreadable = |why: String| Refusal::UnreadablePps { pps: pps.name().to_owned(), why };
    let spec = pps.spec().map_err(unreadable)?;
    let before = pps.state(name).map_err(|damaged| unreadable(damaged.to_string()))?;
    let successor = Successor::of(&index, &workload, name, pod, (pps.name(), &spec, before.as_ref()));
    let is_bound = pod.is_some_and(|pod| pod.node().is_some());
    let new_state = NewState::of_request(snapshot, request, &spec, is_bound)?;
    let after = new_state.of(before.as_ref());
    let injected = successor.as_ref().map(|successor| successor.with_state(after.as_ref()));
    let forecast = successor.as_ref().zip(injected.as_ref());
    let forecast = forecast.and_then(|(successor, injected)| successor.forecast(snapshot, injected));
    let to = match request.destination {
        Some(Destination::Node(node)) => Some(node.to_owned()),
        Some(Destination::Anywhere) => None,
        None => {
            let landing = forecast.as_ref().map(Landing::of);
            let knows_nodes = snapshot.nodes.is_some();
            return Err(Refusal::NoDestination { pod: name.to_owned(), landing, knows_nodes });
        }
    };
    let is_there = |pod: &Pod| to.is_some() && pod.node() == to.as_deref() && !pod.is_terminating();
    let is_marked = pod.is_some_and(Pod::is_marked);
    if pod.is_some_and(is_there) && !is_marked && !new_state.changes(before.as_ref()) {
        return Ok(Decision::Done);
    }
    let is_former = successor.as_ref().is_some_and(Successor::is_of_other_template);
    let present = pod.map(|pod| Present {
        uid: pod.uid().to_owned(),
        node: pod.node().map(str::to_owned),
        removal: if is_there(pod) {
            Removal::Stay
        } else {
            removal(pod, injected.as_ref().filter(|_| !is_former), &new_state)
        },
        is_marked,
        is_recorded_unmarked: is_recorded_unmarked(pod),
        is_ready: pod.is_ready(),
        is_stranded: snapshot.is_stranded(pod),
    });
    let stays = present.as_ref().is_some_and(|present| present.removal == Removal::Stay);
    let obstacle = forecast.as_ref().filter(|_| !stays).and_then(|forecast| {
        let way_out = || successor.as_ref()?.way_out(snapshot, after.as_ref()?);
        Obstacle::of(forecast, to.as_deref(), pps.name(), way_out)
    });
    Ok(Decision::Move(Box::new(PodMove {
        namespace: namespace.to_owned(),
        pod: name.to_owned(),
        present,
        workload,
        pps: pps.name().to_owned(),
        before,
        new_state,
        to,
        forecast,
        obstacle,
    })))
}

/// Puts moves in the order in which they are made: first the Pods that serve nobody, by ordinal, since their controller may
/// create one after the other.
pub fn order(moves: &mut [PodMove]) {
    moves.sort_by_key(|one| {
        let workload = (one.namespace.clone(), one.workload.name.clone());
        let ordinal = ordinal(&one.workload.name, &one.pod);
        (one.is_serving(), (!one.is_serving()).then_some((workload, ordinal)))
    });
}

/// How a Pod that is not at its destination is removed. `successor` is the Pod that would be created now.
fn removal(pod: &Pod, successor: Option<&Value>, new_state: &NewState) -> Removal {
    if pod.is_terminating() {
        return Removal::Unneeded;
    }
    if pod.node().is_some() {
        return Removal::Evict;
    }
    // A Pod that was created after the state had been changed may wait for a node: its successor would be the same.
    let affinity = |pod: &Value| pod["spec"]["affinity"]["nodeAffinity"].clone();
    let has_dropped = |successor: &Value| {
        let mut keys = new_state.spec.persistent_pod_annotations.iter().map(|annotation| &annotation.key);
        let is_dropped = |key: &String| {
            let own = pod.annotation(key);
            own.is_some() && own != successor["metadata"]["annotations"][key].as_str()
        };
        new_state.drops_annotations && pod.injected_from().is_some() && keys.any(is_dropped)
    };
    let is_same =
        |successor: &Value| affinity(successor) == affinity(pod.object()) && !has_dropped(successor);
    if successor.is_some_and(is_same) { Removal::Unneeded } else { Removal::Delete }
}

#[cfg(test)]
mod tests;
