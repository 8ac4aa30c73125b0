//! Pods that run where they could not start again now: all nodes that they must come back to take no new Pods.

use std::collections::{BTreeMap, BTreeSet};

use pps_scheduler::ExclusionKind;

use super::{HOSTNAME, Row};
use crate::decide::placement::shut;
use crate::snapshot::{Index, Node, Pod, Snapshot};

/// A Pod that could not come back.
#[derive(Clone, Debug, PartialEq)]
pub struct ShutOut<'a> {
    /// The Pod.
    pub row: &'a Row,
    /// Why.
    pub why: Shut,
    /// Whether its node is not Ready: it does not run, either.
    pub is_down: bool,
}

/// Why nodes take no new Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shut {
    /// They are cordoned.
    Cordoned,
    /// They have the taints of nodes that are not Ready, or cannot be reached.
    NotReady,
    /// They have other taints.
    Tainted,
    /// Each for one of these reasons.
    Mixed,
}

/// What makes Pods alike: their workload, its revision, and the labels that their nodes must have.
type Alike<'a> = ([&'a str; 3], Option<&'a str>, &'a BTreeMap<String, String>);

/// All of these Pods that could not come back.
pub(super) fn of<'a>(snapshot: &Snapshot, index: &Index, pods: &'a [Row]) -> Vec<ShutOut<'a>> {
    // The Pods of a workload are alike, and a zone may have many nodes.
    let mut known: BTreeMap<Alike<'a>, Option<Shut>> = BTreeMap::new();
    let shut_out = |row: &'a Row| {
        let node = snapshot.node(row.node.as_deref()?)?;
        let pod = index.pod(&row.namespace, &row.pod)?;
        // Most nodes are open; and a Pod that is where it must not be comes back to no such node.
        Shut::of(pod, node).filter(|_| !row.required.is_empty() && has_all(node, &row.required))?;
        let alike = (
            [row.namespace.as_str(), &row.workload_kind, &row.workload],
            row.revision.as_deref(),
            &row.required,
        );
        let why = known.entry(alike).or_insert_with(|| Shut::of_all(snapshot, pod, &row.required));
        Some(ShutOut { row, why: (*why)?, is_down: !node.is_ready() })
    };
    pods.iter().filter_map(shut_out).collect()
}

impl ShutOut<'_> {
    /// The labels that its node must have; none if only its own node has them.
    pub(super) fn place(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.row.required).filter(|required| !required.contains_key(HOSTNAME))
    }
}

impl Shut {
    /// None if the node is open to the Pod.
    fn of(pod: &Pod, node: &Node) -> Option<Self> {
        match shut(pod.object(), node.object())? {
            ExclusionKind::Cordon => Some(Self::Cordoned),
            _ if node.is_ready() => Some(Self::Tainted),
            _ => Some(Self::NotReady),
        }
    }

    /// None if one of the nodes with these labels is open to the Pod.
    fn of_all(snapshot: &Snapshot, pod: &Pod, labels: &BTreeMap<String, String>) -> Option<Self> {
        let nodes = snapshot.nodes.iter().flat_map(BTreeMap::values).filter(|node| has_all(node, labels));
        let all = nodes.map(|node| Self::of(pod, node)).collect::<Option<BTreeSet<Self>>>()?;
        if all.len() > 1 { Some(Self::Mixed) } else { all.first().copied() }
    }
}

fn has_all(node: &Node, labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(key, value)| node.label(key) == Some(value))
}
