//! `import`: reads PersistentPodStates of a file, and decides for each whether it is created, gets states, or
//! stays.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::edit::{self, Change, EditError, Merge};
use pps_core::pps::{API_VERSIONS, KIND};
use pps_core::validate::{self, Violation};
use pps_core::{AnnotationRules, PodState, Spec, TargetReference, is_dns_subdomain, packed};
use serde_json::{Value, json};

use super::export::portable;
use super::retention::dropped;
use crate::snapshot::{Node, Pod, Pps, Workload};

#[cfg(test)]
mod tests;

/// The most objects that one file may have.
const MAX_OBJECTS: usize = 20_000;

/// Which objects of a file are imported, and where.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only objects of this namespace.
    pub from_namespace: Option<String>,
    /// The namespace into which all of them go.
    pub namespace: Option<String>,
    /// The namespace of objects that name none.
    pub default_namespace: String,
    /// Labels and annotations that are left out.
    pub drop_keys: Vec<String>,
}

/// An object of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The object that is created if there is none, without a status.
    pub object: Value,
    /// The namespace into which it goes.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its workload.
    pub target: TargetReference,
    /// Its spec.
    pub spec: Spec,
    /// Its states without empty ones.
    pub states: BTreeMap<String, PodState>,
}

/// What is wrong with an object of a file.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Flaw {
    Empty,
    TooMany { most: usize },
    OtherKind { api_version: String, kind: String },
    Name(String),
    Namespace(String),
    Invalid { name: String, violation: Violation },
    Spec { name: String, why: String },
    States { name: String, error: EditError },
    Twice { namespace: String, name: String },
}

/// Reads the objects of a file. Aliases are left out: the sidecar makes them again.
///
/// # Errors
///
/// Everything that is wrong with the file, each with the index of its object. None of it is used then.
pub fn read(objects: &[Value], options: &Options) -> Result<Vec<Entry>, Vec<(usize, Flaw)>> {
    let (mut entries, mut flaws) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for (index, object) in objects.iter().enumerate() {
        match read_one(object, options) {
            Ok(None) => {}
            Ok(Some(entry)) => {
                let (namespace, name) = (entry.namespace.clone(), entry.name.clone());
                if names.insert((namespace.clone(), name.clone())) {
                    entries.push(entry);
                } else {
                    flaws.push((index, Flaw::Twice { namespace, name }));
                }
            }
            Err(found) => flaws.extend(found.into_iter().map(|flaw| (index, flaw))),
        }
    }
    if objects.is_empty() {
        flaws.push((0, Flaw::Empty));
    }
    if objects.len() > MAX_OBJECTS {
        flaws.push((MAX_OBJECTS, Flaw::TooMany { most: MAX_OBJECTS }));
    }
    if flaws.is_empty() { Ok(entries) } else { Err(flaws) }
}

/// None if the object is not wanted.
fn read_one(object: &Value, options: &Options) -> Result<Option<Entry>, Vec<Flaw>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    if kind != KIND || !API_VERSIONS.contains(&api_version.as_str()) {
        return Err(vec![Flaw::OtherKind { api_version, kind }]);
    }
    let own_namespace = text(&object["metadata"]["namespace"]);
    if options.from_namespace.as_ref().is_some_and(|only| *only != own_namespace) {
        return Ok(None);
    }
    let name = text(&object["metadata"]["name"]);
    if !is_dns_subdomain(&name) {
        return Err(vec![Flaw::Name(name)]);
    }
    let own = if own_namespace.is_empty() { options.default_namespace.clone() } else { own_namespace };
    let namespace = options.namespace.clone().unwrap_or(own);
    if !is_dns_subdomain(&namespace) {
        return Err(vec![Flaw::Namespace(namespace)]);
    }
    let review = validate::review(object, None, &AnnotationRules::default());
    if !review.violations.is_empty() {
        let flaw = |violation| Flaw::Invalid { name: name.clone(), violation };
        return Err(review.violations.into_iter().map(flaw).collect());
    }
    // Only an alias has no workload.
    let Some(target) = review.workload else { return Ok(None) };
    let spec = serde_json::from_value(object["spec"].clone())
        .map_err(|error| vec![Flaw::Spec { name: name.clone(), why: error.to_string() }])?;
    let mut states =
        edit::states(object).map_err(|error| vec![Flaw::States { name: name.clone(), error }])?;
    for state in states.values_mut() {
        for key in &options.drop_keys {
            state.node_topology_labels.remove(key);
            state.annotations.remove(key);
        }
    }
    states.retain(|_, state| *state != PodState::default());
    let mut object = portable(object);
    object["metadata"]["namespace"] = namespace.as_str().into();
    Ok(Some(Entry { object, namespace, name, target, spec, states }))
}

