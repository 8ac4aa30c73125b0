//! Dropped states in words.

use super::move_pod::describe;
use super::{Role, Style, Table};
use crate::decide::command_line::{CommandLine, portions};
use crate::decide::forget::Drops;
use crate::decide::move_pod::PodName;

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
    let mut of_pods = |pods: &[PodName], text: &str, command: &dyn Fn(&str, &str) -> String| {
        for group in pods.chunk_by(|(one, _), (other, _)| one == other) {
            let names: Vec<&str> = group.iter().map(|(_, pod)| pod.as_str()).collect();
            notes.extend(
                portions(&names)
                    .into_iter()
                    .map(|names| format!("{text}: {}", command(&names.join(" "), &group[0].0))),
            );
        }
    };
    of_pods(
        &drops.ready,
        "not dropped, because the Pods are Ready and the sidecar would record them again within seconds; to move them",
        &|names, namespace| commands.pps(&format!("move {names} --anywhere"), namespace),
    );
    of_pods(
        &drops.pending,
        "Pending, and created with the state that is dropped; to have the Pods created again",
        &|names, namespace| commands.kubectl_in(&format!("delete pod {names}"), namespace),
    );
    notes.extend(drops.unrecorded.iter().map(|pod| format!("there is no recorded state of Pod {pod}")));
    notes.extend(drops.unreadable.iter().map(|(pps, error)| format!("PersistentPodState {pps}: {error}")));
    notes
}
