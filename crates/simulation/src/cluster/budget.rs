//! `PodDisruptionBudgets`, and the evictions that the API server refuses because of them.

use serde_json::Value;

use pps_scheduler::fields::{list, text};
use pps_scheduler::{PodSelector, labels};

use crate::cluster::Cluster;

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) name: String,
    selector: Value,
    needed: Needed,
    pub(crate) always_allows_unhealthy: bool,
}

#[derive(Clone, Copy, Debug)]
enum Needed {
    AtLeast(Amount),
    AllBut(Amount),
}

#[derive(Clone, Copy, Debug)]
enum Amount {
    Pods(u64),
    Percent(u64),
}

impl Amount {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => text.strip_suffix('%')?.parse().ok().map(Self::Percent),
            value => value.as_u64().map(Self::Pods),
        }
    }

    fn of_pods(self, all: u64) -> u64 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(percent) => all.saturating_mul(percent).div_ceil(100),
        }
    }
}

impl Budget {
    pub(crate) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let most = Amount::of(&spec["maxUnavailable"]).map(Needed::AllBut);
        let least = Amount::of(&spec["minAvailable"]).unwrap_or(Amount::Pods(1));
        Self {
            name: text(&object["metadata"]["name"]).to_owned(),
            selector: spec["selector"].clone(),
            needed: most.unwrap_or(Needed::AtLeast(least)),
            always_allows_unhealthy: spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
        }
    }

    pub(crate) fn selects(&self, pod: &Value) -> bool {
        PodSelector::of(&self.selector).matches(&labels(pod))
    }

    pub(crate) fn needed(&self, expected: u64) -> u64 {
        match self.needed {
            Needed::AtLeast(amount) => amount.of_pods(expected),
            Needed::AllBut(amount) => expected.saturating_sub(amount.of_pods(expected)),
        }
    }
}

pub(crate) fn protects(cluster: &Cluster, name: &str) -> Option<String> {
    let pod = cluster.pods.get(name)?;
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

/// Whether a Pod that runs says that it is Ready, and is not being deleted.
pub(crate) fn is_ready(pod: &Value) -> bool {
    list(&pod["status"]["conditions"]).any(|one| one["type"] == "Ready" && one["status"] == "True")
        && pod["metadata"]["deletionTimestamp"].is_null()
}
