//! Which recorded states `forget` drops, and which it does not.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::PodState;
use pps_core::edit::{EditError, states};

use crate::decide::move_pod::PodName;
use crate::decide::similar::similar;
use crate::snapshot::{Index, Pod, Resource, Snapshot, Unread};

/// Whose states are dropped.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those of these Pods.
    Pods(&'a [String]),
    /// Those that name this node.
    Node(&'a str),
}

/// What the user should know of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// It is Ready: the sidecar would record it again at once, so its state is not dropped.
    Ready,
    /// It has no node, and was created with the state that is dropped.
    Pending,
    /// It is bound to a node and not Ready: it is recorded again once it is Ready.
    NotReady,
    /// Its node is gone: the sidecar does not record it any more.
    Stranded,
}

/// Which recorded states are dropped, and which are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drops {
    /// The states, by the namespace and the name of the PersistentPodState.
    pub objects: BTreeMap<(String, String), BTreeMap<String, PodState>>,
    /// What the user should know of the Pods.
    pub concerns: BTreeSet<(Concern, PodName)>,
    /// Pods without a recorded state.
    pub unrecorded: Vec<String>,
    /// Names without a Pod and without a recorded state, each with similar names.
    pub unknown: Vec<(String, Vec<String>)>,
    /// PersistentPodStates whose states cannot be read.
    pub unreadable: Vec<(String, EditError)>,
}

/// Decides which states are dropped.
///
/// # Errors
///
/// If too little could be read to know whether a Pod runs.
pub fn decide<'a>(snapshot: &'a Snapshot, which: Which<'_>) -> Result<Drops, &'a Unread> {
    snapshot.require(Resource::Pods)?;
    snapshot.require(Resource::PersistentPodStates)?;
    let index = Index::of(snapshot);
    let mut drops = Drops::default();
    for pps in snapshot.pps.iter().filter(|pps| !pps.is_alias()) {
        let recorded = match states(pps.object()) {
            Ok(recorded) => recorded,
            Err(error) => {
                drops.unreadable.push((pps.name().to_owned(), error));
                continue;
            }
        };
        for (name, state) in recorded.into_iter().filter(|(name, state)| which.has(name, state)) {
            let pod = index.pod(pps.namespace(), &name);
            let concern = pod.and_then(|pod| Concern::of(snapshot, pod));
            drops
                .concerns
                .extend(concern.map(|concern| (concern, (pps.namespace().to_owned(), name.clone()))));
            if concern != Some(Concern::Ready) {
                let object = (pps.namespace().to_owned(), pps.name().to_owned());
                drops.objects.entry(object).or_default().insert(name, state);
            }
        }
    }
    let names = if let Which::Pods(names) = which { names } else { &[] };
    for name in names {
        let is_recorded = drops.objects.values().any(|states| states.contains_key(name))
            || drops.concerns.iter().any(|(_, (_, pod))| pod == name);
        let pods =
            || snapshot.pods.iter().filter(|pod| snapshot.scope.contains(pod.namespace())).map(Pod::name);
        if is_recorded {
            continue;
        }
        if pods().any(|pod| pod == name) {
            drops.unrecorded.push(name.clone());
        } else {
            drops.unknown.push((name.clone(), similar(name, pods())));
        }
    }
    Ok(drops)
}

impl Which<'_> {
    fn has(self, pod: &str, state: &PodState) -> bool {
        match self {
            Self::Pods(names) => names.iter().any(|name| name == pod),
            Self::Node(node) => state.node_name == *node,
        }
    }
}

impl Concern {
    fn of(snapshot: &Snapshot, pod: &Pod) -> Option<Self> {
        let is_alive = !pod.is_terminating();
        match pod.node() {
            None => pod.injected_from().map(|_| Self::Pending),
            Some(_) if snapshot.is_stranded(pod) => Some(Self::Stranded),
            Some(_) if pod.is_ready() => (is_alive && !pod.is_exempt()).then_some(Self::Ready),
            Some(_) => is_alive.then_some(Self::NotReady),
        }
    }
}

impl Drops {
    /// How many states are dropped.
    pub fn count(&self) -> usize {
        self.objects.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing that was asked for is left out.
    pub fn is_complete(&self) -> bool {
        let is_ready = |(concern, _): &(Concern, PodName)| *concern == Concern::Ready;
        !self.concerns.iter().any(is_ready)
            && self.unrecorded.is_empty()
            && self.unknown.is_empty()
            && self.unreadable.is_empty()
    }

    /// Whether all names on the command line are wrong.
    pub fn is_mistaken(&self) -> bool {
        let others = Self { unknown: Vec::new(), ..self.clone() };
        !self.unknown.is_empty() && others == Self::default()
    }

    /// The states that the user has agreed to drop and that are still to be dropped, and what is new.
    #[must_use]
    pub fn confirmed_by(mut self, now: Self) -> Self {
        for (object, states) in &mut self.objects {
            states.retain(|pod, state| now.objects.get(object).and_then(|now| now.get(pod)) == Some(state));
        }
        self.objects.retain(|_, states| !states.is_empty());
        let concerns = &now.concerns - &self.concerns;
        Self { objects: self.objects, concerns, unreadable: now.unreadable, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
