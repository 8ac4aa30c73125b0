//! Shows what import would do, and what it has done.

use std::path::Path;

use pps_core::PodState;
use pps_manifest::Flaw;

use super::write::Done;
use crate::decide::hand::{Hand, portions};
use crate::decide::import::{Action, File, Plan};
use crate::print::{Role, Style, Table, Terminal, printable};
use crate::run::file;
use crate::{Failure, Outcome};

/// How many things of one kind are named.
const NAMED: usize = 10;

pub(super) fn flaws(path: &Path, flaws: &[Flaw]) -> Failure {
    let name = file::name(path);
    let mut lines: Vec<String> = flaws
        .iter()
        .take(NAMED)
        .map(|flaw| format!("{name}:{}:{}: {}", flaw.place.line, flaw.place.column, flaw.message))
        .collect();
    if flaws.len() > NAMED {
        lines.push(format!("and {} more", flaws.len() - NAMED));
    }
    lines.push("nothing was changed".into());
    Failure::Usage(lines.join("\n"))
}

pub(super) fn left_out(file: &File) -> Vec<String> {
    let aliases = (file.aliases > 0).then(|| {
        format!("left out: {}, which the sidecar makes again", count(file.aliases, "alias", "aliases"))
    });
    let others = (file.others > 0)
        .then(|| format!("left out: {} of other namespaces", count(file.others, "object", "objects")));
    aliases.into_iter().chain(others).collect()
}

pub(super) fn table(style: Style, plans: &[Plan]) -> String {
    let mut table = Table::new(style, &["NAMESPACE", "NAME", "ACTION", "ADDED", "REPLACED", "KEPT"]);
    for plan in plans {
        let (action, role) = match &plan.action {
            Action::Create { .. } => ("create", Role::Good),
            Action::Add { .. } => ("write states", Role::Good),
            Action::Nothing => ("nothing", Role::Dim),
            Action::Refuse(_) => ("refused", Role::Bad),
        };
        table.row(&[
            (&plan.namespace, None),
            (&plan.name, None),
            (action, Some(role)),
            (&plan.added().to_string(), None),
            (&plan.replaced().to_string(), (plan.replaced() > 0).then_some(Role::Warning)),
            (&(plan.kept.len() + plan.ready.len()).to_string(), None),
        ]);
    }
    table.render()
}

/// A line below the table.
pub(super) enum Detail {
    Note(String),
    Error(String),
}

impl Detail {
    pub(super) fn shown(&self, style: Style) -> String {
        match self {
            Self::Note(text) => style.note(text),
            Self::Error(text) => style.error(text),
        }
    }
}

pub(super) fn details(plans: &[Plan], hand: &Hand) -> Vec<Detail> {
    let mut details = Vec::new();
    for plan in plans {
        let what = format!("{}/{}", plan.namespace, plan.name);
        if let Action::Refuse(why) = &plan.action {
            details.push(Detail::Error(format!("{what}: {why}")));
        }
        if matches!(&plan.action, Action::Create { is_compact: true, .. } | Action::Add { is_compact: true })
        {
            details.push(Detail::Note(format!("{what}: its states fit only in the compact form")));
        }
        let replaced: Vec<String> = plan
            .changes
            .iter()
            .filter_map(|(pod, change)| Some((pod, change.before.as_ref()?, change.after.as_ref()?)))
            .filter(|(_, before, _)| **before != PodState::default())
            .map(|(pod, before, after)| format!("{pod}: {} -> {}", place(before), place(after)))
            .collect();
        if !replaced.is_empty() {
            details.push(Detail::Note(format!("{what}: replaces {}", some(&replaced))));
        }
        if !plan.kept.is_empty() {
            let kept: Vec<String> = plan.kept.iter().cloned().collect();
            details.push(Detail::Note(format!(
                "{what}: the cluster has other states of {}, which stay; --overwrite replaces them",
                some(&kept)
            )));
        }
        if !plan.unwanted.is_empty() {
            let unwanted: Vec<String> = plan.unwanted.iter().cloned().collect();
            details.push(Detail::Error(format!(
                "{what}: not imported, since the StatefulSet wants no such Pods now, and the sidecar would drop their \
                 states: {}; import before the StatefulSet exists, or set \
                 persistentPodStateRetentionPolicy: WhenDeleted first",
                some(&unwanted)
            )));
        }
        if !plan.ready.is_empty() {
            let ready: Vec<String> = plan.ready.iter().cloned().collect();
            details
                .push(Detail::Note(format!("{what}: Ready, so recorded where they run: {}", some(&ready))));
        }
        details.extend(not_ready(plan, &what, hand).into_iter().map(Detail::Note));
    }
    details
}

