//! Which recorded states are dropped, and which are not.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::PodState;
use pps_core::edit::states;

use crate::Failure;
use crate::decide::hand::{Hand, portions};
use crate::decide::similar::similar;
use crate::decide::unread;
use crate::snapshot::{Index, Node, Pod, Scope, Snapshot};

/// How many Pods a sentence names.
const MOST: usize = 6;

/// Whose states are dropped.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those of these Pods.
    Pods(&'a [String]),
    /// Those that were recorded on this node.
    Node(&'a str),
}

/// What is dropped, and what is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drops {
    /// What is dropped, by the namespace and the name of the PersistentPodState.
    pub objects: BTreeMap<(String, String), BTreeMap<String, PodState>>,
    /// Pods that are Ready, by namespace and name: the sidecar would record them again at once.
    pub ready: Vec<(String, String)>,
    /// Pods without a node that were created with what is dropped, by namespace and name: it still holds for them.
    pub pending: Vec<(String, String)>,
    /// Pods that run and are not Ready, by namespace and name: they are recorded again once they are.
    pub unready: Vec<(String, String)>,
    /// Pods that are bound to a node that is gone, by namespace and name: the sidecar does not record them any more.
    pub stranded: Vec<(String, String)>,
    /// Pods without a recorded state.
    pub unrecorded: Vec<String>,
    /// Names without a Pod and without a recorded state, each with similar names.
    pub unknown: Vec<(String, Vec<String>)>,
    /// PersistentPodStates whose states cannot be read, with why.
    pub unreadable: Vec<String>,
}

/// Decides what is dropped.
///
/// # Errors
///
/// If too little could be read to know whether a Pod runs.
pub fn decide(snapshot: &Snapshot, which: Which<'_>) -> Result<Drops, Failure> {
    unread::require(snapshot, "pods")?;
    unread::require(snapshot, unread::PPS)?;
    let index = Index::of(snapshot);
    let mut drops = Drops::default();
    for pps in snapshot.pps.iter().filter(|pps| !pps.is_alias()) {
        let recorded = match states(pps.object()) {
            Ok(recorded) => recorded,
            Err(error) => {
                drops.unreadable.push(format!("PersistentPodState {}: {error}", pps.name()));
                continue;
            }
        };
        for (name, state) in recorded.into_iter().filter(|(name, state)| which.has(name, state)) {
            let pod = index.pod(pps.namespace(), &name);
            let key = (pps.namespace().to_owned(), name.clone());
            if let Some(pod) = pod.filter(|pod| is_recorded(pod)) {
                if !snapshot.is_stranded(pod) {
                    drops.ready.push(key);
                    continue;
                }
                drops.stranded.push(key.clone());
            }
            if pod.is_some_and(|pod| pod.node().is_none() && pod.injected_from().is_some()) {
                drops.pending.push(key);
            } else if pod.is_some_and(|pod| {
                pod.node().is_some() && !pod.is_ready() && !pod.is_terminating() && !snapshot.is_stranded(pod)
            }) {
                drops.unready.push(key);
            }
            let object = (pps.namespace().to_owned(), pps.name().to_owned());
            drops.objects.entry(object).or_default().insert(name, state);
        }
    }
    if let Which::Pods(names) = which {
        let is_known = |name: &String| {
            drops.objects.values().any(|states| states.contains_key(name))
                || drops.ready.iter().any(|(_, ready)| ready == name)
        };
        let mut others: Vec<String> = names.iter().filter(|name| !is_known(name)).cloned().collect();
        others.dedup();
        let pods = || snapshot.pods.iter().filter(|pod| snapshot.scope.contains(pod.namespace()));
        let (unrecorded, unknown): (Vec<String>, Vec<String>) =
            others.into_iter().partition(|name| pods().any(|pod| pod.name() == name));
        let with_similar = |name: String| {
            let near = similar(&name, pods().map(Pod::name));
            (name, near)
        };
        (drops.unrecorded, drops.unknown) = (unrecorded, unknown.into_iter().map(with_similar).collect());
    }
    Ok(drops)
}

/// What is said if nothing is recorded on a node. `exists` is whether there is such a node, if that is known.
pub fn nothing_on(snapshot: &Snapshot, node: &str, exists: Option<bool>, hand: &Hand) -> String {
    let everywhere = match &snapshot.scope {
        Scope::All => String::new(),
        Scope::Namespace(namespace) => format!(
            " in namespace {namespace}; in all namespaces: {}",
            hand.kubectl(&format!("pps forget --node {node} -A"))
        ),
    };
    if exists != Some(false) {
        return format!("Nothing is recorded on node {node}{everywhere}");
    }
    let others = snapshot.nodes.iter().flat_map(|nodes| nodes.values().map(Node::name));
    let near = similar(node, others);
    let near = if near.is_empty() { String::new() } else { format!(" (similar names: {})", near.join(", ")) };
    format!("There is no node {node}{near}, and nothing is recorded on it{everywhere}")
}

/// Whether the sidecar records this Pod, if its node exists.
fn is_recorded(pod: &Pod) -> bool {
    pod.is_ready() && !pod.is_terminating() && !pod.is_exempt()
}

