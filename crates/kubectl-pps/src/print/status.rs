//! Shows the answer of `status`.

use super::text::Text;
use super::{Role, Style, Table};
use crate::decide::status::{Drift, DriftKind, Phase, Pin, Problem, Row, Status, Strength, short};

/// The answer for people. `with_namespaces` adds a column.
pub fn status(status: &Status, style: Style, is_wide: bool, with_namespaces: bool) -> String {
    let mut text = Text::new(style);
    let shared = shared_pins(&status.pods).filter(|_| !is_wide);
    let columns = Columns { is_wide, with_namespaces, with_pins: shared.is_none() };
    text.push(&table(&status.pods, style, columns));
    if let Some(pins) = shared {
        text.sentence("", Some(Role::Dim), &format!("Each Pod is pinned by: {pins}."));
    }
    if status.left_out > 0 {
        let pods = if status.left_out == 1 { "Pod does" } else { "Pods do" };
        text.sentence("", None, &format!("{} more {pods} not exist.", status.left_out));
    }
    if status.pods.is_empty() && status.governed > 0 && status.problems.is_empty() {
        let workloads = if status.governed == 1 { "workload" } else { "workloads" };
        let sentence = format!(
            "{} {workloads} with a PersistentPodState: no Pod is wanted, and nothing is recorded.",
            status.governed
        );
        text.sentence("", None, &sentence);
    }
    for one in &status.unpinned {
        let sentence = format!(
            "{} {} has no PersistentPodState: its Pods are not recorded, and start wherever the scheduler puts them.",
            one.kind, one.name
        );
        text.sentence("", None, &sentence);
        text.command("", "To have them return to their zone", &one.command);
    }
    for problem in &status.problems {
        let Problem { namespace, persistent_pod_state, reason, message } = problem;
        let place = if with_namespaces { format!("{namespace}/") } else { String::new() };
        let sentence = format!("PersistentPodState {place}{persistent_pod_state}: {reason}: {message}");
        text.marked(Role::Warning, "problem:", &sentence);
    }
    for advice in &status.advice {
        text.command("", &advice.text, &advice.command);
    }
    text.into_lines()
}

/// The columns of a table: titles, and what is in them.
type Cell = (String, Option<Role>);

/// Which columns a table has beside those that each has.
#[derive(Clone, Copy)]
struct Columns {
    is_wide: bool,
    with_namespaces: bool,
    with_pins: bool,
}

/// What pins all Pods, if that is the same for several ones.
fn shared_pins(rows: &[Row]) -> Option<String> {
    let [first, rest @ ..] = rows else { return None };
    let pins = pinned_by(first, false);
    let is_same = !rest.is_empty() && rest.iter().all(|row| pinned_by(row, false) == pins);
    (is_same && !pins.is_empty()).then_some(pins)
}

fn table(rows: &[Row], style: Style, columns: Columns) -> String {
    let Columns { is_wide, with_namespaces, with_pins } = columns;
    if rows.is_empty() {
        return String::new();
    }
    let has_drift = rows.iter().any(|row| !row.drift.is_empty());
    let mut header = Vec::new();
    header.extend(with_namespaces.then_some("NAMESPACE"));
    header.extend(["POD", "PHASE", "NODE", "RECORDED", "ZONE"]);
    header.extend(is_wide.then_some("IP"));
    header.extend(with_pins.then_some("PINNED BY"));
    header.extend(is_wide.then_some("INJECTED"));
    header.extend((is_wide || has_drift).then_some("DRIFT"));
    let mut table = Table::new(style, &header);
    for row in rows {
        let mut cells: Vec<Cell> = Vec::new();
        cells.extend(with_namespaces.then(|| (row.namespace.clone(), None)));
        cells.push((row.pod.clone(), None));
        cells.push((row.phase.as_str().to_owned(), Some(phase_role(row))));
        cells.push((row.node.clone().unwrap_or_default(), None));
        cells.push(recorded(row));
        let unknown = if row.node.is_some() { "?" } else { "" };
        cells.push((row.zone.clone().unwrap_or_else(|| unknown.to_owned()), None));
        if is_wide {
            cells.push((row.ips.join(","), None));
        }
        cells.extend(with_pins.then(|| (pinned_by(row, is_wide), None)));
        if is_wide {
            let injected = if row.injected_from.is_some() { "yes" } else { "no" };
            let exists = !matches!(row.phase, Phase::Missing | Phase::NotWanted | Phase::Unknown);
            cells.push((if exists { injected.to_owned() } else { String::new() }, None));
        }
        if is_wide || has_drift {
            cells.push((drift(&row.drift), row.drift.iter().map(drift_role).next()));
        }
        let cells: Vec<(&str, Option<Role>)> =
            cells.iter().map(|(text, role)| (text.as_str(), *role)).collect();
        table.row(&cells);
    }
    table.render()
}

fn phase_role(row: &Row) -> Role {
    match row.phase {
        Phase::Ready => Role::Good,
        Phase::Pending if row.message.is_some() => Role::Bad,
        Phase::Missing => Role::Bad,
        Phase::NotReady | Phase::Pending | Phase::Ended => Role::Warning,
        Phase::Terminating | Phase::NotWanted | Phase::Unknown => Role::Dim,
    }
}

/// The recorded node; dim if the Pod is there.
fn recorded(row: &Row) -> Cell {
    let node = row.recorded.as_ref().map(|recorded| recorded.node.clone()).unwrap_or_default();
    let role = match &row.node {
        Some(own) if *own == node => Some(Role::Dim),
        Some(_) if !node.is_empty() => Some(Role::Warning),
        _ => None,
    };
    (node, role)
}

/// `zone=eu-1 required, hostname preferred 100`; nothing if nothing is recorded yet.
fn pinned_by(row: &Row, is_wide: bool) -> String {
    let recorded = row.recorded.as_ref().map(|recorded| recorded.node.as_str());
    let one = |pin: &Pin| {
        let key = short(&pin.key);
        // The value of a host name is the recorded node, which has a column.
        let shown = pin
            .value
            .as_ref()
            .filter(|value| key != "hostname" || recorded != Some(value.as_str()))
            .filter(|_| pin.strength != Strength::Annotation || is_wide);
        let value = match (shown, &pin.value) {
            (Some(value), _) => format!("={value}"),
            (None, Some(_)) => String::new(),
            (None, None) if pin.strength == Strength::Annotation => return format!("{key} (not recorded)"),
            (None, None) => " (not recorded)".to_owned(),
        };
        let strength = match pin.strength {
            Strength::Required => "required".to_owned(),
            Strength::Preferred => format!("preferred {}", pin.weight.unwrap_or_default()),
            // Whether the Pod has that value is another question: see its drift.
            Strength::Annotation => "recorded".to_owned(),
        };
        format!("{key}{value} {strength}")
    };
    if row.recorded.is_none() && row.pinned_by.iter().all(|pin| pin.value.is_none()) {
        return String::new();
    }
    row.pinned_by.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn drift(drift: &[Drift]) -> String {
    drift.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("; ")
}

fn drift_role(drift: &Drift) -> Role {
    match drift.kind {
        DriftKind::RequiredTopology | DriftKind::OwnNodeGone => Role::Bad,
        _ => Role::Warning,
    }
}
