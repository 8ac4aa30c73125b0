//! From which template a workload re-creates a Pod, and which recorded states are kept.

use pps_core::pps::{NodeDeletionPolicy, RetentionPolicy};
use serde_json::Value;

/// The ordinal in the name of a workload's Pod: 3 for `w-3` of the workload `w`. Kubernetes writes no leading
/// zeros, so `w-03` has none.
pub fn ordinal(workload: &str, pod: &str) -> Option<u64> {
    let digits = pod.strip_prefix(workload)?.strip_prefix('-')?;
    let canonical =
        digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { digits.parse().ok() } else { None }
}

/// Which of its two revisions a workload gives to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// The former one, `status.currentRevision`.
    Current,
    /// The newest one, `status.updateRevision`.
    Update,
}

/// The `spec.updateStrategy` of a workload with numbered Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// The controller replaces no Pod; a Pod that somebody deletes comes back with the update revision.
    OnDelete,
    /// The controller replaces the Pods from this ordinal on. A Pod of a lower ordinal keeps the current
    /// revision, even if somebody deletes it.
    RollingUpdate { first_updated: u64 },
}

impl UpdateStrategy {
    /// Reads a workload's `spec`. The partition counts from `ordinals.start`, whatever ordinals are reserved;
    /// OpenKruise also takes a share of the replicas, such as `30%`, and rounds it up.
    pub fn read(spec: &Value) -> Self {
        let strategy = &spec["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return Self::OnDelete;
        }
        let partition = &strategy["rollingUpdate"]["partition"];
        let replicas = spec["replicas"].as_u64().unwrap_or(1);
        let share = || partition.as_str()?.strip_suffix('%')?.parse::<u64>().ok();
        let part = |share: u64| share.saturating_mul(replicas).div_ceil(100);
        let held_back = partition.as_u64().or_else(|| share().map(part)).unwrap_or_default();
        let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
        Self::RollingUpdate { first_updated: start.saturating_add(held_back) }
    }

    /// From which revision the Pod of this ordinal is re-created.
    pub fn successor(self, ordinal: u64) -> Revision {
        match self {
            Self::RollingUpdate { first_updated } if ordinal < first_updated => Revision::Current,
            _ => Revision::Update,
        }
    }

    /// Whether the controller itself replaces the Pod of this ordinal if it has another revision than the
    /// newest.
    pub fn replaces(self, ordinal: u64) -> bool {
        self != Self::OnDelete && self.successor(ordinal) == Revision::Update
    }
}

/// The name of the revision from which a workload re-creates its Pod of this name; `None` if its status does
/// not say, or if the Pod has no ordinal.
pub fn successor_revision<'a>(workload: &'a Value, pod: &str) -> Option<&'a str> {
    let ordinal = ordinal(workload["metadata"]["name"].as_str()?, pod)?;
    let field = match UpdateStrategy::read(&workload["spec"]).successor(ordinal) {
        Revision::Current => "currentRevision",
        Revision::Update => "updateRevision",
    };
    workload["status"][field].as_str().filter(|revision| !revision.is_empty())
}

/// Whether the workload for which states were recorded still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadPresence {
    /// It exists, with the UID for which the states were recorded.
    Present,
    /// It was deleted and created again: the UID differs from the one in the states.
    Replaced,
    /// It does not exist, or it is terminating.
    Gone,
    /// It does not exist, and the states do not say for which workload they were recorded, as after a
    /// restore: they wait for the next workload of the name.
    Awaited,
}

/// Who owns the Pod for which a state was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodOwnership {
    Absent,
    Terminating,
    Owned,
    /// The Pod belongs to the earlier workload for which the state was recorded, and is not terminating. A
    /// workload that was created again under the same name may still adopt it.
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
        (RetentionPolicy::Retain, _)
        | (_, WorkloadPresence::Awaited)
        | (RetentionPolicy::WhenDeleted, WorkloadPresence::Present) => true,
        (RetentionPolicy::WhenScaled, WorkloadPresence::Present) => {
            wanted || ownership != PodOwnership::Absent
        }
        // Pods outlive a workload that was deleted with `--cascade=orphan`. Their states are kept with them.
        (_, WorkloadPresence::Gone) => lives || ownership == PodOwnership::Foreign,
        (_, WorkloadPresence::Replaced) => lives || ownership == PodOwnership::Terminating,
    }
}

/// Whether a Pod lives that the workload owns or may adopt.
fn lives(ownership: PodOwnership) -> bool {
    matches!(ownership, PodOwnership::Owned | PodOwnership::Former | PodOwnership::Orphan)
}

/// Whether a recorded state is dropped once its node is confirmed to be gone. The retention policy does not
/// matter here: it is about the workload.
///
/// A living Pod that is Ready keeps its state even if its node's object is gone. A living Pod that starts on
/// another node keeps its state until it is recorded there.
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
    fn reads_the_ordinal_of_canonical_names_only() {
        assert_eq!(ordinal("w", "w-0"), Some(0));
        assert_eq!(ordinal("w", "w-12"), Some(12));
        assert_eq!(ordinal("w-1", "w-1-2"), Some(2));
        for name in ["w", "w-", "w-03", "w-+3", "w--3", "w-3x", "v-3", "w-1-2", "w-99999999999999999999"] {
            assert_eq!(ordinal("w", name), None, "{name}");
        }
    }

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
        for (presence, wanted) in [(Present, true), (Present, false), (Replaced, true), (Gone, false)] {
            assert_eq!(kept(Retain, presence, wanted), all);
        }
        for retention in [WhenScaled, WhenDeleted, Retain] {
            assert_eq!(kept(retention, Awaited, false), all);
        }
        assert_eq!(kept(WhenDeleted, Present, false), all);
        assert_eq!(kept(WhenScaled, Present, true), all);
        assert_eq!(kept(WhenScaled, Present, false), [Terminating, Owned, Former, Orphan, Foreign]);
        for retention in [WhenScaled, WhenDeleted] {
            assert_eq!(kept(retention, Gone, false), [Owned, Former, Orphan, Foreign]);
            assert_eq!(kept(retention, Replaced, true), [Terminating, Owned, Former, Orphan]);
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
