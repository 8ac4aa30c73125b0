//! Which PersistentPodState says where a Pod goes, and whether the Pod is created again at all.

use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::workload::ordinal;

use crate::Failure;
use crate::snapshot::{Index, Pod, Pps, Workload, WorkloadKey};

/// The PersistentPodState of the Pod's workload. Of a Pod that does not exist now, the one that has its state or whose
/// workload gives such a name.
pub(super) fn governing<'a>(
    index: &Index<'a>,
    namespace: &str,
    name: &str,
    pod: Option<&Pod>,
) -> Result<(WorkloadKey, &'a Pps), Failure> {
    let Some(pod) = pod else {
        let mut candidates: Vec<(&WorkloadKey, &'a Pps)> = index
            .targeted_in(namespace)
            .filter_map(|(key, all)| Some((key, *all.first()?)))
            .filter(|(key, pps)| {
                ordinal(&key.name, name).is_some() || pps.state(name).is_ok_and(|state| state.is_some())
            })
            .collect();
        candidates.sort_by_key(|(key, pps)| {
            (!may_come(index, key, name), pps.state(name).ok().flatten().is_none())
        });
        let Some(&(key, pps)) = candidates.first() else {
            return Err(Failure::Usage(format!(
                "there is no Pod {name} in namespace {namespace}, and nothing is recorded of it"
            )));
        };
        require_wanted(index, key, name)?;
        return Ok((key.clone(), pps));
    };
    let Some((owner, _)) = pod.owner() else {
        return Err(Failure::Refused(format!(
            "Pod {name} has no controller: nothing pins it, and nothing would create it again"
        )));
    };
    let nothing = |why: String| {
        Failure::Refused(format!(
            "{why}: nothing pins Pod {name}, and the scheduler chooses whenever it is created again"
        ))
    };
    let key = WorkloadKey::of(namespace, &owner);
    if index.governing(&key).is_none() && pod.node().is_none() && pod.injected_from().is_some() {
        return Err(Failure::Refused(format!(
            "Pod {name} waits for what was injected when it was created, and no PersistentPodState names {} {} any more: delete the \
             Pod, and its controller creates it again without that",
            owner.kind, owner.name
        )));
    }
    let pps = index
        .governing(&key)
        .ok_or_else(|| nothing(format!("no PersistentPodState names {} {}", owner.kind, owner.name)))?;
    require_wanted(index, &key, name)?;
    Ok((key, pps))
}

/// Whether a workload creates a Pod of this name; one that was not read may do so.
pub(super) fn may_come(index: &Index<'_>, key: &WorkloadKey, pod: &str) -> bool {
    index.workload(key).is_none_or(|workload| {
        if workload.is_terminating() {
            return false;
        }
        let demand = Demand::read(&workload.object()["spec"], &Naming::StatefulSet);
        demand.wants(workload.name(), pod, 0) == Wanted::Yes
    })
}

/// Fails if no Pod of this name would be created again.
fn require_wanted(index: &Index<'_>, key: &WorkloadKey, pod: &str) -> Result<(), Failure> {
    if may_come(index, key, pod) {
        return Ok(());
    }
    let WorkloadKey { kind, name, .. } = key;
    if index.workload(key).is_some_and(Workload::is_terminating) {
        return Err(Failure::Refused(format!(
            "{kind} {name} is being deleted, and nothing would create Pod {pod} again"
        )));
    }
    let replicas = index.workload(key).map_or(0, Workload::replicas);
    let pods = if replicas == 1 { "Pod" } else { "Pods" };
    Err(Failure::Refused(format!(
        "{kind} {name} wants {replicas} {pods}, and {pod} is not one of them: it would not be created again"
    )))
}
