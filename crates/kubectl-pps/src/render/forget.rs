//! Dropped states in words.

use super::move_pod::describe;
use super::{Role, Style, Table};
use crate::Failure;
use crate::decide::command_line::{CommandLine, portions};
use crate::decide::forget::{Concern, Drops};
use crate::decide::move_pod::no_node;
use crate::snapshot::Snapshot;

/// The states that are dropped.
pub fn table(drops: &Drops, style: Style) -> String {
    let mut table = Table::new(style, &["NAMESPACE", "PPS", "POD", "RECORDED"]);
    for ((namespace, pps), states) in &drops.objects {
        for (pod, state) in states {
            let state = describe(Some(state));
            table.row(&[(namespace, None), (pps, None), (pod, None), (&state, Some(Role::Bad))]);
        }
    }
    table.render()
}

/// `2 recorded states`
pub fn count(states: usize) -> String {
    if states == 1 { "1 recorded state".into() } else { format!("{states} recorded states") }
}

/// What the user should know beside the table.
pub fn notes(drops: &Drops, commands: &CommandLine) -> Vec<String> {
    let mut notes = Vec::new();
    let concerns: Vec<_> = drops.concerns.iter().collect();
    for group in
        concerns.chunk_by(|(one, (own, _)), (other, (namespace, _))| one == other && own == namespace)
    {
        let (concern, (namespace, _)) = group[0];
        let pods: Vec<&str> = group.iter().map(|(_, (_, pod))| pod.as_str()).collect();
        for pods in portions(&pods) {
            let (names, words) = (pods.join(", "), pods.join(" "));
            notes.push(match concern {
                Concern::Ready => format!(
                    "not dropped, because the Pods are Ready and the sidecar would record them again within seconds: {names}; to \
                     move them: {}",
                    commands.pps(&format!("move {words} --anywhere"), namespace)
                ),
                Concern::Pending => format!(
                    "Pending, and created with the state that is dropped: {names}; to have these Pods created again: {}",
                    commands.kubectl_in(&format!("delete pod {words}"), namespace)
                ),
                Concern::NotReady => {
                    format!("bound to a node and not Ready, so recorded again once they are Ready: {names}")
                }
                Concern::Stranded => format!(
                    "bound to a node that is gone: {names}; Kubernetes deletes these Pods within about a minute, and their \
                     successors start wherever the scheduler puts them"
                ),
            });
        }
    }
    notes.extend(drops.unrecorded.iter().map(|pod| format!("Pod {pod} has no recorded state")));
    notes.extend(drops.unknown.iter().map(|(pod, near)| {
        let near =
            if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
        format!("there is no Pod {pod}, and no recorded state of one{near}")
    }));
    notes.extend(drops.unreadable.iter().map(|(pps, error)| format!("PersistentPodState {pps}: {error}")));
    notes
}

/// That no recorded state names a node. `exists` is whether there is such a node, if that is known.
pub fn nothing_on(snapshot: &Snapshot, node: &str, exists: Option<bool>, commands: &CommandLine) -> String {
    let everywhere = match snapshot.scope.namespace() {
        None => String::new(),
        Some(namespace) => format!(
            " in namespace {namespace}; in all namespaces: {}",
            commands.kubectl(&format!("pps forget --node {node} -A"))
        ),
    };
    if exists == Some(false) {
        let missing = Failure::from(no_node(snapshot, node));
        return format!("{missing}\nNo recorded state names it{everywhere}");
    }
    format!("No recorded state names node {node}{everywhere}")
}
