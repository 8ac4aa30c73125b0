//! In which form the states are written: in `podStates`, as OpenKruise has them, or in the compact
//! form `packed`.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::limits::{MAX_BUCKET_LENGTH, MAX_UNPACKED_LENGTH};
use pps_core::packed::{Bucket, COMPACT_FROM, COMPACT_UNTIL, VERSION};
use serde_json::{Map, Value, json};

use super::{View, recorded_after};
use crate::decide::capacity::{
    ChangedStates, EntryChange, OBJECT_OVERHEAD, Sizes, overlay_size, size_of_texts,
};
use crate::facts::Form;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactForm {
    /// Objects lose it: the administrator has switched it off, or OpenKruise's manager runs, whose
    /// updates of a status would erase it.
    pub is_off: bool,
    /// Whether the definition of PersistentPodState keeps it. Until that is known, no object gets
    /// or loses it.
    pub is_kept: Option<bool>,
    /// From how many states on an object gets it, and below how many it loses it.
    pub limits: (usize, usize),
}

impl Default for CompactForm {
    fn default() -> Self {
        Self {
            is_off: false,
            is_kept: None,
            limits: (COMPACT_FROM, COMPACT_UNTIL),
        }
    }
}

impl CompactForm {
    /// Whether an object with so many states should have it. Between the limits an object keeps its
    /// form.
    pub(crate) fn suits(self, states: usize, is_compact: bool) -> bool {
        states
            >= if is_compact {
                self.limits.1
            } else {
                self.limits.0
            }
    }
}

/// Forms that the object does not get, whatever else speaks for them, until all is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefusedForms {
    /// The API server has refused `podStates` of this size as too large.
    pub plain: Option<usize>,
    /// The API server has refused the compact form, or has not stored it.
    pub compact: bool,
    /// With `podStates` of this size, the compact form would have made the object no smaller.
    pub useless_at: Option<usize>,
}

pub(super) enum FormDecision {
    Stay,
    /// The object would have `podStates`, if they fitted.
    StayTooLarge,
    /// The compact form would make the object no smaller: that was found with `podStates` of this
    /// size.
    StayPlain(usize),
    /// All states move into these buckets.
    ToCompact(Vec<(Bucket, String)>),
    /// All states move into `podStates`.
    ToPlain,
    /// Whatever was written now would lose states.
    Wait,
}

/// Decides the form of an object that gets these changes.
pub(super) fn decide(view: &View<'_>, changes: &[EntryChange], size_limit: usize) -> FormDecision {
    let (pps, rules) = (view.pps, view.compact_form);
    let (status, sizes) = (&pps.fact.status, pps.capacity.sizes);
    let recorded = recorded_after(pps, changes);
    let plain_size = sizes.plain_after(&status.pod_states, changes);
    let refused = pps.refused_forms.plain;
    let fits = refused.is_none_or(|refused| plain_size < refused)
        && plain_size + OBJECT_OVERHEAD <= size_limit;
    let can_be_compact = rules.is_kept == Some(true) && !pps.refused_forms.compact;
    let states = ChangedStates::new(&status.pod_states, changes);
    match &status.form {
        Form::Plain => {
            let may_move = can_be_compact && !rules.is_off && rules.suits(recorded, false);
            if !may_move || plain_size > MAX_UNPACKED_LENGTH {
                return FormDecision::Stay;
            }
            // To find out again costs time for each state, and most events of an object change
            // none.
            if let Some(found_at) = pps.refused_forms.useless_at
                && (plain_size == found_at
                    || (!pps.dirty.all && (found_at / 2..2 * found_at).contains(&plain_size)))
            {
                return FormDecision::StayPlain(found_at);
            }
            let texts = states.texts();
            if size_of_texts(&texts) + OBJECT_OVERHEAD > size_limit {
                // As many states as fit in `podStates` are moved first.
                FormDecision::Stay
            } else if is_writable(&texts) && is_worth_a_move(&texts, plain_size) {
                FormDecision::ToCompact(texts)
            } else {
                FormDecision::StayPlain(plain_size)
            }
        }
        Form::Compact(overlaid) => {
            let compact = sizes.stored.saturating_sub(overlay_size(status));
            let is_too_long = |bucket| {
                states
                    .text(bucket)
                    .is_some_and(|text| text.len() > MAX_BUCKET_LENGTH)
            };
            let should_move = rules.is_off
                || rules.is_kept == Some(false)
                || !rules.suits(recorded, true)
                || (compact > sizes.plain && !is_worth_a_move(&states.texts(), plain_size))
                // The texts of a smaller object are short.
                || (compact > MAX_BUCKET_LENGTH / 2 && states.changed().any(is_too_long));
            if !should_move {
                // The compact form is written beside `podStates` first: then the sidecar was
                // killed. Or another writer has put so many into `podStates`, where they cost as
                // much as in a plain object.
                let should_fold = can_be_compact
                    && rules.suits(overlaid.len(), true)
                    && plain_size <= MAX_UNPACKED_LENGTH
                    // A merge patch removes no bucket.
                    && states.changed().all(|bucket| states.text(bucket).is_some());
                let texts = if should_fold {
                    states.texts()
                } else {
                    Vec::new()
                };
                let size = size_of_texts(&texts);
                let fits = is_writable(&texts)
                    && size + OBJECT_OVERHEAD <= size_limit
                    && pps.capacity.refused.is_none_or(|refused| size < refused);
                if should_fold && fits {
                    FormDecision::ToCompact(texts)
                } else {
                    FormDecision::Stay
                }
            } else if fits {
                FormDecision::ToPlain
            } else if rules.is_kept == Some(false) {
                FormDecision::Wait
            } else {
                FormDecision::StayTooLarge
            }
        }
        Form::Pruned(_)
            if can_be_compact && (!fits || (!rules.is_off && rules.suits(recorded, true))) =>
        {
            FormDecision::ToCompact(states.texts())
        }
        Form::Pruned(_) if fits => FormDecision::ToPlain,
        Form::Pruned(_) => FormDecision::Wait,
    }
}

