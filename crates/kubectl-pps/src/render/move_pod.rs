//! A move in words.

use std::fmt::Write as _;

use pps_core::PodState;
use pps_scheduler::Exclusion;

use super::text::titled;
use super::{Role, Style, printable};
use crate::Failure;
use crate::args::Move;
use crate::decide::command_line::{CommandLine, portions};
use crate::decide::landing::Landing;
use crate::decide::move_pod::{
    Obstacle, Others, PodMove, PodName, Refusal, Removal, Selected, Stage, WayOut, has_address, short,
};
use crate::decide::names::list;
use crate::snapshot::{Pod, WorkloadKey};

/// How many nodes are listed, each with why it cannot take a Pod.
const MAX_NODES: usize = 20;

/// A state in one line.
pub fn describe(state: Option<&PodState>) -> String {
    let Some(state) = state.filter(|state| **state != PodState::default()) else { return "nothing".into() };
    let pairs = state.node_topology_labels.iter().chain(&state.annotations);
    let pairs = pairs.map(|(key, value)| format!("{}={value}", short(key)));
    let node = Some(&state.node_name).filter(|node| !node.is_empty());
    let without = node.is_none().then(|| "without a node".to_owned());
    node.cloned().into_iter().chain(pairs).chain(without).collect::<Vec<_>>().join(", ")
}

fn pairs(values: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = values.iter().map(|(key, value)| format!("{}={value}", short(key))).collect();
    list(&pairs, "and")
}

/// What is done.
pub fn plan(one: &PodMove, style: Style) -> String {
    let mut lines = Vec::new();
    let mut line = |title: &'static str, text: String| lines.push((title, text));
    line(
        "from",
        match one.present.as_ref().map(|present| (&present.node, present.is_stranded)) {
            None => "the Pod does not exist now".into(),
            Some((None, _)) => "no node: it is Pending".into(),
            Some((Some(node), true)) => format!("{node}, which does not exist any more"),
            Some((Some(node), false)) => node.clone(),
        },
    );
    let landing = one.forecast.as_ref().map(Landing::of).filter(|landing| !landing.is_nowhere());
    line(
        "to",
        match (&one.to, landing) {
            (Some(to), _) => to.clone(),
            (None, Some(landing)) => format!("any node: {landing}"),
            (None, None) => "any node".into(),
        },
    );
    if !one.gives_up().is_empty() {
        line("gives up", format!("{}, which is required now", pairs(&one.gives_up())));
    }
    let before = describe(one.before.as_ref());
    if one.changes_state() {
        let until = if one.to.is_none() { "; its node is recorded again once it is Ready" } else { "" };
        line("recorded", before);
        line("becomes", format!("{} (PersistentPodState {}){until}", describe(Some(&one.after())), one.pps));
    } else {
        line("recorded", format!("{before}, unchanged"));
    }
    let then = one.present.as_ref().and_then(|present| match present.removal {
        Removal::Evict if present.is_stranded => Some(
            "the Pod is evicted; its node is gone, so Kubernetes deletes it within about a minute, and its controller \
             creates it again",
        ),
        Removal::Evict => Some("the Pod is evicted, and its controller creates it again"),
        Removal::Delete => Some("the Pod is deleted, and its controller creates it again"),
        Removal::Stay if present.is_marked => Some("the Pod stays: an unfinished move is called off"),
        Removal::Stay => Some("the Pod stays"),
        Removal::Unneeded => None,
    });
    if let Some(then) = then {
        line("then", then.into());
    }
    titled(style, &format!("Move Pod {} in namespace {}", one.pod, one.namespace), &lines)
}

/// What the user should know beside the plan.
pub fn notes(one: &PodMove, commands: &CommandLine) -> Vec<String> {
    if one.removed_by(&[Removal::Stay]).is_some() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    if has_address(&one.after().annotations) {
        let text = "the network may not accept a recorded address on another node: the Pod then gets another one, which is \
                    recorded in its place";
        notes.push(text.to_owned());
    }
    let Some(forecast) = &one.forecast else {
        if one.present.is_some() {
            notes.push("you have no permission to list nodes, so where the Pod may land is not known".into());
        }
        return notes;
    };
    notes.extend(forecast.caveats.iter().map(|caveat| format!("Pod {} {caveat}", one.pod)));
    if let Some(to) = &one.to {
        if one.obstacle.is_none() && forecast.may_land_on != [to.clone()] {
            let (pps, nodes) = (&one.pps, listed(&forecast.may_land_on));
            notes.push(format!(
                "PersistentPodState {pps} does not require the node itself: the scheduler may choose {nodes}"
            ));
        }
    } else if let Some(node) = one.present.as_ref().and_then(|present| present.node.as_deref()) {
        let landing = Landing::of(forecast);
        if landing.only() == Some(node) {
            notes.push(format!("{node} is the only node that can take Pod {}, so it comes back", one.pod));
        } else if landing.favourites().iter().chain(landing.others()).any(|other| other == node) {
            let cordon = commands.kubectl(&format!("cordon {node}"));
            notes.push(format!(
                "{node} takes Pods, so it may get the Pod again; to prevent that, run this first: {cordon}"
            ));
        }
    }
    notes
}

fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_NODES)].join(", ");
    if names.len() > MAX_NODES { format!("{shown} and {} more", names.len() - MAX_NODES) } else { shown }
}

/// Why no suitable node can take a Pod.
pub fn obstacle(obstacle: &Obstacle, pod: &str) -> String {
    let reasons = |node: &str, all: &[Exclusion]| {
        all.iter().map(|one| format!("\n- {node}: {one}")).collect::<Vec<_>>().concat()
    };
    match obstacle {
        Obstacle::Excluded { node, exclusions } => {
            format!("node {node} cannot take Pod {pod}:{}", reasons(node, exclusions))
        }
        Obstacle::NotChosen { node, pps, instead } => format!(
            "PersistentPodState {pps} does not require the node itself, and the scheduler would not choose node {node} but {}",
            listed(instead)
        ),
        Obstacle::NoNode { exclusions, way_out } => {
            let mut text = match way_out {
                Some(WayOut { values, flags, .. }) if !values.is_empty() => format!(
                    "no node with {} can take Pod {pod}, and{flags} gives that up:",
                    list(values, "and")
                ),
                _ => format!("no node can take Pod {pod}:"),
            };
            text.extend(
                exclusions.iter().take(MAX_NODES).map(|(node, exclusions)| reasons(node, exclusions)),
            );
            if exclusions.len() > MAX_NODES {
                let _ = write!(text, "\n- and {} more nodes", exclusions.len() - MAX_NODES);
            }
            text
        }
    }
}

/// Which other Pods of the workload are not as they should be, and what helps.
pub fn others(one: &PodMove, others: &Others, commands: &CommandLine) -> String {
    let WorkloadKey { kind, name, .. } = &one.workload;
    let mut parts = Vec::new();
    let mut part = |title: &str, pods: &[String], help: String| {
        if !pods.is_empty() {
            parts.push(format!("{title}: {}{help}", list(pods, "and")));
        }
    };
    part("not Ready", &others.not_ready, String::new());
    let missing = Some(others.missing.to_string()).filter(|_| others.missing > 0);
    part("missing", missing.as_slice(), String::new());
    let moving = others.moving.first().map(|pod| commands.pps(&format!("explain {pod}"), &one.namespace));
    let help = format!(
        " (if that move was killed, the same command finishes it; to call it off: {})",
        moving.unwrap_or_default()
    );
    part("moved by another command", &others.moving, help);
    part("not recorded", &others.unrecorded, format!(" (to find out why: {})", commands.check()));
    if others.is_workload_unread {
        parts.push("missing: unknown, because the workload could not be read".to_owned());
    }
    format!(
        "Pod {} is Ready, and other Pods of {kind} {name} are not as they should be before it is evicted; {}",
        one.pod,
        parts.join("; ")
    )
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let named = |workload: &WorkloadKey| format!("{} {}", workload.kind, workload.name);
        match refusal {
            Refusal::Unread(unread) => Self::Unreadable(unread.to_string()),
            Refusal::UnreadNode { node, unread } => {
                Self::Unreadable(format!("{unread}, which is needed to know the labels of node {node}"))
            }
            Refusal::UnreadablePps { pps, why } => {
                Self::Refused(format!("PersistentPodState {pps} cannot be read: {why}"))
            }
            Refusal::NoDestination { pod, landing, knows_nodes } => {
                let ask = Self::Usage(format!("say where {pod} should go: --to NODE, or --anywhere"));
                match landing {
                    Some(landing) => ask.with(&format!("With --anywhere, it {}", landing.would("start on"))),
                    None if knows_nodes => ask,
                    None => ask
                        .with("Which nodes could take it is not known: you have no permission to list nodes"),
                }
            }
            Refusal::NoNode { node, similar } if similar.is_empty() => {
                Self::Usage(format!("there is no node {node}"))
            }
            Refusal::NoNode { node, similar } => {
                Self::Usage(format!("there is no node {node}; similar names: {}", similar.join(", ")))
            }
            Refusal::NoPod { namespace, pod } => Self::Usage(format!(
                "there is no Pod {pod} in namespace {namespace}, and it has no recorded state"
            )),
            Refusal::NoController { pod } => Self::Refused(format!(
                "Pod {pod} has no controller: nothing pins it, and nothing would create it again"
            )),
            Refusal::NotGoverned { pod, workload, waits: true } => Self::Refused(format!(
                "Pod {pod} waits for the state that was injected when it was created, and no PersistentPodState names {} any \
                 more: delete the Pod, and its controller creates it again without that",
                named(&workload)
            )),
            Refusal::NotGoverned { pod, workload, waits: false } => Self::Refused(format!(
                "no PersistentPodState names {}: nothing pins Pod {pod}, and the scheduler chooses whenever it is created \
                 again",
                named(&workload)
            )),
            Refusal::WorkloadTerminating { pod, workload } => Self::Refused(format!(
                "{} is being deleted, and nothing would create Pod {pod} again",
                named(&workload)
            )),
            Refusal::NotWanted { pod, workload, replicas } => Self::Refused(format!(
                "{} (replicas: {replicas}) does not want Pod {pod}, and would not create it again",
                named(&workload)
            )),
            Refusal::AmbiguousKey { word, keys } => {
                Self::Usage(format!("--any {word} may mean {}: write the whole key", list(&keys, "or")))
            }
            Refusal::UnknownKey { word, keys } => Self::Usage(format!(
                "no PersistentPodState names the node label {word}; named are: {}",
                keys.join(", ")
            )),
        }
    }
}

