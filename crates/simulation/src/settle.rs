//! Lets the parts of the cluster react to each other until nothing changes.

use crate::admission::{AdmittedPod, admit_pod};
use crate::cluster::recorder;
use crate::cluster::{Cluster, Pod};
use crate::controller::{self, Operation, decide, new_pod};
use crate::result::{EventKind, Refusal};
use crate::start;
pub(crate) use crate::start::Scheduling;

/// How often the parts react at most, for each Pod that may be created. Each round but the last
/// creates, deletes, starts or records a Pod.
const ROUNDS_PER_POD: usize = 4;

/// Lets everything happen that follows from what is marked as changed.
pub(crate) fn settle(cluster: &mut Cluster, scheduling: Scheduling) {
    for _ in 0..ROUNDS_PER_POD * cluster.limits.created_pods {
        let mut has_changed = recorder::react(cluster);
        has_changed |= control(cluster);
        has_changed |= start::start_pods(cluster, Scheduling::NewPods);
        if !has_changed && scheduling == Scheduling::AllPending {
            has_changed = start::start_pods(cluster, scheduling);
        }
        if !has_changed && !is_dirty(cluster) {
            break;
        }
    }
    start::tell_pending(cluster);
}

fn is_dirty(cluster: &Cluster) -> bool {
    cluster.sidecar.is_some() && cluster.dirty.as_ref().is_none_or(|dirty| !dirty.is_empty())
}

/// One pass of the controller over the workloads that have changed. Returns whether it has done
/// anything.
fn control(cluster: &mut Cluster) -> bool {
    let mut has_changed = false;
    for name in std::mem::take(&mut cluster.uncontrolled) {
        let Some(workload) = cluster
            .workloads
            .get(&name)
            .filter(|workload| workload.exists())
        else {
            continue;
        };
        let operations = decide(workload, &cluster.pods, &cluster.refusals);
        if operations.is_empty() && controller::is_update_complete(workload, &cluster.pods) {
            let current = workload.update_revision();
            if let Some(workload) = cluster.workloads.get_mut(&name) {
                workload.current = current;
            }
        }
        for operation in operations {
            match operation {
                Operation::Create { .. } if cluster.created_pods >= cluster.limits.created_pods => {
                    return false;
                }
                Operation::Create { pod, revision } => create(cluster, &name, &pod, revision),
                Operation::Delete { pod, why } => {
                    delete(
                        cluster,
                        &pod,
                        &format!("is deleted: StatefulSet {name} {why}"),
                    );
                }
            }
            has_changed = true;
        }
    }
    has_changed
}

pub(crate) fn delete(cluster: &mut Cluster, pod: &str, text: &str) {
    cluster.remove_pod(pod);
    cluster.tell(EventKind::Deleted, format!("Pod/{pod}"), text);
}

fn create(cluster: &mut Cluster, workload: &str, name: &str, revision: usize) {
    let Some(controller) = cluster.workloads.get(workload) else {
        return;
    };
    let before = new_pod(controller, &cluster.namespace, name, revision);
    let admitted = if cluster.others.named(name).is_some() {
        Err(Refusal {
            code: 409,
            message: format!("a Pod of the name {name} exists already"),
        })
    } else {
        admit_pod(cluster, name, &before, &controller.target)
    };
    cluster.created_pods += 1;
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(cluster, workload, name, refusal),
    };
    tell_admitted(cluster, name, &admitted);
    let mut object = admitted.object.clone();
    object["metadata"]["uid"] = cluster.new_uid().into();
    let pod = Pod {
        object: object.into(),
        before,
        workload: workload.to_owned(),
        revision,
        injected: admitted.injected.is_some(),
        after: admitted.object,
        recorded: admitted.recorded,
        warnings: admitted.warnings,
        ..Pod::default()
    };
    cluster.add_pod(name, pod);
}

fn refuse(cluster: &mut Cluster, workload: &str, pod: &str, refusal: Refusal) {
    let text = format!(
        "cannot be created ({}): {}. StatefulSet {workload} reports FailedCreate and tries again",
        refusal.code, refusal.message
    );
    cluster.tell(EventKind::Refused, format!("Pod/{pod}"), text);
    cluster.refusals.insert(pod.to_owned(), refusal);
}

/// Says what the policy has done with a new Pod.
fn tell_admitted(cluster: &mut Cluster, pod: &str, admitted: &AdmittedPod) {
    let object = format!("Pod/{pod}");
    if let Some(pps) = &admitted.injected {
        let text =
            format!("gets what PersistentPodState {pps} has recorded, injected by the policy");
        cluster.tell(EventKind::Injected, object.clone(), text);
    }
    for warning in &admitted.warnings {
        cluster.tell(EventKind::Warning, object.clone(), warning.clone());
    }
}
