//! What `import` would do and has done.

use std::collections::{BTreeMap, BTreeSet};

use pps_admission::validate::join;
use pps_core::edit::Change;

use super::text::{count, list};
use super::{Role, Style, Table};
use crate::Failure;
use crate::decide::import::{Action, Flaw, Plan, Refusal};

const NAMED: usize = 10;

/// The first lines, and the number of the rest.
fn first<T>(all: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    let more = all.len().checked_sub(NAMED).filter(|more| *more > 0);
    all.iter()
        .take(NAMED)
        .map(line)
        .chain(more.map(|more| format!("and {more} more")))
        .collect()
}

pub fn flaws(file: &str, flaws: &[(usize, Flaw)]) -> Failure {
    let line = |(index, flaw): &(usize, Flaw)| {
        format!("{file}: object {}: {}", index + 1, self::flaw(flaw))
    };
    Failure::Usage(first(flaws, line).join("\n") + "\nnothing was changed")
}

fn flaw(flaw: &Flaw) -> String {
    match flaw {
        Flaw::Empty => "there is no object in the file".into(),
        Flaw::TooMany { most } => format!("the file has more than {most} objects: split it"),
        Flaw::OtherKind { api_version, kind } => format!(
            "this is {}: import reads PersistentPodStates of apps.kruise.io/v1alpha1 and v1beta1",
            if kind.is_empty() {
                "no object".into()
            } else {
                format!("{api_version} {kind}")
            }
        ),
        Flaw::Name { field, value } => format!("{field} is missing or no valid name: {value:?}"),
        Flaw::States { name, error } => format!("{name}: {error}"),
        Flaw::Twice { namespace, name } => format!("{namespace}/{name} is in the file twice"),
    }
}

pub fn plans(style: Style, plans: &[Plan]) -> String {
    let mut table = Table::new(
        style,
        &["NAMESPACE", "NAME", "ACTION", "ADDED", "REPLACED", "KEPT"],
    );
    for plan in plans {
        let (action, role) = match &plan.action {
            Action::Create(_) => ("create", Role::Good),
            Action::Update => ("write states", Role::Good),
            Action::Nothing => ("nothing", Role::Dim),
            Action::Refuse(_) => ("refused", Role::Bad),
        };
        let replaced = plan.replaced();
        table.row(&[
            (&plan.namespace, None),
            (&plan.name, None),
            (action, Some(role)),
            (&(plan.changes.len() - replaced).to_string(), None),
            (
                &replaced.to_string(),
                (replaced > 0).then_some(Role::Warning),
            ),
            (&(plan.kept.len() + plan.ready.len()).to_string(), None),
        ]);
    }
    table.render()
}

pub fn notes(plan: &Plan) -> Vec<String> {
    let node = |state: &Option<_>| {
        let node = state
            .as_ref()
            .map_or("", |state: &pps_core::PodState| &state.node_name);
        if node.is_empty() { "no node" } else { node }.to_owned()
    };
    let moved = |(pod, change): (&String, &Change)| {
        let (before, after) = (node(&change.before), node(&change.after));
        change
            .replaces()
            .then(|| format!("{pod}: {before} -> {after}"))
    };
    let replaced: BTreeSet<String> = plan.changes.iter().filter_map(moved).collect();
    let all = [
        ("replaces ", &replaced, ""),
        (
            "the cluster has other states of ",
            &plan.kept,
            ", which stay; --overwrite replaces them",
        ),
        ("Ready, so recorded where they run: ", &plan.ready, ""),
        (
            "not imported, since the StatefulSet wants no such Pods now, and the sidecar would \
             drop their states: ",
            &plan.unwanted,
            "; import before the StatefulSet exists, or set persistentPodStateRetentionPolicy: \
             WhenDeleted first",
        ),
    ];
    let whole = match &plan.action {
        Action::Refuse(why) => Some(format!("refused: {}", refusal(why))),
        Action::Update if plan.may_be_gone => Some(format!(
            "if its {} was deleted, the sidecar drops the written states: delete the object \
             first, and import again",
            plan.spec.target_ref.kind
        )),
        _ => None,
    };
    let some =
        |names: &BTreeSet<String>| first(&names.iter().collect::<Vec<_>>(), |name| (*name).clone());
    let texts = all.into_iter().filter(|(_, names, _)| !names.is_empty());
    let texts =
        texts.map(|(before, names, after)| format!("{before}{}{after}", some(names).join(", ")));
    whole
        .into_iter()
        .chain(texts)
        .map(|text| format!("{}/{}: {text}", plan.namespace, plan.name))
        .collect()
}

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::OtherTarget(target) => {
            format!("in the cluster it is for {} {}", target.kind, target.name)
        }
        Refusal::SharedTarget(other) => {
            format!("PersistentPodState {other} is for the same workload")
        }
        Refusal::Invalid(violations) => join(violations),
        Refusal::Edit(error) => error.to_string(),
    }
}

/// Warns of required values that no node has.
pub fn absent_values(values: &BTreeMap<(String, String), usize>) -> Vec<String> {
    let values: Vec<_> = values.iter().collect();
    let note = |group: &[(&(String, String), &usize)]| {
        let names: Vec<String> = group
            .iter()
            .map(|((key, value), _)| format!("{key}={value}"))
            .collect();
        let states = count(group.iter().map(|(_, states)| **states).sum(), "state");
        let (names, key) = (list(&names, "or"), &group[0].0.0);
        format!(
            "no node has {names} ({states}): Pods would be Pending; --drop-key {key} leaves it out"
        )
    };
    values
        .chunk_by(|((one, _), _), ((other, _), _)| one == other)
        .map(note)
        .collect()
}

pub fn question(plans: &[Plan]) -> String {
    let created = plans
        .iter()
        .filter(|plan| matches!(plan.action, Action::Create(_)))
        .count();
    let states = plans.iter().map(|plan| plan.changes.len()).sum();
    let replaced: usize = plans.iter().map(Plan::replaced).sum();
    let replaced = if replaced > 0 {
        format!(", {replaced} of them in place of others")
    } else {
        String::new()
    };
    format!(
        "Create {} and write {}{replaced}?",
        count(created, "object"),
        count(states, "state")
    )
}

/// What was done, and what failed. A result is how many states were written.
pub fn done(done: &[(&Plan, Result<usize, Failure>)]) -> (String, Option<Failure>) {
    let written = done.iter().filter_map(|(_, result)| result.as_ref().ok());
    let (objects, states) = (written.clone().count(), written.sum());
    let text = format!(
        "imported {} with {}",
        count(objects, "object"),
        count(states, "state")
    );
    let mut failed: Vec<_> = done
        .iter()
        .filter_map(|(plan, result)| Some((plan, result.as_ref().err()?)))
        .collect();
    failed.sort_by_key(|(_, failure)| failure.exit_code());
    let line = |(plan, failure): &(&&Plan, &Failure)| {
        format!("{}/{}: {failure}", plan.namespace, plan.name)
    };
    let lines =
        first(&failed, line).join("\n") + "\nwritten states stay; the same command writes the rest";
    let failure = failed.first().map(|(_, first)| match first {
        Failure::Refused(_) => Failure::Refused(lines),
        _ => Failure::Unreadable(lines),
    });
    (text, failure)
}
