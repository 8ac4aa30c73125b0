//! The answer of `status` in English.

mod advice;

use std::collections::BTreeSet;
use std::fmt;

use pps_core::Reason;
use pps_core::pps::short;
use serde::Serialize;

use self::advice::advice;
pub use self::advice::{Line, enable};
use super::text::Text;
use super::{Cell, Role, Style, Table, with_consequence};
use crate::decide::command_line::CommandLine;
use crate::decide::status as decide;
use crate::decide::status::{Concern, Drift, Phase, Row, Status};
use crate::snapshot::Namespaces;

/// What a line of the table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    Workloads,
    Pods,
    /// Pods, with all columns.
    Wide,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    pods: &'a [Row],
    problems: Vec<Problem<'a>>,
    /// What to do, one line for each kind of problem.
    pub advice: Vec<Line>,
    governed: usize,
    is_cut: bool,
    /// Each failed list, and what the answer lacks because of it.
    pub unread: Vec<String>,
    is_well: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem<'a> {
    namespace: &'a str,
    persistent_pod_state: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl<'a> Problem<'a> {
    fn of(problem: &'a decide::Problem) -> Self {
        Self {
            namespace: &problem.namespace,
            persistent_pod_state: &problem.pps,
            reason: problem.kind.reason(),
            message: problem.kind.message(),
        }
    }
}

impl<'a> Document<'a> {
    pub fn of(status: &'a Status, namespaces: &Namespaces, commands: &CommandLine) -> Self {
        Self {
            pods: &status.pods,
            problems: status.problems.iter().map(Problem::of).collect(),
            advice: advice(status, namespaces, commands),
            governed: status.governed,
            is_cut: status.is_cut,
            unread: status.unread.iter().map(with_consequence).collect(),
            is_well: status.is_well(),
        }
    }

    /// The answer for people. `with_namespaces` adds a column.
    pub fn text(&self, style: Style, columns: Columns, with_namespaces: bool) -> String {
        let mut text = Text::new(style);
        match columns {
            _ if self.pods.is_empty() => {}
            Columns::Workloads => text.push(&summary(self.pods, style)),
            _ => text.push(&table(
                self.pods,
                style,
                columns == Columns::Wide,
                with_namespaces,
            )),
        }
        if self.is_cut {
            text.sentence("", None, "More Pods are missing than are shown.");
        }
        if self.pods.is_empty() && self.governed > 0 && self.problems.is_empty() {
            let workloads = format!("Workloads with a PersistentPodState: {}", self.governed);
            text.sentence("", None, &format!("{workloads}; there is no Pod to show."));
        }
        for Problem {
            namespace,
            persistent_pod_state,
            reason,
            message,
        } in &self.problems
        {
            // Advice has one line for all objects of a namespace that is not enabled.
            if *reason == Reason::NamespaceNotEnabled.as_str() {
                continue;
            }
            let place = if with_namespaces {
                format!("{namespace}/")
            } else {
                String::new()
            };
            let sentence =
                format!("PersistentPodState {place}{persistent_pod_state}: {reason}: {message}");
            text.marked(Role::Warning, "problem:", &sentence);
        }
        for Line {
            text: sentence,
            command,
        } in &self.advice
        {
            text.command("", sentence, command);
        }
        text.into_lines()
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequiredTopology { key, found, wanted } => {
                write!(
                    f,
                    "{} is {}, not {wanted}",
                    short(key),
                    found.as_deref().unwrap_or("missing")
                )
            }
            Self::Node { recorded } => write!(f, "recorded on {recorded}"),
            Self::Away { home } => write!(f, "away from its home {home}"),
            Self::NodeGone { node } => write!(f, "{node} is gone"),
            Self::Changed { recorded: true } => f.write_str("recorded state changed since"),
            Self::Changed { recorded: false } => f.write_str("no longer recorded"),
            Self::Annotation { key } => write!(f, "{} is not as recorded", short(key)),
            Self::Exempt { unfinished: true } => f.write_str("a move is unfinished"),
            Self::Exempt { unfinished: false } => f.write_str("exempt from recording"),
            Self::Unrecorded { .. } => f.write_str("no node is recorded"),
        }
    }
}

