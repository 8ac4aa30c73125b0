//! Moves a Pod: what has to be recorded so that it goes elsewhere, where it may land then, and how it has to go.

mod forecast;
mod governing;
mod interrupted;
mod keep;
mod landed;
mod select;
mod several;
mod show;

use std::collections::BTreeMap;

use pps_core::record::{RunningPod, record};
use pps_core::{PodState, Spec};
use serde_json::Value;

pub use self::forecast::Forecast;
use self::forecast::Next;
use self::governing::governing;
pub use self::interrupted::Reached;
pub use self::keep::{WayOut, require_keys};
pub use self::landed::{Record, brought_back, has_address, not_recorded};
pub use self::select::{Selected, not_governed, select};
pub use self::several::{
    Also, Goal, PodName, Progress, Several, Stage, Stuck, Wait, also, claim, decide_all, held_up, mark,
    peers, stuck, waits_for,
};
pub use self::show::describe;
use crate::Failure;
use crate::decide::similar::similar;
use crate::decide::unread;
use crate::snapshot::{Index, Node, Pod, Snapshot, WorkloadKey};

/// The label of a node that is its name, as a rule.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What the user wants.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub pod: &'a str,
    /// Where it should go; none if the user does not say.
    pub destination: Option<Destination<'a>>,
    /// The topology keys whose recorded values are given up, as the user writes them.
    pub any: &'a [String],
    /// Whether its recorded annotations are dropped.
    pub drop_annotations: bool,
    /// Whether it is moved although not all is as it has to be.
    pub force: bool,
    /// The node that it should go to, if it was read alone: nodes may not be listed.
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

/// What to record for a Pod that goes elsewhere.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The node with its labels; none for any.
    node: Option<(String, BTreeMap<String, String>)>,
    /// The keys whose values are given up.
    given_up: Vec<String>,
    drop_annotations: bool,
    spec: Spec,
    /// Whether the Pod may be Ready when this is written.
    is_bound: bool,
}

impl Wish {
    /// The state to record, in place of what is recorded.
    ///
    /// Nothing is dropped of a Pod that is bound: the sidecar looks at the Pod before it fills an empty entry, but not before
    /// it makes a new one, and what it has heard of the Pod may be late.
    pub fn state(&self, before: Option<&PodState>) -> Option<PodState> {
        let mut kept = before.cloned().unwrap_or_default();
        if self.drop_annotations {
            kept.annotations.clear();
        }
        let Some((node, labels)) = &self.node else {
            let is_kept = |key: &String| key != HOSTNAME && !self.given_up.contains(key);
            kept.node_topology_labels.retain(|key, _| is_kept(key));
            let rest = PodState { node_name: String::new(), ..kept };
            return (self.is_bound || rest != PodState::default()).then_some(rest);
        };
        let running = RunningPod {
            node_name: node,
            is_node_new: false,
            node_label: &|key| labels.get(key).map(String::as_str),
            annotation: &|_| None,
            pod_ips: &[],
        };
        Some(record(&self.spec, &running, Some(&kept)))
    }

    /// Whether this has to be written at all. An entry is not made only to be empty.
    pub fn changes(&self, before: Option<&PodState>) -> bool {
        let after = self.state(before);
        let is_nothing = |state: Option<&PodState>| state.is_none_or(|state| *state == PodState::default());
        before != after.as_ref() && !(is_nothing(before) && is_nothing(after.as_ref()))
    }
}

/// The Pod that has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Present {
    /// Its UID.
    pub uid: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// How it goes.
    pub removal: Removal,
    /// Whether a move that was not finished has left its mark.
    pub is_left_over: bool,
    /// Whether it is Ready.
    pub is_ready: bool,
    /// Whether its node is gone: Kubernetes deletes it soon, whatever is done.
    pub is_stranded: bool,
}

impl Present {
    /// Whether something is lost while the Pod is gone: it is Ready, and evicted.
    pub fn is_serving(&self) -> bool {
        self.is_ready && !self.is_stranded && self.removal == Removal::Evict
    }
}

/// How a Pod goes, so that its controller creates it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is being deleted, or has nothing injected that keeps it from going.
    None,
    /// It is evicted, as `PodDisruptionBudgets` allow.
    Evict,
    /// It is Pending, and is deleted.
    Delete,
    /// It does not go: it is where it should be, and what an unfinished move has left is taken back.
    Stay,
}

