//! One line for each kind of problem, with the next command.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::is_dns_subdomain;
use pps_simulation::scheduler::ExclusionKind;
use serde::Serialize;

use super::{Drift, DriftKind, Phase, Pin, Problem, Row, Status, Strength, short};
use crate::decide::hand::Hand;
use crate::decide::names::list;
use crate::decide::placement::shut;
use crate::snapshot::{Index, Scope, Snapshot};

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
pub(super) fn advice(snapshot: &Snapshot, index: &Index, status: &Status, hand: &Hand) -> Vec<Advice> {
    let mut all = Vec::new();
    let shut = status.pods.iter().filter_map(|row| {
        Some(((row.namespace.as_str(), row.pod.as_str()), Shut::of(snapshot, index, row)?))
    });
    let shut: BTreeMap<(&str, &str), Shut> = shut.collect();
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
    let required = has(DriftKind::RequiredTopology);
    add(&rows(&required), "is not where it must be", "are not where they must be", "explain POD");
    let unfinished = rows(&has(DriftKind::NotRecorded));
    let recorded = unfinished.first().and_then(|row| row.recorded.as_ref());
    let goal = goal(recorded.map(|recorded| recorded.node.as_str()));
    // Nothing was changed before: to go where it is ends the move.
    let is_unchanged = unfinished.first().is_some_and(|row| {
        row.node.is_some() && row.node == row.recorded.as_ref().map(|recorded| recorded.node.clone())
    });
    let verb = if is_unchanged { "call off" } else { "finish" };
    let first = if unfinished.len() > 1 { "the first" } else { "it" };
    add(
        &unfinished,
        &format!("has an unfinished move; to {verb} {first}"),
        &format!("have unfinished moves; to {verb} {first}"),
        &format!("move POD {goal}"),
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
    for (is_meant, one, several) in [
        (Shut::Cordoned, "a cordoned node", "cordoned nodes"),
        (Shut::NotReady, "a node that is not Ready", "nodes that are not Ready"),
        (
            Shut::Tainted,
            "a node whose taints it does not tolerate",
            "nodes whose taints they do not tolerate",
        ),
    ] {
        add(
            &rows(&|row| shut.get(&(row.namespace.as_str(), row.pod.as_str())) == Some(&is_meant)),
            &format!(
                "is on {one}, and must come back to it: it would be Pending if it were created again now"
            ),
            &format!(
                "are on {several}, and must come back to them: they would be Pending if they were created again now"
            ),
            "explain POD",
        );
    }
    all.extend(lost_node(status, hand));
    if status.problems.iter().any(is_of_installation) {
        let text = "To see what is wrong with the installation".to_owned();
        all.push(Advice { text, command: hand.check() });
    }
    all
}

/// Why a node that a Pod must come back to would not take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shut {
    Cordoned,
    /// It has the taints of a node that is not Ready, or cannot be reached.
    NotReady,
    Tainted,
}

impl Shut {
    /// None if the Pod could come back, or may start elsewhere.
    fn of(snapshot: &Snapshot, index: &Index, row: &Row) -> Option<Self> {
        let node = snapshot.node(row.node.as_deref()?).filter(|node| must_be_on(row, node.name()))?;
        let pod = index.pod(&row.namespace, &row.pod)?;
        match shut(pod.object(), node.object())? {
            ExclusionKind::Cordon => Some(Self::Cordoned),
            _ if node.is_ready() => Some(Self::Tainted),
            _ => Some(Self::NotReady),
        }
    }
}

/// One command for all Pods of a node that is gone: those that are bound to it, and those that wait for it.
fn lost_node(status: &Status, hand: &Hand) -> Option<Advice> {
    let mut by_node: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &status.pods {
        let is_own = |drift: &Drift| drift.kind == DriftKind::OwnNodeGone;
        let node = row.drift.iter().find_map(|drift| {
            let gone = matches!(drift.kind, DriftKind::OwnNodeGone | DriftKind::NodeGone);
            let node = drift.text.strip_suffix(super::drift::IS_GONE).filter(|_| gone)?;
            (is_own(drift) || row.phase == Phase::Pending && must_be_on(row, node)).then_some(node)
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

/// Where a move that was not finished goes: what is recorded has its goal, or the present node before it was changed.
pub fn goal(recorded: Option<&str>) -> String {
    match recorded.filter(|node| is_dns_subdomain(node)) {
        Some(node) => format!("--to {node}"),
        None => "--anywhere".to_owned(),
    }
}

/// Whether what pins a Pod requires this very node.
fn must_be_on(row: &Row, node: &str) -> bool {
    let is_host = |pin: &&Pin| pin.strength == Strength::Required && short(&pin.key) == "hostname";
    row.pinned_by.iter().filter(is_host).any(|pin| pin.value.as_deref() == Some(node))
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
