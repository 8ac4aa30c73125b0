//! The sidecar: its own [`Recorder`] decides; here are the API server that it watches and writes
//! to, and its clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::governing;
use pps_core::pps::{GROUP, KIND};
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::store::Update;
use pps_recorder::facts::{GroupKind, NamespacedName, Notice, WorkloadKey};
use pps_recorder::{Absence, Fact, GeneratedPps, Recorder, StatusOutcome, StatusWrite};
use pps_scheduler::fields::controller;
use serde_json::{Map, Value};

use crate::admission::admit_pps;
use crate::cluster::{Cluster, Lifecycle, Pps, Workload};
use crate::facts;
use crate::result::EventKind;

/// All labels and annotations are kept: no list lacks a key.
const EVERY_KEY: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Sidecar {
    recorder: Recorder,
    /// Nodes that recorded states name and that went missing.
    missing: BTreeSet<Arc<str>>,
}

impl Sidecar {
    pub(crate) fn new() -> Self {
        let mut recorder = Recorder::new(Interest::default());
        recorder.apply(Fact::KindWatched(GroupKind {
            group: GROUP.into(),
            kind: "StatefulSet".into(),
        }));
        recorder.apply(Fact::KindsKnown);
        recorder.change_compact_form(|form| form.is_kept = Some(true));
        Self {
            recorder,
            missing: BTreeSet::new(),
        }
    }

    /// What the watches show of these Pods. Everything is listed again if anything may have
    /// changed.
    fn watch(&mut self, cluster: &Cluster, dirty: Option<&BTreeSet<String>>) {
        let recorder = &mut self.recorder;
        let key = |name: &str| NamespacedName::new(cluster.namespace.as_str(), name);
        if let Some(dirty) = dirty {
            for name in dirty {
                recorder.apply(Fact::Pods(match pod_fact(cluster, name) {
                    Some(fact) => Update::Apply(key(name), fact),
                    None => Update::Delete(key(name)),
                }));
            }
            return;
        }
        recorder.apply_pps(Update::Begin(0));
        for (name, pps) in cluster
            .pps
            .iter()
            .filter(|(_, pps)| is_recorded(cluster, pps))
        {
            recorder.apply_pps(Update::Apply(
                key(name),
                Box::new(facts::of_pps(&pps.object)),
            ));
        }
        recorder.apply_pps(Update::Done);
        for group in ["apps", GROUP] {
            let kind = GroupKind {
                group: group.into(),
                kind: "StatefulSet".into(),
            };
            recorder.apply(Fact::Workloads(kind.clone(), Update::Begin(0)));
            let is_there = |one: &&Workload| one.exists() && one.target.group() == group;
            for workload in cluster.workloads.values().filter(is_there) {
                let update =
                    Update::Apply(key(&workload.target.name), facts::of_workload(workload));
                recorder.apply(Fact::Workloads(kind.clone(), update));
            }
            recorder.apply(Fact::Workloads(kind.clone(), Update::Done));
        }
        recorder.apply(Fact::Pods(Update::Begin(EVERY_KEY)));
        let others = cluster.others.names();
        for name in cluster.pods.names().chain(others) {
            if let Some(fact) = pod_fact(cluster, name) {
                recorder.apply(Fact::Pods(Update::Apply(key(name), fact)));
            }
        }
        recorder.apply(Fact::Pods(Update::Done));
        recorder.apply(Fact::Nodes(Update::Begin(EVERY_KEY)));
        for (name, node) in cluster.existing_nodes() {
            recorder.apply(Fact::Nodes(Update::Apply(
                name.as_str().into(),
                facts::of_node(&node.object),
            )));
        }
        recorder.apply(Fact::Nodes(Update::Done));
        for (name, _) in cluster.existing_nodes().filter(|(_, node)| !node.is_new) {
            recorder.apply(Fact::NodeSettled(name.as_str().into()));
        }
    }

