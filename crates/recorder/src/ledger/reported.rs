//! Which notices users get: nothing is reported twice until something has changed.

use std::collections::{BTreeSet, HashMap};

use pps_core::Reason;

use crate::facts::{GroupKind, WorkloadKey};

/// How many different notices are remembered of a workload. Several problems at once are each
/// reported once.
const MAX_REMEMBERED: usize = 8;

/// What was reported to users, by workload, so that nothing is reported twice until its annotations
/// change.
#[derive(Debug, Default)]
pub(super) struct Reported(HashMap<WorkloadKey, BTreeSet<Report>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Report {
    reason: Reason,
    message: String,
}

impl Reported {
    /// Whether to report this. What the sidecar has done is reported each time.
    pub(super) fn is_news(
        &mut self,
        workload: &WorkloadKey,
        reason: Reason,
        message: &str,
    ) -> bool {
        use Reason::{Deleted, FellBack, Generated, PodEvicted, StatesDropped, StatesForgotten};
        if matches!(
            reason,
            Generated | Deleted | FellBack | PodEvicted | StatesDropped | StatesForgotten
        ) {
            return true;
        }
        let reported = self.0.entry(workload.clone()).or_default();
        let report = Report {
            reason,
            message: message.to_owned(),
        };
        let is_news = reported.insert(report.clone());
        if reported.len() > MAX_REMEMBERED {
            reported.retain(|known| *known == report);
        }
        is_news
    }

    pub(super) fn forget(&mut self, workload: &WorkloadKey) {
        self.0.remove(workload);
    }

    pub(super) fn forget_kind(&mut self, kind: &GroupKind) {
        self.0.retain(|workload, _| workload.kind != *kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_news_once_until_it_is_forgotten_or_there_are_many() {
        let (mut reported, workload) = (Reported::default(), WorkloadKey::default());
        let is_news = |reported: &mut Reported, message: usize| {
            reported.is_news(&workload, Reason::NameConflict, &message.to_string())
        };
        for is_first in [true, false] {
            assert!((0..MAX_REMEMBERED).all(|message| is_news(&mut reported, message) == is_first));
        }
        assert!(is_news(&mut reported, MAX_REMEMBERED) && is_news(&mut reported, 0));
        assert!(!is_news(&mut reported, MAX_REMEMBERED));
        reported.forget(&workload);
        assert!(is_news(&mut reported, 0));
        reported.forget_kind(&workload.kind);
        assert!(is_news(&mut reported, 0) && !is_news(&mut reported, 0));
        let mut done = || reported.is_news(&workload, Reason::PodEvicted, "");
        assert!(done() && done());
    }
}
