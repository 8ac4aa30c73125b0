//! `import`: reads PersistentPodStates of a file, and decides for each whether it is created, gets
//! states, or stays.

use std::collections::{BTreeMap, BTreeSet};

use pps_admission::validate::{self, Violation};
use pps_core::edit::{self, Change, Edit, EditError, Merge};
use pps_core::pps::{API_VERSIONS, KIND};
use pps_core::{AnnotationRules, PodState, Spec, TargetReference, is_dns_subdomain};
use pps_recorder::workload::{PodOwnership, WorkloadPresence, retains_state};
use pps_scheduler::HOSTNAME;
use serde_json::Value;

use super::export::portable;
use crate::snapshot::{Index, Node, Pod, Pps, Snapshot, WorkloadKey};

#[cfg(test)]
mod tests;

/// The most objects that one file may have.
const MAX_OBJECTS: usize = 20_000;

/// Which objects of a file are imported, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only objects of this namespace.
    pub only: Option<String>,
    /// The namespace of objects that name none.
    pub default_namespace: String,
    /// Labels and annotations that are left out.
    pub drop_keys: Vec<String>,
}

/// An object of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The object without its status.
    pub pps: Pps,
    /// Its states without empty ones.
    pub states: BTreeMap<String, PodState>,
    /// Why the policy would not let it be created.
    pub violations: Vec<Violation>,
}

/// What is wrong with an object of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Flaw {
    Empty,
    TooMany { most: usize },
    OtherKind { api_version: String, kind: String },
    Name { field: &'static str, value: String },
    States { name: String, error: EditError },
    Twice { namespace: String, name: String },
}

/// Reads the objects of a file. Aliases are left out: the sidecar makes them again.
pub fn read(objects: &[Value], options: &Options) -> Result<Vec<Entry>, Vec<(usize, Flaw)>> {
    if objects.is_empty() {
        return Err(vec![(0, Flaw::Empty)]);
    }
    if objects.len() > MAX_OBJECTS {
        return Err(vec![(MAX_OBJECTS, Flaw::TooMany { most: MAX_OBJECTS })]);
    }
    let (mut entries, mut flaws) = (BTreeMap::new(), Vec::new());
    for (index, object) in objects.iter().enumerate() {
        match read_one(object, options) {
            Ok(None) => {}
            Ok(Some(entry)) => {
                let (namespace, name) = (
                    entry.pps.namespace().to_owned(),
                    entry.pps.name().to_owned(),
                );
                if entries
                    .insert((namespace.clone(), name.clone()), entry)
                    .is_some()
                {
                    flaws.push((index, Flaw::Twice { namespace, name }));
                }
            }
            Err(found) => flaws.extend(found.into_iter().map(|flaw| (index, flaw))),
        }
    }
    if flaws.is_empty() {
        Ok(entries.into_values().collect())
    } else {
        Err(flaws)
    }
}

/// None if the object is not wanted.
fn read_one(object: &Value, options: &Options) -> Result<Option<Entry>, Vec<Flaw>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    if kind != KIND || !API_VERSIONS.contains(&api_version.as_str()) {
        return Err(vec![Flaw::OtherKind { api_version, kind }]);
    }
    let (name, mut namespace) = (
        text(&object["metadata"]["name"]),
        text(&object["metadata"]["namespace"]),
    );
    if namespace.is_empty() {
        namespace.clone_from(&options.default_namespace);
    }
    if options.only.as_ref().is_some_and(|only| *only != namespace) {
        return Ok(None);
    }
    for (field, value) in [("metadata.name", &name), ("metadata.namespace", &namespace)] {
        if !is_dns_subdomain(value) {
            return Err(vec![Flaw::Name {
                field,
                value: value.clone(),
            }]);
        }
    }
    let mut kept = portable(object);
    kept["metadata"]["namespace"] = namespace.into();
    let Some(pps) = Pps::read(kept).filter(|pps| !pps.is_alias()) else {
        return Ok(None);
    };
    let violations = validate::review(object, None, &AnnotationRules::default()).violations;
    let mut states = edit::states(object).map_err(|error| vec![Flaw::States { name, error }])?;
    for state in states.values_mut() {
        // The node goes with its host name: a Pod would be away from a node of another cluster
        // forever.
        if options.drop_keys.iter().any(|key| key == HOSTNAME) {
            *state = edit::without_node(state, &[]);
        }
        for key in &options.drop_keys {
            state.node_topology_labels.remove(key);
            state.annotations.remove(key);
        }
    }
    states.retain(|_, state| *state != PodState::default());
    Ok(Some(Entry {
        pps,
        states,
        violations,
    }))
}

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
pub fn plan<'a>(entries: &'a [Entry], snapshot: &Snapshot, overwrite: bool) -> Vec<Plan> {
    let index = Index::of(snapshot);
    let existing: BTreeMap<_, _> = snapshot
        .pps
        .iter()
        .map(|pps| ((pps.namespace(), pps.name()), pps))
        .collect();
    let mut created: BTreeMap<WorkloadKey, &str> = BTreeMap::new();
    let plan = |entry: &'a Entry| {
        let existing = existing.get(&(entry.pps.namespace(), entry.pps.name()));
        let mut plan = plan_one(entry, existing.copied(), snapshot, &index, overwrite);
        if let Action::Create(_) = plan.action {
            let key = WorkloadKey::of(entry.pps.namespace(), &entry.pps.target());
            let first = *created.entry(key).or_insert(entry.pps.name());
            if first != plan.name {
                plan.action = Action::Refuse(Refusal::SharedTarget(first.to_owned()));
                plan.changes.clear();
            }
        }
        plan
    };
    entries.iter().map(plan).collect()
}