/// A move that is possible.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// The Pod as it is; none if it does not exist now.
    pub present: Option<Present>,
    /// The PersistentPodState that governs its workload.
    pub pps: String,
    /// What is recorded.
    pub before: Option<PodState>,
    /// What to record.
    pub wish: Wish,
    /// Where it should go; none for any node.
    pub to: Option<String>,
    /// Where it may land; none if nodes or the workload may not be read.
    pub forecast: Option<Forecast>,
    /// Which recorded values exclude the nodes that could take it, if no node can.
    way_out: Option<WayOut>,
    /// Its workload.
    pub workload: WorkloadKey,
    /// Whether the Pod serves, and which others its workload wants is not known.
    is_blind: bool,
    /// The Pod that its controller creates next; none if that is not known.
    successor: Option<Value>,
}

impl Relocation {
    /// What is other than it was shown, if this is what is decided now: somebody has changed what is recorded, or the
    /// PersistentPodState.
    pub fn changed(&self, now: &Self) -> Option<String> {
        let (before, after) = (self.wish.state(self.before.as_ref()), now.wish.state(now.before.as_ref()));
        if self.pps != now.pps {
            return Some(format!("PersistentPodState {} governs Pod {} meanwhile", now.pps, self.pod));
        }
        (before != after).then(|| {
            format!(
                "what would be recorded of Pod {} has changed meanwhile, and is now {}",
                self.pod,
                describe(after.as_ref())
            )
        })
    }

