//! Moves and dropped states in words.

use std::fmt::Write as _;
use std::time::Duration;

use pps_core::PodState;
use pps_core::pps::short;
use pps_scheduler::Exclusion;

use super::status::{Line, enable};
use super::text::{list, titled};
use super::{Role, Style, Table, printable};
use crate::Failure;
use crate::cluster::write::WriteError;
use crate::decide::command_line::CommandLine;
use crate::decide::forget::Drops;
use crate::decide::move_pod::{Obstacle, PodMove, PodName, Refusal, Removal, Selected};
use crate::decide::placement::Landing;
use crate::decide::way_out::WayOut;
use crate::snapshot::{Namespaces, Pod, Unread};

const MAX_NODES: usize = 20;

pub fn describe(state: Option<&PodState>) -> String {
    let Some(state) = state.filter(|state| **state != PodState::default()) else {
        return "nothing".into();
    };
    let pairs = state.node_topology_labels.iter().chain(&state.annotations);
    let pairs = pairs.map(|(key, value)| format!("{}={value}", short(key)));
    let node = Some(&state.node_name).filter(|node| !node.is_empty());
    let without = node.is_none().then(|| "without a node".to_owned());
    node.cloned()
        .into_iter()
        .chain(pairs)
        .chain(without)
        .collect::<Vec<_>>()
        .join(", ")
}

pub fn plan(one: &PodMove, style: Style) -> String {
    let from = match (one.from(), one.is_stranded) {
        _ if one.present.is_none() => "no Pod runs now".into(),
        (None, _) => "no node: it is Pending".into(),
        (Some(node), true) => format!("{node}, which does not exist any more"),
        (Some(node), false) => node.to_owned(),
    };
    let landing = one
        .forecast
        .as_ref()
        .map(Landing::of)
        .filter(|landing| !landing.is_nowhere());
    let to = match (&one.to, landing) {
        (Some(to), _) => to.clone(),
        (None, Some(landing)) => format!("any node: {landing}"),
        (None, None) => "any node".into(),
    };
    let mut lines = vec![("from", from), ("to", to)];
    let given_up: Vec<_> = one
        .gives_up()
        .iter()
        .map(|(key, value)| format!("{}={value}", short(key)))
        .collect();
    if !given_up.is_empty() {
        lines.push((
            "gives up",
            format!("{}, which is required now", list(&given_up, "and")),
        ));
    }
    let before = describe(one.before.as_ref());
    if one.changes_state() {
        let until = if one.to.is_none() {
            "; its node is recorded again once it is Ready"
        } else {
            ""
        };
        let becomes = format!(
            "{} (PersistentPodState {}){until}",
            describe(Some(&one.after())),
            one.pps
        );
        lines.extend([("recorded", before), ("becomes", becomes)]);
    } else {
        lines.push(("recorded", format!("{before}, unchanged")));
    }
    let then = match one.removal {
        Removal::Evict if one.is_stranded => {
            "the Pod is evicted; its node is gone, so Kubernetes deletes it within about a minute, \
             and its controller creates it again"
        }
        Removal::Evict => "the Pod is evicted, and its controller creates it again",
        Removal::Delete => "the Pod is deleted, and its controller creates it again",
        Removal::Stay if one.present.as_ref().is_some_and(Pod::is_marked) => {
            "the Pod stays: an unfinished move is called off"
        }
        Removal::Stay => "the Pod stays, and is recorded there",
        Removal::Unneeded => "its controller creates it",
    };
    lines.push(("then", then.to_owned()));
    titled(
        style,
        &format!("Move Pod {} in namespace {}", one.pod, one.namespace),
        &lines,
    )
}

pub fn notes(one: &PodMove, unread_nodes: Option<&Unread>) -> Vec<String> {
    let Some(forecast) = one
        .forecast
        .as_ref()
        .filter(|_| one.removal != Removal::Stay)
    else {
        let unread = unread_nodes.filter(|_| one.forecast.is_none() && one.present.is_some());
        let text = |unread| format!("{unread}, so where the Pod may land is not known");
        return unread.map(text).into_iter().collect();
    };
    let caveats = forecast
        .caveats
        .iter()
        .map(|caveat| format!("Pod {}: {caveat}", one.pod));
    let is_promised = one
        .to
        .as_ref()
        .is_none_or(|to| forecast.may_land_on == [to.clone()]);
    let choice = (!is_promised && one.obstacle.is_none()).then(|| {
        let nodes = list(&forecast.may_land_on, "or");
        format!(
            "PersistentPodState {} does not require the node itself: the scheduler may choose \
             {nodes}",
            one.pps
        )
    });
    caveats.chain(choice).collect()
}

