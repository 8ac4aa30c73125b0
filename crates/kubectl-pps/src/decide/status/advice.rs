//! What to do: one piece of advice for each kind of problem.

use std::collections::BTreeMap;

use pps_check::Silence;
use pps_core::is_dns_subdomain;

use super::{Drift, HOSTNAME, Phase, ProblemKind, Row, Shut, ShutOut, Status, goal};

/// What to do about one kind of problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What is wrong.
    pub kind: AdviceKind,
    /// The Pods that it is about: their namespaces and names.
    pub pods: Vec<(String, String)>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdviceKind {
    /// Pods have no node.
    Pending,
    /// Pods are bound to a node that is gone, or to several.
    OwnNodeGone(Option<String>),
    /// Pods do not exist.
    Missing,
    /// Pods are recorded without the labels that are required now.
    NoWayBack,
    /// Pods are not where they must be.
    Misplaced,
    /// Moves are unfinished; the first one goes to this node, or anywhere.
    UnfinishedMove(Option<String>),
    /// Moves are unfinished, and nothing is recorded; the first Pod is on this node.
    UnrecordedByMove(Option<String>),
    /// Moves are unfinished that have changed nothing; the first Pod is on this node.
    ExemptByMove(Option<String>),
    /// Pods are Ready, and not recorded for long.
    Unrecorded,
    /// Pods are Ready, and recorded elsewhere.
    RecordedElsewhere,
    /// Pods have other addresses or annotations than recorded.
    Differs,
    /// Pods are recorded on nodes that are gone, the first on this one, if it can be named on the command line.
    RecordedNodeGone(Option<String>),
    /// Pods must come back to nodes that take no new Pods: their own, or those with these labels, if all have the same.
    ShutOut(Shut, Option<Option<BTreeMap<String, String>>>),
    /// Several Pods are bound to this node or wait for it, and it is gone; whether they are of several namespaces.
    LostNode(String, bool),
    /// Pods wait for a node that is gone, and no PersistentPodState names their workload any more.
    LeftBehind,
    /// The sidecar, the policy or the definition is missing or another one.
    Installation,
    /// No workload has a PersistentPodState.
    NoPps,
    /// These namespaces have PersistentPodStates instead.
    Elsewhere(Vec<String>),
    /// Nobody records.
    NobodyRecords(Silence),
}

