//! The fields of the status that hold states, as a merge patch.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::packed::{Bucket, VERSION};
use serde_json::{Map, Value, json};

use super::FormDecision;
use crate::facts::states::States;
use crate::facts::{Form, PpsStatus};
use crate::ledger::entry_change::{BucketText, ChangedStates, EntryChange};

/// The fields of a merge patch, and the form that the object has once they are stored.
pub(in crate::decide::status) struct FormPatch {
    pub(in crate::decide::status) fields: Map<String, Value>,
    pub(in crate::decide::status) form: Form,
}

impl FormDecision {
    pub(in crate::decide::status) fn patch(
        &self,
        status: &PpsStatus,
        changes: &[EntryChange],
    ) -> FormPatch {
        let mut fields = Map::new();
        let form = match (self, &status.form) {
            (Self::ToCompact(texts), _) => {
                fields.insert("packed".into(), packed(texts));
                fields.insert("podStates".into(), Value::Null);
                Form::Compact(BTreeSet::new())
            }
            (Self::ToPlain, form) => {
                insert_entries(&mut fields, all_entries(&status.pod_states, form, changes));
                fields.insert("packed".into(), Value::Null);
                Form::Plain
            }
            (_, Form::Compact(overlaid)) => Form::Compact(patch_buckets(
                &status.pod_states,
                overlaid,
                changes,
                &mut fields,
            )),
            (_, form) => {
                let entries = changes
                    .iter()
                    .map(|change| (change.pod.to_string(), change.patch.clone()));
                insert_entries(&mut fields, entries.collect());
                form.clone()
            }
        };
        FormPatch { fields, form }
    }
}

fn packed(texts: &[BucketText]) -> Value {
    let buckets: Map<String, Value> = texts
        .iter()
        .map(|BucketText { bucket, text }| (bucket.to_string(), text.as_str().into()))
        .collect();
    json!({"version": VERSION, "buckets": buckets})
}

fn insert_entries(fields: &mut Map<String, Value>, entries: Map<String, Value>) {
    if !entries.is_empty() {
        fields.insert("podStates".into(), entries.into());
    }
}

/// The changed buckets. Their states that another writer has put into `podStates` are removed
/// there; returns the Pods of those that stay.
fn patch_buckets(
    states: &States,
    overlaid: &BTreeSet<Arc<str>>,
    changes: &[EntryChange],
    fields: &mut Map<String, Value>,
) -> BTreeSet<Arc<str>> {
    let states = ChangedStates::new(states, changes);
    let buckets: Map<String, Value> = states
        .changed()
        .map(|bucket| (bucket.to_string(), states.text(bucket).into()))
        .collect();
    let (written, rest): (Vec<_>, Vec<_>) = overlaid
        .iter()
        .partition(|pod| buckets.contains_key(&Bucket::of(pod).to_string()));
    if !buckets.is_empty() {
        // Without the version: if the API server does not have the other buckets any longer, it
        // refuses the write.
        fields.insert("packed".into(), json!({"buckets": buckets}));
    }
    let removed = written
        .into_iter()
        .map(|pod| (pod.to_string(), Value::Null));
    insert_entries(fields, removed.collect());
    rest.into_iter().cloned().collect()
}

/// What `podStates` needs so that it has all states. Those of `form`'s Pods are there already.
fn all_entries(states: &States, form: &Form, changes: &[EntryChange]) -> Map<String, Value> {
    let mut entries: Map<String, Value> = states
        .nodes()
        .map(|(pod, _)| pod)
        .filter(|pod| !is_in_pod_states(form, pod))
        .map(|pod| (pod.to_string(), json!(states.get(pod))))
        .collect();
    for change in changes {
        if is_in_pod_states(form, &change.pod) {
            entries.insert(change.pod.to_string(), change.patch.clone());
        } else if let Some(after) = &change.after {
            entries.insert(change.pod.to_string(), json!(after));
        } else {
            entries.remove(&*change.pod);
        }
    }
    entries
}

fn is_in_pod_states(form: &Form, pod: &Arc<str>) -> bool {
    form.overlaid().is_none_or(|pods| pods.contains(pod))
}
