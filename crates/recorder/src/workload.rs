//! Which recorded states are kept, given the workload and its Pods.

use pps_core::pps::{NodeDeletionPolicy, RetentionPolicy};

/// Whether the workload for which states were recorded still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadPresence {
    /// It exists, with the UID for which the states were recorded.
    Present,
    /// It was deleted and created again: the UID differs from the one in the states.
    Replaced,
    /// It does not exist, or it is terminating.
    Gone,
    /// It does not exist, and the states do not say for which workload they were recorded, as after
    /// a restore: they wait for the next workload of the name.
    Awaited,
}

/// Who owns the Pod for which a state was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodOwnership {
    Absent,
    Terminating,
    Owned,
    /// The Pod belongs to the earlier workload for which the state was recorded, and is not
    /// terminating. A workload that was created again under the same name may still adopt it.
    Former,
    /// The Pod has no controller owner, so the workload may still adopt it.
    Orphan,
    Foreign,
}

/// Whether the retention policy keeps a recorded state.
///
/// `wanted` is whether the workload wants a Pod of that name.
pub fn retains_state(
    retention: RetentionPolicy,
    presence: WorkloadPresence,
    wanted: bool,
    ownership: PodOwnership,
) -> bool {
    let lives = lives(ownership);
    match (retention, presence) {
        (RetentionPolicy::Retain | RetentionPolicy::Unknown, _)
        | (_, WorkloadPresence::Awaited)
        | (RetentionPolicy::WhenDeleted, WorkloadPresence::Present) => true,
        (RetentionPolicy::WhenScaled, WorkloadPresence::Present) => {
            wanted || ownership != PodOwnership::Absent
        }
        // Pods outlive a workload that was deleted with `--cascade=orphan`. Their states are kept
        // with them.
        (_, WorkloadPresence::Gone) => lives || ownership == PodOwnership::Foreign,
        (_, WorkloadPresence::Replaced) => lives || ownership == PodOwnership::Terminating,
    }
}

/// Whether a Pod lives that the workload owns or may adopt.
fn lives(ownership: PodOwnership) -> bool {
    matches!(
        ownership,
        PodOwnership::Owned | PodOwnership::Former | PodOwnership::Orphan
    )
}

/// Whether a recorded state is dropped once its node is confirmed to be gone. The retention policy
/// does not matter here: it is about the workload.
///
/// A living Pod that is Ready keeps its state even if its node's object is gone. A living Pod that
/// starts on another node keeps its state until it is recorded there.
pub fn forgets_state(
    policy: NodeDeletionPolicy,
    ownership: PodOwnership,
    is_ready: bool,
    is_on_other_node: bool,
) -> bool {
    policy == NodeDeletionPolicy::Forget && !(lives(ownership) && (is_ready || is_on_other_node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_states_by_retention_policy_workload_and_pod() {
        use PodOwnership::{Absent, Foreign, Former, Orphan, Owned, Terminating};
        use RetentionPolicy::{Retain, WhenDeleted, WhenScaled};
        use WorkloadPresence::{Awaited, Gone, Present, Replaced};
        let all = [Absent, Terminating, Owned, Former, Orphan, Foreign];
        let kept = |retention, presence, wanted| -> Vec<PodOwnership> {
            all.into_iter()
                .filter(|ownership| retains_state(retention, presence, wanted, *ownership))
                .collect()
        };
        for (presence, wanted) in [
            (Present, true),
            (Present, false),
            (Replaced, true),
            (Gone, false),
        ] {
            assert_eq!(kept(Retain, presence, wanted), all);
        }
        for retention in [WhenScaled, WhenDeleted, Retain] {
            assert_eq!(kept(retention, Awaited, false), all);
        }
        assert_eq!(kept(WhenDeleted, Present, false), all);
        assert_eq!(kept(WhenScaled, Present, true), all);
        assert_eq!(
            kept(WhenScaled, Present, false),
            [Terminating, Owned, Former, Orphan, Foreign]
        );
        for retention in [WhenScaled, WhenDeleted] {
            assert_eq!(
                kept(retention, Gone, false),
                [Owned, Former, Orphan, Foreign]
            );
            assert_eq!(
                kept(retention, Replaced, true),
                [Terminating, Owned, Former, Orphan]
            );
        }
    }

    #[test]
    fn forgets_states_of_gone_nodes_unless_a_living_pod_needs_them() {
        use NodeDeletionPolicy::{Forget, Keep};
        use PodOwnership::{Absent, Foreign, Former, Orphan, Owned, Terminating};
        for ownership in [Absent, Terminating, Owned, Former, Orphan, Foreign] {
            for (ready, elsewhere) in [(false, false), (true, false), (false, true)] {
                assert!(!forgets_state(Keep, ownership, ready, elsewhere));
                let needed = matches!(ownership, Owned | Former | Orphan) && (ready || elsewhere);
                let forgets = forgets_state(Forget, ownership, ready, elsewhere);
                assert_eq!(forgets, !needed, "{ownership:?} {ready} {elsewhere}");
            }
        }
    }
}
