//! Recorded states of one PPS, stored compactly: a cluster may have a hundred thousand of them. An entry is unpacked
//! each time it is read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use pps_core::pps::PodState;
use pps_core::size::entry_size;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::interner::Interner;

/// Pairs with distinct keys, sorted by key.
type Pairs = Box<[(Arc<str>, Arc<str>)]>;

/// Recorded states by Pod name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States(BTreeMap<Arc<str>, State>);

/// The state of one Pod.
#[derive(Clone, Debug, PartialEq)]
struct State {
    node: Arc<str>,
    labels: Pairs,
    annotations: Pairs,
}

impl States {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, pod: &str) -> bool {
        self.0.contains_key(pod)
    }

    pub fn get(&self, pod: &str) -> Option<PodState> {
        self.0.get(pod).map(State::unpack)
    }

    /// Each Pod with the node that it was recorded on, sorted by Pod.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(pod, state)| (pod, &state.node))
    }

    /// Sets the state of a Pod; returns the node of the previous state.
    pub(crate) fn insert(
        &mut self,
        pod: &Arc<str>,
        state: &PodState,
        interner: &mut Interner,
    ) -> Option<Arc<str>> {
        let mut state = State::pack(state);
        state.intern(interner);
        match self.0.entry(pod.clone()) {
            Entry::Occupied(mut before) => Some(before.insert(state).node),
            Entry::Vacant(place) => {
                place.insert(state);
                None
            }
        }
    }

    /// Removes the state of a Pod; returns its node.
    pub fn remove(&mut self, pod: &str) -> Option<Arc<str>> {
        self.0.remove(pod).map(|state| state.node)
    }

    /// Size of all entries in the stored object, in bytes.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(pod, state)| state.size(pod)).sum()
    }

    /// Size of one Pod's entry in the stored object, in bytes; 0 without an entry.
    pub fn size_of(&self, pod: &str) -> usize {
        self.0.get(pod).map(|state| state.size(pod)).unwrap_or_default()
    }

    /// Interns all names.
    pub(crate) fn intern(&mut self, interner: &mut Interner) {
        let states = std::mem::take(&mut self.0).into_iter();
        self.0 = states
            .map(|(pod, mut state)| {
                state.intern(interner);
                (interner.intern(&pod), state)
            })
            .collect();
    }
}

impl State {
    fn pack(state: &PodState) -> Self {
        let pairs = |map: &BTreeMap<String, String>| {
            map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
        };
        Self {
            node: state.node_name.as_str().into(),
            labels: pairs(&state.node_topology_labels),
            annotations: pairs(&state.annotations),
        }
    }

    fn unpack(&self) -> PodState {
        let map =
            |pairs: &Pairs| pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        PodState {
            node_name: self.node.to_string(),
            node_topology_labels: map(&self.labels),
            annotations: map(&self.annotations),
        }
    }

    fn size(&self, pod: &str) -> usize {
        entry_size(pod, &self.node, texts(&self.labels), texts(&self.annotations))
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.node = interner.intern(&self.node);
        interner.intern_pairs(self.labels.iter_mut().chain(&mut self.annotations));
    }
}

fn texts(pairs: &Pairs) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(key, value)| (&**key, &**value))
}

/// Entries are packed one at a time, so that a list of large objects is never in memory unpacked.
impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = States;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of recorded states")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<States, A::Error> {
                let mut states = BTreeMap::new();
                while let Some((pod, state)) = entries.next_entry::<String, PodState>()? {
                    states.insert(pod.into(), State::pack(&state));
                }
                Ok(States(states))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deserializes_the_same_states_as_core() {
        let json = json!({
            "w-1": {"nodeName": "n", "nodeTopologyLabels": {"zone": "a", "host": "n"}, "annotations": {"ip": "1"}},
            "w-0": {"nodeName": null, "nodeTopologyLabels": null, "unknown": 1},
        });
        let core: BTreeMap<String, PodState> = serde_json::from_value(json.clone()).unwrap();
        let (mut states, mut names): (States, _) =
            (serde_json::from_value(json).unwrap(), Interner::default());
        states.intern(&mut names);
        assert_eq!(states.len(), core.len());
        for (pod, state) in &core {
            assert_eq!(states.get(pod).as_ref(), Some(state));
        }
        assert!(serde_json::from_value::<States>(json!({"w-0": 1})).is_err());
    }

    #[test]
    fn insert_and_remove_return_the_previous_node() {
        let (mut states, mut names) = (States::default(), Interner::default());
        let on = |node: &str| PodState { node_name: node.into(), ..PodState::default() };
        assert_eq!(states.insert(&"w-0".into(), &on("a"), &mut names), None);
        assert_eq!(states.insert(&"w-0".into(), &on("b"), &mut names).as_deref(), Some("a"));
        assert_eq!(states.remove("w-0").as_deref(), Some("b"));
        assert_eq!(states.remove("w-0"), None);
    }
}
