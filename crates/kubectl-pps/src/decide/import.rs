//! `import`: reads PersistentPodStates of a file, and decides for each whether it is created, gets
//! states, or stays.

mod entry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pps_admission::plan::Requirement;
use pps_admission::validate::Violation;
use pps_core::edit::{self, Change, Edit, EditError, Merge};
use pps_core::{AnnotationRules, PodState, Spec, TargetReference};
use pps_recorder::workload::{PodOwnership, WorkloadPresence, retains_state};
use serde_json::Value;

pub use self::entry::{Entry, Flaw, FlawedObject, Options, read};
use crate::snapshot::{Index, Node, Pps, Snapshot, WorkloadKey};

/// What is done with one object of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The spec that it has in the cluster then: an import changes none.
    pub spec: Spec,
    /// What is done.
    pub action: Action,
    /// The workload of the cluster's states, if it was deleted.
    pub former_uid: Option<String>,
    /// Whether it may have been deleted: workloads of its kind are not read.
    pub may_be_gone: bool,
    /// The states that are written.
    pub changes: BTreeMap<String, Change>,
    /// Pods whose other state in the cluster stays.
    pub kept: BTreeSet<String>,
    /// Ready Pods: the sidecar records where they run.
    pub ready: BTreeSet<String>,
    /// Pods that the workload does not want: the sidecar would drop their states.
    pub unwanted: BTreeSet<String>,
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It is created, and gets its states in a second write.
    Create(Value),
    /// It exists and gets states.
    Update,
    /// It exists and has all states of the file.
    Nothing,
    /// It cannot be imported.
    Refuse(Refusal),
}

/// Why an object cannot be imported.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The object in the cluster is for another workload.
    OtherTarget(TargetReference),
    /// Another object, in the cluster or before it in the file, is for this workload.
    SharedTarget(String),
    /// The policy would not let it be created.
    Invalid(Vec<Violation>),
    /// The states cannot be written.
    Edit(EditError),
}

impl Plan {
    /// The number of states that replace another state.
    pub fn replaced(&self) -> usize {
        self.changes
            .values()
            .filter(|change| change.replaces())
            .count()
    }

    pub fn writes(&self) -> bool {
        matches!(self.action, Action::Create(_) | Action::Update)
    }
}

/// Decides for each object of a file.
pub fn plan(entries: &[Entry], snapshot: &Snapshot, overwrite: bool) -> Vec<Plan> {
    let planner = Planner {
        snapshot,
        index: Index::of(snapshot),
        overwrite,
    };
    let existing: BTreeMap<_, _> = snapshot
        .pps
        .iter()
        .map(|pps| ((pps.namespace(), pps.name()), pps))
        .collect();
    let mut created: BTreeMap<WorkloadKey, &str> = BTreeMap::new();
    let mut plans = Vec::new();
    for entry in entries {
        let existing = existing.get(&(entry.pps.namespace(), entry.pps.name()));
        let mut plan = planner.plan(entry, existing.copied());
        if let Action::Create(_) = plan.action {
            let key = WorkloadKey::of(entry.pps.namespace(), &entry.pps.target());
            let first = *created.entry(key).or_insert(entry.pps.name());
            if first != plan.name {
                plan.action = Action::Refuse(Refusal::SharedTarget(first.to_owned()));
                plan.changes.clear();
            }
        }
        plans.push(plan);
    }
    plans
}

/// Decides for one object after the other.
struct Planner<'a> {
    snapshot: &'a Snapshot,
    index: Index<'a>,
    overwrite: bool,
}

/// What is done with an object, and with its states.
struct Decided {
    action: Action,
    merge: Merge,
}

