//! What was reported to users, so that nothing is reported twice.

use std::collections::{HashMap, VecDeque};

use pps_core::Reason;

use crate::facts::WorkloadKey;

/// How many different notices are remembered of a workload. Several problems at once are each reported once.
const REMEMBERED: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Notices {
    by_workload: HashMap<WorkloadKey, VecDeque<(Reason, String)>>,
}

impl Notices {
    pub(super) fn is_news(&mut self, workload: &WorkloadKey, reason: Reason, message: &str) -> bool {
        // What is done again is news again.
        if is_deed(reason) {
            return true;
        }
        let reported = self.by_workload.entry(workload.clone()).or_default();
        if reported.iter().any(|(known, text)| *known == reason && text == message) {
            return false;
        }
        if reported.len() == REMEMBERED {
            reported.pop_front();
        }
        reported.push_back((reason, message.to_owned()));
        true
    }

    /// The user has changed the workload: what is still wrong with it is reported again.
    pub(super) fn forget(&mut self, workload: &WorkloadKey) {
        self.by_workload.remove(workload);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&WorkloadKey) -> bool) {
        self.by_workload.retain(|workload, _| keep(workload));
    }
}

/// Whether the sidecar says what it did, not what is wrong.
fn is_deed(reason: Reason) -> bool {
    use Reason::{Deleted, Generated, PodEvicted, StatesDropped, StatesForgotten};
    matches!(reason, Generated | Deleted | PodEvicted | StatesDropped | StatesForgotten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{GroupKind, NamespacedName};

    #[test]
    fn reports_problems_that_alternate_once_each() {
        let workload = WorkloadKey { object: NamespacedName::new("n", "w"), kind: GroupKind::stateful_set() };
        let mut notices = Notices::default();
        let mut report = |reason, message: &str| notices.is_news(&workload, reason, message);
        assert!(report(Reason::InvalidAnnotation, "a"));
        assert!(report(Reason::InvalidAnnotation, "b"));
        for _ in 0..3 {
            assert!(!report(Reason::InvalidAnnotation, "a"));
            assert!(!report(Reason::InvalidAnnotation, "b"));
        }
        for _ in 0..2 {
            assert!(report(Reason::Generated, "made"));
            assert!(report(Reason::StatesDropped, "scaled down again"));
        }
        assert!(!report(Reason::InvalidAnnotation, "a"), "still known");
        for number in 0..100 {
            report(Reason::NameConflict, &number.to_string());
        }
        assert_eq!(notices.by_workload[&workload].len(), REMEMBERED);
        notices.forget(&workload);
        assert!(notices.is_news(&workload, Reason::InvalidAnnotation, "a"));
    }
}
