//! One PPS: the object as the API server has it, what may have to change, and the write that is on
//! its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::Spec;
use pps_core::packed::PackedClaim;

use super::capacity::{Capacity, EntryChange, Sizes, overlay_size};
use super::status::entries::{EntryDecisions, Renewals};
use super::status::form::RefusedForms;
use crate::facts::interner::Interner;
use crate::facts::{Form, Header, PpsFact, WorkloadKey};

#[derive(Debug, Default)]
pub(crate) struct TrackedPps {
    pub workload: WorkloadKey,
    /// The object as the API server has it, as far as is known.
    pub fact: PpsFact,
    /// What is larger in its spec than the limits, if something is.
    pub exceeded_limit: Option<String>,
    pub dirty: Dirty,
    /// Pods on a node without some of the topology keys.
    pub missing_labels: BTreeSet<Arc<str>>,
    /// Entries whose names do not say whether the workload wants them. Each with in how many rounds
    /// in a row the workload had exactly the Pods that it wants, while nothing was heard of the
    /// entry's Pod.
    pub surplus: BTreeMap<Arc<str>, u8>,
    pub capacity: Capacity,
    pub refused_forms: RefusedForms,
    /// What the user has to do so that the policy finds the object, if its alias cannot be made.
    pub alias_advice: Option<String>,
    /// Pods that wait for a node that does not exist and are not evicted, each with its UID and
    /// what to do.
    pub not_evicted: BTreeMap<Arc<str>, (String, String)>,
    /// Entries that stay as they are because the API server has not confirmed their drop or change.
    /// Each is held until something is heard of its Pod, or until the next retry.
    pub held: BTreeSet<Arc<str>>,
    /// Entries of the writes that were refuted since a write was last stored. They stay, whatever
    /// is heard of their Pods, until all other entries are written: values that keep changing must
    /// hold up no entry.
    pub refuted: BTreeSet<Arc<str>>,
    pub renewals: Renewals,
    pub(super) in_flight: Option<InFlight>,
    /// What a watch reported while a write was on its way, perhaps because of that very write.
    pub(super) superseding: Option<(PpsFact, Source)>,
}

/// What has to be examined when the next status is decided. An event marks only the entries that it
/// concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(super) all: bool,
    pub(super) header: bool,
    /// None if everything is marked.
    pub(super) entries: BTreeSet<Arc<str>>,
}

impl Dirty {
    pub(crate) fn all() -> Self {
        Self {
            all: true,
            header: true,
            entries: BTreeSet::new(),
        }
    }

    pub(crate) fn mark_entries<'a>(&mut self, pods: impl IntoIterator<Item = &'a Arc<str>>) {
        if !self.all {
            self.entries.extend(pods.into_iter().cloned());
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.all && !self.header && self.entries.is_empty()
    }
}

/// Where a version of an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A single event: it may be late, so an older version than the known one is no news.
    Event,
    /// A complete list, or a read that began after all that is known: what it says is right, even
    /// if its version is older. After etcd was restored from a backup, all versions are.
    List,
}

#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub changes: Vec<EntryChange>,
    pub sizes: Sizes,
    pub form: Form,
    pub header: Header,
}

/// An entry that a write has changed, with the node that it named and the one that it names now.
pub(crate) struct MovedEntry {
    pub pod: Arc<str>,
    pub before: Option<Arc<str>>,
    pub after: Option<Arc<str>>,
}

impl TrackedPps {
    pub(crate) fn new(workload: WorkloadKey, fact: PpsFact) -> Self {
        Self {
            workload,
            exceeded_limit: fact.spec.exceeds_limits(),
            capacity: Capacity::of(&fact.status),
            fact,
            dirty: Dirty::all(),
            ..Self::default()
        }
    }

    pub(crate) fn has_entry(&self, pod: &str) -> bool {
        self.fact.status.pod_states.contains(pod)
    }

