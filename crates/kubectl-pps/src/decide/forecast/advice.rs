//! How to let Pods start that only a recorded state would keep Pending.

use std::collections::{BTreeMap, BTreeSet};

use super::{Advice, Disruption, Fate, PodForecast, Question};
use crate::decide::way_out::WayOut;

/// Pods that one command moves.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MoveKey {
    namespace: String,
    flags: String,
}

/// Pods that cannot be evicted while a Pod waits for its recorded place are moved with it.
pub(super) fn advice(disruption: &Disruption, pods: &[PodForecast]) -> Vec<Advice> {
    let held: Vec<&PodForecast> = pods
        .iter()
        .filter(|pod| !pod.without_its_state.is_empty() && pod.recorded_node.is_some())
        .collect();
    let mut moves: BTreeMap<MoveKey, Vec<String>> = BTreeMap::new();
    for pod in pods {
        let Some(cause) = held.iter().find(|held| is_moved_with(pod, held)) else {
            continue;
        };
        let flags = way_out(disruption, pod, &cause.without_its_state)
            .map(|way_out| way_out.flags)
            .unwrap_or_default();
        let key = MoveKey {
            namespace: pod.namespace.clone(),
            flags: format!("--anywhere{flags}"),
        };
        moves.entry(key).or_default().push(pod.pod.clone());
    }
    let mut advice = Vec::new();
    if let Question::WithoutNodes(nodes) | Question::Drain(nodes) = disruption.question
        && !held.is_empty()
    {
        advice.extend(cordon(disruption, nodes));
    }
    advice.extend(moves.into_iter().map(|(key, pods)| Advice::Move {
        namespace: key.namespace,
        pods,
        flags: key.flags,
    }));
    advice
}

/// Whether a Pod is moved if this Pod is held: it is this Pod, or waits for it.
fn is_moved_with(pod: &PodForecast, held: &PodForecast) -> bool {
    held.namespace == pod.namespace
        && held.workload == pod.workload
        && (held.pod == pod.pod || pod.then == Fate::NotEvicted)
}

/// What a Pod has to give up to start on one of these nodes.
fn way_out(disruption: &Disruption, pod: &PodForecast, nodes: &[String]) -> Option<WayOut> {
    let pps = disruption.governing(&pod.namespace, &pod.workload)?;
    let nodes = nodes
        .iter()
        .filter_map(|node| disruption.snapshot.node(node));
    WayOut::of(&pps.spec().ok()?, &pps.state(&pod.pod).ok()??, nodes)
}

/// A Pod that is moved away from a node that takes Pods may start there again. None if no node
/// takes Pods.
fn cordon(disruption: &Disruption, nodes: &BTreeSet<String>) -> Option<Advice> {
    let nodes: Vec<String> = nodes
        .iter()
        .filter(|node| {
            let node = disruption.snapshot.node(node);
            node.is_some_and(|node| !node.is_cordoned())
        })
        .cloned()
        .collect();
    (!nodes.is_empty()).then_some(Advice::Cordon { nodes })
}
