//! Changes of recorded states that a user makes by hand: states are dropped, rewritten, or taken
//! from a file.
//!
//! The sidecar records what it sees; these functions write what a user wants instead. Each returns
//! one write that applies only to the object version from which it was computed, keeps the form
//! that the object has, and changes nothing but the states of these Pods and their number. A bucket
//! of the compact form is written again as a whole, and what `podStates` says of its Pods is taken
//! into it.

mod check;
mod error;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub use self::error::EditError;
use self::read::Object;
use crate::names::HOSTNAME;
pub use crate::packed::may_hide_states;
use crate::packed::{self, Bucket, write_bucket};
use crate::pps::PodState;
use crate::status::{compact_patch, entry_patch, guarded_patch};

/// A change of recorded states, as one write.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// What changes, by Pod.
    pub changes: BTreeMap<String, Change>,
    /// What changes in the status, as a merge patch (RFC 7396).
    pub status: Value,
    /// The body of a patch of the status: a list is a JSON patch (RFC 6902), anything else a merge
    /// patch (RFC 7396). If the object has changed since it was read, the API server answers with a
    /// conflict.
    pub body: Value,
}

impl Edit {
    /// Also removes the UID of the workload for which the states were recorded: the sidecar drops
    /// the states of a workload that is gone, and keeps states without a UID for the next workload
    /// of the name.
    pub fn forget_workload(&mut self) {
        self.status["targetUID"] = Value::Null;
        match &mut self.body {
            // An object without the UID has changed: only a conflict may say so.
            Value::Array(operations) => operations.extend([
                json!({"op": "add", "path": "/status/targetUID", "value": ""}),
                json!({"op": "remove", "path": "/status/targetUID"}),
            ]),
            body => body["status"]["targetUID"] = Value::Null,
        }
    }
}

/// The state of a Pod before and after an edit; none if nothing is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What is recorded now.
    pub before: Option<PodState>,
    /// What is recorded after the write.
    pub after: Option<PodState>,
}

impl Change {
    /// Whether it replaces a state that says something.
    pub fn replaces(&self) -> bool {
        self.before
            .as_ref()
            .is_some_and(|state| *state != PodState::default())
    }
}

/// An edit that takes over states, and the Pods that keep others.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The write; none if the object has all these states already.
    pub edit: Option<Edit>,
    /// The Pods that have another state, which is not overwritten.
    pub kept: BTreeSet<String>,
}

/// What is recorded in an object in JSON, in either form or both, by Pod. A Pod whose entry is
/// empty has no state.
pub fn states(pps: &Value) -> Result<BTreeMap<String, PodState>, EditError> {
    let mut entries = Object::read(pps)?.entries;
    entries.retain(|_, state| *state != PodState::default());
    Ok(entries)
}

/// All states of an object as `status.podStates` has them, for readers that know no other form.
pub fn plain_states(pps: &Value) -> Result<Map<String, Value>, EditError> {
    Ok(states(pps)?
        .into_iter()
        .map(|(pod, state)| (pod, json!(state)))
        .collect())
}

/// What a move keeps of a state: every recorded value except the node and the topology keys that
/// the user gives up.
pub fn without_node(state: &PodState, given_up: &[String]) -> PodState {
    let mut kept = PodState {
        node_name: String::new(),
        ..state.clone()
    };
    kept.node_topology_labels
        .retain(|key, _| key != HOSTNAME && !given_up.contains(key));
    kept
}

/// Drops the states of these Pods. Returns no edit if none of them has one.
pub fn drop_states<'a>(
    pps: &Value,
    pods: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Edit>, EditError> {
    let object = Object::read(pps)?;
    object.edit(
        pps,
        pods.into_iter().map(|pod| (pod.to_owned(), None)).collect(),
    )
}

/// Records a state for a Pod, or drops the Pod's state. Returns no edit if the object has that
/// state already.
///
/// An empty state is an entry that says nothing: the policy injects nothing, and the sidecar reads
/// the Pod before it records it again. So a state of a Pod that may still run is emptied and not
/// dropped.
pub fn set_state(
    pps: &Value,
    pod: &str,
    state: Option<&PodState>,
) -> Result<Option<Edit>, EditError> {
    let object = Object::read(pps)?;
    object.edit(pps, [(pod.to_owned(), state.cloned())].into())
}

/// Takes over states, such as those of another cluster. Empty ones are left out. Pods that have a
/// state keep it, unless it may be overwritten.
pub fn merge(
    pps: &Value,
    states: &BTreeMap<String, PodState>,
    overwrite: bool,
) -> Result<Merge, EditError> {
    let object = Object::read(pps)?;
    let nothing = PodState::default();
    let mut kept = BTreeSet::new();
    let mut after = BTreeMap::new();
    for (pod, state) in states.iter().filter(|(_, state)| **state != nothing) {
        let before = object.entries.get(pod).filter(|before| **before != nothing);
        if !overwrite && before.is_some_and(|before| before != state) {
            kept.insert(pod.clone());
        } else {
            after.insert(pod.clone(), Some(state.clone()));
        }
    }
    Ok(Merge {
        edit: object.edit(pps, after)?,
        kept,
    })
}

