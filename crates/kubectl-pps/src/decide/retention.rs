//! Which recorded states the sidecar drops because their StatefulSet does not want the Pods.

use std::collections::BTreeSet;

use pps_core::pps::RetentionPolicy;
use pps_recorder::demand::{Demand, Naming, Wanted};
use pps_recorder::workload::{PodOwnership, WorkloadPresence, retains_state};
use serde_json::Value;

/// Those of these Pods that a StatefulSet does not want, and whose states are not kept once they are gone. One that is
/// still there is about to be deleted.
pub(crate) fn dropped<'a>(
    pods: impl IntoIterator<Item = &'a String>,
    retention: RetentionPolicy,
    stateful_set: &str,
    spec: &Value,
) -> BTreeSet<String> {
    if retains_state(retention, WorkloadPresence::Present, false, PodOwnership::Absent) {
        return BTreeSet::new();
    }
    let demand = Demand::read(spec, &Naming::StatefulSet);
    let is_dropped = |pod: &&String| demand.wants(stateful_set, pod, 0) == Wanted::No;
    pods.into_iter().filter(is_dropped).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn states_of_pods_that_are_not_wanted_are_dropped_unless_they_are_retained() {
        let pods = ["db-0", "db-1", "db-2"].map(str::to_owned);
        let dropped = |retention, spec: &Value| -> Vec<String> {
            super::dropped(&pods, retention, "db", spec).into_iter().collect()
        };
        let one = json!({"replicas": 1});
        assert_eq!(dropped(RetentionPolicy::WhenScaled, &one), ["db-1", "db-2"]);
        assert_eq!(dropped(RetentionPolicy::WhenScaled, &json!({"replicas": 0})), pods);
        assert_eq!(dropped(RetentionPolicy::WhenScaled, &json!({"replicas": 3})), [""; 0]);
        assert_eq!(dropped(RetentionPolicy::WhenDeleted, &one), [""; 0]);
        assert_eq!(dropped(RetentionPolicy::Retain, &one), [""; 0]);
    }
}
