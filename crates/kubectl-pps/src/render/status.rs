//! The answer of `status` in English.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pps_core::pps::short;
use pps_core::{DEFAULT_NAMESPACE_SELECTOR, Reason};
use pps_recorder::generate::{AUTO_GENERATE, REQUIRED_TOPOLOGY};
use serde::Serialize;

use super::text::Text;
use super::{Role, Style, Table, with_consequence};
use crate::decide::command_line::CommandLine;
use crate::decide::status as decide;
use crate::decide::status::{Concern, Drift, Phase, ProblemKind, Row, Status};
use crate::snapshot::{Namespaces, WorkloadKey};

const SHOWN: usize = 3;

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
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub text: String,
    pub command: String,
}

impl<'a> Document<'a> {
    pub fn of(status: &'a Status, namespaces: &Namespaces, commands: &CommandLine) -> Self {
        let problem = |one: &'a decide::Problem| {
            let (reason, message) = one.kind.words();
            Problem {
                namespace: &one.namespace,
                persistent_pod_state: &one.pps,
                reason,
                message,
            }
        };
        Self {
            pods: &status.pods,
            problems: status.problems.iter().map(problem).collect(),
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
        // Advice has one line for all objects of a namespace that is not enabled.
        let is_own = |one: &&Problem| one.reason != Reason::NamespaceNotEnabled.as_str();
        for Problem {
            namespace,
            persistent_pod_state,
            reason,
            message,
        } in self.problems.iter().filter(is_own)
        {
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

/// What to do about a namespace that is not in scope.
pub fn enable(namespace: &str, commands: &CommandLine) -> Line {
    let text = format!(
        "Namespace {namespace} is not enabled: nothing is recorded or injected. To enable it"
    );
    let label = format!("label namespace {namespace} {DEFAULT_NAMESPACE_SELECTOR} --overwrite");
    Line {
        text,
        command: commands.kubectl(&label),
    }
}

/// The command that lets the sidecar make a PersistentPodState.
fn annotate(commands: &CommandLine, workload: &str, namespace: &str) -> String {
    let annotations =
        format!("{AUTO_GENERATE}=true {REQUIRED_TOPOLOGY}=topology.kubernetes.io/zone");
    commands.kubectl_in(&format!("annotate {workload} {annotations}"), namespace)
}

impl ProblemKind {
    pub(super) fn words(&self) -> (&str, String) {
        match self {
            Self::Condition(reason, message) => (reason, message.clone()),
            Self::NotSeen => (
                "NotSeen",
                "no sidecar has looked at it yet, so nothing is recorded".to_owned(),
            ),
            Self::Unreadable(error) => ("Unreadable", error.clone()),
        }
    }
}

/// Problems and the next commands. A silent sidecar comes first: all else may be out of date.
fn advice(status: &Status, namespaces: &Namespaces, commands: &CommandLine) -> Vec<Line> {
    let line = |text: &str, command: String| Line {
        text: text.to_owned(),
        command,
    };
    let silence = status
        .silence
        .iter()
        .map(|one| format!("{}: {}. To see why", one.subject, one.seen));
    let mut advice: Vec<Line> = silence.map(|text| line(&text, commands.check())).collect();
    let is_out = |one: &&decide::Problem| matches!(&one.kind, ProblemKind::Condition(reason, _) if reason == Reason::NamespaceNotEnabled.as_str());
    let out: BTreeSet<&str> = status
        .problems
        .iter()
        .filter(is_out)
        .map(|one| one.namespace.as_str())
        .collect();
    advice.extend(out.into_iter().map(|namespace| enable(namespace, commands)));
    let mut concerned: BTreeMap<Concern, Vec<&Row>> = BTreeMap::new();
    for row in &status.pods {
        row.concern
            .iter()
            .for_each(|concern| concerned.entry(*concern).or_default().push(row));
    }
    advice.extend(concerned.into_iter().map(|(concern, rows)| {
        let command = match concern {
            Concern::Unrecorded | Concern::RecordedElsewhere => commands.check(),
            _ => commands.pps(&format!("explain {}", rows[0].pod), &rows[0].namespace),
        };
        Line {
            text: format!("{} {concern}", names(&rows)),
            command,
        }
    }));
    if status
        .problems
        .iter()
        .any(|one| !matches!(one.kind, ProblemKind::Condition(..)))
    {
        advice.push(line(
            "To see what is wrong with the installation",
            commands.check(),
        ));
    }
    advice.extend(status.unpinned.iter().map(
        |WorkloadKey {
             namespace,
             group,
             kind,
             name,
         }| {
            let resource = if group == "apps" {
                "statefulset"
            } else {
                "statefulsets.apps.kruise.io"
            };
            let text = format!(
                "{kind} {name} has no PersistentPodState. To have its Pods return to their zones"
            );
            line(
                &text,
                annotate(commands, &format!("{resource} {name}"), namespace),
            )
        },
    ));
    if status.is_empty() && status.unread.is_empty() {
        let command = annotate(
            commands,
            "statefulset NAME",
            namespaces.one().unwrap_or("NAMESPACE"),
        );
        advice.push(line(
            "No workload here has a PersistentPodState. To give one to a workload",
            command,
        ));
    }
    advice
}

/// Words that follow the names of Pods and `is` or `are`.
impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "Pending",
            Self::NodeGone => "bound to a node that is gone",
            Self::Missing => "missing",
            Self::Misplaced => "on a node without the required labels",
            Self::UnfinishedMove => "left by an unfinished move",
            Self::Unrecorded => {
                "Ready without a recorded node, and would start anywhere. To see why"
            }
            Self::NodeNotReady => "on a node that is not Ready",
            Self::CannotReturn => {
                "running, but would be Pending if created again: no node to return to takes new \
                 Pods"
            }
            Self::RecordedElsewhere => {
                "Ready and recorded elsewhere. If this lasts, see why nothing is recorded"
            }
            Self::Away => "away from home, and would go home if created again",
            Self::Differs => "running with another address or annotation than recorded",
        })
    }
}

