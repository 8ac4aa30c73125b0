//! What lets Pods start elsewhere that only their recorded states would keep Pending.

use std::collections::BTreeMap;

use super::{Advice, PodForecast, Question, Then};
use crate::decide::hand::{Hand, portions};
use crate::decide::names::list;
use crate::decide::relocate::WayOut;
use crate::snapshot::{Node, Snapshot};

/// What to do, step by step. Nothing if no Pod would be kept by its recorded state.
pub(super) fn advice(
    snapshot: &Snapshot,
    question: &Question,
    pods: &[PodForecast],
    hand: &Hand,
) -> Vec<Advice> {
    let mut advice = endless(snapshot, question, pods, hand);
    if advice.is_empty() {
        advice = held(snapshot, question, pods, hand);
    }
    advice.extend(injected(pods, hand));
    advice
}

/// Whether only its recorded place would keep a Pod waiting.
fn is_held(pod: &PodForecast) -> bool {
    pod.then == Then::Pending && !pod.without_its_state.is_empty() && !pod.is_injected_only
}

/// A drain that does not end: Pods that wait for their recorded places use up the budget of others of their workload.
fn endless(snapshot: &Snapshot, question: &Question, pods: &[PodForecast], hand: &Hand) -> Vec<Advice> {
    let Question::Drain(nodes) = question else { return Vec::new() };
    let mut workloads: BTreeMap<(&str, &str), [Vec<&PodForecast>; 2]> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_held(pod) || pod.then == Then::NotEvicted) {
        let of_workload = workloads.entry((&pod.namespace, &pod.workload)).or_default();
        of_workload[usize::from(pod.then == Then::NotEvicted)].push(pod);
    }
    workloads.retain(|_, both| both.iter().all(|pods| !pods.is_empty()));
    let mut advice = Vec::new();
    for [held, kept] in workloads.into_values() {
        if advice.is_empty() {
            let [held, kept] = [&held, &kept]
                .map(|pods| list(&pods.iter().map(|pod| pod.pod.clone()).collect::<Vec<_>>(), "and"));
            let text = format!(
                "The drain would not end: a PodDisruptionBudget keeps {kept} while the recorded place of {held} takes no Pod. To move them \
                 elsewhere before it, one after the other and without the data on their nodes' disks, first keep Pods off {}",
                list(nodes, "and")
            );
            advice.push(Advice { text, command: hand.kubectl(&format!("cordon {}", nodes.join(" "))) });
        }
        let commands = moves(snapshot, &[held, kept].concat(), hand);
        advice.extend(commands.into_iter().map(|command| Advice { text: "Then".into(), command }));
    }
    advice
}

/// Pods without a recorded state that wait because of an injected one: their successors get nothing injected.
fn injected(pods: &[PodForecast], hand: &Hand) -> Vec<Advice> {
    let injected = pods.iter().filter(|pod| pod.is_injected_only);
    let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in injected {
        namespaces.entry(&pod.namespace).or_default().push(&pod.pod);
    }
    let mut advice = Vec::new();
    for (namespace, pods) in namespaces {
        let (of, them) = match pods.as_slice() {
            [pod] => ((*pod).to_owned(), "it"),
            all => (format!("{} Pods in namespace {namespace}", all.len()), "them"),
        };
        let mut text = format!(
            "Nothing is recorded of {of} any more. To have {them} created again without what was injected"
        );
        for names in portions(&pods) {
            let command = hand.kubectl_in(&format!("delete pod {}", names.join(" ")), namespace);
            advice.push(Advice { text: std::mem::replace(&mut text, "And".into()), command });
        }
    }
    advice
}

fn held(snapshot: &Snapshot, question: &Question, pods: &[PodForecast], hand: &Hand) -> Vec<Advice> {
    let held: Vec<&PodForecast> = pods.iter().filter(|pod| is_held(pod)).collect();
    let Some(first) = held.first() else { return Vec::new() };
    let node = match question {
        Question::WithoutNodes(nodes) | Question::Drain(nodes) if nodes.len() == 1 => nodes.first(),
        _ => None,
    };
    let waits_for = |pod: &PodForecast, node: &str| match &pod.node_now {
        Some(now) => now == node,
        None => pod.recorded_node.as_deref() == Some(node),
    };
    // Named one by one: what else is on the node may need no move.
    let are_of_node = node.is_some_and(|node| held.iter().all(|pod| waits_for(pod, node)));
    let named = if are_of_node { &held[..] } else { &held[..1] };
    let commands = moves(snapshot, named, hand);
    let (waiting, which) = match held.len() {
        1 => (format!("{} would wait for its recorded place", first.pod), "it"),
        count => (
            format!("{count} Pods would wait for their recorded place"),
            if are_of_node { "them" } else { "one" },
        ),
    };
    // A Pod that is moved away from a node that takes Pods may start there again.
    let open = node.filter(|node| snapshot.node(node).is_some_and(|node| !Node::is_cordoned(node)));
    let mut advice = Vec::new();
    let mut text = format!("{waiting}. To let {which} start elsewhere");
    if let Some(node) = open {
        advice.push(Advice {
            text: format!("{waiting}. Before you let {which} start elsewhere, keep Pods off {node}"),
            command: hand.kubectl(&format!("cordon {node}")),
        });
        text = "Then".into();
    }
    for command in commands {
        advice.push(Advice { text: std::mem::replace(&mut text, "And".into()), command });
    }
    advice
}

/// The commands that let these Pods start elsewhere. A Pod that was not evicted was not scheduled, either: what takes the first
/// one, of the same workload, would take it.
fn moves(snapshot: &Snapshot, pods: &[&PodForecast], hand: &Hand) -> Vec<String> {
    let mut groups: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for pod in pods {
        let elsewhere = if pod.then == Then::NotEvicted { pods[0] } else { pod };
        let flags = flags(snapshot, pod, &elsewhere.without_its_state);
        groups.entry((&pod.namespace, flags)).or_default().push(&pod.pod);
    }
    let commands = groups.iter().flat_map(|((namespace, flags), pods)| {
        let of = move |pods: String| hand.pps(&format!("move {pods} {flags}"), namespace);
        portions(pods).into_iter().map(move |pods| of(pods.join(" ")))
    });
    commands.collect()
}

/// The flags of the move that lets a Pod start on one of these nodes.
fn flags(snapshot: &Snapshot, pod: &PodForecast, nodes: &[String]) -> String {
    let way_out = || {
        let pps = snapshot.pps(&pod.namespace, pod.pps.as_deref()?)?;
        let nodes = nodes.iter().filter_map(|node| snapshot.node(node));
        WayOut::of(&pps.spec().ok()?, &pps.state(&pod.pod).ok()??, nodes)
    };
    format!("--anywhere{}", way_out().map(|way_out| way_out.flags).unwrap_or_default())
}