/// The same. If `podStates` is too small for the states, an object without states gets the compact
/// form.
pub fn merge_or_compact(
    pps: &Value,
    states: &BTreeMap<String, PodState>,
    overwrite: bool,
) -> Result<Merge, EditError> {
    match merge(pps, states, overwrite) {
        Err(EditError::TooLarge { .. }) if has_no_states(pps) => {
            let mut compact = pps.clone();
            compact["status"] = compact_status();
            merge(&compact, states, overwrite)
        }
        merge => merge,
    }
}

/// Whether an object has no states, and not the compact form, either.
pub fn has_no_states(pps: &Value) -> bool {
    pps["status"]["packed"].is_null() && states(pps).is_ok_and(|states| states.is_empty())
}

/// The status of an object in the compact form, without states.
pub fn compact_status() -> Value {
    json!({"packed": {"version": packed::VERSION, "buckets": {}}, "podStates": null})
}

impl Object<'_> {
    /// The write that gives these Pods these states.
    fn edit(
        mut self,
        pps: &Value,
        states: BTreeMap<String, Option<PodState>>,
    ) -> Result<Option<Edit>, EditError> {
        let changes = self.changes(states);
        if changes.is_empty() {
            return Ok(None);
        }
        let (Some(uid), Some(resource_version)) = (self.uid, self.resource_version) else {
            return Err(EditError::Unguarded);
        };
        let before = self.stored_size();
        self.apply(&changes)?;
        check::object(pps, &self, before)?;
        let mut status = if self.is_compact {
            self.bucket_patch(&changes)
        } else {
            entry_patches(&changes)
        };
        let recorded = json!(i32::try_from(self.entries.len()).unwrap_or(i32::MAX));
        // The sidecar counts the states of an object that has no such number.
        if pps["status"]["recorded"].is_number() && pps["status"]["recorded"] != recorded {
            status.insert("recorded".into(), recorded);
        }
        let body = self.body(guarded_patch(uid, resource_version, &status));
        Ok(Some(Edit {
            changes,
            status: status.into(),
            body,
        }))
    }

    /// The Pods whose states would change.
    fn changes(&self, states: BTreeMap<String, Option<PodState>>) -> BTreeMap<String, Change> {
        let mut changes = BTreeMap::new();
        for (pod, after) in states {
            let before = self.entries.get(&pod).cloned();
            if before != after {
                changes.insert(pod, Change { before, after });
            }
        }
        changes
    }

    fn apply(&mut self, changes: &BTreeMap<String, Change>) -> Result<(), EditError> {
        for (pod, change) in changes {
            match &change.after {
                Some(state) => {
                    check::state(pod, state)?;
                    self.entries.insert(pod.clone(), state.clone());
                }
                None => {
                    self.entries.remove(pod);
                }
            }
        }
        Ok(())
    }

    /// The body of a merge patch, in the form that suits the form of the object.
    fn body(&self, merge_patch: Value) -> Value {
        if !self.is_compact {
            return merge_patch;
        }
        let mut body = compact_patch(&merge_patch);
        if let Some(operations) = body.as_array_mut().filter(|_| !self.has_buckets) {
            // After the test of the version.
            operations.insert(
                1,
                json!({"op": "add", "path": "/status/packed/buckets", "value": {}}),
            );
        }
        body
    }

    /// The buckets of the changed Pods. What `podStates` has of their Pods is removed there.
    fn bucket_patch(&self, changes: &BTreeMap<String, Change>) -> Map<String, Value> {
        let buckets: BTreeSet<Bucket> = changes.keys().map(|pod| Bucket::of(pod)).collect();
        let rows = self.rows();
        let mut texts = Map::new();
        for bucket in &buckets {
            let text = rows.get(bucket).map(|rows| write_bucket(rows));
            texts.insert(bucket.to_string(), text.into());
        }
        let overlaid: Map<String, Value> = self
            .overlaid
            .iter()
            .filter(|pod| buckets.contains(&Bucket::of(pod)))
            .map(|pod| (pod.clone(), Value::Null))
            .collect();
        let mut status = Map::from_iter([("packed".to_owned(), json!({"buckets": texts}))]);
        if !overlaid.is_empty() {
            status.insert("podStates".into(), overlaid.into());
        }
        status
    }
}

fn entry_patches(changes: &BTreeMap<String, Change>) -> Map<String, Value> {
    let entries: Map<String, Value> = changes
        .iter()
        .filter_map(|(pod, change)| {
            Some((
                pod.clone(),
                entry_patch(change.before.as_ref(), change.after.as_ref())?,
            ))
        })
        .collect();
    Map::from_iter([("podStates".to_owned(), entries.into())])
}

#[cfg(test)]
mod tests;
