//! Dropped states in words.

use super::move_pod::describe;
use super::text::{count, with_pods};
use super::{Cell, Role, Style, Table};
use crate::decide::forget::Drops;
use crate::snapshot::Namespaces;

/// The states that are dropped.
pub fn drops(drops: &Drops, style: Style) -> String {
    let mut table = Table::new(style, &["NAMESPACE", "PPS", "POD", "RECORDED"]);
    for (object, states) in &drops.objects {
        for (pod, state) in states {
            table.row([
                Cell::plain(&*object.namespace),
                Cell::plain(&*object.name),
                Cell::plain(pod),
                Cell::new(describe(Some(state)), Role::Bad),
            ]);
        }
    }
    table.render()
}

pub fn notes(drops: &Drops, namespaces: &Namespaces) -> Vec<String> {
    let ready = "not dropped, because the Pods are Ready and would be recorded again within \
                 seconds; move them";
    let pending = "Pending, and created with the state that is dropped; delete the Pods to have \
                   them created again";
    let pods = [
        with_pods(ready, &drops.ready, namespaces),
        with_pods(pending, &drops.pending, namespaces),
    ];
    let unrecorded = drops
        .unrecorded
        .iter()
        .map(|pod| format!("there is no recorded state of Pod {pod}"));
    let unreadable = drops
        .unreadable
        .iter()
        .map(|one| format!("PersistentPodState {}: {}", one.pps, one.error));
    pods.into_iter()
        .flatten()
        .chain(unrecorded)
        .chain(unreadable)
        .collect()
}

pub fn nothing_on(node: &str) -> String {
    format!("No recorded state on node {node} is dropped\n")
}

pub fn question(number: usize) -> String {
    format!("Drop {}?", states(number))
}

pub fn dropped(number: usize) -> String {
    format!("Dropped {}.\n", states(number))
}

/// After a failure.
pub fn dropped_before(number: usize) -> String {
    format!("{} dropped before that", states(number))
}

pub fn kept(number: usize) -> String {
    format!(
        "{} kept: the Pods or the states have changed meanwhile",
        states(number)
    )
}

pub fn event(pods: &[&str]) -> String {
    format!(
        "the recorded states of {} were dropped with kubectl-pps",
        pods.join(", ")
    )
}

fn states(number: usize) -> String {
    count(number, "recorded state")
}