    /// Does what the recorder asks for until nothing is left. Returns whether an object has changed.
    fn work(&mut self, cluster: &mut Cluster) -> bool {
        let mut has_changed = false;
        let mut refused = BTreeSet::new();
        loop {
            let work = self.recorder.take_work();
            self.missing.extend(work.absences);
            for Notice {
                subject, message, ..
            } in work.notices
            {
                cluster.warn_once(format!("{}/{}", subject.kind, subject.object.name), message);
            }
            let generated: Vec<WorkloadKey> = work
                .generated
                .into_iter()
                .filter(|workload| !refused.contains(workload))
                .collect();
            if work.statuses.is_empty() && generated.is_empty() {
                return has_changed;
            }
            for workload in generated {
                let Some(write) = self.recorder.decide_generated(&workload) else {
                    continue;
                };
                let refusal = self.generate(cluster, &workload, &write).err();
                self.recorder
                    .on_generated_done(&workload, refusal.is_none());
                has_changed |= refusal.is_none();
                if let Some(refusal) = refusal {
                    cluster.warn_once(format!("{KIND}/{}", write.key().name), refusal.clone());
                    if let GeneratedPps::Create {
                        key,
                        is_alias: true,
                        ..
                    } = &write
                    {
                        self.recorder.on_alias_refused(key, &workload, refusal);
                    }
                    refused.insert(workload);
                }
            }
            let mut unconfirmed = BTreeSet::new();
            for key in work.statuses {
                let decision = self.recorder.decide_status(&key, &cluster.now());
                unconfirmed.extend(decision.unconfirmed_nodes);
                if let Some(write) = decision.write {
                    has_changed |= self.write_status(cluster, &write).is_some();
                }
            }
            for node in unconfirmed {
                let absence = if cluster.has_node(&node) {
                    Absence::InGracePeriod
                } else {
                    Absence::Confirmed
                };
                self.recorder.set_absence(&node, absence);
            }
        }
    }

    fn write_status(&mut self, cluster: &mut Cluster, write: &StatusWrite) -> Option<()> {
        let key = &write.key;
        let states = cluster.pps.get(&*key.name)?.states();
        let version = patch_status(cluster, &key.name, &write.patch["status"])?;
        let resource_version = &version;
        let outcome = StatusOutcome::Stored { resource_version };
        self.recorder.on_status_done(key, &write.uid, outcome);
        let states_after = cluster.pps.get(&*key.name)?.states();
        let object = format!("{KIND}/{}", key.name);
        for (pod, state) in states_after
            .iter()
            .filter(|(pod, state)| states.get(*pod) != Some(*state))
        {
            let facts = state.node_topology_labels.iter().chain(&state.annotations);
            let facts: Vec<String> = facts.map(|(key, value)| format!("{key}={value}")).collect();
            let text = format!(
                "records {pod}: it runs on {} ({})",
                state.node_name,
                facts.join(", ")
            );
            cluster.tell(EventKind::Recorded, object.clone(), text);
        }
        for (pod, state) in states
            .iter()
            .filter(|(pod, _)| !states_after.contains_key(*pod))
        {
            let why = why_dropped(cluster, &key.name, &state.node_name);
            let text = format!("drops the state of {pod} ({why})");
            cluster.tell(EventKind::Forgotten, object.clone(), text);
        }
        Some(())
    }

    /// Makes, changes or deletes a generated PPS or an alias. The error says why the policy refuses
    /// it.
    fn generate(
        &mut self,
        cluster: &mut Cluster,
        workload: &WorkloadKey,
        write: &GeneratedPps,
    ) -> Result<(), String> {
        let name = &*write.key().name;
        let (before, mut object, event) = match write {
            GeneratedPps::Delete { key, .. } => {
                cluster.pps.remove(name);
                self.recorder.apply_pps(Update::Delete(key.clone()));
                cluster.tell(
                    EventKind::Deleted,
                    format!("{KIND}/{name}"),
                    "is deleted by the sidecar",
                );
                return Ok(());
            }
            GeneratedPps::Create { body, .. } => {
                let WorkloadKey { kind, object } = workload;
                let text = format!("is made by the sidecar for {}/{}", kind.kind, object.name);
                (None, body.clone(), (EventKind::Created, text))
            }
            GeneratedPps::Update { patch, .. } => {
                let Some(before) = cluster.pps.get(name).map(|pps| pps.object.clone()) else {
                    return Ok(());
                };
                let mut object = before.clone();
                merge(&mut object, patch);
                (
                    Some(before),
                    object,
                    (EventKind::Changed, "is changed by the sidecar".to_owned()),
                )
            }
        };
        admit_pps(cluster, &object, before.as_ref()).map_err(|refusal| {
            format!(
                "cannot be written by the sidecar ({}): {}",
                refusal.code, refusal.message
            )
        })?;
        cluster.set_server_fields(&mut object, before.as_ref());
        let fact = Box::new(facts::of_pps(&object));
        self.recorder
            .apply_pps(Update::Apply(write.key().clone(), fact));
        cluster.pps.insert(name.to_owned(), Pps::new(object));
        cluster.tell(event.0, format!("{KIND}/{name}"), event.1);
        Ok(())
    }
}

