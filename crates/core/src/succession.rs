//! Which Pod of a workload succeeds which, and from which template.

use serde_json::Value;

use crate::names::number;

/// The ordinal in the name of a workload's Pod: 3 for `w-3` of the workload `w`. Kubernetes writes
/// no leading zeros, so `w-03` has none.
pub fn ordinal(workload: &str, pod: &str) -> Option<u64> {
    number(pod.strip_prefix(workload)?.strip_prefix('-')?)
}

/// What Pods' names are sorted by: `db` and 10 for `db-10`.
pub fn name_order(pod: &str) -> (&str, u64) {
    let (base, ordinal) = pod.rsplit_once('-').unwrap_or((pod, ""));
    ordinal.parse().map_or((pod, 0), |ordinal| (base, ordinal))
}

/// Which of its two revisions a workload gives to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// The old one, `status.currentRevision`.
    Current,
    /// The newest one, `status.updateRevision`.
    Update,
}

/// The `spec.updateStrategy` of a workload with numbered Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// The controller replaces no Pod; a Pod that somebody deletes comes back with the update
    /// revision.
    OnDelete,
    /// The controller replaces the Pods from this ordinal on. A Pod of a lower ordinal keeps the
    /// current revision, even if somebody deletes it.
    RollingUpdate { first_updated: u64 },
}

impl UpdateStrategy {
    /// Reads a workload's `spec`. The partition counts from `ordinals.start`, whatever ordinals are
    /// reserved; OpenKruise also takes a share of the replicas, such as `30%`, and rounds it up.
    pub fn read(spec: &Value) -> Self {
        let strategy = &spec["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return Self::OnDelete;
        }
        let partition = &strategy["rollingUpdate"]["partition"];
        let replicas = spec["replicas"].as_u64().unwrap_or(1);
        let held_back = partition
            .as_u64()
            .or_else(|| share_of(replicas, partition.as_str()?))
            .unwrap_or_default();
        let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
        Self::RollingUpdate {
            first_updated: start.saturating_add(held_back),
        }
    }

    /// From which revision the Pod of this ordinal is re-created.
    pub fn successor(self, ordinal: u64) -> Revision {
        match self {
            Self::RollingUpdate { first_updated } if ordinal < first_updated => Revision::Current,
            _ => Revision::Update,
        }
    }

    /// Whether the controller itself replaces the Pod of this ordinal if it has another revision
    /// than the newest.
    pub fn replaces(self, ordinal: u64) -> bool {
        self != Self::OnDelete && self.successor(ordinal) == Revision::Update
    }
}

/// A share of the replicas, such as `30%`.
fn share_of(replicas: u64, share: &str) -> Option<u64> {
    let percent: u64 = share.strip_suffix('%')?.parse().ok()?;
    Some(percent.saturating_mul(replicas).div_ceil(100))
}

/// The name of the revision from which a workload re-creates its Pod of this name; `None` if its
/// status does not say, or if the Pod has no ordinal.
pub fn successor_revision<'a>(workload: &'a Value, pod: &str) -> Option<&'a str> {
    let ordinal = ordinal(workload["metadata"]["name"].as_str()?, pod)?;
    let field = match UpdateStrategy::read(&workload["spec"]).successor(ordinal) {
        Revision::Current => "currentRevision",
        Revision::Update => "updateRevision",
    };
    workload["status"][field]
        .as_str()
        .filter(|revision| !revision.is_empty())
}

/// The label by which a StatefulSet knows the revision of a Pod.
const REVISION: &str = "controller-revision-hash";

fn revision(pod: &Value) -> Option<&str> {
    pod["metadata"]["labels"][REVISION].as_str()
}

/// Whether a Pod is of the newest revision of its workload; `None` if a revision is not known.
pub fn has_newest_revision(pod: &Value, workload: &Value) -> Option<bool> {
    Some(workload["status"]["updateRevision"].as_str()? == revision(pod)?)
}

/// Whether a Pod was made from another template than its successor will be.
pub fn has_other_template(pod: &Value, workload: &Value) -> bool {
    let next = pod["metadata"]["name"]
        .as_str()
        .and_then(|name| successor_revision(workload, name));
    next.zip(revision(pod))
        .is_some_and(|(next, own)| next != own)
}

/// Whether the next Pod of this name is made from the old template: the update strategy holds it
/// back.
pub fn is_held_back(workload: &Value, pod: &str) -> bool {
    let newest = workload["status"]["updateRevision"].as_str();
    if let Some((next, newest)) = successor_revision(workload, pod).zip(newest) {
        return next != newest;
    }
    let ordinal = workload["metadata"]["name"]
        .as_str()
        .and_then(|name| ordinal(name, pod));
    let strategy = UpdateStrategy::read(&workload["spec"]);
    ordinal.is_some_and(|ordinal| strategy.successor(ordinal) == Revision::Current)
}

/// Whether a workload's controller has not seen its latest change yet.
pub fn is_unobserved(workload: &Value) -> bool {
    let generation = workload["metadata"]["generation"]
        .as_i64()
        .unwrap_or_default();
    workload["status"]["observedGeneration"]
        .as_i64()
        .unwrap_or_default()
        < generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_ordinal_of_canonical_names_only() {
        assert_eq!(ordinal("w", "w-0"), Some(0));
        assert_eq!(ordinal("w", "w-12"), Some(12));
        assert_eq!(ordinal("w-1", "w-1-2"), Some(2));
        for name in [
            "w",
            "w-",
            "w-03",
            "w-+3",
            "w--3",
            "w-3x",
            "v-3",
            "w-1-2",
            "w-99999999999999999999",
        ] {
            assert_eq!(ordinal("w", name), None, "{name}");
        }
    }
}
