//! Which Pods the rollout of a workload will replace, as `kubectl rollout status` sees it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use pps_core::demand::Demand;
use pps_core::workload::ordinal;

use super::wanted;
use crate::decide::template::{newest_revision, revision};
use crate::snapshot::{Pod, Workload};

/// The Pods that a rollout will replace: none of those that the partition holds back, and none with the strategy `OnDelete`.
pub(super) fn outdated<'a>(workload: &Workload, demand: &Demand, pods: &[&'a Pod]) -> BTreeSet<&'a str> {
    let object = workload.object();
    let strategy = &object["spec"]["updateStrategy"];
    let (Some(newest), Some(replicas)) = (newest_revision(workload), demand.replicas()) else {
        return BTreeSet::new();
    };
    if strategy["type"] == "OnDelete" {
        return BTreeSet::new();
    }
    let held_back = partition(&strategy["rollingUpdate"]["partition"], replicas);
    let is_wanted = |pod: &&&Pod| wanted::is_wanted(Some(demand), workload.name(), pod.name()) == Some(true);
    let (mut old, updated): (Vec<&Pod>, Vec<&Pod>) =
        pods.iter().filter(is_wanted).partition(|pod| revision(pod).is_some_and(|own| own != newest));
    // Those with the highest ordinals are replaced first.
    old.sort_by_key(|pod| Reverse(ordinal(workload.name(), pod.name())));
    let left = replicas.saturating_sub(held_back).saturating_sub(updated.len() as u64);
    old.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)).map(Pod::name).collect()
}

/// How many Pods keep the former template. OpenKruise also takes a share, such as `30%`, which it rounds up.
fn partition(value: &serde_json::Value, replicas: u64) -> u64 {
    let share = || value.as_str()?.strip_suffix('%')?.parse::<u64>().ok();
    let part = |share: u64| share.saturating_mul(replicas).div_ceil(100);
    value.as_u64().or_else(|| share().map(part)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pps_core::demand::Naming;
    use serde_json::{Value, json};

    use super::*;
    use crate::decide::template::is_unobserved;

    const REVISION: &str = "controller-revision-hash";

    fn workload(strategy: &Value) -> Workload {
        let object = json!({"metadata": {"name": "db", "namespace": "shop", "generation": 3},
            "spec": {"replicas": 3, "updateStrategy": strategy},
            "status": {"observedGeneration": 3, "updateRevision": "db-new"}});
        Workload::read(object, "apps/v1").unwrap()
    }

    fn outdated_of(strategy: &Value, revisions: &[&str]) -> Vec<String> {
        let pod = |(ordinal, revision): (usize, &&str)| {
            Pod::read(json!({"metadata": {"name": format!("db-{ordinal}"), "namespace": "shop",
                "labels": {REVISION: format!("db-{revision}")}}}))
            .unwrap()
        };
        let pods: Vec<Pod> = revisions.iter().enumerate().map(pod).collect();
        let workload = workload(strategy);
        let demand = Demand::read(&workload.object()["spec"], &Naming::StatefulSet);
        let pods: Vec<&Pod> = pods.iter().collect();
        outdated(&workload, &demand, &pods).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_rollout_replaces_each_pod_of_another_revision() {
        let strategy = json!({"type": "RollingUpdate"});
        assert_eq!(outdated_of(&strategy, &["old", "old", "new"]), ["db-0", "db-1"]);
        assert_eq!(outdated_of(&strategy, &["new", "new", "new"]), [""; 0]);
        assert_eq!(outdated_of(&strategy, &["new", "new", "new", "old"]), [""; 0], "db-3 is not wanted");
    }

    #[test]
    fn a_partition_holds_the_first_pods_back() {
        let partition =
            |value: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": value}});
        assert_eq!(outdated_of(&partition(json!(1)), &["old", "old", "new"]), ["db-1"]);
        assert_eq!(outdated_of(&partition(json!(2)), &["old", "old", "new"]), [""; 0]);
        assert_eq!(outdated_of(&partition(json!("50%")), &["old", "old", "old"]), ["db-2"]);
        assert_eq!(outdated_of(&partition(json!("x%")), &["old", "new", "new"]), ["db-0"]);
    }

    #[test]
    fn with_the_strategy_on_delete_nothing_is_replaced() {
        assert_eq!(outdated_of(&json!({"type": "OnDelete"}), &["old", "old", "old"]), [""; 0]);
    }

    #[test]
    fn a_change_that_the_controller_has_not_seen_is_not_observed() {
        assert!(!is_unobserved(&workload(&json!({}))));
        let mut object = workload(&json!({})).object().clone();
        object["metadata"]["generation"] = 4.into();
        assert!(is_unobserved(&Workload::read(object, "apps/v1").unwrap()));
    }
}
