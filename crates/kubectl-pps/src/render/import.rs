//! What `import` would do and has done.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::PodState;

use super::{Role, Style, Table, printable};
use crate::Failure;
use crate::decide::import::{Action, Blocked, Flaw, Plan, Refusal};
use crate::decide::names::list;

/// How many things of one kind are named.
const NAMED: usize = 10;

/// Why a file cannot be imported.
pub fn flaws(file: &str, flaws: &[(usize, Flaw)]) -> Failure {
    let line = |(index, flaw): &(usize, Flaw)| format!("{file}: object {}: {}", index + 1, self::flaw(flaw));
    let mut lines: Vec<String> = flaws.iter().take(NAMED).map(line).collect();
    if flaws.len() > NAMED {
        lines.push(format!("and {} more", flaws.len() - NAMED));
    }
    lines.push("nothing was changed".into());
    Failure::Usage(lines.join("\n"))
}

fn flaw(flaw: &Flaw) -> String {
    match flaw {
        Flaw::Empty => "there is no object in the file".into(),
        Flaw::TooMany { most } => format!("the file has more than {most} objects: split it"),
        Flaw::OtherKind { api_version, kind } => format!(
            "this is {}: import reads PersistentPodStates of apps.kruise.io/v1alpha1 and v1beta1",
            if kind.is_empty() { "no object".into() } else { format!("{api_version} {kind}") }
        ),
        Flaw::Name(name) => format!("metadata.name is missing or no name of an object: {name:?}"),
        Flaw::Namespace(name) => format!("metadata.namespace is no name of a namespace: {name:?}"),
        Flaw::Invalid { name, violation } => format!("{name}: {violation}"),
        Flaw::Spec { name, why } => format!("{name}: spec: {why}"),
        Flaw::States { name, error } => format!("{name}: {error}"),
        Flaw::Twice { namespace, name } => format!(
            "{namespace}/{name} is in the file twice: use --from-namespace to choose a namespace of the file"
        ),
    }
}

/// A table of the plans.
pub fn plans(style: Style, plans: &[Plan]) -> String {
    let mut table = Table::new(style, &["NAMESPACE", "NAME", "ACTION", "ADDED", "REPLACED", "KEPT"]);
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
            (&replaced.to_string(), (replaced > 0).then_some(Role::Warning)),
            (&(plan.kept.len() + plan.ready.len()).to_string(), None),
        ]);
    }
    table.render()
}

/// Makes a sentence of the names of Pods.
type Sentence = fn(String) -> String;

/// What the user has to know about a plan.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let object = format!("{}/{}", plan.namespace, plan.name);
    let mut note = |text: String| notes.push(format!("{object}: {text}"));
    if let Action::Refuse(why) = &plan.action {
        note(format!("refused: {}", refusal(why)));
    }
    let place = |state: &PodState| match state.node_name.as_str() {
        "" => "no node".to_owned(),
        node => node.to_owned(),
    };
    let replaced: BTreeSet<String> = plan
        .changes
        .iter()
        .filter_map(|(pod, change)| Some((pod, change.before.as_ref()?, change.after.as_ref()?)))
        .filter(|(_, before, _)| **before != PodState::default())
        .map(|(pod, before, after)| format!("{pod}: {} -> {}", place(before), place(after)))
        .collect();
    let all: [(&BTreeSet<String>, Sentence); 5] = [
        (&replaced, |pods| format!("replaces {pods}")),
        (&plan.kept, |pods| {
            format!("the cluster has other states of {pods}, which stay; --overwrite replaces them")
        }),
        (&plan.unwanted, |pods| {
            format!(
                "not imported, since the StatefulSet wants no such Pods now, and the sidecar would drop their states: \
                 {pods}; import before the StatefulSet exists, or set persistentPodStateRetentionPolicy: WhenDeleted first"
            )
        }),
        (&plan.ready, |pods| format!("Ready, so recorded where they run: {pods}")),
        (&plan.late, |pods| {
            format!(
                "created without the imported states: {pods}; delete these Pods to have them created again"
            )
        }),
    ];
    for (pods, text) in all {
        if !pods.is_empty() {
            note(text(some(pods)));
        }
    }
    notes
}

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::IsAlias => {
            "the cluster has an alias of that name: give the object in the file the name of the \
                             workload's PersistentPodState"
                .into()
        }
        Refusal::OtherTarget(target) => format!("in the cluster it is for {} {}", target.kind, target.name),
        Refusal::SharedTarget(other) => format!("PersistentPodState {other} is for the same workload"),
        Refusal::Edit(error) => error.to_string(),
    }
}

/// Why an agreed write is not made.
pub fn blocked(blocked: &Blocked) -> Failure {
    Failure::Refused(match blocked {
        Blocked::Changed(pod) => {
            format!("the state of Pod {pod} has changed meanwhile; run the command again")
        }
        Blocked::Edit(error) => error.to_string(),
    })
}

/// Warns of required values that no node has.
pub fn absent_values(values: &BTreeMap<(String, String), usize>) -> Vec<String> {
    let mut keys: BTreeMap<&str, (Vec<String>, usize)> = BTreeMap::new();
    for ((key, value), states) in values {
        let (names, all) = keys.entry(key).or_default();
        names.push(format!("{key}={value}"));
        *all += states;
    }
    let note = |(key, (names, states)): (&str, (Vec<String>, usize))| {
        let (names, states) = (list(&names, "or"), count(states, "state", "states"));
        format!("no node has {names} ({states}): Pods would be Pending; --drop-key {key} leaves it out")
    };
    keys.into_iter().map(note).collect()
}

/// What the user is asked.
pub fn question(plans: &[Plan]) -> String {
    let created = plans.iter().filter(|plan| matches!(plan.action, Action::Create(_))).count();
    let states = plans.iter().map(|plan| plan.changes.len()).sum();
    let replaced: usize = plans.iter().map(Plan::replaced).sum();
    format!(
        "Create {} and write {}{}?",
        count(created, "object", "objects"),
        count(states, "state", "states"),
        if replaced > 0 { format!(", {replaced} of them in place of others") } else { String::new() }
    )
}

/// What was done, and what failed.
pub fn done(done: &[(&Plan, Result<usize, Failure>)]) -> (String, Option<Failure>) {
    let states = done.iter().filter_map(|(_, states)| states.as_ref().ok()).sum();
    let objects = done.iter().filter(|(_, states)| states.is_ok()).count();
    let written =
        format!("imported {} with {}", count(objects, "object", "objects"), count(states, "state", "states"));
    let failed: Vec<(&Plan, &Failure)> =
        done.iter().filter_map(|(plan, states)| Some((*plan, states.as_ref().err()?))).collect();
    let Some((_, first)) = failed.first() else { return (written, None) };
    let line = |(plan, failure): &(&Plan, &Failure)| {
        printable(&format!("{}/{}: {failure}", plan.namespace, plan.name))
    };
    let mut lines: Vec<String> = failed.iter().take(NAMED).map(line).collect();
    if failed.len() > NAMED {
        lines.push(format!("and {} more", failed.len() - NAMED));
    }
    lines.push("written states stay; the same command writes the rest".into());
    let text = lines.join("\n");
    let failure = match first {
        Failure::Refused(_) => Failure::Refused(text),
        _ => Failure::Unreadable(text),
    };
    (written, Some(failure))
}

fn some(names: &BTreeSet<String>) -> String {
    let named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
