//! Which Pod names a workload wants, and what becomes of the states of the others.

use crate::pps::{NodeDeletionPolicy, RetentionPolicy};

/// The ordinals that a StatefulSet-like workload wants: `replicas` of them from `start`, leaving out
/// the reserved ones.
///
/// Answers in the logarithm of the number of reserved ranges, whatever the number of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals {
    start: u64,
    replicas: u64,
    /// Reserved ranges, inclusive, sorted, apart from each other.
    reserved: Vec<(u64, u64)>,
}

impl Ordinals {
    /// `replicas` ordinals from `start`, leaving out `reserved` (inclusive ranges, in any order).
    pub fn new(start: u64, replicas: u64, reserved: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut ranges: Vec<(u64, u64)> =
            reserved.into_iter().filter(|(first, last)| first <= last).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self { start, replicas, reserved: merged }
    }

    /// How many Pods are wanted.
    pub fn replicas(&self) -> u64 {
        self.replicas
    }

    /// Whether this ordinal is wanted.
    pub fn contains(&self, ordinal: u64) -> bool {
        if ordinal < self.start || self.replicas == 0 {
            return false;
        }
        let mut skipped = 0;
        for &(first, last) in &self.reserved {
            if first > ordinal {
                break;
            }
            if last >= ordinal {
                return false;
            }
            if last >= self.start {
                skipped += last - first.max(self.start) + 1;
            }
        }
        ordinal - self.start - skipped < self.replicas
    }

    /// Whether the Pod of this name is wanted by the workload of that name: `w-3` by `w` if it wants
    /// the ordinal 3.
    pub fn wants(&self, workload: &str, pod: &str) -> bool {
        ordinal(workload, pod).is_some_and(|ordinal| self.contains(ordinal))
    }
}

/// The ordinal in a Pod's name, if the Pod can be one of this workload: 3 for `w-3` of `w`. Numbers are
/// written as Kubernetes writes them, so that `w-03` is nobody's.
pub fn ordinal(workload: &str, pod: &str) -> Option<u64> {
    let digits = pod.strip_prefix(workload)?.strip_prefix('-')?;
    let canonical =
        digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { digits.parse().ok() } else { None }
}

/// What is known of the workload that a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadPresence {
    /// It exists, and is the one for which the states were recorded.
    Present,
    /// It exists, but was created anew since: it has another UID than the one of the states.
    Replaced,
    /// It is gone or being deleted.
    Gone,
}

/// What is known of the Pod whose name a state bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodOwnership {
    /// There is no such Pod.
    Absent,
    /// It is being deleted, and belongs to the workload.
    Terminating,
    /// It lives, and belongs to the workload.
    Adopted,
    /// It lives without a controller, so the workload may yet adopt it.
    Orphan,
    /// It belongs to somebody else.
    Foreign,
}

/// Whether a recorded state stays.
///
/// `wanted` says whether the workload wants a Pod of that name.
pub fn keeps(
    retention: RetentionPolicy,
    presence: WorkloadPresence,
    wanted: bool,
    bearer: PodOwnership,
) -> bool {
    let lives = matches!(bearer, PodOwnership::Adopted | PodOwnership::Orphan);
    match (retention, presence) {
        (RetentionPolicy::Retain, _) | (RetentionPolicy::WhenDeleted, WorkloadPresence::Present) => true,
        (RetentionPolicy::WhenScaled, WorkloadPresence::Present) => wanted || bearer != PodOwnership::Absent,
        // After an orphaning delete the Pods live on, and their states with them.
        (_, WorkloadPresence::Gone) => lives || bearer == PodOwnership::Foreign,
        (_, WorkloadPresence::Replaced) => lives || bearer == PodOwnership::Terminating,
    }
}

/// Where the Pod is whose name a state bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On no node; there may be no such Pod.
    Nowhere,
    /// Still bound to the node that the state names.
    There,
    /// On another node.
    Elsewhere,
}