fn is_writable(texts: &[(Bucket, String)]) -> bool {
    texts
        .iter()
        .all(|(_, text)| text.len() <= MAX_BUCKET_LENGTH)
}

/// Whether the compact form saves enough. It does, unless the states have few keys and values in
/// common.
fn is_worth_a_move(texts: &[(Bucket, String)], plain_size: usize) -> bool {
    size_of_texts(texts) <= plain_size / 4 * 3
}

impl FormDecision {
    /// The sizes of all states after these changes, if they change the form.
    pub(super) fn sizes(&self, view: &View<'_>, changes: &[EntryChange]) -> Option<Sizes> {
        let plain = view
            .pps
            .capacity
            .sizes
            .plain_after(&view.pps.fact.status.pod_states, changes);
        match self {
            Self::ToCompact(texts) => Some(Sizes {
                stored: size_of_texts(texts),
                plain,
            }),
            Self::ToPlain => Some(Sizes {
                stored: plain,
                plain,
            }),
            _ => None,
        }
    }

    pub(super) fn moves_states(&self) -> bool {
        matches!(self, Self::ToCompact(_) | Self::ToPlain)
    }

    /// The fields of the status that hold states, as a merge patch, and the form that the object
    /// has then.
    pub(super) fn patch(
        &self,
        view: &View<'_>,
        changes: &[EntryChange],
    ) -> (Map<String, Value>, Form) {
        let status = &view.pps.fact.status;
        let mut fields = Map::new();
        let form = match (self, &status.form) {
            (Self::ToCompact(texts), _) => {
                let buckets: Map<String, Value> = texts
                    .iter()
                    .map(|(bucket, text)| (bucket.to_string(), text.as_str().into()))
                    .collect();
                fields.insert(
                    "packed".into(),
                    json!({"version": VERSION, "buckets": buckets}),
                );
                fields.insert("podStates".into(), Value::Null);
                Form::Compact(BTreeSet::new())
            }
            (Self::ToPlain, form) => {
                insert_entries(&mut fields, all_entries(view, form, changes));
                fields.insert("packed".into(), Value::Null);
                Form::Plain
            }
            (_, Form::Compact(overlaid)) => {
                let overlaid = patch_buckets(view, overlaid, changes, &mut fields);
                Form::Compact(overlaid)
            }
            (_, form) => {
                let entries = changes
                    .iter()
                    .map(|change| (change.pod.to_string(), change.patch.clone()));
                insert_entries(&mut fields, entries.collect());
                form.clone()
            }
        };
        (fields, form)
    }
}

fn insert_entries(fields: &mut Map<String, Value>, entries: Map<String, Value>) {
    if !entries.is_empty() {
        fields.insert("podStates".into(), entries.into());
    }
}

/// The changed buckets. Their states that another writer has put into `podStates` are removed
/// there; returns the Pods of those that stay.
fn patch_buckets(
    view: &View<'_>,
    overlaid: &BTreeSet<Arc<str>>,
    changes: &[EntryChange],
    fields: &mut Map<String, Value>,
) -> BTreeSet<Arc<str>> {
    let states = ChangedStates::new(&view.pps.fact.status.pod_states, changes);
    let buckets: Map<String, Value> = states
        .changed()
        .map(|bucket| (bucket.to_string(), states.text(bucket).into()))
        .collect();
    let is_written = |pod: &&Arc<str>| buckets.contains_key(&Bucket::of(pod).to_string());
    let (written, rest): (Vec<_>, Vec<_>) = overlaid.iter().partition(is_written);
    if !buckets.is_empty() {
        // Without the version: if the API server does not have the other buckets any longer, it
        // refuses the write.
        fields.insert("packed".into(), json!({"buckets": buckets}));
    }
    insert_entries(
        fields,
        written
            .into_iter()
            .map(|pod| (pod.to_string(), Value::Null))
            .collect(),
    );
    rest.into_iter().cloned().collect()
}

/// What `podStates` needs so that it has all states. Those of `form`'s Pods are there already.
fn all_entries(view: &View<'_>, form: &Form, changes: &[EntryChange]) -> Map<String, Value> {
    let states = &view.pps.fact.status.pod_states;
    let is_there = |pod: &Arc<str>| form.overlaid().is_none_or(|pods| pods.contains(pod));
    let known = states
        .nodes()
        .map(|(pod, _)| pod)
        .filter(|pod| !is_there(pod));
    let mut entries: Map<String, Value> = known
        .map(|pod| (pod.to_string(), json!(states.get(pod))))
        .collect();
    for change in changes {
        if is_there(&change.pod) {
            entries.insert(change.pod.to_string(), change.patch.clone());
        } else if let Some(after) = &change.after {
            entries.insert(change.pod.to_string(), json!(after));
        } else {
            entries.remove(&*change.pod);
        }
    }
    entries
}
