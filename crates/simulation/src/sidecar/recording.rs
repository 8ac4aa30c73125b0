//! What becomes of each recorded state.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::demand::Wanted;
use pps_core::pps::{KIND, RetentionPolicy};
use pps_core::record::{RunningPod, record};
use pps_core::status::{Recording, with_recording};
use pps_core::workload::{PodLocation, PodOwnership, WorkloadPresence, forgets_state, retains_state};
use pps_core::{PodState, RECORD_ANNOTATION, Reason, Spec, forbids_recording};

use super::governing::governing;
use crate::cluster::{Cluster, Dirty, Lifecycle, Pod, Pps, Workload};
use crate::result::EventKind;
use crate::text::list;

/// What becomes of one entry.
enum Decision {
    Keep,
    Record(PodState),
    /// It is dropped, for this reason.
    Drop(String),
}

/// Records and drops the states of dirty Pods. Returns whether a status has changed.
pub(super) fn react(cluster: &mut Cluster, dirty: &Dirty) -> bool {
    let is_concerned = |(_, pps): &(&String, &Pps)| {
        let concerns = |name: &String| {
            let is_owned = |pod: &Pod| pod.workload == pps.target.name;
            pps.states.contains_key(name) || cluster.pods.get(name).is_some_and(is_owned)
        };
        dirty.all || dirty.pods.iter().any(concerns)
    };
    let names: Vec<String> = cluster.pps.iter().filter(is_concerned).map(|(name, _)| name.clone()).collect();
    let mut has_changed = false;
    for name in names {
        has_changed |= react_one(cluster, &name, dirty).unwrap_or(false);
    }
    has_changed
}

fn react_one(cluster: &mut Cluster, name: &str, dirty: &Dirty) -> Option<bool> {
    let pps = cluster.pps.get(name).filter(|pps| !pps.is_alias())?;
    let spec = match pps.spec.clone() {
        Ok(spec) => spec,
        Err(error) => {
            let text = format!("cannot be read, so nothing is recorded in it: {error}");
            cluster.warn_once(format!("PersistentPodState/{name}"), text);
            return None;
        }
    };
    let workload = cluster.workloads.get(&pps.target.name);
    let workload = workload.filter(|workload| workload.target.is_same_workload(&pps.target));
    // Nobody has created it yet, and nobody has deleted it either: what was recorded elsewhere waits for it.
    if workload.is_some_and(|workload| workload.lifecycle == Lifecycle::Declared) {
        return None;
    }
    let workload = workload.filter(|workload| workload.exists());
    let superseded_by = governing(cluster, &pps.target).filter(|other| other != name);
    let obstacle = superseded_by
        .map(|other| Recording::superseded_by(&other))
        .or_else(|| spec.exceeds_limits().map(|excess| Recording::limit_exceeded(&excess)))
        .or_else(|| workload.is_none().then(|| Recording::workload_not_found(&pps.target)));
    let records = obstacle.as_ref().is_none_or(|obstacle| obstacle.reason == Reason::WorkloadNotFound);

    let mut changes = BTreeMap::new();
    let mut told = Vec::new();
    for pod in pods(cluster, name, workload, dirty).into_iter().filter(|_| records) {
        match decide(cluster, name, &spec, workload, &pod)? {
            Decision::Keep => {}
            Decision::Record(state) => {
                let before = pps.states.get(&pod);
                if before != Some(&state) {
                    told.push((EventKind::Recorded, describe_state(&pod, &state, before)));
                    changes.insert(pod, Some(state));
                }
            }
            Decision::Drop(why) => {
                told.push((EventKind::Forgotten, format!("drops the state of {pod}: {why}")));
                changes.insert(pod, None);
            }
        }
    }
    let target_uid = workload.filter(|_| records).map(|workload| workload.uid.clone());
    let desired = workload.map_or(Some(0), |workload| workload.demand.replicas());
    let object = format!("{KIND}/{name}");
    for (kind, text) in told {
        cluster.tell(kind, object.clone(), text);
    }
    let now = cluster.now();
    let pps = cluster.pps.get_mut(name)?;
    let has_other_header = (target_uid.is_some() && pps.target_uid != target_uid)
        || pps.object["status"]["desired"].as_u64() != desired;
    let mut has_changed = !changes.is_empty() || has_other_header;
    for (pod, change) in changes {
        match change {
            Some(state) => pps.states.insert(pod, state),
            None => pps.states.remove(&pod),
        };
    }
    pps.target_uid = target_uid.or_else(|| pps.target_uid.take());
    let missing_label =
        || pps.states.iter().find_map(|(pod, state)| Recording::missing_label(&spec, pod, state));
    let recording = obstacle
        .or_else(|| pps.hidden.clone().map(Recording::name_conflict))
        .or_else(missing_label)
        .unwrap_or_else(|| Recording::progress(pps.states.len(), desired));
    if let Some(conditions) = with_recording(&pps.conditions, &recording, pps.generation(), &now) {
        pps.conditions = conditions;
        has_changed = true;
        if !recording.ok {
            let text =
                format!("has the condition Recording=False ({}): {}", recording.reason, recording.message);
            cluster.warn_once(object, text);
        }
    }
    if has_changed {
        cluster.pps.get_mut(name)?.write_status(desired);
    }
    Some(has_changed)
}