impl Planner<'_> {
    /// Decides for one object; `found` is the object of this name in the cluster.
    fn plan(&self, entry: &Entry, found: Option<&Pps>) -> Plan {
        let namespace = entry.pps.namespace();
        let key = WorkloadKey::of(namespace, &entry.pps.target());
        let spec = found.unwrap_or(&entry.pps).spec().unwrap_or_default();
        let unwanted = self.unwanted(entry, &key, &spec);
        let mut states = entry.states.clone();
        states.retain(|pod, _| !unwanted.contains(pod));
        let ready: BTreeSet<String> = states
            .keys()
            .filter(|pod| self.is_recorded_soon(namespace, pod, found))
            .cloned()
            .collect();
        states.retain(|pod, _| !ready.contains(pod));
        let Decided { action, merge } =
            self.decide(entry, found, &key, &states)
                .unwrap_or_else(|refusal| Decided {
                    action: Action::Refuse(refusal),
                    merge: Merge {
                        edit: None,
                        kept: BTreeSet::new(),
                    },
                });
        let missing_uid = found
            .and_then(|pps| pps.object()["status"]["targetUID"].as_str())
            .filter(|_| self.index.workload(&key).is_none());
        let is_gone = self.snapshot.has_all_like(&key);
        Plan {
            namespace: namespace.to_owned(),
            name: entry.pps.name().to_owned(),
            spec,
            action,
            former_uid: missing_uid.filter(|_| is_gone).map(str::to_owned),
            may_be_gone: missing_uid.is_some() && !is_gone,
            changes: merge.edit.map(|edit| edit.changes).unwrap_or_default(),
            kept: merge.kept,
            ready,
            unwanted,
        }
    }

    /// The Pods whose states the sidecar would drop, since the workload does not want the Pods.
    fn unwanted(&self, entry: &Entry, key: &WorkloadKey, spec: &Spec) -> BTreeSet<String> {
        let Some(workload) = self.index.workload(key) else {
            return BTreeSet::new();
        };
        let is_kept = retains_state(
            spec.retention(),
            WorkloadPresence::Present,
            false,
            PodOwnership::Absent,
        );
        entry
            .states
            .keys()
            .filter(|pod| !is_kept && !workload.wants(pod))
            .cloned()
            .collect()
    }

    /// Whether the sidecar records where this Pod runs.
    fn is_recorded_soon(&self, namespace: &str, pod: &str, found: Option<&Pps>) -> bool {
        self.index.pod(namespace, pod).is_some_and(|pod| {
            self.snapshot.is_recordable(pod)
                && found.is_none_or(|pps| self.index.may_record(pps, pod))
        })
    }

    fn decide(
        &self,
        entry: &Entry,
        found: Option<&Pps>,
        key: &WorkloadKey,
        states: &BTreeMap<String, PodState>,
    ) -> Result<Decided, Refusal> {
        if let Some(pps) = found {
            if !pps.target().is_same_workload(&entry.pps.target()) {
                return Err(Refusal::OtherTarget(pps.target()));
            }
            let merge = edit::merge_or_compact(pps.object(), states, self.overwrite)
                .map_err(Refusal::Edit)?;
            let action = if merge.edit.is_some() {
                Action::Update
            } else {
                Action::Nothing
            };
            return Ok(Decided { action, merge });
        }
        if let Some(other) = self.index.governing(key) {
            return Err(Refusal::SharedTarget(other.name().to_owned()));
        }
        if !entry.violations.is_empty() {
            return Err(Refusal::Invalid(entry.violations.clone()));
        }
        // The object as the API server will store it.
        let mut created = entry.pps.object().clone();
        created["metadata"]["uid"] = "new".into();
        created["metadata"]["resourceVersion"] = "0".into();
        Ok(Decided {
            merge: edit::merge_or_compact(&created, states, false).map_err(Refusal::Edit)?,
            action: Action::Create(entry.pps.object().clone()),
        })
    }
}

/// The next write to an object that was just read, within the plan that the user has seen. None if
/// nothing is left to do. A state that has changed since then stays.
pub fn next_write(object: &Value, plan: &Plan) -> Result<Option<Edit>, EditError> {
    let now = edit::states(object)?;
    let states = plan
        .changes
        .iter()
        .filter(|(pod, change)| now.get(*pod) == shown_before(change))
        .filter_map(|(pod, change)| Some((pod.clone(), change.after.clone()?)))
        .collect();
    let Some(mut edit) = edit::merge(object, &states, true)?.edit else {
        return Ok(None);
    };
    let uid = object["status"]["targetUID"].as_str();
    if uid.is_some() && uid == plan.former_uid.as_deref() {
        edit.forget_workload();
    }
    Ok(Some(edit))
}

/// The state that the change replaces; none if that is empty.
fn shown_before(change: &Change) -> Option<&PodState> {
    change
        .before
        .as_ref()
        .filter(|state| **state != PodState::default())
}

/// A node label and a value of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelValue {
    pub key: String,
    pub value: String,
}

/// The required values of the written states that no node has, each with the number of its states.
pub fn absent_values(
    plans: &[Plan],
    nodes: &BTreeMap<String, Node>,
) -> BTreeMap<LabelValue, usize> {
    let mut values = BTreeMap::new();
    for plan in plans {
        let written = plan
            .changes
            .values()
            .filter_map(|change| change.after.as_ref());
        for state in written {
            let injected = pps_admission::plan("", &plan.spec, state, &AnnotationRules::default());
            for Requirement { key, value } in injected.required {
                *values.entry(LabelValue { key, value }).or_default() += 1;
            }
        }
    }
    values.retain(|one, _| {
        !nodes
            .values()
            .any(|node| node.label(&one.key) == Some(&one.value))
    });
    values
}
