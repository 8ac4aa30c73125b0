//! Which Pod of a workload succeeds which, and from which template.

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
}