/// Patches the status of a PPS. Returns the version that the object has then.
pub(crate) fn patch_status(cluster: &mut Cluster, pps: &str, patch: &Value) -> Option<String> {
    let version = cluster.new_version();
    let object = &mut cluster.pps.get_mut(pps)?.object;
    merge(&mut object["status"], patch);
    object["metadata"]["resourceVersion"] = version.as_str().into();
    Some(version)
}

/// Lets the sidecar examine what has changed. Returns whether it has changed something itself.
pub(crate) fn react(cluster: &mut Cluster) -> bool {
    let dirty = cluster.dirty.replace(BTreeSet::new());
    let is_dirty = dirty.as_ref().is_none_or(|dirty| !dirty.is_empty());
    let Some(mut sidecar) = cluster.sidecar.take_if(|_| is_dirty) else {
        return false;
    };
    sidecar.watch(cluster, dirty.as_ref());
    let has_changed = sidecar.work(cluster);
    cluster.sidecar = Some(sidecar);
    has_changed
}

/// The grace period of all missing nodes ends.
pub(crate) fn end_grace_period(cluster: &mut Cluster) {
    let Some(Sidecar { recorder, missing }) = &mut cluster.sidecar else {
        return;
    };
    for node in std::mem::take(missing) {
        if recorder.is_missing(&node) {
            recorder.set_absence(&node, Absence::Overdue);
            missing.insert(node);
        }
    }
}

/// Evicts the Pods that no node can take because they require the values of a deleted node, and
/// whose state has been dropped: their successors do not require them. Without the sidecar's flag
/// they stay Pending.
pub(crate) fn evict(cluster: &mut Cluster) {
    let Some(Sidecar { recorder, .. }) = &cluster.sidecar else {
        return;
    };
    let key = |name: &String| NamespacedName::new(cluster.namespace.as_str(), name.as_str());
    let waiting = cluster.pods.waiting().map(|(name, _)| name);
    let evicted: Vec<String> = waiting
        .filter(|name| recorder.decide_eviction(&key(name)).is_some())
        .cloned()
        .collect();
    for name in evicted {
        let (kind, text) = if cluster.evict_pending_pods {
            cluster.remove_pod(&name);
            (
                EventKind::Evicted,
                "is evicted: it was Pending for a node that does not exist (--evict-pending-pods)",
            )
        } else {
            let text = "stays Pending for a node that does not exist: delete it, or start the \
                        sidecar with --evict-pending-pods (PodNotEvicted)";
            (EventKind::Warning, text)
        };
        cluster.tell(kind, format!("Pod/{name}"), text);
    }
}

/// Before a workload is rolled out for the first time, what was recorded for it waits for it.
fn is_recorded(cluster: &Cluster, pps: &Pps) -> bool {
    let target = governing::aliased(&pps.target)
        .and_then(|name| cluster.pps.get(name))
        .map_or(&pps.target, |pps| &pps.target);
    let workload = cluster
        .workloads
        .get(&target.name)
        .filter(|one| one.target.is_same_workload(target));
    workload.is_none_or(|workload| workload.lifecycle != Lifecycle::Declared)
}

fn pod_fact(cluster: &Cluster, name: &str) -> Option<pps_recorder::facts::PodFact> {
    if let Some(pod) = cluster.pods.get(name) {
        let owner = cluster
            .workloads
            .get(&pod.workload)
            .map(|workload| workload.uid.as_str());
        return Some(facts::of_pod(&pod.object, owner));
    }
    let pod = cluster.others.named(name)?;
    Some(facts::of_pod(
        pod,
        controller(pod).and_then(|owner| owner["uid"].as_str()),
    ))
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Map::new().into();
    }
    for (field, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(field));
        } else {
            merge(&mut target[field], value);
        }
    }
}

/// The policy for which a state is dropped.
fn why_dropped(cluster: &Cluster, pps: &str, node: &str) -> String {
    let spec = cluster
        .pps
        .get(pps)
        .map_or(&Value::Null, |pps| &pps.object["spec"]);
    if spec["nodeDeletionPolicy"] == "Forget" && !node.is_empty() && !cluster.has_node(node) {
        return format!("node {node} no longer exists; nodeDeletionPolicy: Forget");
    }
    let policy = spec["persistentPodStateRetentionPolicy"]
        .as_str()
        .unwrap_or("WhenScaled");
    format!("persistentPodStateRetentionPolicy: {policy}")
}
