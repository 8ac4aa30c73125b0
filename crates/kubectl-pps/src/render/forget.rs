//! Dropped states in words.

use super::move_pod::describe;
use super::text::with_pods;
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