/// What becomes of states whose Pods were created without them.
fn not_ready(plan: &Plan, what: &str, hand: &Hand) -> Vec<String> {
    let mut notes = Vec::new();
    let unready: Vec<String> = plan.unready.iter().map(|(pod, node)| format!("{pod} ({node})")).collect();
    if !unready.is_empty() {
        notes.push(format!(
            "{what}: bound to another node and not Ready: once they are, that node is recorded in place of what is imported: {}",
            some(&unready)
        ));
    }
    let pending: Vec<String> = plan.pending.iter().cloned().collect();
    let names: Vec<&str> = pending.iter().map(String::as_str).collect();
    let commands: Vec<String> = portions(&names)
        .iter()
        .map(|names| hand.kubectl_in(&format!("delete pod {}", names.join(" ")), &plan.namespace))
        .collect();
    if let Some(first) = commands.first() {
        let more = if commands.len() > 1 { ", and so on" } else { "" };
        notes.push(format!(
            "{what}: Pending, and created without what is imported: {}; to have them created again with it, once this is done: \
             {first}{more}",
            some(&pending)
        ));
    }
    notes
}

fn place(state: &PodState) -> &str {
    if state.node_name.is_empty() { "no node" } else { &state.node_name }
}

fn some(names: &[String]) -> String {
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{named} and {} more", names.len() - NAMED) } else { named }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

pub(super) fn outcome(plans: &[Plan]) -> Outcome {
    let is_refused =
        plans.iter().any(|plan| matches!(plan.action, Action::Refuse(_)) || !plan.unwanted.is_empty());
    if is_refused { Outcome::NotWell } else { Outcome::Well }
}

pub(super) fn question(plans: &[Plan]) -> String {
    let created = plans.iter().filter(|plan| matches!(plan.action, Action::Create { .. })).count();
    let states = plans.iter().map(|plan| plan.changes.len()).sum();
    let replaced: usize = plans.iter().map(Plan::replaced).sum();
    format!(
        "Create {} and write {}{}?",
        count(created, "object", "objects"),
        count(states, "state", "states"),
        if replaced > 0 { format!(", {replaced} of them in place of others") } else { String::new() }
    )
}

pub(super) fn done(terminal: &Terminal, done: &[Done]) -> Result<(), Failure> {
    let created = done.iter().filter(|done| done.is_created).count();
    let states = done.iter().filter_map(|done| done.states.as_ref().ok()).sum();
    terminal.say(&format!(
        "created {}, wrote {}",
        count(created, "object", "objects"),
        count(states, "state", "states")
    ));
    let failed: Vec<(&Done, &Failure)> =
        done.iter().filter_map(|done| Some((done, done.states.as_ref().err()?))).collect();
    let Some((_, first)) = failed.first() else { return Ok(()) };
    let mut lines: Vec<String> = failed
        .iter()
        .take(NAMED)
        .map(|(done, failure)| printable(&format!("{}: {failure}", done.what)))
        .collect();
    if failed.len() > NAMED {
        lines.push(format!("and {} more", failed.len() - NAMED));
    }
    lines.push("what is done stays; the same command does the rest".into());
    let text = lines.join("\n");
    Err(match first {
        Failure::Refused(_) => Failure::Refused(text),
        Failure::Usage(_) | Failure::Unreadable(_) => Failure::Unreadable(text),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn pods_that_were_created_without_what_is_imported_are_named_with_what_becomes_of_them() {
        let plan = Plan {
            namespace: "shop".into(),
            name: "db".into(),
            action: Action::Nothing,
            changes: BTreeMap::new(),
            kept: [].into(),
            ready: [].into(),
            unready: [("db-3".to_owned(), "node-0".to_owned())].into(),
            pending: ["db-1".to_owned(), "db-2".to_owned()].into(),
            unwanted: [].into(),
        };
        let hand = Hand { context: Some("blue".into()), ..Hand::default() };
        assert_eq!(
            not_ready(&plan, "shop/db", &hand),
            [
                "shop/db: bound to another node and not Ready: once they are, that node is recorded in place of what is imported: \
                 db-3 (node-0)",
                "shop/db: Pending, and created without what is imported: db-1, db-2; to have them created again with it, once \
                 this is done: kubectl delete pod db-1 db-2 -n shop --context blue",
            ]
        );
    }
}
