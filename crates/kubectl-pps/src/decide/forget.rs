//! Which recorded states `forget` drops, and which it does not.

use std::collections::BTreeMap;

use pps_core::PodState;
use pps_core::edit::{EditError, states};
use pps_recorder::facts::NamespacedName;

use crate::snapshot::{Index, Resource, Snapshot, Unread};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drops {
    /// The states of each PersistentPodState, by Pod.
    pub objects: BTreeMap<NamespacedName, BTreeMap<String, PodState>>,
    /// Ready Pods: the sidecar would record them again at once, so their states are not dropped.
    pub ready: Vec<NamespacedName>,
    /// Pods that have no node, and were created with the state that is dropped.
    pub pending: Vec<NamespacedName>,
    /// Names on the command line without a recorded state.
    pub unrecorded: Vec<String>,
    pub unreadable: Vec<Unreadable>,
}

/// A PersistentPodState whose states cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    pub pps: String,
    pub error: EditError,
}

/// Decides which states are dropped: the states of these Pods, and the states on this node.
pub fn decide<'a>(
    snapshot: &'a Snapshot,
    pods: &[String],
    node: Option<&str>,
) -> Result<Drops, &'a Unread> {
    snapshot.require(Resource::Pods)?;
    snapshot.require(Resource::PersistentPodStates)?;
    let index = Index::of(snapshot);
    let mut drops = Drops {
        unrecorded: pods.to_vec(),
        ..Drops::default()
    };
    for pps in snapshot.pps.iter().filter(|pps| !pps.is_alias()) {
        let namespace = pps.namespace();
        let recorded = match states(pps.object()) {
            Ok(recorded) => recorded,
            Err(error) => {
                drops.unreadable.push(Unreadable {
                    pps: pps.name().to_owned(),
                    error,
                });
                continue;
            }
        };
        let spec = pps.spec().unwrap_or_default();
        for (name, state) in recorded {
            if !pods.contains(&name) && node.is_none_or(|node| state.node_name != node) {
                continue;
            }
            drops.unrecorded.retain(|one| *one != name);
            if let Some(pod) = index.pod(namespace, &name) {
                let home = &state.node_name;
                let is_away = pod.node().is_some_and(|node| spec.is_away(home, node));
                if snapshot.is_recordable(pod) && !is_away && index.may_record(pps, pod) {
                    drops.ready.push(NamespacedName::new(namespace, name));
                    continue;
                }
                if pod.node().is_none() && pod.injected_from().is_some() {
                    drops
                        .pending
                        .push(NamespacedName::new(namespace, name.as_str()));
                }
            }
            let object = NamespacedName::new(namespace, pps.name());
            drops.objects.entry(object).or_default().insert(name, state);
        }
    }
    Ok(drops)
}

impl Drops {
    pub fn count(&self) -> usize {
        self.objects.values().map(BTreeMap::len).sum()
    }

    /// No requested state is left out.
    pub fn is_complete(&self) -> bool {
        self.ready.is_empty() && self.unrecorded.is_empty() && self.unreadable.is_empty()
    }

    /// Keeps the states that the user has agreed to drop and that are still to be dropped.
    pub fn retain(&mut self, now: &Self) {
        for (object, states) in &mut self.objects {
            states.retain(|pod, state| {
                now.objects.get(object).and_then(|now| now.get(pod)) == Some(state)
            });
        }
        self.objects.retain(|_, states| !states.is_empty());
    }
}

#[cfg(test)]
mod tests;
