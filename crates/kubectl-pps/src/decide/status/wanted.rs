//! Which Pods a workload wants.

use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::pps::GROUP;

use crate::snapshot::{Workload, WorkloadKey};

/// How many ordinals of one workload are looked at.
const MAX_LOOKED_AT: u64 = 20_000;
/// How many Pods of one workload are listed that are wanted and do not exist.
const MAX_MISSING: usize = 200;

/// Whether a workload of this kind numbers its Pods as a StatefulSet does.
fn is_numbered(key: &WorkloadKey) -> bool {
    key.kind == "StatefulSet" && (key.group == "apps" || key.group == GROUP)
}

/// What a workload wants; none if that is not known.
pub(super) fn demand(key: &WorkloadKey, workload: Option<&Workload>) -> Option<Demand> {
    let workload = workload.filter(|workload| is_numbered(key) && !workload.is_terminating())?;
    Some(Demand::read(&workload.object()["spec"], &Naming::StatefulSet))
}

/// Whether a Pod is wanted; none if that is not known.
pub(super) fn is_wanted(demand: Option<&Demand>, workload: &str, pod: &str) -> Option<bool> {
    demand.map(|demand| demand.wants(workload, pod, 0) == Wanted::Yes)
}

/// The Pods that are wanted and do not exist, and how many more there are. `existing` is how many of the wanted ones exist.
pub(super) fn missing(
    demand: &Demand,
    workload: &Workload,
    existing: u64,
    exists: impl Fn(&str) -> bool,
) -> (Vec<String>, u64) {
    let name = workload.name();
    let absent = demand.replicas().unwrap_or_default().saturating_sub(existing);
    let start = workload.object()["spec"]["ordinals"]["start"].as_u64().unwrap_or_default();
    let mut names = Vec::new();
    for ordinal in (start..start.saturating_add(MAX_LOOKED_AT)).take_while(|_| absent > 0) {
        if names.len() as u64 == absent || names.len() == MAX_MISSING {
            break;
        }
        let pod = format!("{name}-{ordinal}");
        if demand.wants(name, &pod, 0) == Wanted::Yes && !exists(&pod) {
            names.push(pod);
        }
    }
    let left_out = absent.saturating_sub(names.len() as u64);
    (names, left_out)
}