pub fn obstacle(one: &PodMove) -> Option<String> {
    let reasons = |node: &str, all: &[Exclusion]| {
        all.iter()
            .map(|one| format!("\n- {node}: {one}"))
            .collect::<Vec<_>>()
            .concat()
    };
    let (pod, to) = (&one.pod, one.to.as_deref().unwrap_or_default());
    Some(match one.obstacle.as_ref()? {
        Obstacle::Excluded(exclusions) => {
            format!(
                "node {to} cannot take Pod {pod}:{}",
                reasons(to, exclusions)
            )
        }
        Obstacle::NotChosen => {
            let nodes = one
                .forecast
                .as_ref()
                .map(|forecast| list(&forecast.may_land_on, "or"));
            let nodes = nodes
                .filter(|nodes| !nodes.is_empty())
                .unwrap_or_else(|| "no node".into());
            format!(
                "PersistentPodState {} does not require node {to}, and the scheduler would choose \
                 {nodes} for Pod {pod}",
                one.pps
            )
        }
        Obstacle::NoNode(exclusions, way_out) => {
            let mut text = match way_out {
                Some(WayOut { values, flags, .. }) if !flags.is_empty() => format!(
                    "no node with {} can take Pod {pod}, and{flags} gives that up:",
                    list(values, "and")
                ),
                _ => format!("no node can take Pod {pod}:"),
            };
            text.extend(
                exclusions
                    .iter()
                    .take(MAX_NODES)
                    .map(|(node, all)| reasons(node, all)),
            );
            if exclusions.len() > MAX_NODES {
                let _ = write!(text, "\n- and {} more nodes", exclusions.len() - MAX_NODES);
            }
            text
        }
    })
}

pub fn refusal(refusal: Refusal, commands: &CommandLine) -> Failure {
    match refusal {
        Refusal::Unread(unread) => Failure::Unread(unread),
        Refusal::UnreadablePps { pps, why } => {
            Failure::Refused(format!("PersistentPodState {pps} cannot be read: {why}"))
        }
        Refusal::NoPod { namespace, pod } => Failure::Usage(format!(
            "there is no Pod {pod} in namespace {namespace}, and it has no recorded state"
        )),
        Refusal::NoController { pod } => {
            Failure::Refused(format!("Pod {pod} has no controller to create it again"))
        }
        Refusal::NoWorkload { pod, workload } => {
            let (kind, name) = (&workload.kind, &workload.name);
            Failure::Refused(format!(
                "create {kind} {name} first: nothing else would create Pod {pod} again"
            ))
        }
        Refusal::NotGoverned {
            pod,
            workload,
            waits,
        } => {
            let (kind, name) = (&workload.kind, &workload.name);
            Failure::Refused(if waits {
                format!(
                    "Pod {pod} waits for the state that was injected when it was created, and no \
                     PersistentPodState names {kind} {name} any more: {} has it created again \
                     without that",
                    commands.kubectl_in(&format!("delete pod {pod}"), &workload.namespace)
                )
            } else {
                format!(
                    "no PersistentPodState names {kind} {name}: nothing pins Pod {pod}, and the \
                     scheduler chooses whenever it is created again"
                )
            })
        }
        Refusal::NotEnabled { namespace } => {
            let Line { text, command } = enable(&namespace, commands);
            Failure::Refused(format!("{text}: {command}"))
        }
        Refusal::NotWanted {
            pod,
            workload,
            replicas,
            is_terminating,
        } => {
            let why = if is_terminating {
                "being deleted".into()
            } else {
                format!("replicas: {replicas}")
            };
            let (kind, name) = (&workload.kind, &workload.name);
            Failure::Refused(format!(
                "{kind} {name} ({why}) does not want Pod {pod}, and would not create it again"
            ))
        }
        Refusal::AmbiguousKey { word, keys } => Failure::Usage(format!(
            "{word} may mean each of {}: name one",
            keys.join(", ")
        )),
        Refusal::UnknownKey { word, keys } => Failure::Usage(format!(
            "no PersistentPodState names the node label {word}; named are: {}",
            keys.join(", ")
        )),
    }
}

/// The move is no longer as it was shown.
pub fn changed(pod: &str) -> Failure {
    Failure::Refused(format!(
        "Pod {pod} or its recorded state has changed meanwhile; run the command again to see the \
         new plan"
    ))
}

pub fn not_removed(one: &PodMove, error: WriteError) -> Failure {
    match error {
        WriteError::Disruption(why) => Failure::Refused(format!(
            "a PodDisruptionBudget forbids to evict Pod {} now: {why}",
            one.pod
        )),
        // For instance, two budgets select the Pod.
        WriteError::Failed(why) => Failure::Refused(why),
        error => error.into(),
    }
}