    /// What has become of the Pod since this was decided, if that makes it another move: it may have got a node while the
    /// user was asked, and is to be evicted then and not deleted.
    pub fn overtaken_by(&self, now: Option<&Pod>) -> Option<String> {
        let name = &self.pod;
        let is_ending = |before: &Present| before.removal == Removal::None && before.node.is_some();
        let is_written = !self.wish.changes(self.before.as_ref());
        match (&self.present, now) {
            (None, None) => None,
            // It was created with what is recorded already.
            (None, Some(_)) if is_written => None,
            (Some(before), None) if is_ending(before) => None,
            // There is nothing to do but to wait.
            (Some(before), _) if before.removal == Removal::None && is_written => None,
            (None, Some(_)) => Some(format!("Pod {name} has been created meanwhile")),
            (Some(_), None) => Some(format!("Pod {name} is gone meanwhile")),
            (Some(before), Some(now)) if before.uid != now.uid() => {
                Some(format!("Pod {name} has been created again meanwhile"))
            }
            (Some(before), Some(now)) => (before.node.as_deref() != now.node())
                .then(|| format!("Pod {name} has got node {} meanwhile", now.node().unwrap_or("-"))),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The Pod is moved.
    Move(Box<Relocation>),
    /// It is there already, and recorded there.
    Done(String),
}

/// Decides a move.
///
/// # Errors
///
/// If it is not possible, or too little could be read.
pub fn decide(snapshot: &Snapshot, request: &Request<'_>) -> Result<Decision, Failure> {
    decide_in(&Index::of(snapshot), snapshot, snapshot, request)
}

/// The same with the index of the snapshot, which is built once for many moves. `landed` is the snapshot with the Pods that are
/// moved before where they probably land.
fn decide_in(
    index: &Index<'_>,
    snapshot: &Snapshot,
    landed: &Snapshot,
    request: &Request<'_>,
) -> Result<Decision, Failure> {
    let (namespace, name) = (request.namespace, request.pod);
    let pod = index.pod(namespace, name).filter(|pod| !pod.is_finished());
    if pod.is_none() {
        unread::require(snapshot, "pods")?;
    }
    unread::require(snapshot, unread::PPS)?;
    let (workload, pps) = governing(index, namespace, name, pod)?;
    let spec = pps.spec().map_err(|error| {
        Failure::Refused(format!("PersistentPodState {} cannot be read: {error}", pps.name()))
    })?;
    let unreadable = |error| Failure::Refused(format!("PersistentPodState {}: {error}", pps.name()));
    let before = pps.state(name).map_err(unreadable)?;
    let is_bound = pod.is_some_and(|pod| pod.node().is_some());
    let given_up = keep::given_up(&spec, request.any)?;
    let wish = |destination| -> Result<Wish, Failure> {
        let node = match destination {
            Destination::Anywhere => None,
            Destination::Node(node) => Some((node.to_owned(), labels_of(snapshot, node, request.node)?)),
        };
        let (spec, given_up) = (spec.clone(), given_up.clone());
        Ok(Wish { node, given_up, drop_annotations: request.drop_annotations, spec, is_bound })
    };
    let next = Next::of(index, &workload, name, pod, &spec, before.as_ref());
    let successor =
        |after: Option<&PodState>| next.as_ref().map(|next| next.with_state(pps.name(), &spec, after));
    let Some(destination) = request.destination else {
        let after = wish(Destination::Anywhere)?.state(before.as_ref());
        let forecast = next.as_ref().zip(successor(after.as_ref()));
        let forecast = forecast.and_then(|(next, successor)| next.forecast(landed, &successor));
        return Err(Failure::Usage(show::ask_where(name, snapshot.nodes.is_some(), forecast.as_ref())));
    };
    let wish = wish(destination)?;
    let after = wish.state(before.as_ref());
    let to = match destination {
        Destination::Node(node) => Some(node.to_owned()),
        Destination::Anywhere => None,
    };
    let is_there = |pod: &Pod| to.is_some() && pod.node() == to.as_deref() && !pod.is_terminating();
    let is_left_over = pod.is_some_and(Pod::is_marked);
    if pod.is_some_and(is_there) && !is_left_over && !wish.changes(before.as_ref()) {
        return Ok(Decision::Done(format!("Pod {name} is on {} already", to.unwrap_or_default())));
    }
    let successor = successor(after.as_ref());
    let present = pod.map(|pod| Present {
        uid: pod.uid().to_owned(),
        node: pod.node().map(str::to_owned),
        removal: if is_there(pod) {
            Removal::Stay
        } else {
            let is_former = next.as_ref().is_some_and(Next::is_of_former_template);
            removal(pod, successor.as_ref().filter(|_| !is_former), &wish)
        },
        is_left_over,
        is_ready: pod.is_ready(),
        is_stranded: snapshot.is_stranded(pod),
    });
    let is_blind = present.as_ref().is_some_and(Present::is_serving) && index.workload(&workload).is_none();
    if is_blind && !request.force {
        let WorkloadKey { group, kind, name: set, .. } = &workload;
        unread::require(snapshot, &format!("statefulsets.{group}")).map_err(|failure| {
            let why = format!("which Pods {kind} {set} wants is not known, and Pod {name} was left alone");
            failure.with(&format!("{why}; --force evicts it all the same"))
        })?;
    }
    let forecast = next.as_ref().zip(successor.as_ref());
    let forecast = forecast.and_then(|(next, successor)| next.forecast(landed, successor));
    let is_nowhere = to.is_none() && forecast.as_ref().is_some_and(|one| one.may_land_on.is_empty());
    let way_out = after.as_ref().zip(next.as_ref()).filter(|_| is_nowhere);
    let way_out = way_out.and_then(|(after, next)| next.way_out(landed, pps.name(), &spec, after));
    Ok(Decision::Move(Box::new(Relocation {
        namespace: namespace.to_owned(),
        pod: name.to_owned(),
        present,
        pps: pps.name().to_owned(),
        before,
        wish,
        to,
        forecast,
        way_out,
        workload,
        is_blind,
        successor,
    })))
}

fn removal(pod: &Pod, successor: Option<&Value>, wish: &Wish) -> Removal {
    if pod.is_terminating() {
        Removal::None
    } else if pod.node().is_some() {
        Removal::Evict
    } else {
        // A Pod that was created after the state had been changed may wait for a node. Its successor would be the same.
        let affinity = |pod: &Value| pod["spec"]["affinity"]["nodeAffinity"].clone();
        let has_dropped = |successor: &Value| {
            let keys = wish.spec.persistent_pod_annotations.iter().map(|annotation| annotation.key.as_str());
            let is_dropped = |key: &str| {
                let own = pod.annotation(key);
                own.is_some() && own != successor["metadata"]["annotations"][key].as_str()
            };
            wish.drop_annotations && pod.injected_from().is_some() && keys.into_iter().any(is_dropped)
        };
        let is_same = successor.is_some_and(|successor| {
            affinity(successor) == affinity(pod.object()) && !has_dropped(successor)
        });
        if is_same { Removal::None } else { Removal::Delete }
    }
}

/// The labels of a node.
fn labels_of(
    snapshot: &Snapshot,
    name: &str,
    read_alone: Option<&Node>,
) -> Result<BTreeMap<String, String>, Failure> {
    let Some(node) = snapshot.node(name).or(read_alone.filter(|node| node.name() == name)) else {
        unread::require(snapshot, "nodes").map_err(|failure| {
            Failure::Unreadable(format!("{failure}, which is needed to know the labels of node {name}"))
        })?;
        return Err(Failure::Usage(no_node(snapshot, name)));
    };
    let labels = node.object()["metadata"]["labels"].as_object();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect())
}

/// That there is no such node, and which names are similar.
pub fn no_node(snapshot: &Snapshot, name: &str) -> String {
    let near = similar(name, snapshot.nodes.iter().flat_map(|nodes| nodes.values().map(Node::name)));
    let near = if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
    format!("there is no node {name}{near}")
}

#[cfg(test)]
mod tests;
