//! What has changed from one status to the next: one line for each Pod.

use std::collections::{BTreeMap, BTreeSet};

use super::status::{DriftKind, Phase, Row, Status};

/// How many reasons are named.
const NAMED: usize = 3;
/// The Pod is gone.
const DELETED: &str = "deleted";
/// The Pod is of a former revision.
const OUTDATED: &str = "not replaced yet";

/// What has changed of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its namespace.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// What.
    pub text: String,
}

/// All changes, in the order of the Pods.
pub fn changes(before: Option<&Status>, after: &Status) -> Vec<Change> {
    type Key<'a> = (&'a str, &'a str);
    let key = |row: &'_ Row| -> (String, String) { (row.namespace.clone(), row.pod.clone()) };
    let mut earlier: BTreeMap<(String, String), &Row> =
        before.iter().flat_map(|before| &before.pods).map(|row| (key(row), row)).collect();
    let change = |(namespace, pod): Key, text: String| Change {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        text,
    };
    let mut all = Vec::new();
    for row in &after.pods {
        let texts = match earlier.remove(&key(row)) {
            None => vec![state(row)],
            Some(earlier) => difference(earlier, row),
        };
        all.extend(texts.into_iter().map(|text| change((&row.namespace, &row.pod), text)));
    }
    all.extend(earlier.into_iter().map(|((namespace, pod), row)| {
        let text = if row.uid.is_some() { DELETED } else { "no longer recorded" };
        change((&namespace, &pod), text.to_owned())
    }));
    all
}

/// What a rollout still waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting<'a> {
    /// The first Pods that it waits for, and why.
    pub text: String,
    /// A Pod that `explain` says more about.
    pub pod: Option<&'a Row>,
}

/// What a rollout still waits for; none if it is finished: the controller has seen the latest change, and each Pod that is
/// wanted is of the revision that it should have and Ready.
pub fn waiting(status: &Status) -> Option<Waiting<'_>> {
    let mut reasons: Vec<(u8, &Row, String)> = status.pods.iter().filter_map(lacks).collect();
    reasons.sort_by_key(|(urgency, ..)| *urgency);
    let is_unwell = |row: &&Row| row.phase != Phase::Ready || is_on_gone_node(row);
    let pod = reasons.iter().map(|(_, row, _)| *row).find(is_unwell);
    let unobserved = status
        .unobserved
        .iter()
        .map(|workload| format!("the controller has not seen the latest change of {workload} yet"));
    // Many Pods may wait for the same: the cause is named once.
    let mut told = BTreeSet::new();
    let with_cause = |(_, row, text): (u8, &Row, String)| match row.message.as_deref() {
        Some(cause) if row.phase == Phase::Pending && !cause.is_empty() && told.insert(cause.to_owned()) => {
            format!("{text} ({})", cause.trim_end_matches('.'))
        }
        _ => text,
    };
    let mut texts: Vec<String> = unobserved.chain(reasons.into_iter().map(with_cause)).collect();
    if texts.is_empty() && status.pods.iter().all(|row| row.phase == Phase::NotWanted) {
        texts.push("there is no Pod yet".to_owned());
    }
    let more = texts.len().saturating_sub(NAMED) as u64 + status.left_out;
    texts.truncate(NAMED);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    (!texts.is_empty()).then(|| Waiting { text: texts.join("; "), pod })
}

/// Kubernetes deletes such a Pod soon, however well it looks.
fn is_on_gone_node(row: &Row) -> bool {
    row.drift.iter().any(|drift| drift.kind == DriftKind::OwnNodeGone)
}

/// Why a rollout waits for a Pod, the most urgent reasons first.
fn lacks(row: &Row) -> Option<(u8, &Row, String)> {
    let pod = &row.pod;
    let (urgency, text) = match row.phase {
        Phase::Pending => (if row.message.is_some() { 0 } else { 2 }, format!("{pod} is Pending")),
        Phase::Missing => (1, format!("{pod} does not exist")),
        Phase::Ready if is_on_gone_node(row) => (1, format!("{pod} is bound to a node that is gone")),
        Phase::Ready if row.is_outdated => (4, format!("{pod} is not replaced yet")),
        Phase::Ready | Phase::NotWanted => return None,
        other => (3, format!("{pod} is {}", other.as_str())),
    };
    Some((urgency, row, text))
}

fn state(row: &Row) -> String {
    let mut parts = vec![row.phase.as_str().to_owned()];
    parts.extend(row.node.as_ref().map(|node| format!("on {node}")));
    parts.extend(recorded(row).map(|node| format!("recorded on {node}")));
    parts.extend(row.is_outdated.then(|| OUTDATED.to_owned()));
    parts.extend(row.drift.iter().map(|drift| drift.text.clone()));
    parts.join(", ")
}

fn recorded(row: &Row) -> Option<&str> {
    row.recorded.as_ref().map(|recorded| recorded.node.as_str()).filter(|node| !node.is_empty())
}

/// One line, or two if the Pod was replaced.
fn difference(before: &Row, after: &Row) -> Vec<String> {
    match (&before.uid, &after.uid) {
        (Some(one), Some(other)) if one != other => {
            let revision = after.revision.as_ref().filter(|_| after.revision != before.revision);
            let revision = revision.map(|revision| format!(" with revision {revision}")).unwrap_or_default();
            vec![DELETED.to_owned(), format!("created again{revision}: {}", state(after))]
        }
        (Some(_), None) => vec![DELETED.to_owned()],
        (None, Some(_)) => vec![format!("created: {}", state(after))],
        _ => of_the_same(before, after).into_iter().collect(),
    }
}

fn of_the_same(before: &Row, after: &Row) -> Option<String> {
    let mut parts = Vec::new();
    if before.phase != after.phase {
        parts.push(format!("{} -> {}", before.phase.as_str(), after.phase.as_str()));
    }
    if before.node != after.node {
        parts.extend(after.node.as_ref().map(|node| format!("on {node}")));
    }
    match (recorded(before), recorded(after)) {
        (one, other) if one == other => {}
        (Some(node), None) => parts.push(format!("no longer recorded (was on {node})")),
        (Some(one), Some(other)) => parts.push(format!("recorded on {other} (was {one})")),
        (_, other) => parts.extend(other.map(|node| format!("recorded on {node}"))),
    }
    if before.ips != after.ips && !after.ips.is_empty() {
        parts.push(format!("IP {}", after.ips.join(", ")));
    }
    parts.extend((after.is_outdated && !before.is_outdated).then(|| OUTDATED.to_owned()));
    // What differs from the recorded node is shown by then.
    parts.extend(
        after.drift.iter().filter(|drift| !before.drift.contains(drift)).map(|drift| drift.text.clone()),
    );
    if before.message != after.message {
        parts.extend(after.message.clone());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
