//! What `import` does with each PersistentPodState of a file: creates it, adds states to it, or leaves it alone.

mod compact;
mod places;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use pps_core::edit::{self, Change, Edit, EditError};
use pps_core::{PodState, validate};
use serde_json::{Value, json};

pub use self::compact::{compact_status, keeps_compact_form};
pub use self::places::notes;
pub use self::read::{Entry, File, MAX_FILE, Options, read};
use super::retention::dropped;
use crate::snapshot::{Pod, Pps, Workload};

/// What is known of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The PersistentPodStates of all namespaces concerned.
    pub pps: &'a [Pps],
    /// The Pods of these namespaces; none if they could not be read.
    pub pods: Option<&'a [Pod]>,
    /// The StatefulSets of these namespaces, as far as they could be read.
    pub workloads: &'a [Workload],
    /// The version of the API in which objects are created.
    pub api_version: &'a str,
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
    /// Pods that are Ready, so the sidecar records where they run.
    pub ready: BTreeSet<String>,
    /// Pods that are bound to another node than the file has and are not Ready, with that node: it is recorded once they are.
    pub unready: BTreeMap<String, String>,
    /// Pods without a node: they wait for what they were created with.
    pub pending: BTreeSet<String>,
    /// Pods that the workload does not want, so the sidecar would drop their states.
    pub unwanted: BTreeSet<String>,
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It is created, and gets its states in a second write.
    Create {
        /// The object, without a status.
        object: Value,
        /// Whether its states fit only in the compact form.
        is_compact: bool,
    },
    /// It exists and gets states.
    Add {
        /// Whether its states fit only in the compact form.
        is_compact: bool,
    },
    /// It exists and has all states of the file.
    Nothing,
    /// It cannot be imported.
    Refuse(String),
}

impl Plan {
    /// How many states are added where there was none.
    pub fn added(&self) -> usize {
        self.changes.values().filter(|change| is_nothing(change.before.as_ref())).count()
    }

    /// How many states replace another one.
    pub fn replaced(&self) -> usize {
        self.changes.len() - self.added()
    }

    /// Keeps in mind a Pod that is not Ready and whose state is written: it was created without that state.
    fn look_at(&mut self, pod: &Pod) {
        let after = self.changes.get(pod.name()).and_then(|change| change.after.as_ref());
        let Some(after) = after.filter(|_| !pod.is_terminating() && !pod.is_finished()) else { return };
        let is_exempt = pod.is_exempt();
        match pod.node() {
            None => {
                self.pending.insert(pod.name().to_owned());
            }
            Some(node) if node != after.node_name && !is_exempt => {
                self.unready.insert(pod.name().to_owned(), node.to_owned());
            }
            Some(_) => {}
        }
    }

    /// Whether something is written.
    pub fn writes(&self) -> bool {
        matches!(self.action, Action::Create { .. } | Action::Add { .. })
    }
}

/// Decides for each object of a file.
pub fn plan(entries: &[Entry], known: Known<'_>, overwrite: bool) -> Vec<Plan> {
    let mut plans: Vec<Plan> = entries.iter().map(|entry| plan_one(entry, known, overwrite)).collect();
    // The policy refuses the second object for one workload.
    let mut targets = BTreeMap::new();
    for (plan, entry) in plans.iter_mut().zip(entries) {
        if !matches!(plan.action, Action::Create { .. }) {
            continue;
        }
        let target = &entry.target;
        let key =
            (plan.namespace.clone(), target.group().to_owned(), target.kind.clone(), target.name.clone());
        if let Some(first) = targets.insert(key, plan.name.clone()) {
            plan.action = Action::Refuse(format!("the file has {first} for the same {}", shown(entry)));
            plan.changes.clear();
        }
    }
    plans
}

fn plan_one(entry: &Entry, known: Known<'_>, overwrite: bool) -> Plan {
    let in_namespace = || known.pps.iter().filter(|pps| pps.namespace() == entry.namespace);
    let existing = in_namespace().find(|pps| pps.name() == entry.name);
    let mut plan = Plan {
        namespace: entry.namespace.clone(),
        name: entry.name.clone(),
        action: Action::Nothing,
        changes: BTreeMap::new(),
        kept: BTreeSet::new(),
        ready: BTreeSet::new(),
        unready: BTreeMap::new(),
        pending: BTreeSet::new(),
        unwanted: unwanted(entry, existing, known),
    };
    let decided = match existing {
        Some(pps) if pps.is_alias() => Err("an alias of that name is in the cluster: the workload has a \
             PersistentPodState of another name, give the object in the file that one"
            .into()),
        Some(pps) if !pps.target().is_same_workload(&entry.target) => {
            Err(format!("in the cluster it is for {} {}", pps.target().kind, pps.target().name))
        }
        Some(pps) => add(entry, pps.object(), known, overwrite, &mut plan),
        None => {
            let others: Vec<String> = in_namespace()
                .filter(|pps| !pps.is_alias() && pps.target().is_same_workload(&entry.target))
                .map(|pps| pps.name().to_owned())
                .collect();
            match validate::check_sole_target(&entry.target, &others) {
                Some(violation) => Err(violation.to_string()),
                None => create(entry, known, &mut plan),
            }
        }
    };
    match decided {
        Ok(action) => plan.action = action,
        Err(why) => plan.action = Action::Refuse(why),
    }
    for pod in known.pods.into_iter().flatten().filter(|pod| pod.namespace() == entry.namespace) {
        plan.look_at(pod);
    }
    plan
}

