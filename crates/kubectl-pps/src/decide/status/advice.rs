//! One line for each kind of problem, with the next command.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::is_dns_subdomain;
use serde::Serialize;

use super::drift::HOSTNAME;
use super::shut::ShutOut;
use super::{Drift, DriftKind, Phase, Pin, Problem, Row, Status, Strength};
use crate::decide::hand::{Hand, portions};
use crate::decide::names::list;
use crate::snapshot::Scope;

/// How many Pods a line names.
const SHOWN: usize = 3;

/// What to do about one kind of problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// How many there are of it, and which.
    pub text: String,
    /// The next command.
    pub command: String,
}

/// The advice for a status, the most important first.
pub(super) fn advice(shut: &ShutOut, status: &Status, hand: &Hand) -> Vec<Advice> {
    let mut all = Vec::new();
    let rows =
        |is_meant: &dyn Fn(&Row) -> bool| status.pods.iter().filter(|row| is_meant(row)).collect::<Vec<_>>();
    let mut add = |rows: &[&Row], one: &str, several: &str, command: &str| {
        if let Some(first) = rows.first() {
            let words = if rows.len() == 1 { one } else { several };
            let command = match command {
                "check" => hand.check(),
                _ => hand.pps(&command.replace("POD", &first.pod), &first.namespace),
            };
            all.push(Advice { text: format!("{} {words}", names(rows)), command });
        }
    };
    let has = |kind: DriftKind| move |row: &Row| row.drift.iter().any(|one| one.kind == kind);
    let is_pending = |row: &Row| row.phase == Phase::Pending && row.message.is_some();
    add(&rows(&is_pending), "is Pending", "are Pending", "explain POD");
    let stranded = rows(&has(DriftKind::OwnNodeGone));
    let nodes: BTreeSet<&str> = stranded.iter().filter_map(|row| row.node.as_deref()).collect();
    let on = match nodes.first() {
        Some(node) if nodes.len() == 1 => format!("bound to {node}, which is gone"),
        _ => "bound to nodes that are gone".to_owned(),
    };
    add(&stranded, &format!("is {on}"), &format!("are {on}"), "explain POD");
    add(&rows(&|row| row.phase == Phase::Missing), "does not exist", "do not exist", "explain POD");
    add(
        &rows(&Row::has_no_way_back),
        "is recorded without the labels that are required now: it would start anywhere",
        "are recorded without the labels that are required now: they would start anywhere",
        "explain POD",
    );
    let required = has(DriftKind::RequiredTopology);
    add(&rows(&required), "is not where it must be", "are not where they must be", "explain POD");
    let unfinished = rows(&|row| row.is_half_moved() && !row.is_unrecorded_by_mark());
    let recorded = unfinished.first().and_then(|row| row.recorded.as_ref());
    let goal = goal(recorded.map(|recorded| recorded.node.as_str()));
    let first = if unfinished.len() > 1 { "the first" } else { "it" };
    add(
        &unfinished,
        &format!("has an unfinished move; to finish {first}"),
        &format!("have unfinished moves; to finish {first}"),
        &format!("move POD {goal}"),
    );
    let record = |rows: &[&Row]| {
        let node = rows.first().and_then(|row| row.node.clone()).filter(|node| is_dns_subdomain(node));
        node.map_or_else(|| "explain POD".to_owned(), |node| format!("move POD --to {node}"))
    };
    let unrecorded = rows(&Row::is_unrecorded_by_mark);
    add(
        &unrecorded,
        "would start anywhere: a move is unfinished; to have it recorded where it is",
        "would start anywhere: their moves are unfinished; to have the first recorded where it is",
        &record(&unrecorded),
    );
    // A move has begun with it and changed nothing else.
    let kept_out = rows(&|row| row.is_marked && row.is_where_recorded() && row.phase != Phase::Terminating);
    add(
        &kept_out,
        "is not recorded, because a move is unfinished; to have it recorded again",
        "are not recorded, because their moves are unfinished; to have the first recorded again",
        &record(&kept_out),
    );
    add(
        &rows(&has(DriftKind::LeftOut)),
        "is Ready, and its node is not recorded: it would start anywhere. To see why",
        "are Ready, and their nodes are not recorded: they would start anywhere. To see why",
        "check",
    );
    let moved = |row: &Row| {
        row.phase == Phase::Ready
            && has(DriftKind::Node)(row)
            && !has(DriftKind::NotRecorded)(row)
            && !has(DriftKind::OwnNodeGone)(row)
    };
    add(
        &rows(&moved),
        "is Ready, and recorded elsewhere; if this lasts, the sidecar does not record",
        "are Ready, and recorded elsewhere; if this lasts, the sidecar does not record",
        "check",
    );
    let differs = |row: &Row| has(DriftKind::Address)(row) || has(DriftKind::Annotation)(row);
    add(
        &rows(&differs),
        "has another address or annotation than recorded",
        "have other addresses or annotations than recorded",
        "explain POD",
    );
    let gone = |row: &Row| {
        row.phase != Phase::Pending && row.phase != Phase::Missing && has(DriftKind::NodeGone)(row)
    };
    if let Some(row) = rows(&gone).first() {
        let node = row.recorded.as_ref().map(|recorded| recorded.node.clone()).unwrap_or_default();
        add(
            &rows(&gone),
            "is recorded on a node that is gone",
            "are recorded on nodes that are gone",
            // A name that no node can have would be refused on the command line.
            &if is_dns_subdomain(&node) { format!("forget --node {node}") } else { "forget POD".to_owned() },
        );
    }
    for (one, several, of_these) in shut.lines(&status.pods) {
        add(&of_these, &one, &several, "explain POD");
    }
    all.extend(lost_node(status, hand));
    all.extend(left_behind(status, hand));
    if status.problems.iter().any(is_of_installation) {
        let text = "To see what is wrong with the installation".to_owned();
        all.push(Advice { text, command: hand.check() });
    }
    all
}