/// `db-0 is`, or `3 Pods (db-0, db-1, db-2) are`.
fn names(rows: &[&Row]) -> String {
    if let [row] = rows {
        return format!("{} is", row.pod);
    }
    let shown: Vec<&str> = rows
        .iter()
        .take(SHOWN)
        .map(|row| row.pod.as_str())
        .collect();
    let more = if rows.len() > SHOWN { ", …" } else { "" };
    format!("{} Pods ({}{more}) are", rows.len(), shown.join(", "))
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
    let workload = |row: &Row| {
        (
            row.namespace.clone(),
            row.workload_kind.clone(),
            row.workload.clone(),
        )
    };
    for pods in rows.chunk_by(|one, other| workload(one) == workload(other)) {
        let (namespace, _, name) = workload(&pods[0]);
        let count = |is_meant: &dyn Fn(&&Row) -> bool| pods.iter().filter(is_meant).count();
        let wanted = count(&|row| !matches!(row.phase, Phase::NotWanted | Phase::Unknown));
        let ready = count(&|row| row.phase == Phase::Ready);
        let concerns: BTreeSet<Concern> = pods.iter().filter_map(|row| row.concern).collect();
        let worst = concerns.first().map(|one| {
            if one.is_bad() {
                Role::Bad
            } else {
                Role::Warning
            }
        });
        let problems = concerns
            .iter()
            .map(|one| format!("{} {one:?}", count(&|row| row.concern == Some(*one))));
        let role = if ready == wanted {
            Role::Good
        } else {
            Role::Warning
        };
        table.row(&[
            (&namespace, None),
            (&name, None),
            (&format!("{ready}/{wanted}"), Some(role)),
            (&count(&|row| row.recorded.is_some()).to_string(), None),
            (&problems.collect::<Vec<_>>().join(", "), worst),
        ]);
    }
    table.render()
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
        let mut cells: Vec<(String, Option<Role>)> = Vec::new();
        cells.extend(with_namespaces.then(|| (row.namespace.clone(), None)));
        cells.push((row.pod.clone(), None));
        cells.push((format!("{:?}", row.phase), Some(phase_role(row))));
        cells.push((row.node.clone().unwrap_or_default(), None));
        let recorded = row.recorded_node().unwrap_or_default();
        // The recorded node is of little interest if the Pod is there.
        let role = row.node.as_ref().filter(|_| !recorded.is_empty());
        let role = role.map(|own| {
            if own == recorded {
                Role::Dim
            } else {
                Role::Warning
            }
        });
        cells.push((recorded.to_owned(), role));
        cells.push((requires(row), None));
        if is_wide {
            cells.push((row.ips.join(","), None));
            cells.push((row.injected_from.clone().unwrap_or_default(), None));
        }
        if has_drift {
            let is_bad = row.concern.is_some_and(Concern::is_bad);
            let all: Vec<String> = row.drift.iter().map(ToString::to_string).collect();
            let role = row
                .drift
                .first()
                .map(|_| if is_bad { Role::Bad } else { Role::Warning });
            cells.push((all.join("; "), role));
        }
        table.row(
            &cells
                .iter()
                .map(|(text, role)| (text.as_str(), *role))
                .collect::<Vec<_>>(),
        );
    }
    table.render()
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

/// `zone=a, hostname`: the value of a host name is the recorded node, which has a column.
fn requires(row: &Row) -> String {
    let one = |(key, value): (&String, &String)| match short(key) {
        "hostname" if row.recorded_node() == Some(value) => "hostname".to_owned(),
        key => format!("{key}={value}"),
    };
    row.required.iter().map(one).collect::<Vec<_>>().join(", ")
}