/// The Pods of the entry that their StatefulSet does not want, and whose states would be dropped. `existing` is the object in
/// the cluster.
fn unwanted(entry: &Entry, existing: Option<&Pps>, known: Known<'_>) -> BTreeSet<String> {
    let is_target = |workload: &&Workload| {
        workload.namespace() == entry.namespace && workload.target().is_same_workload(&entry.target)
    };
    let Some(workload) = known.workloads.iter().find(is_target) else { return BTreeSet::new() };
    // A spec that cannot be read gets no states anyway.
    let retention =
        existing.map_or_else(|| entry.retention(), |pps| pps.spec().unwrap_or_default().retention());
    dropped(entry.states.keys(), retention, workload.name(), &workload.object()["spec"])
}

fn create(entry: &Entry, known: Known<'_>, plan: &mut Plan) -> Result<Action, String> {
    let object = entry.object(known.api_version);
    // As it is once it has been created.
    let mut created = object.clone();
    created["metadata"]["uid"] = "new".into();
    created["metadata"]["resourceVersion"] = "0".into();
    let states = states_of(entry, known.pods, plan);
    let (edit, _, is_compact) = write(&created, &states, false)?;
    plan.changes = edit.map(|edit| edit.changes).unwrap_or_default();
    Ok(Action::Create { object, is_compact })
}

fn add(
    entry: &Entry,
    object: &Value,
    known: Known<'_>,
    overwrite: bool,
    plan: &mut Plan,
) -> Result<Action, String> {
    let states = states_of(entry, known.pods, plan);
    let (edit, kept, is_compact) = write(object, &states, overwrite)?;
    plan.kept = kept;
    match edit {
        Some(edit) => {
            plan.changes = edit.changes;
            Ok(Action::Add { is_compact })
        }
        None => Ok(Action::Nothing),
    }
}

/// The states of the file without those of Ready Pods, and of Pods that are not wanted.
fn states_of(entry: &Entry, pods: Option<&[Pod]>, plan: &mut Plan) -> BTreeMap<String, PodState> {
    for pod in pods.into_iter().flatten() {
        let is_of_file = pod.namespace() == entry.namespace && entry.states.contains_key(pod.name());
        let is_recorded = pod.is_ready() && !pod.is_terminating() && !plan.unwanted.contains(pod.name());
        if is_of_file && is_recorded {
            plan.ready.insert(pod.name().to_owned());
        }
    }
    entry
        .states
        .iter()
        .filter(|(pod, _)| !plan.ready.contains(*pod) && !plan.unwanted.contains(*pod))
        .map(|(pod, state)| (pod.clone(), state.clone()))
        .collect()
}

type Written = (Option<Edit>, BTreeSet<String>, bool);

/// The write, the Pods that keep other states, and whether the write makes the object's states compact.
fn write(object: &Value, states: &BTreeMap<String, PodState>, overwrite: bool) -> Result<Written, String> {
    match edit::merge(object, states, overwrite) {
        Ok(merge) => Ok((merge.edit, merge.kept, false)),
        Err(error @ EditError::TooLarge { .. }) => {
            let has_none = edit::states(object).is_ok_and(|states| states.is_empty());
            match compact_status(states).filter(|_| has_none) {
                Some(body) => {
                    let change = |state: &PodState| Change { before: None, after: Some(state.clone()) };
                    let changes = states.iter().map(|(pod, state)| (pod.clone(), change(state))).collect();
                    let metadata = &object["metadata"];
                    let guards =
                        json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
                    let body = json!({"metadata": guards, "status": body});
                    Ok((Some(Edit { changes, body }), BTreeSet::new(), true))
                }
                None => Err(error.to_string()),
            }
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The next write to an object that was just read, towards what the user has agreed to. None if nothing is left to do.
///
/// # Errors
///
/// If the object has changed so that something else than what was shown would be replaced.
pub fn next_write(object: &Value, plan: &Plan, overwrite: bool) -> Result<Option<(Edit, bool)>, String> {
    let states =
        plan.changes.iter().filter_map(|(pod, change)| Some((pod.clone(), change.after.clone()?))).collect();
    let (edit, _, is_compact) = write(object, &states, overwrite)?;
    let Some(edit) = edit else { return Ok(None) };
    for (pod, change) in &edit.changes {
        let was_shown = plan.changes.get(pod).and_then(|shown| shown.before.as_ref());
        let replaces = change.before.as_ref().filter(|before| !is_nothing(Some(before)));
        if replaces.is_some() && replaces != was_shown {
            return Err(format!("the state of Pod {pod} has changed meanwhile; run the command again"));
        }
    }
    Ok(Some((edit, is_compact)))
}

fn is_nothing(state: Option<&PodState>) -> bool {
    state.is_none_or(|state| *state == PodState::default())
}

fn shown(entry: &Entry) -> String {
    format!("{} {}", entry.target.kind, entry.target.name)
}

#[cfg(test)]
mod tests;
