//! Actions about workloads.

use std::collections::BTreeMap;

use crate::adopt::uid_of;
use crate::cluster::{Cluster, Lifecycle, Workload};
use crate::finding::{Finding, unknown};
use crate::load::check_replicas;
use crate::result::EventKind;

type Outcome = Result<(), Finding>;

const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

pub(super) fn roll_out(cluster: &mut Cluster) -> Outcome {
    if cluster.workloads.is_empty() {
        return Err(Finding::of_all(
            "there is no StatefulSet to roll out: add one",
        ));
    }
    let names: Vec<String> = missing(cluster).cloned().collect();
    for name in &names {
        create_one(cluster, name);
    }
    Ok(())
}

fn missing(cluster: &Cluster) -> impl Iterator<Item = &String> {
    cluster
        .workloads
        .iter()
        .filter(|(_, one)| !one.exists())
        .map(|(name, _)| name)
}

pub(super) fn create(cluster: &mut Cluster, name: &str) -> Outcome {
    if !missing(cluster).any(|missing| missing == name) {
        return Err(unknown("deleted StatefulSet", name, missing(cluster)));
    }
    create_one(cluster, name);
    Ok(())
}

pub(super) fn create_one(cluster: &mut Cluster, name: &str) {
    let Some(workload) = cluster.workloads.get(name) else {
        return;
    };
    // The states of a scenario are those of its workload, which need not say its UID.
    let known_uid = match workload.lifecycle {
        Lifecycle::Declared => uid_of(cluster, name, &[]),
        Lifecycle::Exists | Lifecycle::Deleted => None,
    };
    let uid = known_uid.unwrap_or_else(|| cluster.new_uid());
    let Some(workload) = cluster.workloads.get_mut(name) else {
        return;
    };
    workload.begin(uid);
    let reference = workload.reference();
    let text = format!("is created (replicas: {})", workload.replicas());
    cluster.tell(EventKind::Created, reference, text);
}

/// Deletes a workload and, as the garbage collector does, its Pods and the objects that it owns.
pub(super) fn delete(cluster: &mut Cluster, name: &str) -> Outcome {
    let workload = existing(cluster, name)?;
    workload.lifecycle = Lifecycle::Deleted;
    let reference = workload.reference();
    let uid = workload.uid.clone();
    cluster.tell(
        EventKind::Deleted,
        reference.clone(),
        "is deleted by a user",
    );
    let pods: Vec<String> = cluster
        .pods
        .of(name)
        .map(|(name, _)| name.clone())
        .collect();
    for pod in pods {
        crate::settle::delete(cluster, &pod, &format!("is deleted with {reference}"));
    }
    collect(cluster, &uid);
    Ok(())
}

/// Deletes the objects whose owners are all gone.
fn collect(cluster: &mut Cluster, owner: &str) {
    let orphans: BTreeMap<String, String> = cluster
        .pps
        .iter()
        .filter(|(_, pps)| pps.is_owned_only_by(owner))
        .map(|(name, pps)| (name.clone(), pps.uid().to_owned()))
        .collect();
    for (name, uid) in orphans {
        // An owner may own itself: each object is removed once.
        if cluster.pps.remove(&name).is_some() {
            let text = "is deleted with its owner and its recorded states";
            cluster.tell(
                EventKind::Deleted,
                format!("PersistentPodState/{name}"),
                text,
            );
            collect(cluster, &uid);
        }
    }
}

pub(super) fn scale(cluster: &mut Cluster, name: &str, replicas: u32) -> Outcome {
    existing(cluster, name)?;
    check_replicas(cluster, name, u64::from(replicas))?;
    let workload = existing(cluster, name)?;
    let before = workload.replicas();
    let mut object = workload.object.clone();
    object["spec"]["replicas"] = replicas.into();
    workload.set_object(object);
    let reference = workload.reference();
    cluster.tell(
        EventKind::Changed,
        reference,
        format!("is scaled from {before} to {replicas}"),
    );
    Ok(())
}

/// Changes the template, so that all Pods are replaced.
pub(super) fn restart(cluster: &mut Cluster, name: &str) -> Outcome {
    let now = cluster.now();
    let workload = existing(cluster, name)?;
    let mut object = workload.object.clone();
    object["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] = now.into();
    workload.set_object(object);
    let reference = workload.reference();
    cluster.tell(EventKind::Changed, reference, "has a new template");
    Ok(())
}

fn existing<'a>(cluster: &'a mut Cluster, name: &str) -> Result<&'a mut Workload, Finding> {
    let existing = cluster.workloads.iter().filter(|(_, one)| one.exists());
    let finding = unknown("StatefulSet", name, existing.map(|(name, _)| name));
    cluster
        .workloads
        .get_mut(name)
        .filter(|one| one.exists())
        .ok_or(finding)
}