/// A line for each workload.
fn summary(rows: &[Row], style: Style) -> String {
    let mut table = Table::new(
        style,
        &["NAMESPACE", "WORKLOAD", "READY", "RECORDED", "PROBLEMS"],
    );
    for pods in rows.chunk_by(Row::is_of_same_workload) {
        let wanted = count(pods, |row| {
            !matches!(row.phase, Phase::NotWanted | Phase::Unknown)
        });
        let ready = count(pods, |row| row.phase == Phase::Ready);
        let recorded = count(pods, |row| row.recorded.is_some());
        let concerns: BTreeSet<Concern> = pods.iter().filter_map(|row| row.concern).collect();
        let worst = concerns.first().map(|worst| {
            if worst.is_bad() {
                Role::Bad
            } else {
                Role::Warning
            }
        });
        let problems: Vec<String> = concerns
            .iter()
            .map(|concern| {
                let number = count(pods, |row| row.concern == Some(*concern));
                format!("{number} {concern:?}")
            })
            .collect();
        let role = if ready == wanted {
            Role::Good
        } else {
            Role::Warning
        };
        table.row([
            Cell::plain(&pods[0].namespace),
            Cell::plain(&pods[0].workload),
            Cell::new(format!("{ready}/{wanted}"), role),
            Cell::plain(recorded.to_string()),
            Cell::new(problems.join(", "), worst),
        ]);
    }
    table.render()
}

fn count(rows: &[Row], is_meant: impl Fn(&Row) -> bool) -> usize {
    rows.iter().filter(|row| is_meant(row)).count()
}

fn table(rows: &[Row], style: Style, is_wide: bool, with_namespaces: bool) -> String {
    let has_drift = is_wide || rows.iter().any(|row| !row.drift.is_empty());
    let mut header = Vec::new();
    header.extend(with_namespaces.then_some("NAMESPACE"));
    header.extend(["POD", "PHASE", "NODE", "RECORDED", "REQUIRES"]);
    header.extend(is_wide.then_some(["IP", "INJECTED"]).into_iter().flatten());
    header.extend(has_drift.then_some("DRIFT"));
    let mut table = Table::new(style, &header);
    for row in rows {
        let mut cells = Vec::new();
        if with_namespaces {
            cells.push(Cell::plain(&row.namespace));
        }
        cells.extend([
            Cell::plain(&row.pod),
            Cell::new(format!("{:?}", row.phase), phase_role(row)),
            Cell::plain(row.node.clone().unwrap_or_default()),
            recorded(row),
            Cell::plain(requires(row)),
        ]);
        if is_wide {
            cells.push(Cell::plain(row.ips.join(",")));
            cells.push(Cell::plain(row.injected_from.clone().unwrap_or_default()));
        }
        if has_drift {
            cells.push(drift(row));
        }
        table.row(cells);
    }
    table.render()
}

/// The recorded node, which is of little interest if the Pod is there.
fn recorded(row: &Row) -> Cell {
    let Some(recorded) = row.recorded_node() else {
        return Cell::plain("");
    };
    let role = row.node.as_ref().map(|node| {
        if node == recorded {
            Role::Dim
        } else {
            Role::Warning
        }
    });
    Cell::new(recorded, role)
}

fn drift(row: &Row) -> Cell {
    if row.drift.is_empty() {
        return Cell::plain("");
    }
    let all: Vec<String> = row.drift.iter().map(ToString::to_string).collect();
    let role = if row.concern.is_some_and(Concern::is_bad) {
        Role::Bad
    } else {
        Role::Warning
    };
    Cell::new(all.join("; "), role)
}

fn phase_role(row: &Row) -> Role {
    match row.phase {
        Phase::Ready => Role::Good,
        Phase::Pending if row.concern.is_some() => Role::Bad,
        Phase::Missing => Role::Bad,
        Phase::NotReady | Phase::Pending | Phase::Ended => Role::Warning,
        Phase::Terminating | Phase::NotWanted | Phase::Unknown => Role::Dim,
    }
}

/// `zone=a, hostname for 600 s`: the value of a host name is the recorded node, which has a column.
fn requires(row: &Row) -> String {
    let required: Vec<String> = row
        .required
        .iter()
        .map(|(key, value)| match short(key) {
            "hostname" if row.recorded_node() == Some(value) => "hostname".to_owned(),
            key => format!("{key}={value}"),
        })
        .collect();
    let required = required.join(", ");
    match row.fallback_after_seconds {
        Some(seconds) if !required.is_empty() => format!("{required} for {seconds} s"),
        _ => required,
    }
}
