//! `PodDisruptionBudgets`, and the evictions that the API server refuses because of them.

use serde_json::Value;

use pps_scheduler::fields::{list, text};
use pps_scheduler::{PodSelector, labels};

use crate::cluster::Cluster;

fn selects(budget: &Value, pod: &Value) -> bool {
    PodSelector::of(&budget["spec"]["selector"]).matches(&labels(pod))
}

/// An amount of Pods, or a percentage of these.
fn amount(value: &Value, of: u64) -> Option<u64> {
    match value {
        Value::String(text) => {
            let percent: u64 = text.strip_suffix('%')?.parse().ok()?;
            Some(of.saturating_mul(percent).div_ceil(100))
        }
        value => value.as_u64(),
    }
}

/// Why a Pod cannot be evicted; none if it can.
pub(crate) fn protects(cluster: &Cluster, name: &str) -> Option<String> {
    let pod = cluster.pods.get(name)?;
    let mut selecting = cluster
        .budgets
        .iter()
        .filter(|budget| selects(budget, &pod.object));
    let budget = selecting.next()?;
    let name = text(&budget["metadata"]["name"]);
    if let Some(other) = selecting.next() {
        let other = text(&other["metadata"]["name"]);
        return Some(format!(
            "the PodDisruptionBudgets {name} and {other} both select it, and the API server \
             evicts no such Pod"
        ));
    }
    let Health { healthy, needed } = Health::of(cluster, budget);
    let is_allowed = if pod.is_ready() {
        healthy > needed
    } else {
        pod.object["status"]["phase"] == "Pending"
            || budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
            || (healthy >= needed && needed > 0)
    };
    (!is_allowed).then(|| {
        format!("PodDisruptionBudget {name} needs {needed} Pods that are Ready, and {healthy} are")
    })
}

/// How many Pods of a budget are Ready, and how many have to be.
struct Health {
    healthy: u64,
    needed: u64,
}

impl Health {
    fn of(cluster: &Cluster, budget: &Value) -> Self {
        let mut healthy = 0;
        let mut expected = 0;
        for (name, workload) in cluster.workloads.iter().filter(|(_, one)| one.exists()) {
            let mut is_selected = false;
            for (_, pod) in cluster.pods.of(name) {
                if selects(budget, &pod.object) {
                    is_selected = true;
                    healthy += u64::from(pod.is_ready());
                }
            }
            // A percentage is one of the Pods that the controllers want.
            expected += if is_selected { workload.replicas() } else { 0 };
        }
        for pod in cluster.others.iter() {
            if pod["metadata"]["namespace"] == cluster.namespace && selects(budget, pod) {
                expected += 1;
                healthy += u64::from(is_ready(pod));
            }
        }
        let needed = match amount(&budget["spec"]["maxUnavailable"], expected) {
            Some(most) => expected.saturating_sub(most),
            None => amount(&budget["spec"]["minAvailable"], expected).unwrap_or(1),
        };
        Self { healthy, needed }
    }
}

/// Whether a Pod that runs says that it is Ready, and is not being deleted.
pub(crate) fn is_ready(pod: &Value) -> bool {
    list(&pod["status"]["conditions"]).any(|one| one["type"] == "Ready" && one["status"] == "True")
        && pod["metadata"]["deletionTimestamp"].is_null()
}
