//! One PPS: what the API server has shown of it, and how far its recording is.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Spec;
use pps_core::packed::PackedClaim;

use super::capacity::{Capacity, Sizes, overlay_size};
use super::entry_change::EntryChange;
use super::progress::Progress;
use crate::facts::interner::Interner;
use crate::facts::{Form, PpsFact, WorkloadKey};

#[derive(Debug, Default)]
pub(crate) struct TrackedPps {
    pub workload: WorkloadKey,
    /// The object as the API server has it, as far as is known: as a watch or a read has shown it,
    /// with what this process has written since.
    pub observed: PpsFact,
    /// What is larger in its spec than the limits, if something is.
    pub exceeded_limit: Option<String>,
    /// What a watch reported while a write was on its way, perhaps because of that very write.
    pub pending_update: Option<PendingUpdate>,
    pub progress: Progress,
}

#[derive(Debug)]
pub(crate) struct PendingUpdate {
    pub fact: PpsFact,
    pub freshness: Freshness,
}

/// What a version of an object is worth, by where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Freshness {
    /// From a single event, which may be late: an older version than the known one is no news.
    MayBeStale,
    /// From a complete list, or a read that began after all that is known: right even if its
    /// version is older. After etcd was restored from a backup, all versions are.
    Authoritative,
}

/// An entry that a write has changed, with the node that it named and the one that it names now.
pub(crate) struct ChangedEntry {
    pub pod: Arc<str>,
    pub before: Option<Arc<str>>,
    pub after: Option<Arc<str>>,
}

impl TrackedPps {
    pub(super) fn new(workload: WorkloadKey, observed: PpsFact) -> Self {
        Self {
            workload,
            exceeded_limit: observed.spec.exceeds_limits(),
            pending_update: None,
            progress: Progress::new(Capacity::of(&observed.status)),
            observed,
        }
    }

    pub(crate) fn has_entry(&self, pod: &str) -> bool {
        self.observed.status.pod_states.contains(pod)
    }

    /// The spec, and the newer spec that waits for the answer to the write in flight; without a
    /// spec that is larger than the limits.
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> + Clone {
        let known = self.exceeded_limit.is_none().then_some(&self.observed.spec);
        let pending_update = self
            .pending_update
            .as_ref()
            .map(|pending_update| &pending_update.fact.spec)
            .filter(|spec| spec.exceeds_limits().is_none());
        known.into_iter().chain(pending_update)
    }

    /// Takes the object as a watch or a read reports it; returns what it replaces. Returns nothing
    /// if it is no news: an older version, or the one that our own last write made. While a write
    /// is in flight, the object waits. States that the definition may hide are kept, unless it
    /// `shows_packed`.
    pub(super) fn refresh(
        &mut self,
        mut fact: PpsFact,
        freshness: Freshness,
        shows_packed: bool,
    ) -> Option<PpsFact> {
        if self.progress.in_flight.is_some() {
            // An event after a list is newer than the list, and as much to be trusted.
            let freshness = self
                .pending_update
                .take()
                .map_or(freshness, |before| freshness.max(before.freshness));
            self.pending_update = Some(PendingUpdate { fact, freshness });
            return None;
        }
        fact.status.restore(&self.observed.status, shows_packed);
        if self.is_known(&fact, freshness) {
            return None;
        }
        let before = &self.observed.status;
        let after = &fact.status;
        // To measure costs time for each state, and most changes of an object are no changes of its
        // states.
        if before.form != after.form || before.pod_states != after.pod_states {
            self.progress.capacity.sizes = Sizes::of(after);
        }
        self.exceeded_limit = fact.spec.exceeds_limits();
        Some(std::mem::replace(&mut self.observed, fact))
    }

    fn is_known(&self, fact: &PpsFact, freshness: Freshness) -> bool {
        let known = &self.observed;
        match freshness {
            Freshness::Authoritative => fact == known,
            Freshness::MayBeStale => {
                fact.resource_version == known.resource_version
                    || is_older(&fact.resource_version, &known.resource_version)
            }
        }
    }

    /// The API server has stored the write in flight under this resource version. Returns the
    /// entries that it changed.
    pub(super) fn finish_write(
        &mut self,
        resource_version: &str,
        interner: &mut Interner,
    ) -> Option<Vec<ChangedEntry>> {
        let write = self.progress.in_flight.take()?;
        self.progress.requeue_unconfirmed();
        let moved = write
            .changes
            .into_iter()
            .map(|change| self.store_entry(change, interner))
            .collect();
        let status = &mut self.observed.status;
        // Under a definition without the compact form, the API server may go on to say that it was
        // written.
        if write.form == Form::Plain && status.form != Form::Plain {
            status.packed_claim = PackedClaim::Yes;
        }
        status.form = write.form;
        let target_before = std::mem::replace(&mut status.header, write.header).target_uid;
        let has_other_target = target_before.is_some() && target_before != status.header.target_uid;
        if has_other_target && !status.pod_states.is_empty() {
            // What an entry is to the workload has changed: a living Pod of the workload that the
            // status named before is now a stranger, and a recorded home is the new workload's.
            self.progress.dirty.mark_all();
        }
        resource_version.clone_into(&mut self.observed.resource_version);
        self.on_sizes_stored(write.sizes);
        Some(moved)
    }

    fn store_entry(&mut self, change: EntryChange, interner: &mut Interner) -> ChangedEntry {
        let EntryChange { pod, after, .. } = change;
        let renewed = &mut self.progress.owners.by_pod;
        if let Some(owner) = change.new_owner {
            renewed.insert(pod.clone(), owner);
        }
        let states = &mut self.observed.status.pod_states;
        let before = if let Some(state) = &after {
            states.insert(&pod, state, interner)
        } else {
            renewed.remove(&pod);
            states.remove(&pod)
        };
        ChangedEntry {
            pod,
            before,
            after: after.map(|state| state.node_name.into()),
        }
    }

    /// The stored states have these sizes. Some decisions have to be made again.
    fn on_sizes_stored(&mut self, sizes: Sizes) {
        let capacity = &mut self.progress.capacity;
        let compact = sizes
            .stored
            .saturating_sub(overlay_size(&self.observed.status));
        // What makes the compact form larger than the plain one is only measured now. And what did
        // not fit may fit in it.
        let may_change_form = if self.observed.status.form.is_compact() {
            compact > sizes.plain
        } else {
            capacity.is_exceeded()
        };
        let retry = capacity.on_written(sizes);
        self.progress.dirty.mark_entries(&retry.deferred);
        if may_change_form || retry.header {
            self.progress.dirty.mark_header();
        }
    }

    /// The API server has stored the write in flight without its compact form, so that the states
    /// are nowhere but in memory. Returns the entries that the write has changed.
    pub(super) fn on_compact_form_dropped(
        &mut self,
        resource_version: &str,
        interner: &mut Interner,
    ) -> Vec<ChangedEntry> {
        self.progress.refused_forms.compact = true;
        let Some(moved) = self.finish_write(resource_version, interner) else {
            return Vec::new();
        };
        self.observed.status.form = Form::Pruned(BTreeSet::new());
        self.progress.dirty.mark_header();
        moved
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