/// The cluster as far as it could be read, of the namespaces concerned.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The PersistentPodStates.
    pub pps: Vec<Pps>,
    /// The Pods; none if they could not be read.
    pub pods: Option<Vec<Pod>>,
    /// The StatefulSets.
    pub workloads: Vec<Workload>,
}

/// What is done with one object of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What is done.
    pub action: Action,
    /// The states that are written.
    pub changes: BTreeMap<String, Change>,
    /// Pods whose other state in the cluster stays.
    pub kept: BTreeSet<String>,
    /// Ready Pods: the sidecar records where they run.
    pub ready: BTreeSet<String>,
    /// Pods that the workload does not want: the sidecar would drop their states.
    pub unwanted: BTreeSet<String>,
    /// Pods that exist, are not Ready, and were created without the state that is written.
    pub late: BTreeSet<String>,
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
    /// The cluster has an alias of that name.
    IsAlias,
    /// The object in the cluster is for another workload.
    OtherTarget(TargetReference),
    /// Another object, in the cluster or earlier in the file, is for this workload.
    SharedTarget(String),
    /// The states cannot be written.
    Edit(EditError),
}

impl Plan {
    /// How many states replace another one.
    pub fn replaced(&self) -> usize {
        self.changes.values().filter(|change| !is_empty(change.before.as_ref())).count()
    }

    /// Whether something is written.
    pub fn writes(&self) -> bool {
        matches!(self.action, Action::Create(_) | Action::Update)
    }
}

fn is_empty(state: Option<&PodState>) -> bool {
    state.is_none_or(|state| *state == PodState::default())
}

/// Decides for each object of a file.
pub fn plan(entries: &[Entry], known: &Known, overwrite: bool) -> Vec<Plan> {
    let mut targets = BTreeMap::new();
    let mut plans = Vec::new();
    for entry in entries {
        let mut plan = plan_one(entry, known, overwrite);
        if matches!(plan.action, Action::Create(_)) {
            // The policy refuses the second object for one workload.
            let key = (&entry.namespace, entry.target.group(), &entry.target.kind, &entry.target.name);
            if let Some(first) = targets.insert(key, &entry.name) {
                plan.action = Action::Refuse(Refusal::SharedTarget(first.clone()));
                plan.changes.clear();
            }
        }
        plans.push(plan);
    }
    plans
}

fn plan_one(entry: &Entry, known: &Known, overwrite: bool) -> Plan {
    let here = || known.pps.iter().filter(|pps| pps.namespace() == entry.namespace);
    let existing = here().find(|pps| pps.name() == entry.name);
    let pods: Vec<&Pod> = known.pods.iter().flatten().filter(|pod| is_of(entry, pod)).collect();
    let unwanted = unwanted(entry, existing, &known.workloads);
    let is_ready = |pod: &&&Pod| pod.is_ready() && !pod.is_terminating() && !unwanted.contains(pod.name());
    let ready: BTreeSet<String> = pods.iter().filter(is_ready).map(|pod| pod.name().to_owned()).collect();
    let mut plan = Plan {
        namespace: entry.namespace.clone(),
        name: entry.name.clone(),
        action: Action::Nothing,
        changes: BTreeMap::new(),
        kept: BTreeSet::new(),
        ready,
        unwanted,
        late: BTreeSet::new(),
    };
    let mut shared = here().filter(|pps| !pps.is_alias() && pps.target().is_same_workload(&entry.target));
    let mut states = entry.states.clone();
    states.retain(|pod, _| !plan.ready.contains(pod) && !plan.unwanted.contains(pod));
    let decided = match existing {
        Some(pps) if pps.is_alias() => Err(Refusal::IsAlias),
        Some(pps) if !pps.target().is_same_workload(&entry.target) => Err(Refusal::OtherTarget(pps.target())),
        Some(pps) => merge(pps.object(), &states, overwrite)
            .map_err(Refusal::Edit)
            .map(|merge| (if merge.edit.is_some() { Action::Update } else { Action::Nothing }, merge)),
        None => {
            if let Some(other) = shared.next() {
                Err(Refusal::SharedTarget(other.name().to_owned()))
            } else {
                // As the API server will have stored it.
                let mut created = entry.object.clone();
                created["metadata"]["uid"] = "new".into();
                created["metadata"]["resourceVersion"] = "0".into();
                let merged = merge(&created, &states, false).map_err(Refusal::Edit);
                merged.map(|merge| (Action::Create(entry.object.clone()), merge))
            }
        }
    };
    match decided {
        Ok((action, merge)) => {
            plan.action = action;
            plan.changes = merge.edit.map(|edit| edit.changes).unwrap_or_default();
            plan.kept = merge.kept;
        }
        Err(why) => plan.action = Action::Refuse(why),
    }
    let is_late = |pod: &&&Pod| {
        let state = plan.changes.get(pod.name()).and_then(|change| change.after.as_ref());
        state.is_some_and(|state| pod.node() != Some(&state.node_name))
            && !pod.is_terminating()
            && !pod.is_finished()
            && !pod.is_exempt()
    };
    plan.late = pods.iter().filter(is_late).map(|pod| pod.name().to_owned()).collect();
    plan
}

