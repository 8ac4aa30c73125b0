//! How much a PPS holds, and which states have to wait because it holds no more.
//!
//! Only the API server knows the limit: it depends on etcd's flags. So nothing is deferred before the API server has
//! refused a write as too large. After that, changes that make the object smaller are written first, and of the others
//! as many as are likely to fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::pps::PodState;
use pps_core::size::entry_size;
use serde_json::Value;

use crate::facts::states::States;

/// About what an object takes beside its entries, in bytes.
pub(crate) const OBJECT_OVERHEAD: usize = 2 * 1024;
/// Steps smaller than this are not tried: the condition has to fit, too.
const LEAST_STEP: usize = 4 * 1024;

/// A change of one entry.
#[derive(Clone, Debug)]
pub(crate) struct EntryChange {
    pub(crate) pod: Arc<str>,
    /// The new state; none if the entry is dropped.
    pub(crate) after: Option<PodState>,
    /// The merge patch of the entry.
    pub(crate) patch: Value,
    /// Since when the Pod has been Ready, in Unix seconds, if this is the first record of it on its node.
    pub(crate) ready_since: Option<i64>,
}

/// How full a PPS is, as far as the API server's answers tell. All sizes are bytes of JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    size: usize,
    /// The smallest size that the API server has refused.
    refused: Option<usize>,
    /// The largest size that is tried, since more was refused.
    ceiling: Option<usize>,
    /// Pods whose states wait for room.
    deferred: BTreeSet<Arc<str>>,
    /// Even a write that added nothing but the condition was refused: the next one leaves the header out.
    header_refused: bool,
    /// The reason of the last Event about the capacity.
    reported: Option<Reason>,
}

/// The changes that fit.
pub(crate) struct FittedChanges {
    pub(crate) changes: Vec<EntryChange>,
    pub(crate) deferred: BTreeSet<Arc<str>>,
    /// The size of all entries after the changes.
    pub(crate) size: usize,
}

impl Capacity {
    pub(crate) fn of(states: &States) -> Self {
        Self { size: states.size(), ..Self::default() }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        !self.deferred.is_empty() || self.header_refused
    }

    pub(crate) fn is_header_refused(&self) -> bool {
        self.header_refused
    }

    pub(crate) fn deferred(&self) -> &BTreeSet<Arc<str>> {
        &self.deferred
    }

    pub(crate) fn set_deferred(&mut self, deferred: BTreeSet<Arc<str>>) {
        self.deferred = deferred;
    }

    /// Notes the reason of the present Event about the capacity. Returns whether it is a new one.
    pub(crate) fn report(&mut self, reason: Option<Reason>) -> bool {
        std::mem::replace(&mut self.reported, reason) != reason
    }

    /// Selects the changes that fit: all of them, if the API server has not refused any. `deferred` are the Pods of
    /// earlier decisions that still wait.
    pub(crate) fn fit(
        &self,
        states: &States,
        changes: Vec<EntryChange>,
        mut deferred: BTreeSet<Arc<str>>,
    ) -> FittedChanges {
        let (mut fitted, mut growing, mut size) = (Vec::new(), Vec::new(), self.size);
        for change in changes {
            let before = states.size_of(&change.pod);
            let after = change.after.as_ref().map(|state| size_of(&change.pod, state)).unwrap_or_default();
            if self.ceiling.is_some() && after > before {
                growing.push((change, after - before));
            } else {
                size = (size + after).saturating_sub(before);
                fitted.push(change);
            }
        }
        for (change, growth) in growing {
            if self.ceiling.is_some_and(|ceiling| size + growth > ceiling) {
                deferred.insert(change.pod);
            } else {
                size += growth;
                fitted.push(change);
            }
        }
        FittedChanges { changes: fitted, deferred, size }
    }

    /// The entries are these now. What the API server has refused before, it may refuse again.
    pub(crate) fn measure(&mut self, states: &States) {
        self.resize(states.size());
    }

    /// If the object has become smaller, everything below the refused size may be tried again.
    fn resize(&mut self, size: usize) {
        if size < self.size {
            self.ceiling = self.ceiling.max(self.refused.map(|refused| refused.saturating_sub(LEAST_STEP)));
        }
        self.size = size;
    }

    /// The API server has stored entries of this size. Returns the deferred Pods that may be tried again, and
    /// whether the header has to be written.
    pub(crate) fn on_written(&mut self, size: usize) -> (BTreeSet<Arc<str>>, bool) {
        let shrunk = size < self.size;
        self.resize(size);
        let header = std::mem::take(&mut self.header_refused);
        let below_refused = self.refused.filter(|refused| *refused > size + 2 * LEAST_STEP);
        if let Some(refused) = below_refused.filter(|_| !self.deferred.is_empty() && !shrunk) {
            self.ceiling = Some(size.midpoint(refused));
        }
        let retry = shrunk || below_refused.is_some();
        (if retry { std::mem::take(&mut self.deferred) } else { BTreeSet::new() }, header)
    }

    /// The API server has refused entries of this size as too large; `limit` is the size that it is assumed to take.
    pub(crate) fn on_refused(&mut self, refused: usize, limit: usize) {
        let present = self.size;
        if refused <= present {
            self.ceiling.get_or_insert(present);
            self.header_refused = true;
            return;
        }
        let least = self.refused.unwrap_or(usize::MAX).min(refused);
        let assumed = limit.saturating_sub(OBJECT_OVERHEAD + LEAST_STEP);
        self.refused = Some(least);
        self.ceiling = Some(if present < assumed && assumed < least {
            assumed
        } else if least - present > LEAST_STEP {
            present.midpoint(least)
        } else {
            present
        });
    }

    /// Forgets what was refused, since the API server may take more by now. Returns the Pods that had to wait; nothing
    /// if nothing was refused.
    pub(crate) fn reset(&mut self) -> Option<BTreeSet<Arc<str>>> {
        self.ceiling.take()?;
        self.refused = None;
        self.header_refused = false;
        Some(std::mem::take(&mut self.deferred))
    }
}

fn size_of(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations]
        .map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    entry_size(pod, &state.node_name, labels, annotations)
}
