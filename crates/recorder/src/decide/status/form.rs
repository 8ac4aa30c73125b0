//! In which form the states are written: in `podStates`, as OpenKruise has them, or in the compact
//! form `packed`.

mod patch;

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::limits::{MAX_BUCKET_LENGTH, MAX_UNPACKED_LENGTH};
use pps_core::packed::Bucket;

use super::recorded_after;
use super::view::View;
use crate::facts::{Form, PpsStatus};
use crate::ledger::capacity::{OBJECT_OVERHEAD, Sizes, overlay_size};
use crate::ledger::entry_change::{BucketText, ChangedStates, EntryChange, size_of_texts};
use crate::ledger::progress::Progress;

pub(super) enum FormDecision {
    Stay,
    /// The object should have `podStates`, where its states do not fit.
    StayCompact,
    /// The compact form would make the object no smaller: that was found with `podStates` of
    /// `found_at` bytes.
    StayPlain {
        found_at: usize,
    },
    /// All states move into these buckets.
    ToCompact(Vec<BucketText>),
    /// All states move into `podStates`.
    ToPlain,
}

/// Any write would lose states that the API server hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatesHidden;

/// Decides the form of an object that gets these changes.
pub(super) fn decide(
    view: &View<'_>,
    changes: &[EntryChange],
    size_limit: usize,
) -> Result<FormDecision, StatesHidden> {
    let candidate = Candidate::new(view, changes, size_limit);
    match &candidate.status.form {
        Form::Plain => Ok(candidate.decide_plain()),
        Form::Compact(overlaid) => candidate.decide_compact(overlaid),
        Form::Pruned(_) => candidate.decide_pruned(),
    }
}

/// The states of an object after some changes, in either form.
struct Candidate<'a> {
    view: &'a View<'a>,
    status: &'a PpsStatus,
    progress: &'a Progress,
    states: ChangedStates<'a>,
    /// How many states there are after the changes.
    recorded: usize,
    /// The size that `podStates` would have.
    plain_size: usize,
    size_limit: usize,
}

impl<'a> Candidate<'a> {
    fn new(view: &'a View<'a>, changes: &'a [EntryChange], size_limit: usize) -> Self {
        let status = &view.pps.observed.status;
        let sizes = view.pps.progress.capacity.sizes;
        Self {
            view,
            status,
            progress: &view.pps.progress,
            states: ChangedStates::new(&status.pod_states, changes),
            recorded: recorded_after(status, changes),
            plain_size: sizes.plain_after(&status.pod_states, changes),
            size_limit,
        }
    }

    fn decide_plain(&self) -> FormDecision {
        let rules = self.view.compact_form;
        let may_move = self.can_be_compact() && !rules.is_off && rules.suits_plain(self.recorded);
        if !may_move || self.plain_size > MAX_UNPACKED_LENGTH {
            return FormDecision::Stay;
        }
        if let Some(found_at) = self.known_as_useless() {
            return FormDecision::StayPlain { found_at };
        }
        let texts = self.states.texts();
        if size_of_texts(&texts) + OBJECT_OVERHEAD > self.size_limit {
            // As many states as fit in `podStates` are moved first.
            FormDecision::Stay
        } else if is_writable(&texts) && is_worth_a_move(&texts, self.plain_size) {
            FormDecision::ToCompact(texts)
        } else {
            FormDecision::StayPlain {
                found_at: self.plain_size,
            }
        }
    }

    /// The size with which the compact form was found to be useless, if it still is: to find out
    /// again costs time for each state, and most events of an object change none.
    fn known_as_useless(&self) -> Option<usize> {
        let found_at = self.progress.refused_forms.useless_at?;
        let is_similar = (found_at / 2..2 * found_at).contains(&self.plain_size);
        let is_known =
            self.plain_size == found_at || (is_similar && !self.progress.dirty.has_all_entries());
        is_known.then_some(found_at)
    }

    fn decide_compact(&self, overlaid: &BTreeSet<Arc<str>>) -> Result<FormDecision, StatesHidden> {
        if !self.should_be_plain() {
            Ok(self.fold(overlaid))
        } else if self.fits_plain() {
            Ok(FormDecision::ToPlain)
        } else if self.view.compact_form.is_kept == Some(false) {
            Err(StatesHidden)
        } else {
            Ok(FormDecision::StayCompact)
        }
    }

