//! In which form the states are written: in `podStates`, as OpenKruise has them, or in the compact form
//! `packed`.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::limits::{MAX_BUCKET_LENGTH, MAX_UNPACKED_LENGTH};
use pps_core::packed::{Bucket, COMPACT_FROM, COMPACT_UNTIL, VERSION};
use serde_json::{Map, Value, json};

use super::header::recorded_after;
use super::view::View;
use crate::decide::capacity::{OBJECT_OVERHEAD, Sizes, overlay_size};
use crate::decide::changed_states::{ChangedStates, EntryChange, size_of as size_of_bucket};
use crate::facts::Form;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactForm {
    /// The administrator has switched it off, or OpenKruise's manager runs, whose updates of a status erase
    /// it.
    pub is_off: bool,
    /// Whether the definition of PersistentPodState keeps it, if that is known.
    pub is_kept: Option<bool>,
    /// From how many states on an object gets it, and below how many it loses it.
    pub limits: (usize, usize),
}

impl Default for CompactForm {
    fn default() -> Self {
        Self { is_off: false, is_kept: None, limits: (COMPACT_FROM, COMPACT_UNTIL) }
    }
}

impl CompactForm {
    /// Whether an object with so many states should have it. Between the limits an object stays as it is.
    pub(crate) fn suits(self, states: usize, is_compact: bool) -> bool {
        states >= if is_compact { self.limits.1 } else { self.limits.0 }
    }
}

/// What speaks against another form of an object than it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compaction {
    /// The API server has not stored the compact form, although the definition seems to have it.
    pub is_held: bool,
    /// The API server has refused `podStates` of this size as too large.
    pub refused_plain_size: Option<usize>,
    /// With these states the compact form was no smaller.
    pub saved_nothing_at: Option<Extent>,
}

/// How many states an object has, and their size in `podStates`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub states: usize,
    pub plain_size: usize,
}

impl Compaction {
    /// Whether the API server has refused to store another form than the object has.
    pub(crate) fn is_refused(self) -> bool {
        self.is_held || self.refused_plain_size.is_some()
    }

    /// Whether the compact form of these states is known to be no smaller. To examine that costs time for
    /// each state. So it is done again when there are twice as many, or when all are `examined` and their
    /// size has changed: most events of an object change no state.
    pub(crate) fn saves_nothing(self, now: Extent, examined: bool) -> bool {
        self.saved_nothing_at
            .is_some_and(|before| now == before || (!examined && now.states < 2 * before.states))
    }
}

pub(super) enum FormDecision {
    Stay {
        /// It would have `podStates`, if they fitted.
        is_too_large: bool,
        /// The compact form of these states would be no smaller.
        saves_nothing: Option<Extent>,
    },
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
    let status = &pps.fact.status;
    let recorded = recorded_after(pps, changes);
    let plain_size = pps.capacity.plain_size_after(&status.pod_states, changes);
    let fits = || {
        plain_size + OBJECT_OVERHEAD <= size_limit
            && pps.compaction.refused_plain_size.is_none_or(|refused| plain_size < refused)
    };
    let can_be_compact = rules.is_kept == Some(true) && !pps.compaction.is_held;
    let may_become_compact = can_be_compact && !rules.is_off;
    let stay = FormDecision::Stay { is_too_large: false, saves_nothing: None };
    match &status.form {
        Form::Plain => {
            let extent = Extent { states: recorded, plain_size };
            if !may_become_compact
                || !rules.suits(recorded, false)
                || plain_size > MAX_UNPACKED_LENGTH
                || pps.compaction.saves_nothing(extent, pps.dirty.all)
            {
                return stay;
            }
            let texts: Vec<_> = ChangedStates::new(&status.pod_states, changes).texts().collect();
            // A move has to be worth its cost. It is, unless the states have few keys and values in common.
            if size_of(&texts) + OBJECT_OVERHEAD > size_limit {
                // As many states as fit in `podStates` are moved first.
                stay
            } else if is_writable(&texts) && size_of(&texts) <= plain_size / 4 * 3 {
                FormDecision::ToCompact(texts)
            } else {
                FormDecision::Stay { is_too_large: false, saves_nothing: Some(extent) }
            }
        }
        Form::Compact(overlaid) => {
            let Sizes { stored, plain } = pps.capacity.sizes;
            let compact = stored.saturating_sub(overlay_size(status));
            let is_unwritable = || {
                let states = ChangedStates::new(&status.pod_states, changes);
                let is_too_long =
                    |bucket| states.text(bucket).is_some_and(|text| text.len() > MAX_BUCKET_LENGTH);
                // The texts of a smaller object are short.
                compact > MAX_BUCKET_LENGTH / 2 && states.changed().any(is_too_long)
            };
            let should_move = rules.is_off
                || rules.is_kept == Some(false)
                || !rules.suits(recorded, true)
                || compact > plain
                || is_unwritable();
            // Other writers put states only into podStates, where so many cost as much as in a plain object.
            let should_fold = may_become_compact
                && !overlaid.is_empty()
                && rules.suits(overlaid.len(), true)
                && plain_size <= MAX_UNPACKED_LENGTH
                && pps.capacity.may_take(compact);
            if !should_move && should_fold {
                let texts: Vec<_> = ChangedStates::new(&status.pod_states, changes).texts().collect();
                // A merge patch with all buckets removes none.
                let keeps_buckets = status
                    .pod_states
                    .buckets()
                    .all(|bucket| texts.binary_search_by_key(&bucket, |(bucket, _)| *bucket).is_ok());
                let fits_compact =
                    pps.capacity.may_take(size_of(&texts)) && size_of(&texts) + OBJECT_OVERHEAD <= size_limit;
                if keeps_buckets && is_writable(&texts) && fits_compact {
                    FormDecision::ToCompact(texts)
                } else {
                    stay
                }
            } else if !should_move {
                stay
            } else if fits() {
                FormDecision::ToPlain
            } else if rules.is_kept == Some(false) {
                FormDecision::Wait
            } else {
                FormDecision::Stay { is_too_large: true, saves_nothing: None }
            }
        }
        Form::Pruned(_) => {
            if can_be_compact && ((!rules.is_off && rules.suits(recorded, true)) || !fits()) {
                let states = ChangedStates::new(&status.pod_states, changes);
                FormDecision::ToCompact(states.texts().collect())
            } else if fits() {
                FormDecision::ToPlain
            } else {
                FormDecision::Wait
            }
        }
    }
}

