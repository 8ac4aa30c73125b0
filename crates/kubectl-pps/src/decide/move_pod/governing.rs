//! Which PersistentPodState governs the Pod, and whether the Pod is created again at all.

use pps_recorder::demand::{Demand, Naming, Wanted};
use pps_recorder::workload::ordinal;

use super::Refusal;
use crate::snapshot::{Index, Pod, Pps, Workload, WorkloadKey};

/// The PersistentPodState of the Pod's workload. Of a Pod that does not exist: the one that has its state or whose workload
/// gives such a name.
pub(super) fn governing<'a>(
    index: &Index<'a>,
    namespace: &str,
    name: &str,
    pod: Option<&Pod>,
) -> Result<(WorkloadKey, &'a Pps), Refusal> {
    let (key, pps) = if let Some(pod) = pod {
        let no_controller = || Refusal::NoController { pod: name.to_owned() };
        let (owner, _) = pod.owner().ok_or_else(no_controller)?;
        let workload = WorkloadKey::of(namespace, &owner);
        let waits = pod.node().is_none() && pod.injected_from().is_some();
        let not_governed =
            || Refusal::NotGoverned { pod: name.to_owned(), workload: Box::new(workload.clone()), waits };
        let pps = index.governing(&workload).ok_or_else(not_governed)?;
        (workload, pps)
    } else {
        let state_of = |pps: &Pps| pps.state(name).ok().flatten();
        let candidates = index
            .targeted_in(namespace)
            .filter_map(|(key, all)| Some((key, *all.first()?)))
            .filter(|(key, pps)| ordinal(&key.name, name).is_some() || state_of(pps).is_some());
        let (key, pps) = candidates
            .min_by_key(|(key, pps)| (!may_come(index, key, name), state_of(pps).is_none()))
            .ok_or_else(|| Refusal::NoPod { namespace: namespace.to_owned(), pod: name.to_owned() })?;
        (key.clone(), pps)
    };
    if may_come(index, &key, name) {
        return Ok((key, pps));
    }
    let workload = index.workload(&key);
    let pod = name.to_owned();
    Err(if workload.is_some_and(Workload::is_terminating) {
        Refusal::WorkloadTerminating { pod, workload: Box::new(key) }
    } else {
        let replicas = workload.map_or(0, Workload::replicas);
        Refusal::NotWanted { pod, replicas, workload: Box::new(key) }
    })
}

/// Whether a workload creates a Pod of this name; one that was not read may do so.
pub(super) fn may_come(index: &Index<'_>, key: &WorkloadKey, pod: &str) -> bool {
    index.workload(key).is_none_or(|workload| {
        let demand = Demand::read(&workload.object()["spec"], &Naming::StatefulSet);
        !workload.is_terminating() && demand.wants(workload.name(), pod, 0) == Wanted::Yes
    })
}
