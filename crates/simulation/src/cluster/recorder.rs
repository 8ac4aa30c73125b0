//! The sidecar: its own [`Recorder`] decides; here are the API server that it watches and writes
//! to, and its clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::governing;
use pps_core::pps::{GROUP, KIND};
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::store::Update;
use pps_recorder::facts::{GroupKind, NamespacedName, Notice, WorkloadKey};
use pps_recorder::{
    Absence, Fact, FallbackCandidate, GeneratedPps, Recorder, StatusOutcome, StatusWrite,
};
use pps_scheduler::fields::controller;
use serde_json::{Map, Value};

use crate::admission::admit_pps;
use crate::cluster::{Cluster, Lifecycle, Pps};
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
        recorder.apply(Fact::KindWatched(stateful_sets(GROUP)));
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
        let Some(dirty) = dirty else {
            self.list_pps(cluster);
            self.list_workloads(cluster);
            self.list_pods(cluster);
            self.list_nodes(cluster);
            return;
        };
        for name in dirty {
            let key = key_of(cluster, name);
            self.recorder
                .apply(Fact::Pods(match pod_fact(cluster, name) {
                    Some(fact) => Update::Apply(key, fact),
                    None => Update::Delete(key),
                }));
        }
    }

    fn list_pps(&mut self, cluster: &Cluster) {
        self.recorder.apply_pps(Update::Begin(0));
        for (name, pps) in &cluster.pps {
            if is_recorded(cluster, pps) {
                let fact = Box::new(facts::of_pps(&pps.object));
                let update = Update::Apply(key_of(cluster, name), fact);
                self.recorder.apply_pps(update);
            }
        }
        self.recorder.apply_pps(Update::Done);
    }

    fn list_workloads(&mut self, cluster: &Cluster) {
        for group in ["apps", GROUP] {
            let kind = stateful_sets(group);
            self.recorder
                .apply(Fact::Workloads(kind.clone(), Update::Begin(0)));
            for workload in cluster.workloads.values() {
                if workload.exists() && workload.target.group() == group {
                    let key = key_of(cluster, &workload.target.name);
                    let update = Update::Apply(key, facts::of_workload(workload));
                    self.recorder.apply(Fact::Workloads(kind.clone(), update));
                }
            }
            self.recorder
                .apply(Fact::Workloads(kind.clone(), Update::Done));
        }
    }

    fn list_pods(&mut self, cluster: &Cluster) {
        self.recorder.apply(Fact::Pods(Update::Begin(EVERY_KEY)));
        for name in cluster.pods.names().chain(cluster.others.names()) {
            if let Some(fact) = pod_fact(cluster, name) {
                let update = Update::Apply(key_of(cluster, name), fact);
                self.recorder.apply(Fact::Pods(update));
            }
        }
        self.recorder.apply(Fact::Pods(Update::Done));
    }

    fn list_nodes(&mut self, cluster: &Cluster) {
        self.recorder.apply(Fact::Nodes(Update::Begin(EVERY_KEY)));
        for (name, node) in cluster.existing_nodes() {
            let fact = facts::of_node(&node.object);
            self.recorder
                .apply(Fact::Nodes(Update::Apply(name.as_str().into(), fact)));
        }
        self.recorder.apply(Fact::Nodes(Update::Done));
        for (name, node) in cluster.existing_nodes() {
            if !node.is_new {
                self.recorder.apply(Fact::NodeSettled(name.as_str().into()));
            }
        }
    }

    /// Does what the index asks for until nothing is left. Returns whether an object has changed.
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
            let mut generated = work.generated;
            generated.retain(|workload| !refused.contains(workload));
            if work.statuses.is_empty() && generated.is_empty() {
                return has_changed;
            }
            for workload in generated {
                match self.generate(cluster, &workload) {
                    Generation::Written => has_changed = true,
                    Generation::Refused => drop(refused.insert(workload)),
                    Generation::NotNeeded => {}
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

    /// Makes, changes or deletes the generated PPS or the alias of a workload.
    fn generate(&mut self, cluster: &mut Cluster, workload: &WorkloadKey) -> Generation {
        let Some(write) = self.recorder.decide_generated(workload) else {
            return Generation::NotNeeded;
        };
        let refusal = self.write_generated(cluster, workload, &write).err();
        self.recorder.on_generated_done(workload, refusal.is_none());
        let Some(refusal) = refusal else {
            return Generation::Written;
        };
        cluster.warn_once(format!("{KIND}/{}", write.key().name), refusal.clone());
        if let GeneratedPps::Create {
            key,
            is_alias: true,
            ..
        } = &write
        {
            self.recorder.on_alias_refused(key, workload, refusal);
        }
        Generation::Refused
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

    /// The error says why the policy refuses the object.
    fn write_generated(
        &mut self,
        cluster: &mut Cluster,
        workload: &WorkloadKey,
        write: &GeneratedPps,
    ) -> Result<(), String> {
        let key = write.key();
        let object = format!("{KIND}/{}", key.name);
        match write {
            GeneratedPps::Delete { .. } => {
                cluster.pps.remove(&*key.name);
                self.recorder.apply_pps(Update::Delete(key.clone()));
                cluster.tell(EventKind::Deleted, object, "is deleted by the sidecar");
            }
            GeneratedPps::Create { body, .. } => {
                self.put(cluster, key, body.clone(), None)?;
                let workload = format!("{}/{}", workload.kind.kind, workload.object.name);
                let text = format!("is made by the sidecar for {workload}");
                cluster.tell(EventKind::Created, object, text);
            }
            GeneratedPps::Update { patch, .. } => {
                let Some(before) = cluster.pps.get(&*key.name) else {
                    return Ok(());
                };
                let before = before.object.clone();
                let mut after = before.clone();
                merge(&mut after, patch);
                self.put(cluster, key, after, Some(&before))?;
                cluster.tell(EventKind::Changed, object, "is changed by the sidecar");
            }
        }
        Ok(())
    }

    /// Stores a PPS that replaces another or is new, unless the policy refuses it.
    fn put(
        &mut self,
        cluster: &mut Cluster,
        key: &NamespacedName,
        mut object: Value,
        before: Option<&Value>,
    ) -> Result<(), String> {
        admit_pps(cluster, &object, before).map_err(|refusal| {
            format!(
                "cannot be written by the sidecar ({}): {}",
                refusal.code, refusal.message
            )
        })?;
        cluster.set_server_fields(&mut object, before);
        let fact = Box::new(facts::of_pps(&object));
        self.recorder.apply_pps(Update::Apply(key.clone(), fact));
        cluster.pps.insert(key.name.to_string(), Pps::new(object));
        Ok(())
    }
}

/// What has come of a generated PPS.
enum Generation {
    NotNeeded,
    Written,
    Refused,
}

fn key_of(cluster: &Cluster, name: &str) -> NamespacedName {
    NamespacedName::new(cluster.namespace.as_str(), name)
}

fn stateful_sets(group: &str) -> GroupKind {
    GroupKind {
        group: group.into(),
        kind: "StatefulSet".into(),
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
    let evicted: Vec<String> = cluster
        .pods
        .waiting()
        .map(|(name, _)| name)
        .filter(|name| recorder.decide_eviction(&key_of(cluster, name)).is_some())
        .cloned()
        .collect();
    for name in evicted {
        let object = format!("Pod/{name}");
        if cluster.evict_pending_pods {
            cluster.remove_pod(&name);
            let text =
                "is evicted: it was Pending for a node that does not exist (--evict-pending-pods)";
            cluster.tell(EventKind::Evicted, object, text);
        } else {
            let text = "stays Pending for a node that does not exist: delete it, or start the \
                        sidecar with --evict-pending-pods (PodNotEvicted)";
            cluster.tell(EventKind::Warning, object, text);
        }
    }
}

/// The Pods that wait for a place which they require until an end.
pub(crate) fn fallback_candidates(cluster: &Cluster) -> Vec<FallbackCandidate> {
    let sidecar = cluster.sidecar.as_ref();
    sidecar.map_or_else(Vec::new, |sidecar| sidecar.recorder.fallback_candidates())
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