/// The Pods of a node that are not moved.
pub fn not_selected(selected: &Selected) -> Vec<String> {
    let groups = [
        ("no PersistentPodState governs them", &selected.not_governed),
        ("they come back by themselves", &selected.returning),
    ];
    let groups = groups.into_iter().filter(|(_, pods)| !pods.is_empty());
    groups.map(|(why, pods)| format!("not moved, because {why}: {}", names(pods))).collect()
}

fn names(pods: &[PodName]) -> String {
    list(&pods.iter().map(|(_, pod)| pod.clone()).collect::<Vec<_>>(), "and")
}

/// What the next stage is.
fn next_stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Former | Stage::Terminating => "has ended and is created again",
        Stage::Absent => "is created again",
        Stage::Unscheduled | Stage::Unschedulable => "has a node",
        Stage::NotReady => "is Ready",
        Stage::Unrecorded | Stage::Done => "is recorded",
    }
}

/// What is waited for.
pub fn waiting(one: &PodMove, stage: Stage) -> String {
    let is_stranded = one.present.as_ref().is_some_and(|present| present.is_stranded);
    let has_to_end = is_stranded && stage <= Stage::Terminating;
    let why = if has_to_end { " (its node is gone: this takes about a minute)" } else { "" };
    format!("waiting until Pod {} {}{why} …", one.pod, next_stage(stage))
}

/// Why a Pod was not waited for any longer.
pub fn timed_out(one: &PodMove, stage: Stage, seconds: u64, commands: &CommandLine) -> String {
    let help = match stage {
        Stage::Unrecorded => format!("to find out why: {}", commands.check()),
        _ => "it goes on without this command".into(),
    };
    format!("waited {seconds} s in vain until Pod {} {}; {help}", one.pod, next_stage(stage))
}

/// That a Pod has a node.
pub fn landed(one: &PodMove, node: &str, style: Style) -> String {
    let (pod, is_there) = (&one.pod, one.to.as_deref().is_none_or(|to| to == node));
    let line = match one.present.as_ref().and_then(|present| present.node.as_deref()) {
        Some(from) if from == node => format!("Pod {pod} is on {node} again"),
        Some(from) => format!("Pod {pod} has moved from {from} to {node}"),
        None => format!("Pod {pod} has moved to {node}"),
    };
    style.paint(if is_there { Role::Good } else { Role::Warning }, &printable(&line)) + "\n"
}

/// Why a Pod is on another node than its destination.
pub fn elsewhere(one: &PodMove, to: &str, node: &str) -> String {
    format!(
        "Pod {} is on {node} and not on {to}: PersistentPodState {} does not require the node itself, or another client has \
         changed the recorded state",
        one.pod, one.pps
    )
}