fn is_of(entry: &Entry, pod: &Pod) -> bool {
    pod.namespace() == entry.namespace && entry.states.contains_key(pod.name())
}

/// The Pods of the entry that their StatefulSet does not want, and whose states the sidecar would drop.
fn unwanted(entry: &Entry, existing: Option<&Pps>, workloads: &[Workload]) -> BTreeSet<String> {
    let is_target = |workload: &&Workload| {
        workload.namespace() == entry.namespace && workload.target().is_same_workload(&entry.target)
    };
    let Some(workload) = workloads.iter().find(is_target) else { return BTreeSet::new() };
    let spec = governing_spec(entry, existing);
    dropped(entry.states.keys(), spec.retention(), workload.name(), &workload.object()["spec"])
}

/// An import does not change the spec of an object in the cluster.
fn governing_spec(entry: &Entry, existing: Option<&Pps>) -> Spec {
    existing.map_or_else(|| entry.spec.clone(), |pps| pps.spec().unwrap_or_default())
}

/// The states that an object lacks. An object without states that is too small for them as `podStates` is
/// planned in the compact form.
fn merge(object: &Value, states: &BTreeMap<String, PodState>, overwrite: bool) -> Result<Merge, EditError> {
    match edit::merge(object, states, overwrite) {
        Err(EditError::TooLarge { .. }) if edit::states(object).is_ok_and(|states| states.is_empty()) => {
            let mut compact = object.clone();
            compact["status"] = compact_status();
            edit::merge(&compact, states, overwrite)
        }
        merge => merge,
    }
}

/// The status of an object in the compact form, without states.
pub fn compact_status() -> Value {
    json!({"packed": {"version": packed::VERSION, "buckets": {}}, "podStates": null})
}

/// Why the next write is not made.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocked {
    /// The state of this Pod has changed, and the user has not agreed to replace the new one.
    Changed(String),
    /// The states cannot be written.
    Edit(EditError),
}

/// The next write to an object that was just read, towards what the user has agreed to. None if nothing is
/// left to do.
///
/// # Errors
///
/// If the object has changed so that a state would be replaced that was not shown.
pub fn next_write(object: &Value, plan: &Plan, overwrite: bool) -> Result<Option<edit::Edit>, Blocked> {
    let after = |(pod, change): (&String, &Change)| Some((pod.clone(), change.after.clone()?));
    let states = plan.changes.iter().filter_map(after).collect();
    let Some(edit) = edit::merge(object, &states, overwrite).map_err(Blocked::Edit)?.edit else {
        return Ok(None);
    };
    for (pod, change) in edit.changes.iter().filter(|(_, change)| !is_empty(change.before.as_ref())) {
        if plan.changes.get(pod).is_none_or(|shown| shown.before != change.before) {
            return Err(Blocked::Changed(pod.clone()));
        }
    }
    Ok(Some(edit))
}

/// The required values among the states that are written that no node has, each with the number of its
/// states.
pub fn absent_values(
    plans: &[Plan],
    entries: &[Entry],
    known: &Known,
    nodes: &BTreeMap<String, Node>,
) -> BTreeMap<(String, String), usize> {
    let mut values = BTreeMap::new();
    for (plan, entry) in plans.iter().zip(entries) {
        let is_same = |pps: &&Pps| pps.namespace() == entry.namespace && pps.name() == entry.name;
        let spec = governing_spec(entry, known.pps.iter().find(is_same));
        for state in plan.changes.values().filter_map(|change| change.after.as_ref()) {
            for required in pps_core::plan("", &spec, state, &AnnotationRules::default()).required {
                *values.entry((required.key, required.value)).or_default() += 1;
            }
        }
    }
    values.retain(|(key, value), _| !nodes.values().any(|node| node.label(key) == Some(value)));
    values
}
