//! The Eviction API: which evictions `PodDisruptionBudgets` refuse.

use crate::budget::{Budget, is_ready};
use crate::cluster::{Cluster, Pod};

/// Why a Pod must not be evicted now.
pub(super) fn protects(cluster: &Cluster, name: &str) -> Option<String> {
    let pod: &Pod = cluster.pods.get(name)?;
    let mut selecting = cluster.budgets.iter().filter(|budget| budget.selects(&pod.object));
    let budget = selecting.next()?;
    if let Some(other) = selecting.next() {
        return Some(format!(
            "the PodDisruptionBudgets {} and {} both select it, and the API server evicts no such Pod",
            budget.name, other.name
        ));
    }
    let (healthy, needed) = count(cluster, budget);
    let is_allowed = if pod.is_ready() {
        healthy > needed
    } else {
        pod.object["status"]["phase"] == "Pending"
            || budget.always_allows_unhealthy
            || (healthy >= needed && needed > 0)
    };
    (!is_allowed).then(|| {
        format!("PodDisruptionBudget {} needs {needed} Pods that are Ready, and {healthy} are", budget.name)
    })
}

/// How many of its Pods are Ready, and how many have to be.
fn count(cluster: &Cluster, budget: &Budget) -> (u64, u64) {
    let (mut healthy, mut expected) = (0, 0);
    for (name, workload) in cluster.workloads.iter().filter(|(_, workload)| workload.exists()) {
        let mut is_selected = false;
        for (_, pod) in cluster.pods.of(name).filter(|(_, pod)| budget.selects(&pod.object)) {
            is_selected = true;
            healthy += u64::from(pod.is_ready());
        }
        // A percentage is one of the Pods that the controllers want.
        expected += if is_selected { workload.replicas() } else { 0 };
    }
    let others = cluster.others().iter().filter(|pod| pod["metadata"]["namespace"] == cluster.namespace);
    for pod in others.filter(|pod| budget.selects(pod)) {
        expected += 1;
        healthy += u64::from(is_ready(pod));
    }
    (healthy, budget.needed(expected))
}
