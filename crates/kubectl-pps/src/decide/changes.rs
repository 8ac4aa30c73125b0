//! What has changed from one status to the next: one line for each Pod.

use std::collections::BTreeMap;

use super::status::{Phase, Row, Status};

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
        let text = match earlier.remove(&key(row)) {
            None => Some(state(row)),
            Some(earlier) => difference(earlier, row),
        };
        all.extend(text.map(|text| change((&row.namespace, &row.pod), text)));
    }
    all.extend(earlier.into_keys().map(|(namespace, pod)| change((&namespace, &pod), "is gone".to_owned())));
    all
}

/// Whether each Pod that is wanted is Ready. False if there is none.
pub fn is_ready(status: &Status) -> bool {
    let wanted = || status.pods.iter().filter(|row| row.phase != Phase::NotWanted);
    wanted().next().is_some() && wanted().all(|row| row.phase == Phase::Ready) && status.left_out == 0
}

fn state(row: &Row) -> String {
    let mut parts = vec![row.phase.as_str().to_owned()];
    parts.extend(row.node.as_ref().map(|node| format!("on {node}")));
    parts.extend(recorded(row).map(|node| format!("recorded on {node}")));
    parts.extend(row.drift.iter().map(|drift| drift.text.clone()));
    parts.join(", ")
}

fn recorded(row: &Row) -> Option<&str> {
    row.recorded.as_ref().map(|recorded| recorded.node.as_str()).filter(|node| !node.is_empty())
}

fn difference(before: &Row, after: &Row) -> Option<String> {
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
    // What differs from the recorded node is shown by then.
    parts.extend(
        after.drift.iter().filter(|drift| !before.drift.contains(drift)).map(|drift| drift.text.clone()),
    );
    if before.message != after.message {
        parts.extend(after.message.clone());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