fn plan_one(
    entry: &Entry,
    found: Option<&Pps>,
    snapshot: &Snapshot,
    index: &Index,
    overwrite: bool,
) -> Plan {
    let (namespace, target) = (entry.pps.namespace(), entry.pps.target());
    let key = WorkloadKey::of(namespace, &target);
    let spec = found.unwrap_or(&entry.pps).spec().unwrap_or_default();
    let unwanted = index.workload(&key).map(|workload| {
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
    });
    let unwanted: BTreeSet<String> = unwanted.unwrap_or_default();
    let mut states = entry.states.clone();
    states.retain(|pod, _| !unwanted.contains(pod));
    let is_due = |pod: &Pod| {
        found.is_none_or(|pps| index.may_record(pps, pod)) && snapshot.is_recordable(pod)
    };
    let is_ready = |pod: &&String| index.pod(namespace, pod).is_some_and(is_due);
    let ready: BTreeSet<String> = states.keys().filter(is_ready).cloned().collect();
    states.retain(|pod, _| !ready.contains(pod));
    let decided = match (found, index.governing(&key)) {
        (Some(pps), _) if !pps.target().is_same_workload(&target) => {
            Err(Refusal::OtherTarget(pps.target()))
        }
        (Some(pps), _) => edit::merge_or_compact(pps.object(), &states, overwrite)
            .map(|merge| {
                (
                    if merge.edit.is_some() {
                        Action::Update
                    } else {
                        Action::Nothing
                    },
                    merge,
                )
            })
            .map_err(Refusal::Edit),
        (None, Some(other)) => Err(Refusal::SharedTarget(other.name().to_owned())),
        (None, None) if !entry.violations.is_empty() => {
            Err(Refusal::Invalid(entry.violations.clone()))
        }
        (None, None) => {
            // The object as the API server will store it.
            let mut created = entry.pps.object().clone();
            created["metadata"]["uid"] = "new".into();
            created["metadata"]["resourceVersion"] = "0".into();
            let merged = edit::merge_or_compact(&created, &states, false).map_err(Refusal::Edit);
            merged.map(|merge| (Action::Create(entry.pps.object().clone()), merge))
        }
    };
    let target_uid = found.and_then(|pps| pps.object()["status"]["targetUID"].as_str());
    let target_uid = target_uid.filter(|_| index.workload(&key).is_none());
    let is_gone = snapshot.has_all_like(&key);
    let nothing = Merge {
        edit: None,
        kept: BTreeSet::new(),
    };
    let (action, merge) = decided.unwrap_or_else(|refusal| (Action::Refuse(refusal), nothing));
    Plan {
        namespace: namespace.to_owned(),
        name: entry.pps.name().to_owned(),
        spec,
        action,
        former_uid: target_uid.filter(|_| is_gone).map(str::to_owned),
        may_be_gone: target_uid.is_some() && !is_gone,
        changes: merge.edit.map(|edit| edit.changes).unwrap_or_default(),
        kept: merge.kept,
        ready,
        unwanted,
    }
}

/// The next write to an object that was just read, within the plan that the user has seen. None if
/// nothing is left to do. A state that has changed since then stays.
pub fn next_write(object: &Value, plan: &Plan) -> Result<Option<Edit>, EditError> {
    let now = edit::states(object)?;
    let is_as_shown = |(pod, change): &(&String, &Change)| {
        let before = change
            .before
            .as_ref()
            .filter(|state| **state != PodState::default());
        now.get(*pod) == before
    };
    let agreed = plan.changes.iter().filter(is_as_shown);
    let states = agreed
        .filter_map(|(pod, change)| Some((pod.clone(), change.after.clone()?)))
        .collect();
    let (uid, mut edit) = (
        object["status"]["targetUID"].as_str(),
        edit::merge(object, &states, true)?.edit,
    );
    let is_former = uid.is_some() && uid == plan.former_uid.as_deref();
    edit.iter_mut()
        .filter(|_| is_former)
        .for_each(Edit::forget_workload);
    Ok(edit)
}

/// The required values of the written states that no node has, by key and value, each with the
/// number of its states.
pub fn absent_values(
    plans: &[Plan],
    nodes: &BTreeMap<String, Node>,
) -> BTreeMap<(String, String), usize> {
    let mut values = BTreeMap::new();
    for plan in plans {
        for state in plan
            .changes
            .values()
            .filter_map(|change| change.after.as_ref())
        {
            for required in
                pps_admission::plan("", &plan.spec, state, &AnnotationRules::default()).required
            {
                *values.entry((required.key, required.value)).or_default() += 1;
            }
        }
    }
    values.retain(|(key, value), _| !nodes.values().any(|node| node.label(key) == Some(value)));
    values
}
