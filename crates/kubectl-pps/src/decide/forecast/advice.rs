//! What lets Pods start elsewhere that only their recorded states would keep Pending.

use std::collections::BTreeMap;

use super::{Advice, PodForecast, Question, Then};
use crate::decide::hand::{Hand, portions};
use crate::decide::relocate::WayOut;
use crate::snapshot::{Node, Snapshot};

/// What to do, step by step. Nothing if no Pod would be kept by its recorded state.
pub(super) fn advice(
    snapshot: &Snapshot,
    question: &Question,
    pods: &[PodForecast],
    hand: &Hand,
) -> Vec<Advice> {
    let mut advice = held(snapshot, question, pods, hand);
    advice.extend(injected(pods, hand));
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
    let is_held = |pod: &&PodForecast| {
        pod.then == Then::Pending && !pod.without_its_state.is_empty() && !pod.is_injected_only
    };
    let held: Vec<&PodForecast> = pods.iter().filter(is_held).collect();
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
    let mut groups: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for pod in named {
        groups.entry((&pod.namespace, flags(snapshot, pod))).or_default().push(&pod.pod);
    }
    let commands = groups.iter().flat_map(|((namespace, flags), pods)| {
        portions(pods)
            .into_iter()
            .map(move |pods| hand.pps(&format!("move {} {flags}", pods.join(" ")), namespace))
    });
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

/// The flags of the move that lets a Pod start elsewhere.
fn flags(snapshot: &Snapshot, pod: &PodForecast) -> String {
    let mut own = snapshot.pps.iter().filter(|pps| pps.namespace() == pod.namespace && !pps.is_alias());
    let nodes = || pod.without_its_state.iter().filter_map(|node| snapshot.node(node));
    let way_out = own.find_map(|pps| WayOut::of(&pps.spec().ok()?, &pps.state(&pod.pod).ok()??, nodes()));
    format!("--anywhere{}", way_out.map(|way_out| way_out.flags).unwrap_or_default())
}