    /// Whether a compact object should move its states into `podStates`.
    fn should_be_plain(&self) -> bool {
        let rules = self.view.compact_form;
        let sizes = self.progress.capacity.sizes;
        let compact_size = sizes.stored.saturating_sub(overlay_size(self.status));
        rules.is_off
            || rules.is_kept == Some(false)
            || !rules.suits_compact(self.recorded)
            || (compact_size > sizes.plain
                && !is_worth_a_move(&self.states.texts(), self.plain_size))
            // The texts of a smaller object are short.
            || (compact_size > MAX_BUCKET_LENGTH / 2
                && self.states.changed().any(|bucket| self.is_too_long(bucket)))
    }

    fn is_too_long(&self, bucket: Bucket) -> bool {
        self.states
            .text(bucket)
            .is_some_and(|text| text.len() > MAX_BUCKET_LENGTH)
    }

    /// Moves what is in `podStates` beside the compact form into it, if that is much. The compact
    /// form is written beside `podStates` first: then the sidecar was killed. Or another writer has
    /// put so many into `podStates`, where they cost as much as in a plain object.
    fn fold(&self, overlaid: &BTreeSet<Arc<str>>) -> FormDecision {
        let should_fold = self.can_be_compact()
            && self.view.compact_form.suits_compact(overlaid.len())
            && self.plain_size <= MAX_UNPACKED_LENGTH
            // A merge patch removes no bucket.
            && self
                .states
                .changed()
                .all(|bucket| self.states.text(bucket).is_some());
        if !should_fold {
            return FormDecision::Stay;
        }
        let texts = self.states.texts();
        let size = size_of_texts(&texts);
        let refused = self.progress.capacity.refused;
        let fits = is_writable(&texts)
            && size + OBJECT_OVERHEAD <= self.size_limit
            && refused.is_none_or(|refused| size < refused);
        if fits {
            FormDecision::ToCompact(texts)
        } else {
            FormDecision::Stay
        }
    }

    fn decide_pruned(&self) -> Result<FormDecision, StatesHidden> {
        let rules = self.view.compact_form;
        let suits_compact = !rules.is_off && rules.suits_compact(self.recorded);
        let fits_plain = self.fits_plain();
        if self.can_be_compact() && (suits_compact || !fits_plain) {
            Ok(FormDecision::ToCompact(self.states.texts()))
        } else if fits_plain {
            Ok(FormDecision::ToPlain)
        } else {
            Err(StatesHidden)
        }
    }

    fn can_be_compact(&self) -> bool {
        self.view.compact_form.is_kept == Some(true) && !self.progress.refused_forms.compact
    }

    fn fits_plain(&self) -> bool {
        let refused = self.progress.refused_forms.plain;
        refused.is_none_or(|refused| self.plain_size < refused)
            && self.plain_size + OBJECT_OVERHEAD <= self.size_limit
    }
}

fn is_writable(texts: &[BucketText]) -> bool {
    texts.iter().all(|one| one.text.len() <= MAX_BUCKET_LENGTH)
}

/// Whether the compact form saves enough. It does, unless the states have few keys and values in
/// common.
fn is_worth_a_move(texts: &[BucketText], plain_size: usize) -> bool {
    size_of_texts(texts) <= plain_size / 4 * 3
}

impl FormDecision {
    /// The sizes of all states after these changes, if they change the form.
    pub(super) fn sizes(&self, view: &View<'_>, changes: &[EntryChange]) -> Option<Sizes> {
        let sizes = view.pps.progress.capacity.sizes;
        let plain = sizes.plain_after(&view.pps.observed.status.pod_states, changes);
        let stored = match self {
            Self::ToCompact(texts) => size_of_texts(texts),
            Self::ToPlain => plain,
            Self::Stay | Self::StayCompact | Self::StayPlain { .. } => return None,
        };
        Some(Sizes { stored, plain })
    }

    /// The size with which the compact form was found to make the object no smaller.
    pub(super) fn useless_at(&self) -> Option<usize> {
        match self {
            Self::StayPlain { found_at } => Some(*found_at),
            _ => None,
        }
    }
}