/// The advice for a status, the most important first.
pub(super) fn advice(shut_out: &[ShutOut], status: &Status) -> Vec<Advice> {
    let rows = |is_meant: &dyn Fn(&Row) -> bool| -> Vec<&Row> {
        status.pods.iter().filter(|row| is_meant(row)).collect()
    };
    let gone_nodes = |row: &Row| row.has(|one| matches!(one, Drift::OwnNodeGone { .. }));
    let stranded = rows(&gone_nodes);
    let same_node = stranded.first().and_then(|row| row.node.clone());
    let same_node = same_node.filter(|node| stranded.iter().all(|row| row.node.as_ref() == Some(node)));
    let unfinished = rows(&|row| row.is_half_moved() && !row.is_unrecorded_by_mark());
    let unrecorded = rows(&Row::is_unrecorded_by_mark);
    // A move has begun with it and changed nothing else.
    let exempt = rows(&|row| row.is_marked && row.is_where_recorded() && row.phase != Phase::Terminating);
    let node_of =
        |rows: &[&Row]| rows.first().and_then(|row| row.node.clone()).filter(|node| is_dns_subdomain(node));
    let recorded_gone = rows(&|row| {
        let is_shown = !matches!(row.phase, Phase::Pending | Phase::Missing);
        is_shown && row.has(|one| matches!(one, Drift::NodeGone { .. }))
    });
    let moved = |row: &Row| {
        row.phase == Phase::Ready
            && row.has(|one| matches!(one, Drift::Node { .. }))
            && !row.has(|one| matches!(one, Drift::Exempt { .. } | Drift::OwnNodeGone { .. }))
    };
    let mut all = vec![
        (AdviceKind::Pending, rows(&Row::is_stuck)),
        (AdviceKind::OwnNodeGone(same_node), stranded),
        (AdviceKind::Missing, rows(&|row| row.phase == Phase::Missing)),
        (AdviceKind::NoWayBack, rows(&Row::has_no_way_back)),
        (AdviceKind::Misplaced, rows(&|row| row.has(|one| matches!(one, Drift::RequiredTopology { .. })))),
        (
            AdviceKind::UnfinishedMove(unfinished.first().and_then(|row| goal(row.recorded_node()))),
            unfinished,
        ),
        (AdviceKind::UnrecordedByMove(node_of(&unrecorded)), unrecorded),
        (AdviceKind::ExemptByMove(node_of(&exempt)), exempt),
        (AdviceKind::Unrecorded, rows(&|row| row.has(|one| *one == Drift::Unrecorded { lasting: true }))),
        (AdviceKind::RecordedElsewhere, rows(&moved)),
        (
            AdviceKind::Differs,
            rows(&|row| row.has(|one| matches!(one, Drift::Address { .. } | Drift::Annotation { .. }))),
        ),
        (
            AdviceKind::RecordedNodeGone(recorded_gone.first().and_then(|row| goal(row.recorded_node()))),
            recorded_gone,
        ),
    ];
    for is_own in [true, false] {
        for why in [Shut::Cordoned, Shut::NotReady, Shut::Tainted, Shut::Mixed] {
            let is_meant = |one: &&ShutOut| one.why == why && one.place().is_none() == is_own;
            let pods: Vec<&ShutOut> = shut_out.iter().filter(is_meant).collect();
            let place = pods.first().and_then(|one| one.place().cloned());
            let place = place.filter(|place| pods.iter().all(|one| one.place() == Some(place)));
            all.push((
                AdviceKind::ShutOut(why, (!is_own).then_some(place)),
                pods.into_iter().map(|one| one.row).collect(),
            ));
        }
    }
    all.extend(lost_node(status));
    all.push((
        AdviceKind::LeftBehind,
        rows(&|row| row.persistent_pod_state.is_none() && waits_for_gone(row).is_some()),
    ));
    all.retain(|(_, rows)| !rows.is_empty());
    let is_of_installation =
        status.problems.iter().any(|one| !matches!(one.kind, ProblemKind::Condition(..)));
    all.extend(is_of_installation.then_some((AdviceKind::Installation, Vec::new())));
    let name = |row: &Row| (row.namespace.clone(), row.pod.clone());
    all.into_iter().map(|(kind, rows)| Advice { kind, pods: rows.into_iter().map(name).collect() }).collect()
}

/// The node that is gone and to which several Pods are bound, or for which they wait: one command moves them all.
fn lost_node(status: &Status) -> Option<(AdviceKind, Vec<&Row>)> {
    let mut by_node: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in status.pods.iter().filter(|row| row.persistent_pod_state.is_some()) {
        let bound = row.drift.iter().find(|one| matches!(one, Drift::OwnNodeGone { .. }));
        let node = bound.and_then(Drift::gone_node).or_else(|| waits_for_gone(row));
        if let Some(node) = node.filter(|node| is_dns_subdomain(node)) {
            by_node.entry(node).or_default().push(row);
        }
    }
    let (node, rows) = by_node.into_iter().find(|(_, rows)| rows.len() > 1)?;
    let is_across = rows.iter().any(|row| row.namespace != rows[0].namespace);
    Some((AdviceKind::LostNode(node.to_owned(), is_across), rows))
}

/// The node that is gone and that a Pod without a node must come back to. Its label may have had another value than its
/// name.
fn waits_for_gone(row: &Row) -> Option<&str> {
    let node = row.drift.iter().find_map(Drift::gone_node).filter(|_| row.phase == Phase::Pending)?;
    let recorded = row.recorded.as_ref().filter(|recorded| recorded.node_name == node);
    let label = recorded.and_then(|recorded| recorded.node_topology_labels.get(HOSTNAME));
    (row.required.get(HOSTNAME)? == label.map_or(node, String::as_str)).then_some(node)
}
