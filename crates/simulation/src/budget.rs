//! `PodDisruptionBudgets`: which Pods they select, and how many of them have to be Ready.

use serde_json::Value;

use crate::scheduler::PodSelector;

/// A budget of the namespace.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) name: String,
    selector: Value,
    /// How many of the selected Pods have to be Ready.
    needed: Needed,
    /// Whether Pods that are not Ready may always be evicted.
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
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            selector: spec["selector"].clone(),
            needed: most.unwrap_or(Needed::AtLeast(least)),
            always_allows_unhealthy: spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
        }
    }

    pub(crate) fn selects(&self, pod: &Value) -> bool {
        let selector = PodSelector::of(&self.selector);
        let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
        selector.matches(&labels.collect())
    }

    /// How many of so many Pods have to be Ready.
    pub(crate) fn needed(&self, expected: u64) -> u64 {
        match self.needed {
            Needed::AtLeast(amount) => amount.of_pods(expected),
            Needed::AllBut(amount) => expected.saturating_sub(amount.of_pods(expected)),
        }
    }
}

/// Whether a Pod that runs says that it is Ready, and is not being deleted.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
        && pod["metadata"]["deletionTimestamp"].is_null()
}
