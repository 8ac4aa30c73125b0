//! The state that a move records. A required value, beside the node itself, is given up only by
//! name.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::edit::without_node;
use pps_core::{PodState, Spec};
use pps_recorder::facts::{NodeFact, PodFact};
use pps_recorder::record::{Place, record};

use super::{Refusal, Request};
use crate::snapshot::{Index, Node, Resource, Snapshot};

/// Fails if one of these words names a key of no governing PersistentPodState: nothing would be
/// given up.
pub fn require_keys(snapshot: &Snapshot, words: &[String]) -> Result<(), Refusal> {
    let index = Index::of(snapshot);
    let specs: Vec<Spec> = index
        .targeted()
        .filter_map(|(_, all)| all.first()?.spec().ok())
        .collect();
    let unknown = words
        .iter()
        .find(|word| specs.iter().all(|spec| spec.keys_named(word).is_empty()));
    let Some(word) = unknown else {
        return Ok(());
    };
    snapshot.require(Resource::PersistentPodStates)?;
    let keys: BTreeSet<&str> = specs.iter().flat_map(Spec::topology_keys).collect();
    let keys = keys.into_iter().map(str::to_owned).collect();
    Err(Refusal::UnknownKey {
        word: word.clone(),
        keys,
    })
}

/// How a move changes the recorded state, whatever that is at the moment of the write.
#[derive(Clone, Debug)]
pub struct NewState {
    to: Option<Node>,
    given_up: Vec<String>,
    drops_annotations: bool,
    spec: Spec,
    /// Whether the Pod may be Ready when the state is written.
    is_bound: bool,
}

impl NewState {
    pub(super) fn new(request: &Request<'_>, spec: &Spec, is_bound: bool) -> Result<Self, Refusal> {
        let mut given_up = Vec::new();
        for word in request.any {
            let keys: Vec<String> = spec
                .keys_named(word)
                .into_iter()
                .map(str::to_owned)
                .collect();
            if keys.len() > 1 {
                return Err(Refusal::AmbiguousKey {
                    word: word.clone(),
                    keys,
                });
            }
            given_up.extend(keys);
        }
        Ok(Self {
            to: request.to.cloned(),
            given_up,
            drops_annotations: request.drop_annotations,
            spec: spec.clone(),
            is_bound,
        })
    }

    /// The state to record in place of `before`.
    ///
    /// The entry of a bound Pod is emptied and not dropped. The sidecar may not know of the move
    /// yet: it reads the Pod before it fills an empty entry, but not before it makes a new entry.
    pub fn of(&self, before: Option<&PodState>) -> Option<PodState> {
        let mut kept = before.cloned().unwrap_or_default();
        if self.drops_annotations {
            kept.annotations.clear();
        }
        let Some(node) = &self.to else {
            let rest = without_node(&kept, &self.given_up);
            return (self.is_bound || rest != PodState::default()).then_some(rest);
        };
        let mut labels: Vec<_> = self
            .spec
            .topology_keys()
            .filter_map(|key| Some((key.into(), node.label(key)?.into())))
            .collect();
        labels.sort_unstable();
        let place = Place {
            name: node.name(),
            node: &NodeFact { labels },
            is_new: false,
        };
        Some(record(&self.spec, &PodFact::default(), place, Some(&kept)))
    }

    /// Whether the state has to be written. No empty entry is made.
    pub fn changes(&self, before: Option<&PodState>) -> bool {
        let after = self.of(before);
        before != after.as_ref() && !(is_empty(before) && is_empty(after.as_ref()))
    }

    /// The recorded values that the Pod requires, beside the node itself.
    pub(super) fn required_of<'a>(
        &'a self,
        state: Option<&'a PodState>,
    ) -> BTreeMap<&'a str, &'a str> {
        state
            .map(|state| self.spec.required_values(state))
            .unwrap_or_default()
    }
}

fn is_empty(state: Option<&PodState>) -> bool {
    state.is_none_or(|state| *state == PodState::default())
}
