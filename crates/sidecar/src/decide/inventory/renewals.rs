//! The entries that belong to the workload that exists now, while the status still names the one before it.
//!
//! The status has one `targetUID` for all entries. It moves on only when no Pod of the former workload is left, and until
//! then Pods of the new workload are recorded beside the former ones.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Entries that were recorded, or found to be right, from a Pod of the living workload while the status named another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renewals {
    /// Whether none is missing. A process that has just begun to lead does not know what was recorded before.
    is_complete: bool,
    /// The living workload.
    workload: Option<Arc<str>>,
    pods: BTreeSet<Arc<str>>,
}

/// What a decision adds to the [`Renewals`].
#[derive(Debug)]
pub(crate) enum Renewal {
    /// All entries belong to the living workload.
    All,
    /// The status names another workload; these entries belong to the living one.
    Some(Arc<str>, Vec<Arc<str>>),
}

impl Renewals {
    /// Whether the entry of this Pod belongs to the workload of this UID; nothing if that is not known.
    pub(crate) fn is_renewed(&self, workload: &str, pod: &str) -> Option<bool> {
        let is_known = self.workload.as_deref() == Some(workload) && self.pods.contains(pod);
        (is_known || self.is_complete).then_some(is_known)
    }

    pub(crate) fn follow(&mut self, renewal: Renewal) {
        match renewal {
            Renewal::All => *self = Self { is_complete: true, ..Self::default() },
            Renewal::Some(workload, pods) => {
                if self.workload.as_ref() != Some(&workload) {
                    self.pods.clear();
                    self.workload = Some(workload);
                }
                self.pods.extend(pods);
            }
        }
    }

    /// Another process may have recorded entries.
    pub(crate) fn doubt(&mut self) {
        self.is_complete = false;
    }
}
