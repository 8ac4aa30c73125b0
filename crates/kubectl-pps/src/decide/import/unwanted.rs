//! Which states of a file the sidecar would drop as soon as they are written.

use std::collections::BTreeSet;

use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::pps::RetentionPolicy;
use pps_core::workload::{PodOwnership, WorkloadPresence, retains_state};

use super::{Entry, Known};
use crate::snapshot::{Pod, Pps, Workload};

/// The Pods of the entry that their workload does not want, and whose states would not be retained. `existing` is the
/// object in the cluster.
pub(super) fn pods(entry: &Entry, existing: Option<&Pps>, known: Known<'_>) -> BTreeSet<String> {
    let is_target = |workload: &&Workload| {
        workload.namespace() == entry.namespace && workload.target().is_same_workload(&entry.target)
    };
    let Some(workload) = known.workloads.iter().find(is_target) else { return BTreeSet::new() };
    let demand = Demand::read(&workload.object()["spec"], &Naming::StatefulSet);
    let here = known.pods.into_iter().flatten().filter(|pod| pod.namespace() == entry.namespace);
    let here: BTreeSet<&str> = here.map(Pod::name).collect();
    let retention = existing.map_or_else(|| entry.retention(), retention_of);
    let is_dropped = |pod: &&String| {
        !here.contains(pod.as_str())
            && demand.wants(workload.name(), pod, 0) == Wanted::No
            && !retains_state(retention, WorkloadPresence::Present, false, PodOwnership::Absent)
    };
    entry.states.keys().filter(is_dropped).cloned().collect()
}

fn retention_of(pps: &Pps) -> RetentionPolicy {
    // A spec that cannot be read gets no states anyway.
    pps.spec().unwrap_or_default().retention()
}
