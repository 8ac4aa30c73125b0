//! Which Pods wait for a recorded place that they require until an end
//! (`requiredPersistentTopology.fallbackAfterSeconds`).

use std::time::Duration;

use pps_core::PodState;

use super::status::{View, obstacle};
use crate::cluster::Cluster;
use crate::facts::{NamespacedName, WorkloadKey};
use crate::fallback::{Question, question};
use crate::ledger::Ledger;

/// A Pod for which the scheduler finds no node, and that has a requirement with an end.
#[derive(Clone, Debug, PartialEq)]
pub struct FallbackCandidate {
    pub pod: NamespacedName,
    pub uid: String,
    pub workload: WorkloadKey,
    /// The PPS that governs the workload.
    pub pps: NamespacedName,
    pub pps_uid: String,
    /// The recorded state of the Pod.
    pub state: PodState,
    /// How long it waits before its place is given up.
    pub wait: Duration,
    pub question: Question,
}

/// All candidates. Looks at each Pod that waits for a node, so call it now and then, not for each
/// event.
pub(crate) fn candidates<'a>(
    cluster: &'a Cluster,
    ledger: &'a Ledger,
) -> impl Iterator<Item = FallbackCandidate> + 'a {
    let waiting = cluster.pods.waiting.iter();
    waiting.filter_map(|pod| candidate(pod, cluster, ledger))
}

fn candidate(
    key: &NamespacedName,
    cluster: &Cluster,
    ledger: &Ledger,
) -> Option<FallbackCandidate> {
    let pod = cluster.pods.facts.get(key)?;
    let pending = cluster.pods.pending(key)?;
    // A user who exempts a Pod, or moves it, decides about its place.
    if pod.terminating || pod.exempt || pod.node.is_some() || !pending.is_unschedulable {
        return None;
    }
    let workload = cluster
        .workloads
        .key_of(&key.namespace, pod.owner.as_ref()?)?;
    let pps = key.sibling(&pending.pps);
    let view = View::of(&pps, cluster, ledger)?;
    let observed = &view.pps.observed;
    let wait = observed.spec.fallback_after_seconds()?;
    if !view.is_usable() || view.pps.workload != *workload || obstacle(&view).is_some() {
        return None;
    }
    // A fallback empties an entry and drops none. Where there is none, nothing is known.
    let state = observed.status.pod_states.get(&key.name)?;
    let question = question(&observed.spec, &state, &pending.required_affinity)?;
    Some(FallbackCandidate {
        pod: key.clone(),
        uid: pending.uid.clone(),
        workload: workload.clone(),
        pps_uid: observed.uid.clone(),
        pps,
        state,
        wait: Duration::from_secs(wait.into()),
        question,
    })
}
