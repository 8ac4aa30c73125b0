//! What to do about the answer of `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pps_core::{DEFAULT_NAMESPACE_SELECTOR, Reason};
use pps_recorder::generate::{AUTO_GENERATE, REQUIRED_TOPOLOGY};
use serde::Serialize;

use crate::decide::command_line::CommandLine;
use crate::decide::status::{Concern, ProblemKind, Row, Status};
use crate::snapshot::{Namespaces, WorkloadKey};

/// The most Pods that a line of advice names.
const MAX_NAMED: usize = 3;

/// A line of advice, with its command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub text: String,
    pub command: String,
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

/// Problems and the next commands. A silent sidecar comes first: all else may be out of date.
pub(super) fn advice(
    status: &Status,
    namespaces: &Namespaces,
    commands: &CommandLine,
) -> Vec<Line> {
    let mut advice = Vec::new();
    if let Some(silence) = &status.silence {
        advice.push(Line {
            text: format!("{}: {}. To see why", silence.subject, silence.seen),
            command: commands.check(),
        });
    }
    let out_of_scope: BTreeSet<&str> = status
        .problems
        .iter()
        .filter(|problem| problem.kind.reason() == Reason::NamespaceNotEnabled.as_str())
        .map(|problem| problem.namespace.as_str())
        .collect();
    advice.extend(
        out_of_scope
            .into_iter()
            .map(|namespace| enable(namespace, commands)),
    );
    advice.extend(about_pods(&status.pods, commands));
    let is_about_installation = status
        .problems
        .iter()
        .any(|problem| !matches!(problem.kind, ProblemKind::Condition { .. }));
    if is_about_installation {
        advice.push(Line {
            text: "To see what is wrong with the installation".to_owned(),
            command: commands.check(),
        });
    }
    advice.extend(
        status
            .unpinned
            .iter()
            .map(|workload| pin(workload, commands)),
    );
    if status.is_empty() && status.unread.is_empty() {
        let namespace = namespaces.one().unwrap_or("NAMESPACE");
        advice.push(Line {
            text: "No workload here has a PersistentPodState. To give one to a workload".to_owned(),
            command: annotate(commands, "statefulset NAME", namespace),
        });
    }
    advice
}

/// A line for each concern, the most important first.
fn about_pods(rows: &[Row], commands: &CommandLine) -> Vec<Line> {
    let mut concerned: BTreeMap<Concern, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if let Some(concern) = row.concern {
            concerned.entry(concern).or_default().push(row);
        }
    }
    concerned
        .into_iter()
        .map(|(concern, rows)| Line {
            text: format!("{} {concern}", names(&rows)),
            command: match concern {
                Concern::Unrecorded | Concern::RecordedElsewhere => commands.check(),
                _ => commands.pps(&format!("explain {}", rows[0].pod), &rows[0].namespace),
            },
        })
        .collect()
}

/// How to give a workload a PersistentPodState.
fn pin(workload: &WorkloadKey, commands: &CommandLine) -> Line {
    let WorkloadKey {
        namespace,
        group,
        kind,
        name,
    } = workload;
    let resource = if group == "apps" {
        "statefulset"
    } else {
        "statefulsets.apps.kruise.io"
    };
    Line {
        text: format!(
            "{kind} {name} has no PersistentPodState. To have its Pods return to their zones"
        ),
        command: annotate(commands, &format!("{resource} {name}"), namespace),
    }
}

impl ProblemKind {
    pub(in crate::render) fn reason(&self) -> &str {
        match self {
            Self::Condition { reason, .. } => reason,
            Self::NotSeen => "NotSeen",
            Self::Unreadable(_) => "Unreadable",
        }
    }

    pub(in crate::render) fn message(&self) -> &str {
        match self {
            Self::Condition { message, .. } => message,
            Self::NotSeen => "no sidecar has looked at it yet, so nothing is recorded",
            Self::Unreadable(error) => error,
        }
    }
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
        .take(MAX_NAMED)
        .map(|row| row.pod.as_str())
        .collect();
    let more = if rows.len() > MAX_NAMED { ", …" } else { "" };
    format!("{} Pods ({}{more}) are", rows.len(), shown.join(", "))
}