pub fn not_selected(selected: &Selected, namespaces: &Namespaces) -> Vec<String> {
    let not_governed = named(
        "not moved, because no PersistentPodState governs them",
        &selected.not_governed,
        namespaces,
    );
    let returning = named(
        "not moved, because they come back by themselves",
        &selected.returning,
        namespaces,
    );
    not_governed.into_iter().chain(returning).collect()
}

/// A text and all Pods for which nothing is done: nothing else names them. None without Pods.
fn named(text: &str, pods: &[PodName], namespaces: &Namespaces) -> Option<String> {
    let name = |(namespace, pod): &PodName| match namespaces {
        Namespaces::All => format!("{namespace}/{pod}"),
        Namespaces::One(_) => pod.clone(),
    };
    let names = pods.iter().map(name).collect::<Vec<_>>().join(", ");
    (!pods.is_empty()).then(|| format!("{text}: {names}"))
}

/// The Pods after the Pod whose move failed.
pub fn rest(moves: &[PodMove], namespaces: &Namespaces) -> Option<String> {
    named(
        "not moved",
        &moves.iter().map(PodMove::name).collect::<Vec<_>>(),
        namespaces,
    )
}

pub fn waiting(one: &PodMove) -> String {
    printable(&format!(
        "waiting until Pod {} is created again, Ready and recorded …",
        one.pod
    ))
}

pub fn timed_out(one: &PodMove, waited: Duration, commands: &CommandLine) -> Failure {
    let (seconds, explain) = (waited.as_secs(), explain(one, commands));
    Failure::Refused(format!(
        "waited {seconds} s in vain until Pod {} is created again, Ready and recorded; to find \
         out why: {explain}",
        one.pod
    ))
}

pub fn unfinished(one: &PodMove, commands: &CommandLine) -> String {
    let explain = explain(one, commands);
    format!(
        "the move of Pod {} has begun; to see how to finish it or call it off: {explain}",
        one.pod
    )
}

pub fn left_alone(one: &PodMove) -> String {
    format!("Pod {} was left alone: nothing was changed", one.pod)
}

fn explain(one: &PodMove, commands: &CommandLine) -> String {
    commands.pps(&format!("explain {}", one.pod), &one.namespace)
}

pub fn stays(one: &PodMove) -> String {
    printable(&format!(
        "Pod {} stays on {}",
        one.pod,
        one.from().unwrap_or_default()
    )) + "\n"
}

pub fn moved(one: &PodMove, node: &str, style: Style) -> String {
    let pod = &one.pod;
    let line = match one.from() {
        Some(from) if from == node => format!("Pod {pod} is on {node} again"),
        Some(from) => format!("Pod {pod} has moved from {from} to {node}"),
        None => format!("Pod {pod} has moved to {node}"),
    };
    match one.to.as_deref().filter(|to| *to != node) {
        None => style.paint(Role::Good, &printable(&line)) + "\n",
        Some(to) => {
            style.paint(
                Role::Warning,
                &printable(&format!("{line}, and not to {to}")),
            ) + "\n"
        }
    }
}

pub fn event(one: &PodMove, before: Option<&PodState>, after: Option<&PodState>) -> String {
    format!(
        "Pod {} is moved to {} with kubectl-pps: its recorded state was {}, and is {}",
        one.pod,
        one.to.as_deref().unwrap_or("any node"),
        describe(before),
        describe(after)
    )
}

pub fn drops(drops: &Drops, style: Style) -> String {
    let mut table = Table::new(style, &["NAMESPACE", "PPS", "POD", "RECORDED"]);
    for ((namespace, pps), states) in &drops.objects {
        for (pod, state) in states {
            let state = describe(Some(state));
            table.row(&[
                (namespace, None),
                (pps, None),
                (pod, None),
                (&state, Some(Role::Bad)),
            ]);
        }
    }
    table.render()
}

pub fn drop_notes(drops: &Drops, namespaces: &Namespaces) -> Vec<String> {
    let ready = "not dropped, because the Pods are Ready and would be recorded again within \
                 seconds; move them";
    let pending = "Pending, and created with the state that is dropped; delete the Pods to have \
                   them created again";
    let pods = [
        named(ready, &drops.ready, namespaces),
        named(pending, &drops.pending, namespaces),
    ];
    let unrecorded = drops
        .unrecorded
        .iter()
        .map(|pod| format!("there is no recorded state of Pod {pod}"));
    let unreadable = drops
        .unreadable
        .iter()
        .map(|(pps, error)| format!("PersistentPodState {pps}: {error}"));
    pods.into_iter()
        .flatten()
        .chain(unrecorded)
        .chain(unreadable)
        .collect()
}
