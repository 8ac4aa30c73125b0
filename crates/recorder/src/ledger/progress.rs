//! How far the recording of one PPS is: what has to be examined, what waits, and the write that is
//! on its way.
//!
//! | an entry is | because | until |
//! |---|---|---|
//! | dirty | something was heard of its Pod, node or workload | the next decision |
//! | postponed | a write checks only so many drops and changes | the next write: it stays dirty |
//! | deferred | the object has no capacity for it | the object has become smaller |
//! | unconfirmed | its drop or change is not confirmed | something is heard of its Pod, or a retry |
//! | behind others | the same, and whatever is heard of its Pod | all other entries are written |
//! | surplus | the workload has all its Pods, and the name does not tell which | some rounds have ended |
//! | absent by name | the workload does not list the name | some time has passed |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::capacity::{Capacity, Sizes};
use super::entry_change::EntryChange;
use super::name_absence::NameAbsence;
use super::recreations::Recreations;
use crate::facts::{Form, Header};
use crate::names::Names;

#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub dirty: DirtyStatus,
    /// Pods on a node without some of the topology keys.
    pub missing_labels: BTreeSet<Arc<str>>,
    /// Entries whose names do not say whether the workload wants them, each with the number of
    /// rounds in a row in which the workload had exactly the Pods that it wants, while nothing was
    /// heard of the entry's Pod.
    pub surplus: BTreeMap<Arc<str>, u8>,
    /// Entries whose Pods do not exist and whose names the workload does not list.
    pub absent_names: BTreeMap<Arc<str>, NameAbsence>,
    pub recreations: Recreations,
    pub capacity: Capacity,
    pub refused_forms: RefusedForms,
    /// What the user has to do so that the policy finds the object, if its alias cannot be made.
    pub alias_advice: Option<String>,
    /// Pods that wait for a node that does not exist and are not evicted.
    pub not_evicted: BTreeMap<Arc<str>, NotEvicted>,
    /// Pods whose requirement has an end: what has become of them.
    pub fallbacks: BTreeMap<Arc<str>, FallbackNote>,
    /// What the user has to do so that the requirement of a generated object can have an end.
    pub fallback_advice: Option<String>,
    /// Entries whose drop or change the API server has not confirmed. Each stays until something is
    /// heard of its Pod, or until the next retry.
    pub unconfirmed: BTreeSet<Arc<str>>,
    /// Entries whose check was refuted since the last stored write. They stay, whatever is heard of
    /// their Pods, until all other entries are written: a value that keeps changing blocks nothing.
    pub behind_others: BTreeSet<Arc<str>>,
    pub owners: EntryOwners,
    pub in_flight: Option<InFlight>,
}

/// What has to be examined when the next status is decided. An event marks only the entries that it
/// concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtyStatus {
    header: bool,
    entries: DirtyEntries,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirtyEntries {
    All,
    Only(BTreeSet<Arc<str>>),
}

impl Default for DirtyEntries {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl DirtyStatus {
    pub(crate) fn entries(&self) -> &DirtyEntries {
        &self.entries
    }

    pub(crate) fn has_all_entries(&self) -> bool {
        self.entries == DirtyEntries::All
    }

    fn has_entry(&self, pod: &str) -> bool {
        match &self.entries {
            DirtyEntries::All => true,
            DirtyEntries::Only(pods) => pods.contains(pod),
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.header && self.entries == DirtyEntries::default()
    }

    pub(super) fn mark_header(&mut self) {
        self.header = true;
    }

    pub(super) fn mark_all(&mut self) {
        self.header = true;
        self.entries = DirtyEntries::All;
    }

    pub(super) fn mark_entries<'a>(&mut self, pods: impl IntoIterator<Item = &'a Arc<str>>) {
        if let DirtyEntries::Only(entries) = &mut self.entries {
            entries.extend(pods.into_iter().cloned());
        }
    }
}

/// The workload to which each entry belongs, while `status.targetUID` still names the one before
/// it: of entries that were recorded, or found to be right, from a new workload's Pods, and of
/// entries whose Pods it has adopted.
///
/// The status has one `targetUID` for all entries, which moves on only when no Pod of the former
/// workload is left. Until then Pods of the new workload are recorded beside the former ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryOwners {
    /// Whether none is missing. A process that has just begun to lead does not know what was
    /// recorded before.
    pub covers_all: bool,
    /// The UID of the workload to which each of these entries belongs. A Pod may show its new owner
    /// before a watch shows that workload.
    pub by_pod: BTreeMap<Arc<str>, Arc<str>>,
}