/// The Pods whose entries have to be examined.
fn pods(cluster: &Cluster, pps: &str, workload: Option<&Workload>, dirty: &Dirty) -> BTreeSet<String> {
    let states = cluster.pps.get(pps).map(|pps| &pps.states);
    if !dirty.all {
        let is_owned = |pod: &Pod| workload.is_some_and(|workload| workload.target.name == pod.workload);
        let is_recorded = |name: &String| states.is_some_and(|states| states.contains_key(name));
        let concerned = |name: &&String| is_recorded(name) || cluster.pods.get(name).is_some_and(is_owned);
        return dirty.pods.iter().filter(concerned).cloned().collect();
    }
    let recorded = states.into_iter().flat_map(BTreeMap::keys);
    let owned = workload.into_iter().flat_map(|workload| cluster.pods.of(&workload.target.name));
    let owned = owned.map(|(name, _)| name);
    recorded.chain(owned).cloned().collect()
}

fn decide(
    cluster: &Cluster,
    pps: &str,
    spec: &Spec,
    workload: Option<&Workload>,
    name: &str,
) -> Option<Decision> {
    let pps = cluster.pps.get(pps)?;
    let before = pps.states.get(name);
    let pod = cluster.pods.get(name).filter(|pod| pod.workload == pps.target.name);
    let ownership = match pod {
        Some(_) => PodOwnership::Owned,
        None if cluster.others().has(name) => PodOwnership::Foreign,
        None => PodOwnership::Absent,
    };
    let recorded = pod.filter(|pod| {
        let exempt = &pod.object["metadata"]["annotations"][RECORD_ANNOTATION];
        !exempt.as_str().is_some_and(forbids_recording)
    });
    if let (Some(_), Some(pod)) = (workload, recorded)
        && let Some(node_name) = pod.node().filter(|_| pod.is_ready())
    {
        let Some(node) = cluster.node(node_name).filter(|node| node.exists) else {
            return Some(Decision::Keep);
        };
        let annotations = &pod.object["metadata"]["annotations"];
        let running = RunningPod {
            node_name,
            is_node_new: node.is_new,
            node_label: &|key| node.label(key),
            annotation: &|key| annotations[key].as_str(),
            pod_ips: pod.ips(),
        };
        return Some(Decision::Record(record(spec, &running, before)));
    }
    let Some(before) = before else { return Some(Decision::Keep) };
    let place = match pod.and_then(Pod::node) {
        None => PodLocation::Unbound,
        Some(node) if node == before.node_name => PodLocation::SameNode,
        Some(_) => PodLocation::OtherNode,
    };
    let is_ready = pod.is_some_and(Pod::is_ready);
    if cluster.overdue.contains(&before.node_name)
        && forgets_state(spec.node_deletion(), ownership, is_ready, place)
    {
        let why = format!("node {} no longer exists (nodeDeletionPolicy: Forget)", before.node_name);
        return Some(Decision::Drop(why));
    }
    let presence = presence(cluster, pps.target_uid.as_deref(), &pps.target.name, workload);
    let living = cluster.pods.of(&pps.target.name).count();
    let is_wanted =
        workload.is_some_and(|workload| workload.demand.wants(&pps.target.name, name, living) != Wanted::No);
    if retains_state(spec.retention(), presence, is_wanted, ownership) {
        return Some(Decision::Keep);
    }
    let policy = match spec.retention() {
        RetentionPolicy::WhenScaled => "WhenScaled",
        RetentionPolicy::WhenDeleted => "WhenDeleted",
        RetentionPolicy::Retain => "Retain",
    };
    let target = format!("{} {}", pps.target.kind, pps.target.name);
    let why = match presence {
        WorkloadPresence::Present => format!("{target} no longer wants a Pod of that name"),
        WorkloadPresence::Replaced => format!("it was recorded for an earlier {target}"),
        WorkloadPresence::Gone | WorkloadPresence::Awaited => format!("{target} does not exist"),
    };
    Some(Decision::Drop(format!("{why} (persistentPodStateRetentionPolicy: {policy})")))
}

fn presence(
    cluster: &Cluster,
    target_uid: Option<&str>,
    name: &str,
    workload: Option<&Workload>,
) -> WorkloadPresence {
    match (workload, target_uid) {
        (Some(workload), Some(uid)) if uid != workload.uid => WorkloadPresence::Replaced,
        (Some(_), _) => WorkloadPresence::Present,
        (None, None) if !cluster.workloads.contains_key(name) => WorkloadPresence::Awaited,
        (None, _) => WorkloadPresence::Gone,
    }
}

fn describe_state(pod: &str, state: &PodState, before: Option<&PodState>) -> String {
    let facts = state.node_topology_labels.iter().chain(&state.annotations);
    let facts: Vec<String> = facts.map(|(key, value)| format!("{key}={value}")).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let verb = match before {
        Some(before) if before.node_name == state.node_name => "records a change of",
        Some(_) => "records the new node of",
        None => "records",
    };
    let gone = before.map(|before| describe_gone(before, state)).unwrap_or_default();
    format!("{verb} {pod}: it runs on {}{facts}{gone}", state.node_name)
}

/// The keys that have no recorded value any more.
fn describe_gone(before: &PodState, state: &PodState) -> String {
    let labels = before.node_topology_labels.keys();
    let labels = labels.filter(|key| !state.node_topology_labels.contains_key(*key));
    let annotations = before.annotations.keys().filter(|key| !state.annotations.contains_key(*key));
    let keys: Vec<&str> = labels.chain(annotations).map(String::as_str).collect();
    if keys.is_empty() {
        String::new()
    } else {
        format!("; no value of {} is recorded now", list(&keys, "or"))
    }
}