/// Whether a recorded state goes once its node is known to be gone for good, whatever the retention
/// policy: that one is about the workload.
///
/// A Pod that lives and is Ready backs its state, whatever became of the node's object. One that starts
/// on another node will be recorded there, and needs until then what it had.
pub fn forgets(policy: NodeDeletionPolicy, bearer: PodOwnership, ready: bool, place: Place) -> bool {
    let lives = matches!(bearer, PodOwnership::Adopted | PodOwnership::Orphan);
    policy == NodeDeletionPolicy::Forget && !(lives && (ready || place == Place::Elsewhere))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_canonical_names_have_an_ordinal() {
        assert_eq!(ordinal("w", "w-0"), Some(0));
        assert_eq!(ordinal("w", "w-12"), Some(12));
        assert_eq!(ordinal("w-1", "w-1-2"), Some(2));
        for name in ["w", "w-", "w-03", "w-+3", "w--3", "w-3x", "v-3", "w-1-2", "w-99999999999999999999"] {
            assert_eq!(ordinal("w", name), None, "{name}");
        }
    }

    #[test]
    fn ordinals_begin_at_start_and_skip_the_reserved() {
        let wanted =
            |ordinals: &Ordinals| (0..20).filter(|ordinal| ordinals.contains(*ordinal)).collect::<Vec<_>>();
        assert_eq!(wanted(&Ordinals::new(0, 3, [])), [0, 1, 2]);
        assert_eq!(wanted(&Ordinals::new(5, 3, [])), [5, 6, 7]);
        assert_eq!(wanted(&Ordinals::new(0, 3, [(1, 1)])), [0, 2, 3]);
        assert_eq!(wanted(&Ordinals::new(2, 3, [(0, 2), (4, 6), (5, 5)])), [3, 7, 8]);
        assert_eq!(wanted(&Ordinals::new(0, 0, [])), Vec::<u64>::new());
        assert!(Ordinals::new(0, u64::MAX, []).contains(u64::MAX - 1));
    }

    proptest! {
        #[test]
        fn ordinals_agree_with_counting(
            start in 0_u64..30,
            replicas in 0_u64..30,
            reserved in proptest::collection::vec((0_u64..80, 0_u64..6), 0..6),
        ) {
            let reserved: Vec<_> = reserved.into_iter().map(|(first, length)| (first, first + length)).collect();
            let mut expected = Vec::new();
            let mut next = start;
            while (expected.len() as u64) < replicas {
                if !reserved.iter().any(|(first, last)| (*first..=*last).contains(&next)) {
                    expected.push(next);
                }
                next += 1;
            }
            let ordinals = Ordinals::new(start, replicas, reserved);
            let actual: Vec<_> = (0..next + 50).filter(|ordinal| ordinals.contains(*ordinal)).collect();
            prop_assert_eq!(actual, expected);
        }
    }

    #[test]
    fn states_stay_as_long_as_the_retention_policy_says() {
        use PodOwnership::{Absent, Adopted, Foreign, Orphan, Terminating};
        use RetentionPolicy::{Retain, WhenDeleted, WhenScaled};
        use WorkloadPresence::{Gone, Present, Replaced};
        let bearers = [Absent, Terminating, Adopted, Orphan, Foreign];
        let kept = |retention, presence, wanted| -> Vec<PodOwnership> {
            bearers.into_iter().filter(|bearer| keeps(retention, presence, wanted, *bearer)).collect()
        };
        for (presence, wanted) in [(Present, true), (Present, false), (Replaced, true), (Gone, false)] {
            assert_eq!(kept(Retain, presence, wanted), bearers);
        }
        assert_eq!(kept(WhenDeleted, Present, false), bearers);
        assert_eq!(kept(WhenScaled, Present, true), bearers);
        assert_eq!(kept(WhenScaled, Present, false), [Terminating, Adopted, Orphan, Foreign]);
        for retention in [WhenScaled, WhenDeleted] {
            assert_eq!(kept(retention, Gone, false), [Adopted, Orphan, Foreign]);
            assert_eq!(kept(retention, Replaced, true), [Terminating, Adopted, Orphan]);
        }
    }

    #[test]
    fn a_state_of_a_node_that_is_gone_goes_unless_a_pod_backs_it() {
        use NodeDeletionPolicy::{Forget, Keep};
        use Place::{Elsewhere, Nowhere, There};
        use PodOwnership::{Absent, Adopted, Foreign, Orphan, Terminating};
        for bearer in [Absent, Terminating, Adopted, Orphan, Foreign] {
            for (ready, place) in [(false, Nowhere), (false, There), (true, There), (false, Elsewhere)] {
                assert!(!forgets(Keep, bearer, ready, place));
                let backed = matches!(bearer, Adopted | Orphan) && (ready || place == Elsewhere);
                assert_eq!(forgets(Forget, bearer, ready, place), !backed, "{bearer:?} {ready} {place:?}");
            }
        }
    }
}