    /// The spec, and the newer spec that waits for the answer to the write in flight; without a
    /// spec that is larger than the limits.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &Spec> + Clone {
        let known = self.exceeded_limit.is_none().then_some(&self.fact);
        let superseding = self.superseding.as_ref().map(|(fact, _)| fact);
        let superseding = superseding.filter(|fact| fact.spec.exceeds_limits().is_none());
        [known, superseding]
            .into_iter()
            .flatten()
            .map(|fact| &fact.spec)
    }

    pub(crate) fn note_entry(&mut self, pod: &Arc<str>) {
        self.surplus.remove(pod);
        self.held.remove(pod);
        self.dirty.mark_entries([pod]);
    }

    pub(crate) fn note_all(&mut self) {
        self.held.clear();
        self.dirty = Dirty::all();
    }

    /// The write in flight was not sent: the API server does not confirm that these entries can be
    /// dropped. Returns whether there was one. What has been heard of an entry in the meantime is
    /// decided right after the others.
    pub(crate) fn hold(&mut self, pods: &BTreeSet<Arc<str>>) -> bool {
        if self.in_flight.is_none() {
            return false;
        }
        let heard_of = |pod: &Arc<str>| self.dirty.all || self.dirty.entries.contains(pod);
        self.held
            .extend(pods.iter().filter(|pod| !heard_of(pod)).cloned());
        self.refuted.extend(pods.iter().cloned());
        self.abandon_write()
    }

    /// Every other entry is written: marks the refuted entries with news since then, and returns if
    /// there are any.
    pub(crate) fn release_refuted(&mut self) -> bool {
        let mut heard_of = std::mem::take(&mut self.refuted);
        heard_of.retain(|pod| !self.held.contains(pod));
        self.dirty.mark_entries(&heard_of);
        !heard_of.is_empty()
    }

    /// Marks the entries that stay because of a check, so that it is made again. Returns whether
    /// there are any.
    pub(crate) fn release_held(&mut self) -> bool {
        self.refuted.append(&mut self.held);
        self.release_refuted()
    }

    /// Takes the object as a watch or a read reports it; returns what it replaces. Returns nothing
    /// if it is no news: an older version, or the one that our own last write made. While a write
    /// is in flight, the object waits. States that the definition may hide are kept, unless it
    /// `shows_packed`.
    pub(crate) fn refresh(
        &mut self,
        mut fact: PpsFact,
        source: Source,
        shows_packed: bool,
    ) -> Option<PpsFact> {
        if self.in_flight.is_some() {
            // An event after a list is newer than the list, and as much to be trusted.
            let before = self.superseding.take().map_or(source, |(_, source)| source);
            self.superseding = Some((fact, source.max(before)));
            return None;
        }
        fact.status.restore(&self.fact.status, shows_packed);
        let is_known = match source {
            Source::List => fact == self.fact,
            Source::Event => {
                fact.resource_version == self.fact.resource_version
                    || is_older(&fact.resource_version, &self.fact.resource_version)
            }
        };
        if is_known {
            return None;
        }
        let (before, after) = (&self.fact.status, &fact.status);
        // To measure costs time for each state, and most changes of an object are no changes of its
        // states.
        if before.form != after.form || before.pod_states != after.pod_states {
            self.capacity.sizes = Sizes::of(after);
        }
        self.exceeded_limit = fact.spec.exceeds_limits();
        Some(std::mem::replace(&mut self.fact, fact))
    }

    pub(crate) fn follow_decision(&mut self, entries: EntryDecisions, useless_at: Option<usize>) {
        self.dirty = Dirty {
            entries: entries.postponed.into_iter().collect(),
            ..Dirty::default()
        };
        self.missing_labels = entries.missing_labels;
        self.surplus = entries.surplus;
        self.capacity.deferred = entries.deferred;
        self.renewals = entries.renewals;
        // Whether or not there is something to write: the next decision must not examine all states
        // again.
        self.refused_forms.useless_at = useless_at;
    }

    /// The API server may accept by now what it has refused as too large, or has not stored.
    /// Returns whether there is such.
    pub(crate) fn retry_exceeded(&mut self) -> bool {
        let is_refused = self.refused_forms.plain.is_some() || self.refused_forms.compact;
        if is_refused {
            self.reconsider_form();
        }
        let Some(deferred) = self.capacity.reset() else {
            return is_refused;
        };
        self.dirty.header = true;
        self.dirty.mark_entries(&deferred);
        true
    }

    /// The API server has stored the write in flight under this resource version. Returns the
    /// entries that it changed.
    pub(crate) fn finish_write(
        &mut self,
        resource_version: &str,
        interner: &mut Interner,
    ) -> Option<Vec<MovedEntry>> {
        let write = self.in_flight.take()?;
        self.release_refuted();
        let states = &mut self.fact.status.pod_states;
        let moved = write.changes.into_iter().map(
            |EntryChange {
                 pod,
                 after,
                 renewed_for,
                 ..
             }| {
                self.renewals
                    .workloads
                    .extend(renewed_for.map(|owner| (pod.clone(), owner)));
                let before = if let Some(state) = &after {
                    states.insert(&pod, state, interner)
                } else {
                    self.renewals.workloads.remove(&pod);
                    states.remove(&pod)
                };
                MovedEntry {
                    pod,
                    before,
                    after: after.map(|state| state.node_name.into()),
                }
            },
        );
        let moved = moved.collect();
        let status = &mut self.fact.status;
        // Under a definition without the compact form, the API server may go on to say that it was
        // written.
        if write.form == Form::Plain && status.form != Form::Plain {
            status.packed_claim = PackedClaim::Yes;
        }
        status.form = write.form;
        let before = std::mem::replace(&mut status.header, write.header).target_uid;
        let names_another = before.is_some() && before != status.header.target_uid;
        if names_another && !status.pod_states.is_empty() {
            // What an entry is to the workload has changed: a living Pod of the workload that the
            // status named before is now a stranger, and a recorded home is the new workload's.
            self.dirty = Dirty::all();
        }
        resource_version.clone_into(&mut self.fact.resource_version);
        // What makes the compact form larger than the plain one is only measured now. And what did
        // not fit may fit in it.
        let compact = write
            .sizes
            .stored
            .saturating_sub(overlay_size(&self.fact.status));
        let is_compact = self.fact.status.form.is_compact();
        self.dirty.header |= if is_compact {
            compact > write.sizes.plain
        } else {
            self.capacity.is_exceeded()
        };
        let (retry, header) = self.capacity.on_written(write.sizes);
        self.dirty.mark_entries(&retry);
        self.dirty.header |= header;
        Some(moved)
    }

    /// The write in flight was not stored, or its outcome is unknown: its changes are decided
    /// again. Returns whether there was one.
    pub(crate) fn abandon_write(&mut self) -> bool {
        let Some(write) = self.in_flight.take() else {
            return false;
        };
        self.dirty.header = true;
        self.dirty
            .mark_entries(write.changes.iter().map(|change| &change.pod));
        true
    }

    /// The API server has refused the write in flight as too large.
    pub(crate) fn on_too_large(&mut self) {
        let Some(write) = &self.in_flight else { return };
        match (&self.fact.status.form, &write.form) {
            (Form::Plain, Form::Plain) | (Form::Compact(_), Form::Compact(_)) => {
                self.capacity.on_refused(write.sizes.stored);
            }
            (_, Form::Plain) => self.refused_forms.plain = Some(write.sizes.plain),
            _ => self.refused_forms.compact = true,
        }
    }

    /// The API server does not store the compact form that was sent. With a resource version it has
    /// stored the rest, so that the states are nowhere but in memory. Returns the entries that the
    /// write has changed, if it was stored.
    pub(crate) fn on_compact_form_dropped(
        &mut self,
        resource_version: Option<&str>,
        interner: &mut Interner,
    ) -> Option<Vec<MovedEntry>> {
        self.refused_forms.compact = true;
        let Some(resource_version) = resource_version else {
            self.abandon_write();
            return None;
        };
        let moved = self.finish_write(resource_version, interner)?;
        self.fact.status.form = Form::Pruned(BTreeSet::new());
        self.dirty.header = true;
        Some(moved)
    }

    /// The form of the object may have to change: it is decided again, whatever spoke against it.
    pub(crate) fn reconsider_form(&mut self) {
        self.refused_forms = RefusedForms::default();
        self.dirty.header = true;
    }
}

/// Whether one resource version is older than another. They are growing numbers; if a server makes
/// them otherwise, none is older.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}