/// One command for all Pods of a node that is gone: those that are bound to it, and those that wait for it.
fn lost_node(status: &Status, hand: &Hand) -> Option<Advice> {
    let mut by_node: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in status.pods.iter().filter(|row| row.persistent_pod_state.is_some()) {
        let is_own = |drift: &Drift| drift.kind == DriftKind::OwnNodeGone;
        let node = row.drift.iter().find_map(|drift| {
            let gone = matches!(drift.kind, DriftKind::OwnNodeGone | DriftKind::NodeGone);
            let node = drift.text.strip_suffix(super::drift::IS_GONE).filter(|_| gone)?;
            (is_own(drift) || row.phase == Phase::Pending && waits_for_gone(row, node)).then_some(node)
        });
        if let Some(node) = node.filter(|node| is_dns_subdomain(node)) {
            by_node.entry(node).or_default().push(row);
        }
    }
    let (node, rows) = by_node.into_iter().find(|(_, rows)| rows.len() > 1)?;
    let text = format!("To start the Pods of {node} on other nodes, without the data on its local disk");
    let words = format!("move --node {node} --anywhere");
    let namespace = &rows.first()?.namespace;
    let command = if rows.iter().all(|row| row.namespace == *namespace) {
        hand.pps(&words, namespace)
    } else {
        without_namespace(hand, &format!("{words} -A"))
    };
    Some(Advice { text, command })
}

/// Pods that wait for a node that is gone, and whose states are not recorded any more: they have to be created again.
fn left_behind(status: &Status, hand: &Hand) -> Option<Advice> {
    let is_meant = |row: &&Row| {
        let waits = row.drift.iter().any(|drift| drift.kind == DriftKind::NodeGone);
        waits && row.phase == Phase::Pending && row.persistent_pod_state.is_none()
    };
    let rows: Vec<&Row> = status.pods.iter().filter(is_meant).collect();
    let namespace = &rows.first()?.namespace;
    let pods = rows.iter().filter(|row| row.namespace == *namespace).map(|row| row.pod.as_str());
    let pods = portions(&pods.collect::<Vec<_>>()).swap_remove(0);
    let (verb, it) = if rows.len() == 1 { ("waits", "it") } else { ("wait", "them") };
    let text =
        format!("{} {verb} for a node that is gone; to have {it} created again, for any node", names(&rows));
    Some(Advice { text, command: hand.kubectl_in(&format!("delete pod {}", pods.join(" ")), namespace) })
}

/// Where a move that was not finished goes: what is recorded has its goal, or the present node before it was changed.
pub fn goal(recorded: Option<&str>) -> String {
    match recorded.filter(|node| is_dns_subdomain(node)) {
        Some(node) => format!("--to {node}"),
        None => "--anywhere".to_owned(),
    }
}

/// Whether what pins a Pod requires a node that is gone. Its label may have had another value than its name.
fn waits_for_gone(row: &Row, node: &str) -> bool {
    let recorded = row.recorded.as_ref().filter(|recorded| recorded.node == node);
    let label = recorded.and_then(|recorded| recorded.labels.get(HOSTNAME)).map_or(node, String::as_str);
    hosts(row).any(|host| host == label)
}

/// The values of the label that only one node has, as far as one is required.
fn hosts(row: &Row) -> impl Iterator<Item = &str> {
    let is_host = |pin: &&Pin| pin.strength == Strength::Required && pin.key == HOSTNAME;
    row.pinned_by.iter().filter(is_host).filter_map(|pin| pin.value.as_deref())
}

/// Whether a problem is not one of the object: the sidecar, the policy or the definition is missing or another one.
fn is_of_installation(problem: &Problem) -> bool {
    matches!(problem.reason.as_str(), "NotSeen" | "NotFound" | "Unreadable" | "Damaged")
}

/// What to do where no workload has a PersistentPodState.
pub(super) fn of_none(scope: &Scope, hand: &Hand) -> Advice {
    let text = "No workload here has a PersistentPodState. To give one to a workload".to_owned();
    let command = match scope {
        Scope::Namespace(namespace) => hand.pps("pin WORKLOAD --required zone", namespace),
        Scope::All => without_namespace(hand, "pin WORKLOAD --required zone -n NAMESPACE"),
    };
    Advice { text, command }
}

/// Where PersistentPodStates are instead.
pub(super) fn elsewhere(namespaces: &[String], hand: &Hand) -> Option<Advice> {
    let namespaces = match namespaces {
        [] => return None,
        [one] => format!("namespace {one}"),
        several => format!("namespaces {}", list(several, "and")),
    };
    let text = format!("There are PersistentPodStates in {namespaces}");
    Some(Advice { text, command: without_namespace(hand, "status -A") })
}

/// A command whose namespace is not that of the answer.
fn without_namespace(hand: &Hand, words: &str) -> String {
    Hand { own_namespace: Some(String::new()), ..hand.clone() }.pps(words, "")
}

/// `db-0`, or `3 Pods (db-0, db-1, db-2)`.
fn names(rows: &[&Row]) -> String {
    if let [row] = rows {
        return row.pod.clone();
    }
    let shown: Vec<&str> = rows.iter().take(SHOWN).map(|row| row.pod.as_str()).collect();
    let more = if rows.len() > SHOWN { ", …" } else { "" };
    format!("{} Pods ({}{more})", rows.len(), shown.join(", "))
}
