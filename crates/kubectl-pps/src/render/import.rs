//! What `import` would do and has done.

use std::collections::{BTreeMap, BTreeSet};

use pps_admission::validate::join;
use pps_core::PodState;

use super::text::{count, list};
use super::{Cell, Role, Style, Table};
use crate::Failure;
use crate::decide::import::{Action, Flaw, FlawedObject, LabelValue, Plan, Refusal};

const NAMED: usize = 10;

/// The first lines, and the number of the rest.
fn first(lines: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = lines.len().saturating_sub(NAMED);
    let mut first: Vec<String> = lines.take(NAMED).collect();
    if more > 0 {
        first.push(format!("and {more} more"));
    }
    first
}

pub fn flaws(file: &str, flawed: &[FlawedObject]) -> Failure {
    let lines = flawed
        .iter()
        .map(|one| format!("{file}: object {}: {}", one.index + 1, flaw(&one.flaw)));
    Failure::Usage(first(lines).join("\n") + "\nnothing was changed")
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
        let replaced = plan.replaced();
        table.row([
            Cell::plain(&plan.namespace),
            Cell::plain(&plan.name),
            action(&plan.action),
            Cell::plain((plan.changes.len() - replaced).to_string()),
            Cell::new(
                replaced.to_string(),
                (replaced > 0).then_some(Role::Warning),
            ),
            Cell::plain((plan.kept.len() + plan.ready.len()).to_string()),
        ]);
    }
    table.render()
}

fn action(action: &Action) -> Cell {
    match action {
        Action::Create(_) => Cell::new("create", Role::Good),
        Action::Update => Cell::new("write states", Role::Good),
        Action::Nothing => Cell::new("nothing", Role::Dim),
        Action::Refuse(_) => Cell::new("refused", Role::Bad),
    }
}

/// What the row of a plan does not say.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    match &plan.action {
        Action::Refuse(why) => notes.push(format!("refused: {}", refusal(why))),
        Action::Update if plan.may_be_gone => notes.push(format!(
            "if its {} was deleted, the sidecar drops the written states: delete the object \
             first, and import again",
            plan.spec.target_ref.kind
        )),
        _ => {}
    }
    let replaced: BTreeSet<String> = plan
        .changes
        .iter()
        .filter(|(_, change)| change.replaces())
        .map(|(pod, change)| {
            format!(
                "{pod}: {} -> {}",
                node(change.before.as_ref()),
                node(change.after.as_ref())
            )
        })
        .collect();
    if !replaced.is_empty() {
        notes.push(format!("replaces {}", names(&replaced)));
    }
    if !plan.kept.is_empty() {
        notes.push(format!(
            "the cluster has other states of {}, which stay; --overwrite replaces them",
            names(&plan.kept)
        ));
    }
    if !plan.ready.is_empty() {
        let ready = names(&plan.ready);
        notes.push(format!("Ready, so recorded where they run: {ready}"));
    }
    if !plan.unwanted.is_empty() {
        notes.push(format!(
            "not imported, since the StatefulSet wants no such Pods now, and the sidecar would \
             drop their states: {}; import before the StatefulSet exists, or set \
             persistentPodStateRetentionPolicy: WhenDeleted first",
            names(&plan.unwanted)
        ));
    }
    notes
        .into_iter()
        .map(|note| format!("{}/{}: {note}", plan.namespace, plan.name))
        .collect()
}

fn names(names: &BTreeSet<String>) -> String {
    first(names.iter().cloned()).join(", ")
}

/// The recorded node of a state.
fn node(state: Option<&PodState>) -> &str {
    match state {
        Some(state) if !state.node_name.is_empty() => &state.node_name,
        _ => "no node",
    }
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

/// Warns of required values that no node has: a line for each label.
pub fn absent_values(values: &BTreeMap<LabelValue, usize>) -> Vec<String> {
    let values: Vec<_> = values.iter().collect();
    values
        .chunk_by(|(one, _), (other, _)| one.key == other.key)
        .map(|of_key| {
            let key = &of_key[0].0.key;
            let names: Vec<String> = of_key
                .iter()
                .map(|(one, _)| format!("{key}={}", one.value))
                .collect();
            let states = of_key.iter().map(|(_, states)| **states).sum();
            format!(
                "no node has {} ({}): Pods would be Pending; --drop-key {key} leaves it out",
                list(&names, "or"),
                count(states, "state")
            )
        })
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

/// What became of a plan: how many states were written.
pub struct Imported<'a> {
    pub plan: &'a Plan,
    pub written: Result<usize, Failure>,
}

/// What was done.
pub fn done(imported: &[Imported]) -> String {
    let written: Vec<usize> = imported
        .iter()
        .filter_map(|one| one.written.as_ref().ok().copied())
        .collect();
    format!(
        "imported {} with {}",
        count(written.len(), "object"),
        count(written.iter().sum(), "state")
    )
}

/// What failed; none if nothing did.
pub fn failure(imported: &[Imported]) -> Option<Failure> {
    let mut failed: Vec<_> = imported
        .iter()
        .filter_map(|one| Some((one.plan, one.written.as_ref().err()?)))
        .collect();
    failed.sort_by_key(|(_, failure)| failure.exit_code());
    let lines = failed
        .iter()
        .map(|(plan, failure)| format!("{}/{}: {failure}", plan.namespace, plan.name));
    let lines = first(lines).join("\n") + "\nwritten states stay; the same command writes the rest";
    Some(match failed.first()?.1 {
        Failure::Refused(_) => Failure::Refused(lines),
        _ => Failure::Unreadable(lines),
    })
}
