//! Pods that were moved and do not come: what they wait for.

use std::collections::BTreeMap;

use super::PodName;
use crate::decide::explain::blocker;
use crate::decide::hand::{Hand, portions};
use crate::decide::names::list;
use crate::snapshot::{Index, Pod, Snapshot, WorkloadKey};

/// Pods that wait for the same, which waiting here does not bring about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The Pods.
    pub pods: Vec<PodName>,
    /// What they wait for, and what ends it.
    pub lines: Vec<String>,
}

/// The Pods among these that wait for something else than time. Those that `coming` names come soon, and with them those
/// that wait for these.
pub fn stuck(
    snapshot: &Snapshot,
    pods: &[(PodName, WorkloadKey)],
    coming: &[PodName],
    hand: &Hand,
) -> Vec<Stuck> {
    let index = Index::of(snapshot);
    let mut all = Vec::new();
    let mut by_node: BTreeMap<&str, Vec<PodName>> = BTreeMap::new();
    for (pod, _) in pods {
        let Some(now) = index.pod(&pod.0, &pod.1).filter(|now| now.is_terminating()) else { continue };
        let node = now.node().and_then(|node| snapshot.node(node));
        if let Some(node) = node.filter(|node| !node.is_ready()) {
            by_node.entry(node.name()).or_default().push(pod.clone());
        } else if coming.is_empty() {
            all.extend(kept(pod, now));
        }
    }
    let comes = |pod: &PodName| coming.contains(pod) && !by_node.values().flatten().any(|one| one == pod);
    for (pod, key) in pods.iter().filter(|(pod, _)| index.pod(&pod.0, &pod.1).is_none()) {
        let (namespace, name) = pod;
        let workload = index.workload(key);
        let blocker = workload.and_then(|workload| blocker(&index, workload, namespace, name));
        if let Some(blocker) = blocker.filter(|blocker| !comes(&(namespace.clone(), blocker.clone()))) {
            let lines = vec![
                format!("Pod {name} does not exist: it is created once {blocker} is Ready"),
                format!("what {blocker} waits for: {}", hand.pps(&format!("explain {blocker}"), namespace)),
            ];
            all.push(Stuck { pods: vec![pod.clone()], lines });
        }
    }
    all.extend(by_node.into_iter().map(|(node, pods)| of_node(node, pods, hand)));
    all
}

/// A Pod that others have to let go.
fn kept(pod: &PodName, now: &Pod) -> Option<Stuck> {
    let all = now.object()["metadata"]["finalizers"].as_array().into_iter().flatten();
    let all: Vec<String> = all.filter_map(|one| Some(one.as_str()?.to_owned())).collect();
    let text = format!(
        "Pod {} has not ended: what has set its finalizers has to remove them: {}",
        pod.1,
        list(&all, "and")
    );
    (!all.is_empty()).then(|| Stuck { pods: vec![pod.clone()], lines: vec![text] })
}

/// Pods whose node does not answer: nobody ends them.
fn of_node(node: &str, pods: Vec<PodName>, hand: &Hand) -> Stuck {
    let names: Vec<String> = pods.iter().map(|(_, pod)| pod.clone()).collect();
    let (word, have, they, run) = match names.len() {
        1 => ("Pod", "has", "It ends", "it does not run"),
        _ => ("Pods", "have", "They end", "they do not run"),
    };
    let mut lines = vec![
        format!("{word} {} {have} not ended: node {node} is not Ready", list(&names, "and")),
        format!(
            "{they} when {node} is back, or once it is certain that {run} any more: {}",
            hand.kubectl(&format!("delete node {node}"))
        ),
    ];
    let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (namespace, pod) in &pods {
        namespaces.entry(namespace).or_default().push(pod);
    }
    for (namespace, pods) in namespaces {
        for pods in portions(&pods) {
            let command = hand.kubectl_in(&format!("delete pod {} --force", pods.join(" ")), namespace);
            lines.push(format!("or without the node: {command}"));
        }
    }
    Stuck { pods, lines }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::tests::pod;
    use super::super::tests::{named, not_ready, relocation, world};
    use super::*;
    use crate::snapshot::Node;

    fn ending(name: &str, node: &str) -> Value {
        let mut pod = pod(name, Some(node), None);
        pod["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
        pod
    }

    fn lines(world: &Snapshot, pods: &[&str], coming: &[&str]) -> Vec<String> {
        let all: Vec<_> = named(pods)
            .into_iter()
            .map(|pod| {
                let key = relocation(world, &pod.1).workload;
                (pod, key)
            })
            .collect();
        let hand = Hand { context: Some("blue".into()), ..Hand::default() };
        stuck(world, &all, &named(coming), &hand).into_iter().flat_map(|one| one.lines).collect()
    }

    #[test]
    fn a_pod_that_waits_for_another_one_of_its_workload_says_for_which() {
        let world = world(&[not_ready(pod("db-0", Some("node-1"), None))], &[("db-1", "node-1")]);
        assert_eq!(
            lines(&world, &["db-1"], &["db-1"]),
            [
                "Pod db-1 does not exist: it is created once db-0 is Ready",
                "what db-0 waits for: kubectl pps explain db-0 -n prod --context blue",
            ]
        );
        assert_eq!(lines(&world, &["db-0", "db-1"], &["db-0", "db-1"]), [""; 0], "both come");
        assert_eq!(lines(&world, &["db-0", "db-1"], &[]).len(), 2, "they did not");
    }

    #[test]
    fn pods_of_a_node_that_does_not_answer_name_what_ends_them() {
        let mut world = world(
            &[not_ready(ending("db-0", "node-1")), ending("db-2", "node-1"), ending("db-3", "node-2")],
            &[("db-1", "node-1")],
        );
        assert_eq!(lines(&world, &["db-0", "db-2", "db-3"], &[]), [""; 0], "their node ends them");
        let down = json!({"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        world.nodes.as_mut().unwrap().insert("node-1".into(), Node::read(down).unwrap());
        let all = ["db-0", "db-1", "db-2", "db-3"];
        assert_eq!(
            lines(&world, &all, &all),
            [
                "Pod db-1 does not exist: it is created once db-0 is Ready",
                "what db-0 waits for: kubectl pps explain db-0 -n prod --context blue",
                "Pods db-0 and db-2 have not ended: node node-1 is not Ready",
                "They end when node-1 is back, or once it is certain that they do not run any more: \
                 kubectl delete node node-1 --context blue",
                "or without the node: kubectl delete pod db-0 db-2 --force -n prod --context blue",
            ]
        );
    }

    #[test]
    fn a_finalizer_that_keeps_a_pod_is_named() {
        let mut kept = ending("db-0", "node-1");
        kept["metadata"]["finalizers"] = json!(["example.com/backup"]);
        let world = world(&[kept], &[]);
        assert_eq!(lines(&world, &["db-0"], &["db-0"]), [""; 0], "it may be a matter of seconds");
        assert_eq!(
            lines(&world, &["db-0"], &[]),
            ["Pod db-0 has not ended: what has set its finalizers has to remove them: example.com/backup"]
        );
    }
}
