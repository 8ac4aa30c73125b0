//! Which parts of a PPS may have to change.

use std::collections::BTreeSet;
use std::sync::Arc;

/// What has to be examined when the next status is decided. An event marks only the entries that it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    all: bool,
    header: bool,
    entries: BTreeSet<Arc<str>>,
}

impl Dirty {
    /// Everything: every entry, and the header.
    pub(crate) fn all() -> Self {
        Self { all: true, header: true, entries: BTreeSet::new() }
    }

    pub(crate) fn mark_entry(&mut self, pod: &Arc<str>) {
        if !self.all {
            self.entries.insert(pod.clone());
        }
    }

    pub(crate) fn mark_all(&mut self) {
        *self = Self::all();
    }

    pub(crate) fn mark_header(&mut self) {
        self.header = true;
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.all && !self.header && self.entries.is_empty()
    }

    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    pub(crate) fn has_entry(&self, pod: &Arc<str>) -> bool {
        self.entries.contains(pod)
    }

    /// The marked entries; none if [everything](Self::is_all) is marked.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<str>> {
        self.entries.iter()
    }
}