fn size_of(texts: &[(Bucket, String)]) -> usize {
    texts.iter().map(|(bucket, text)| size_of_bucket(*bucket, text)).sum()
}

fn is_writable(texts: &[(Bucket, String)]) -> bool {
    texts.iter().all(|(_, text)| text.len() <= MAX_BUCKET_LENGTH)
}

impl FormDecision {
    /// The sizes of all states after these changes, if they change the form.
    pub(super) fn sizes(&self, view: &View<'_>, changes: &[EntryChange]) -> Option<Sizes> {
        let plain = view.pps.capacity.plain_size_after(&view.pps.fact.status.pod_states, changes);
        match self {
            Self::Stay { .. } | Self::Wait => None,
            Self::ToCompact(texts) => Some(Sizes { stored: size_of(texts), plain }),
            Self::ToPlain => Some(Sizes { stored: plain, plain }),
        }
    }

    pub(super) fn moves_states(&self) -> bool {
        matches!(self, Self::ToCompact(_) | Self::ToPlain)
    }

    /// The fields of the status that hold states, as a merge patch, and the form that the object has then.
    pub(super) fn patch(&self, view: &View<'_>, changes: &[EntryChange]) -> (Map<String, Value>, Form) {
        let status = &view.pps.fact.status;
        let mut fields = Map::new();
        let form = match (self, &status.form) {
            (Self::ToCompact(texts), _) => {
                let buckets: Map<String, Value> =
                    texts.iter().map(|(bucket, text)| (bucket.to_string(), text.as_str().into())).collect();
                fields.insert("packed".into(), json!({"version": VERSION, "buckets": buckets}));
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
                let entries = changes.iter().map(|change| (change.pod.to_string(), change.patch.clone()));
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

/// The changed buckets. Their states that another writer has put into `podStates` are removed there; returns
/// the Pods of those that stay.
fn patch_buckets(
    view: &View<'_>,
    overlaid: &BTreeSet<Arc<str>>,
    changes: &[EntryChange],
    fields: &mut Map<String, Value>,
) -> BTreeSet<Arc<str>> {
    let states = ChangedStates::new(&view.pps.fact.status.pod_states, changes);
    let buckets: Map<String, Value> =
        states.changed().map(|bucket| (bucket.to_string(), states.text(bucket).into())).collect();
    let is_written = |pod: &&Arc<str>| buckets.contains_key(&Bucket::of(pod).to_string());
    let (written, rest): (Vec<_>, Vec<_>) = overlaid.iter().partition(is_written);
    if !buckets.is_empty() {
        // Without the version: if the API server does not have the other buckets any longer, it refuses the
        // write.
        fields.insert("packed".into(), json!({"buckets": buckets}));
    }
    insert_entries(fields, written.into_iter().map(|pod| (pod.to_string(), Value::Null)).collect());
    rest.into_iter().cloned().collect()
}

/// What `podStates` needs so that it has all states. Those of `form`'s Pods are there already.
fn all_entries(view: &View<'_>, form: &Form, changes: &[EntryChange]) -> Map<String, Value> {
    let states = &view.pps.fact.status.pod_states;
    let is_there = |pod: &Arc<str>| form.overlaid().is_none_or(|pods| pods.contains(pod));
    let known = states.nodes().map(|(pod, _)| pod).filter(|pod| !is_there(pod));
    let mut entries: Map<String, Value> =
        known.map(|pod| (pod.to_string(), json!(states.get(pod)))).collect();
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