/// Which recorded annotations the new Pod has. A network plugin may ignore an annotation, and write another value.
pub fn kept(one: &PodMove, now: &Pod, style: Style) -> String {
    let line = |(key, recorded): (&String, &String)| match now.annotation(key) {
        Some(own) if own == recorded => (Role::Dim, format!("annotation injected again: {key}: {own}")),
        Some(own) => (Role::Warning, format!("annotation {key} is {own}, and not {recorded} as recorded")),
        None => (Role::Warning, format!("annotation {key} is not there; recorded was {recorded}")),
    };
    let lines = one.after().annotations;
    let lines = lines.iter().map(line).map(|(role, line)| style.paint(role, &printable(&line)));
    lines.fold(String::new(), |text, line| text + "  " + &line + "\n")
}

/// That no node can take a Pod.
pub fn pending(one: &PodMove, why: &str, style: Style, commands: &CommandLine) -> String {
    let line = format!("Pod {} is Pending: {}", one.pod, why.lines().next().unwrap_or_default());
    let explain = commands.pps(&format!("explain {}", one.pod), &one.namespace);
    format!("{}\n  why in detail: {}\n", style.paint(Role::Bad, &printable(&line)), printable(&explain))
}

/// The Event that a move leaves.
pub fn event(one: &PodMove, before: Option<&PodState>, after: Option<&PodState>) -> String {
    format!(
        "Pod {} is moved to {} with kubectl-pps: its recorded state was {}, and is {}",
        one.pod,
        one.to.as_deref().unwrap_or("any node"),
        describe(before),
        describe(after)
    )
}

/// How to call a move off, if its Pod is still there.
pub fn call_off(one: &PodMove, commands: &CommandLine) -> Option<String> {
    let present = one.removed_by(&[Removal::Evict]).filter(|present| !present.is_stranded)?;
    Some(commands.pps(&format!("move {} --to {}", one.pod, present.node.as_deref()?), &one.namespace))
}

/// What was moved, and how to move the rest.
pub fn stopped(args: &Move, moved: &[PodName], rest: &[PodName], commands: &CommandLine) -> Vec<String> {
    let mut lines = Vec::new();
    if !moved.is_empty() {
        lines.push(format!("moved: {}", names(moved)));
    }
    let Some((namespace, _)) = rest.first() else { return lines };
    lines.push(format!("not moved: {}", names(rest)));
    if args.node.is_some() {
        lines.push("to go on, run the same command again".into());
        return lines;
    }
    let mut words = Vec::new();
    words.extend(args.to.iter().flat_map(|to| ["--to", to]));
    words.extend(args.any.iter().flat_map(|word| ["--any", word]));
    let flags = [
        ("--anywhere", args.anywhere),
        ("--drop-annotations", args.drop_annotations),
        ("--force", args.force),
    ];
    words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| *flag));
    let pods: Vec<&str> = rest.iter().map(|(_, pod)| pod.as_str()).collect();
    lines.extend(portions(&pods).into_iter().map(|pods| {
        let command = [vec!["move"], pods, words.clone()].concat().join(" ");
        format!("to go on: {}", commands.pps(&command, namespace))
    }));
    lines
}

/// What was done before a failure, how to go on, and how to go back.
pub fn done_so_far(one: &PodMove, is_state_written: bool, commands: &CommandLine) -> Option<String> {
    let marked =
        one.removed_by(&[Removal::Evict]).map(|_| "the Pod is annotated, and is not recorded any longer");
    let written = is_state_written.then_some("the recorded state is changed");
    let done = marked.into_iter().chain(written).collect::<Vec<_>>().join("; ");
    let back =
        call_off(one, commands).map(|command| format!("; to call it off: {command}")).unwrap_or_default();
    (!done.is_empty())
        .then(|| format!("Done so far: {done}. To go on from here, run the same command again{back}"))
}

/// What the user can do after an interrupt.
pub fn interrupted(one: &PodMove, is_clean: bool, is_complete: bool, commands: &CommandLine) -> String {
    let pod = &one.pod;
    if is_complete {
        let explain = commands.pps(&format!("explain {pod}"), &one.namespace);
        return format!(
            "interrupted: all is written, and the successor of Pod {pod} starts by itself; to see where: {explain}"
        );
    }
    let back = call_off(one, commands).filter(|_| !is_clean);
    let back =
        back.map(|command| format!("; to call the move of Pod {pod} off: {command}")).unwrap_or_default();
    format!("interrupted: the same command goes on{back}")
}

/// That the node of a stranded Pod exists again.
pub fn node_is_back(one: &PodMove, node: &str, commands: &CommandLine) -> String {
    let back = commands.pps(&format!("move {} --to {node}", one.pod), &one.namespace);
    format!(
        "node {node} has come back, and Pod {} is still on it; to call the move off, so that it is recorded again: {back}; to \
         evict it: run the same command again",
        one.pod
    )
}