impl Which<'_> {
    fn has(&self, pod: &str, state: &PodState) -> bool {
        match self {
            Self::Pods(names) => names.iter().any(|name| name == pod),
            Self::Node(node) => state.node_name == *node,
        }
    }
}

impl Drops {
    /// How many states are dropped.
    pub fn count(&self) -> usize {
        self.objects.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing of what was asked for is left out.
    pub fn is_complete(&self) -> bool {
        self.ready.is_empty()
            && self.unrecorded.is_empty()
            && self.unknown.is_empty()
            && self.unreadable.is_empty()
    }

    /// Whether all names on the command line are wrong.
    pub fn is_mistaken(&self) -> bool {
        !self.unknown.is_empty()
            && self.objects.is_empty()
            && self.ready.is_empty()
            && self.unrecorded.is_empty()
            && self.unreadable.is_empty()
    }

    /// Takes out what is not to be dropped any more, since its Pod has become Ready while the user was asked. `now` is decided
    /// from what is read after the answer. Returns what the user has to know of it.
    pub fn confirm(&mut self, now: &Self, hand: &Hand) -> Vec<String> {
        let ready: BTreeSet<&(String, String)> = now.ready.iter().collect();
        let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((namespace, _), states) in &mut self.objects {
            states.retain(|pod, _| {
                let is_kept = ready.contains(&(namespace.clone(), pod.clone()));
                if is_kept {
                    kept.entry(namespace.clone()).or_default().push(pod.clone());
                }
                !is_kept
            });
        }
        self.objects.retain(|_, states| !states.is_empty());
        let mut notes = Vec::new();
        for (namespace, pods) in kept {
            let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
            let (names, _, them) = words(&pods);
            let have = if pods.len() == 1 { "has" } else { "have" };
            notes.push(format!(
                "{names} in namespace {namespace} {have} become Ready meanwhile, so what is recorded of {them} stays"
            ));
        }
        // They were created meanwhile with what is dropped.
        let shown: BTreeSet<&(String, String)> = self.pending.iter().collect();
        let is_dropped = |(namespace, pod): &&(String, String)| {
            self.objects.iter().any(|((own, _), states)| own == namespace && states.contains_key(pod))
        };
        let pending = now.pending.iter().filter(|pod| !shown.contains(pod)).filter(is_dropped).cloned();
        notes.extend(Self { pending: pending.collect(), ..Self::default() }.notes(hand));
        notes
    }

    /// What the user should know beside what is dropped.
    pub fn notes(&self, hand: &Hand) -> Vec<String> {
        let mut notes = Vec::new();
        for (namespace, pods) in in_commands(&self.ready) {
            let (names, are, them) = words(&pods);
            notes.push(format!(
                "{names} {are} Ready, so the sidecar would record {them} again within seconds; to move {them}: {}",
                hand.pps(&format!("move {} --anywhere", pods.join(" ")), namespace)
            ));
        }
        for (namespace, pods) in in_commands(&self.pending) {
            let (names, are, them) = words(&pods);
            let wait = if pods.len() == 1 { "waits" } else { "wait" };
            notes.push(format!(
                "{names} {are} Pending and {wait} for the former place, with which {them_were} created; to have {them} created \
                 again: {}",
                hand.kubectl_in(&format!("delete pod {}", pods.join(" ")), namespace),
                them_were = if pods.len() == 1 { "it was" } else { "they were" },
            ));
        }
        for pods in by_namespace(&self.unready).into_values() {
            let (names, are, them) = words(&pods);
            let they = if pods.len() == 1 { "it is" } else { "they are" };
            notes.push(format!(
                "{names} {are} bound to a node and not Ready: what is recorded of {them} is dropped until {they} Ready again"
            ));
        }
        for pods in by_namespace(&self.stranded).into_values() {
            let (names, are, them) = words(&pods);
            notes.push(format!(
                "{names} {are} bound to a node that is gone: Kubernetes deletes {them} within about a minute, and the successor \
                 starts wherever the scheduler puts it"
            ));
        }
        notes.extend(self.unrecorded.iter().map(|pod| format!("nothing is recorded of Pod {pod}")));
        notes.extend(self.unknown.iter().map(|(pod, near)| {
            let near =
                if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
            format!("there is no Pod {pod}, and nothing is recorded of one{near}")
        }));
        notes.extend(self.unreadable.iter().cloned());
        notes
    }
}

fn by_namespace(pods: &[(String, String)]) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (namespace, pod) in pods {
        all.entry(namespace).or_default().push(pod);
    }
    all
}

/// The Pods of a namespace that one command has room for.
fn in_commands(pods: &[(String, String)]) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let all = by_namespace(pods).into_iter();
    all.flat_map(|(namespace, pods)| portions(&pods).into_iter().map(move |pods| (namespace, pods)))
}

/// How a sentence names Pods: `Pod db-0`, `is`, `it`.
fn words(pods: &[&str]) -> (String, &'static str, &'static str) {
    match pods {
        [pod] => (format!("Pod {pod}"), "is", "it"),
        _ if pods.len() > MOST => {
            (format!("Pods {} and {} more", pods[..MOST].join(", "), pods.len() - MOST), "are", "them")
        }
        _ => (format!("Pods {}", pods.join(", ")), "are", "them"),
    }
}

#[cfg(test)]
mod tests;