impl EntryOwners {
    /// Whether the entry of this Pod belongs to the workload of this UID; nothing if that is not
    /// known.
    pub(crate) fn belongs_to(&self, workload: &str, pod: &str) -> Option<bool> {
        let is_known = self
            .by_pod
            .get(pod)
            .is_some_and(|owner| **owner == *workload);
        (is_known || self.covers_all).then_some(is_known)
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotEvicted {
    /// Another Pod of the same name may be evicted.
    pub uid: String,
    /// What the user has to do.
    pub advice: String,
}

/// What has become of a Pod whose requirement has an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FallbackNote {
    /// This Pod has waited long enough and keeps its place: why, and what the user has to do.
    Blocked { uid: String, advice: String },
    /// Its place was given up. Until it is Ready, nothing else is recorded of it.
    FellBack { message: String },
}

/// What the object has once the API server has stored the write.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub changes: Vec<EntryChange>,
    pub sizes: Sizes,
    pub form: Form,
    pub header: Header,
}

/// What a decision leaves to the next one. All else has been examined.
#[derive(Debug, Default)]
pub(crate) struct Remainder {
    /// Entries that wait for the next write.
    pub postponed: Vec<Arc<str>>,
    pub missing_labels: BTreeSet<Arc<str>>,
    pub surplus: BTreeMap<Arc<str>, u8>,
    pub absent_names: BTreeMap<Arc<str>, NameAbsence>,
    pub deferred: BTreeSet<Arc<str>>,
    pub owners: EntryOwners,
    /// The size in `podStates` with which the compact form was found to make the object no smaller.
    pub useless_at: Option<usize>,
}

impl Progress {
    pub(super) fn new(capacity: Capacity) -> Self {
        let mut progress = Self {
            capacity,
            ..Self::default()
        };
        progress.dirty.mark_all();
        progress
    }

    /// Something was heard of a Pod.
    pub(super) fn mark_pod(&mut self, pod: &Arc<str>) {
        self.surplus.remove(pod);
        self.absent_names.remove(pod);
        self.unconfirmed.remove(pod);
        self.dirty.mark_entries([pod]);
    }

    pub(super) fn mark_all(&mut self) {
        self.unconfirmed.clear();
        self.dirty.mark_all();
    }

    /// The form of the object may have to change: it is decided again, whatever spoke against it.
    pub(super) fn reconsider_form(&mut self) {
        self.refused_forms = RefusedForms::default();
        self.dirty.mark_header();
    }

    /// Ends a round of the surplus entries, in which the workload has had exactly the Pods that it
    /// wants, or not. Returns whether there are such entries.
    pub(super) fn end_surplus_round(&mut self, is_met: bool) -> bool {
        for rounds in self.surplus.values_mut() {
            *rounds = if is_met { rounds.saturating_add(1) } else { 0 };
        }
        self.dirty.mark_entries(self.surplus.keys());
        !self.surplus.is_empty()
    }

    /// Measures for how long names have been absent. `listed` are the names that the workload lists,
    /// if they can be relied upon. Returns whether an entry has become due.
    pub(super) fn measure_absences(
        &mut self,
        now: Instant,
        period: Duration,
        listed: Option<&Names>,
    ) -> bool {
        let mut overdue = Vec::new();
        for (pod, absence) in &mut self.absent_names {
            let before = *absence;
            // A name that is listed again may be gone again before the next decision.
            let is_absent = listed.is_some_and(|names| !names.may_have(pod));
            *absence = before.after(now, period, is_absent);
            if *absence == NameAbsence::Overdue && before != NameAbsence::Overdue {
                overdue.push(pod.clone());
            }
        }
        self.dirty.mark_entries(&overdue);
        !overdue.is_empty()
    }

