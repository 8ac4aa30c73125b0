//! Moves in words.

mod refusal;

use std::fmt::Write as _;
use std::time::Duration;

use pps_core::PodState;
use pps_core::pps::short;
use pps_scheduler::{Exclusion, Verdict};

pub use self::refusal::refusal;
use super::text::{Text, list, with_pods};
use super::{Role, Style, printable};
use crate::Failure;
use crate::cluster::write::WriteError;
use crate::decide::command_line::CommandLine;
use crate::decide::move_pod::{Obstacle, PodMove, Removal, Selected};
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

/// What a move does.
pub fn plan(one: &PodMove, style: Style) -> String {
    let mut text = Text::new(style);
    text.heading(&format!(
        "Move Pod {} in namespace {}",
        one.pod, one.namespace
    ));
    text.value("from", &origin(one));
    text.value("to", &destination(one));
    let given_up: Vec<_> = one
        .gives_up()
        .iter()
        .map(|(key, value)| format!("{}={value}", short(key)))
        .collect();
    if !given_up.is_empty() {
        let given_up = list(&given_up, "and");
        text.value("gives up", &format!("{given_up}, which is required now"));
    }
    let before = describe(one.before.as_ref());
    if one.changes_state() {
        text.value("recorded", &before);
        text.value("becomes", &becomes(one));
    } else {
        text.value("recorded", &format!("{before}, unchanged"));
    }
    text.value("then", then(one));
    text.into_lines()
}

fn origin(one: &PodMove) -> String {
    if one.present.is_none() {
        return "no Pod runs now".to_owned();
    }
    match one.from() {
        None => "no node: it is Pending".to_owned(),
        Some(node) if one.is_stranded => format!("{node}, which does not exist any more"),
        Some(node) => node.to_owned(),
    }
}

fn destination(one: &PodMove) -> String {
    if let Some(to) = &one.to {
        return to.clone();
    }
    let landing = one.forecast.as_ref().map(Landing::of);
    match landing.filter(|landing| !landing.is_nowhere()) {
        Some(landing) => format!("any node: {landing}"),
        None => "any node".to_owned(),
    }
}

/// The state that is recorded instead.
fn becomes(one: &PodMove) -> String {
    let until = if one.to.is_none() {
        "; its node is recorded again once it is Ready"
    } else {
        ""
    };
    format!(
        "{} (PersistentPodState {}){until}",
        describe(Some(&one.after())),
        one.pps
    )
}

/// What happens to the Pod after the write.
fn then(one: &PodMove) -> &'static str {
    match one.removal {
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
    }
}

pub fn notes(one: &PodMove, unread_nodes: Option<&Unread>) -> Vec<String> {
    let Some(forecast) = one
        .forecast
        .as_ref()
        .filter(|_| one.removal != Removal::Stay)
    else {
        let unread = unread_nodes.filter(|_| one.forecast.is_none() && one.present.is_some());
        return unread
            .map(|unread| format!("{unread}, so where the Pod may land is not known"))
            .into_iter()
            .collect();
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
    let pod = &one.pod;
    let to = one.to.as_deref().unwrap_or_default();
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
                .map(|forecast| list(&forecast.may_land_on, "or"))
                .filter(|nodes| !nodes.is_empty())
                .unwrap_or_else(|| "no node".into());
            format!(
                "PersistentPodState {} does not require node {to}, and the scheduler would choose \
                 {nodes} for Pod {pod}",
                one.pps
            )
        }
        Obstacle::NoNode { excluded, way_out } => no_node(pod, excluded, way_out.as_ref()),
    })
}

fn no_node(pod: &str, excluded: &[Verdict], way_out: Option<&WayOut>) -> String {
    let mut text = match way_out {
        Some(WayOut { values, flags, .. }) if !flags.is_empty() => format!(
            "no node with {} can take Pod {pod}, and{flags} gives that up:",
            list(values, "and")
        ),
        _ => format!("no node can take Pod {pod}:"),
    };
    for verdict in excluded.iter().take(MAX_NODES) {
        text += &reasons(&verdict.node, &verdict.exclusions);
    }
    if excluded.len() > MAX_NODES {
        let _ = write!(text, "\n- and {} more nodes", excluded.len() - MAX_NODES);
    }
    text
}

/// Why a node cannot take a Pod, each reason in a line of its own.
fn reasons(node: &str, exclusions: &[Exclusion]) -> String {
    let mut text = String::new();
    for exclusion in exclusions {
        let _ = write!(text, "\n- {node}: {exclusion}");
    }
    text
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
    let not_governed = with_pods(
        "not moved, because no PersistentPodState governs them",
        &selected.not_governed,
        namespaces,
    );
    let returning = with_pods(
        "not moved, because they come back by themselves",
        &selected.returning,
        namespaces,
    );
    not_governed.into_iter().chain(returning).collect()
}

/// The Pods after the Pod whose move failed.
pub fn rest(moves: &[PodMove], namespaces: &Namespaces) -> Option<String> {
    with_pods(
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
    Failure::Refused(format!(
        "waited {} s in vain until Pod {} is created again, Ready and recorded; to find out why: \
         {}",
        waited.as_secs(),
        one.pod,
        explain(one, commands)
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

/// The API server refuses a step, or no node takes the Pod.
pub fn not_moved(why: &Failure) -> String {
    format!("not moved: {why}")
}

/// After the obstacle of a move.
pub fn force(one: &PodMove) -> String {
    format!("--force moves Pod {} all the same", one.pod)
}

pub fn question(moves: &[PodMove]) -> String {
    match moves {
        [one] => format!("Move Pod {}?", one.pod),
        moves => format!("Move these {} Pods?", moves.len()),
    }
}

pub fn nothing_to_move(node: &str) -> String {
    format!("No Pod of {} has to be moved\n", printable(node))
}

pub fn unknown_node(node: &str, unread: &Unread) -> String {
    format!("{unread}: whether there is a node {node} is not known")
}

pub fn already_there(pod: &str, node: &str) -> String {
    format!("Pod {pod} is on {} already\n", printable(node))
}

pub fn moved_all(number: usize) -> String {
    format!("Moved {number} Pods\n")
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
