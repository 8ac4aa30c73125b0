//! Pods that run where they could not start again now: all nodes that they must come back to take no new Pods.

use std::collections::{BTreeMap, BTreeSet};

use pps_simulation::scheduler::ExclusionKind;

use super::drift::HOSTNAME;
use super::{Pin, Row, Strength, short};
use crate::decide::placement::shut;
use crate::snapshot::{Index, Node, Pod, Snapshot};

/// The Pods that could not come back, by namespace and name.
pub(super) struct ShutOut(BTreeMap<(String, String), Closed>);

/// Why a Pod could not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Closed {
    why: Shut,
    /// What all nodes have in common that it may come back to, such as `zone=a`; none if it is its own node only.
    place: Option<String>,
    /// Whether its node is not Ready: it does not run, either.
    is_down: bool,
}

/// Why nodes take no new Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shut {
    Cordoned,
    /// They have the taints of nodes that are not Ready, or cannot be reached.
    NotReady,
    Tainted,
    /// Each for one of these reasons.
    Mixed,
}

/// A line of advice: for one Pod, for several ones, and which they are.
pub(super) type Line<'a> = (String, String, Vec<&'a Row>);

/// What makes Pods alike: their workload, its revision, and the labels that their nodes must have.
type Kind<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Vec<(&'a str, &'a str)>);

impl ShutOut {
    pub(super) fn of(snapshot: &Snapshot, index: &Index, pods: &[Row]) -> Self {
        let mut known = BTreeMap::new();
        let mut all = BTreeMap::new();
        for row in pods {
            if let Some(closed) = closed(snapshot, index, row, &mut known) {
                all.insert((row.namespace.clone(), row.pod.clone()), closed);
            }
        }
        Self(all)
    }

    /// Whether the node of one of them is not Ready, so that the Pod does not run.
    pub(super) fn has_lost_nodes(&self) -> bool {
        self.0.values().any(|closed| closed.is_down)
    }

    /// What is said of them.
    pub(super) fn lines<'a>(&self, pods: &'a [Row]) -> Vec<Line<'a>> {
        let rows = |is_meant: &dyn Fn(&Closed) -> bool| -> Vec<&Row> {
            let of = |row: &&Row| self.get(row).is_some_and(is_meant);
            pods.iter().filter(of).collect()
        };
        let then = |it: &str| format!("{it} would be Pending if {it} were created again now");
        let nodes = [
            (Shut::Cordoned, "a cordoned node", "cordoned nodes", "all nodes there are cordoned"),
            (
                Shut::NotReady,
                "a node that is not Ready",
                "nodes that are not Ready",
                "no node there is Ready",
            ),
            (
                Shut::Tainted,
                "a node whose taints it does not tolerate",
                "nodes whose taints they do not tolerate",
                "all nodes there have taints that it does not tolerate",
            ),
            (Shut::Mixed, "", "", "all nodes there are cordoned, not Ready or tainted"),
        ];
        let mut lines: Vec<Line> = Vec::new();
        for (why, one, several, _) in nodes {
            lines.push((
                format!("is on {one}, and must come back to it: {}", then("it")),
                format!("are on {several}, and must come back to them: {}", then("they")),
                rows(&|closed| closed.why == why && closed.place.is_none()),
            ));
        }
        for (why, _, _, there) in nodes {
            let rows = rows(&|closed| closed.why == why && closed.place.is_some());
            let places: BTreeSet<&str> =
                rows.iter().filter_map(|row| self.get(row)?.place.as_deref()).collect();
            let place = match places.first() {
                Some(place) if places.len() == 1 => *place,
                _ => "their places",
            };
            let of_several = there.replace("it does", "they do");
            lines.push((
                format!("must come back to {place}, and {there}: {}", then("it")),
                format!("must come back to {place}, and {of_several}: {}", then("they")),
                rows,
            ));
        }
        lines
    }

    fn get(&self, row: &Row) -> Option<&Closed> {
        self.0.get(&(row.namespace.clone(), row.pod.clone()))
    }
}

/// None if the Pod could come back, or may start elsewhere. `known` is what was found out of Pods like it.
fn closed<'a>(
    snapshot: &Snapshot,
    index: &Index,
    row: &'a Row,
    known: &mut BTreeMap<Kind<'a>, Option<Shut>>,
) -> Option<Closed> {
    let node = snapshot.node(row.node.as_deref()?)?;
    let required = required(row);
    if required.is_empty() {
        return None;
    }
    let pod = index.pod(&row.namespace, &row.pod)?;
    // Most nodes are open.
    let own = Shut::of(pod, node)?;
    let mut hosts = required.iter().filter(|(key, _)| *key == HOSTNAME).peekable();
    if hosts.peek().is_some() {
        let must_be_here = hosts.any(|(_, host)| node.label(HOSTNAME) == Some(host));
        return must_be_here.then_some(Closed { why: own, place: None, is_down: own == Shut::NotReady });
    }
    if !has_all(node, &required) {
        return None;
    }
    let words = |(key, value): &(&str, &str)| format!("{}={value}", short(key));
    let place = required.iter().map(words).collect::<Vec<_>>().join(" and ");
    // The Pods of a workload are alike, and a zone may have many nodes.
    let kind = (
        row.namespace.as_str(),
        row.workload_kind.as_str(),
        row.workload.as_str(),
        row.revision.as_deref(),
        required,
    );
    let why = if let Some(why) = known.get(&kind) {
        *why
    } else {
        let why = Shut::of_all(snapshot, pod, &kind.4);
        known.insert(kind, why);
        why
    };
    Some(Closed { why: why?, place: Some(place), is_down: !node.is_ready() })
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
    fn of_all(snapshot: &Snapshot, pod: &Pod, labels: &[(&str, &str)]) -> Option<Self> {
        let nodes = snapshot.nodes.iter().flat_map(BTreeMap::values).filter(|node| has_all(node, labels));
        let all = nodes.map(|node| Self::of(pod, node)).collect::<Option<BTreeSet<Self>>>()?;
        if all.len() > 1 { Some(Self::Mixed) } else { all.first().copied() }
    }
}

/// The labels that a node must have for the Pod, as far as they are recorded.
fn required(row: &Row) -> Vec<(&str, &str)> {
    let is_required = |pin: &&Pin| pin.strength == Strength::Required;
    let pins = row.pinned_by.iter().filter(is_required);
    pins.filter_map(|pin| Some((pin.key.as_str(), pin.value.as_deref()?))).collect()
}

fn has_all(node: &Node, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(key, value)| node.label(key) == Some(value))
}