    /// Another process may have had the Lease meanwhile: every measurement starts again.
    pub(super) fn restart_absences(&mut self) {
        for absence in self.absent_names.values_mut() {
            *absence = NameAbsence::New;
        }
    }

    /// Whether or not there is something to write: the next decision must not examine all states
    /// again.
    pub(super) fn take_over(&mut self, remainder: Remainder) {
        self.dirty = DirtyStatus {
            header: false,
            entries: DirtyEntries::Only(remainder.postponed.into_iter().collect()),
        };
        self.missing_labels = remainder.missing_labels;
        self.surplus = remainder.surplus;
        self.absent_names = remainder.absent_names;
        self.capacity.deferred = remainder.deferred;
        self.owners = remainder.owners;
        self.refused_forms.useless_at = remainder.useless_at;
    }

    /// The write in flight was not sent: the API server does not confirm that these entries can be
    /// dropped or changed. Returns whether there was one. What has been heard of an entry in the
    /// meantime is decided right after the others.
    pub(super) fn hold(&mut self, pods: &BTreeSet<Arc<str>>) -> bool {
        if self.in_flight.is_none() {
            return false;
        }
        let silent = pods.iter().filter(|pod| !self.dirty.has_entry(pod));
        self.unconfirmed.extend(silent.cloned());
        self.behind_others.extend(pods.iter().cloned());
        self.abandon_write()
    }

    /// Every other entry is written: marks the refuted entries with news since then, and returns if
    /// there are any.
    pub(super) fn requeue_unconfirmed(&mut self) -> bool {
        let mut heard_of = std::mem::take(&mut self.behind_others);
        heard_of.retain(|pod| !self.unconfirmed.contains(pod));
        self.dirty.mark_entries(&heard_of);
        !heard_of.is_empty()
    }

    /// Marks the entries that stay because of a check, so that it is made again. Returns whether
    /// there are any.
    pub(super) fn requeue_all_unconfirmed(&mut self) -> bool {
        self.behind_others.append(&mut self.unconfirmed);
        self.requeue_unconfirmed()
    }

    /// The API server may accept by now what it has refused as too large, or has not stored.
    /// Returns whether there is such.
    pub(super) fn retry_exceeded(&mut self) -> bool {
        let is_refused = self.refused_forms.plain.is_some() || self.refused_forms.compact;
        if is_refused {
            self.reconsider_form();
        }
        let Some(deferred) = self.capacity.reset() else {
            return is_refused;
        };
        self.dirty.mark_header();
        self.dirty.mark_entries(&deferred);
        true
    }

    /// The write in flight was not stored, or its outcome is unknown: its changes are decided
    /// again. Returns whether there was one.
    pub(super) fn abandon_write(&mut self) -> bool {
        let Some(write) = self.in_flight.take() else {
            return false;
        };
        self.dirty.mark_header();
        self.dirty
            .mark_entries(write.changes.iter().map(|change| &change.pod));
        true
    }

    /// The API server has refused the write in flight, of an object with this form, as too large.
    pub(super) fn on_too_large(&mut self, form: &Form) {
        let Some(write) = &self.in_flight else { return };
        match (form, &write.form) {
            (Form::Plain, Form::Plain) | (Form::Compact(_), Form::Compact(_)) => {
                self.capacity.on_refused(write.sizes.stored);
            }
            (_, Form::Plain) => self.refused_forms.plain = Some(write.sizes.plain),
            _ => self.refused_forms.compact = true,
        }
    }

    /// The API server does not store the compact form of the write in flight, which was not sent.
    pub(super) fn on_compact_form_refused(&mut self) {
        self.refused_forms.compact = true;
        self.abandon_write();
    }

    pub(super) fn set_alias_advice(&mut self, advice: Option<String>) {
        self.alias_advice = advice;
        self.dirty.mark_header();
    }
}
