//! The entries that belong to the workload that exists now, while the status still names the one before it.
//!
//! The status has one `targetUID` for all entries. It moves on only when no Pod of the former workload is left, and until
//! then Pods of the new workload are recorded beside the former ones.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries that were recorded, or found to be right, from a Pod of the living workload while the status named another, and
/// entries whose Pods a workload has adopted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renewals {
    /// Whether none is missing. A process that has just begun to lead does not know what was recorded before.
    is_complete: bool,
    /// The UID of the workload to which each of these entries belongs. A Pod may show its new owner before a watch shows
    /// that workload.
    pub(crate) workloads: BTreeMap<Arc<str>, Arc<str>>,
}

/// What a decision adds to the [`Renewals`].
#[derive(Debug)]
pub(crate) enum Renewal {
    /// All entries belong to the living workload.
    All(Arc<str>),
    /// The status names another workload; these entries belong to the living one.
    Some(Arc<str>, Vec<Arc<str>>),
}

impl Renewals {
    /// Whether the entry of this Pod belongs to the workload of this UID; nothing if that is not known.
    pub(crate) fn is_renewed(&self, workload: &str, pod: &str) -> Option<bool> {
        let is_known = self.workloads.get(pod).is_some_and(|owner| **owner == *workload);
        (is_known || self.is_complete).then_some(is_known)
    }

    pub(crate) fn follow(&mut self, renewal: Renewal) {
        match renewal {
            Renewal::All(workload) => {
                self.is_complete = true;
                self.workloads.retain(|_, owner| *owner != workload);
            }
            Renewal::Some(workload, pods) => {
                self.workloads.extend(pods.into_iter().map(|pod| (pod, workload.clone())));
            }
        }
    }

    /// Another process may have recorded entries.
    pub(crate) fn doubt(&mut self) {
        self.is_complete = false;
    }
}
