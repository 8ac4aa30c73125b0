//! The answer of `status` in English.

use std::collections::BTreeMap;
use std::fmt;

use pps_recorder::generate::{AUTO_GENERATE, REQUIRED_TOPOLOGY};
use serde::Serialize;

use super::explanation::goal_flag;
use super::text::Text;
use super::{Role, Style, Table, with_consequence};
use crate::decide::command_line::{CommandLine, portions};
use crate::decide::names::list;
use crate::decide::status::{Advice, AdviceKind, Drift, Phase, ProblemKind, Row, Shut, Status, short};
use crate::snapshot::{Scope, WorkloadKey};

/// How many Pods a line names.
const SHOWN: usize = 3;

/// The answer, as programs read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    pods: &'a [Row],
    problems: Vec<Problem<'a>>,
    /// What to do, one line for each kind of problem.
    pub advice: Vec<Line>,
    governed: usize,
    unpinned: Vec<Unpinned<'a>>,
    left_out: u64,
    /// What could not be read, and what is not known therefore.
    pub unread: Vec<String>,
    is_well: bool,
}

/// A PersistentPodState with a problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem<'a> {
    namespace: &'a str,
    persistent_pod_state: &'a str,
    reason: &'a str,
    message: String,
}

/// A workload without a PersistentPodState, and the command that gives it one.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Unpinned<'a> {
    namespace: &'a str,
    kind: &'a str,
    name: &'a str,
    command: String,
}

/// What is wrong, and the next command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct Line {
    pub text: String,
    pub command: String,
}

impl<'a> Document<'a> {
    /// Of an answer about these namespaces.
    pub fn of(status: &'a Status, scope: &Scope, commands: &CommandLine) -> Self {
        let problem = |one: &'a crate::decide::status::Problem| {
            let (reason, message) = problem(&one.kind);
            Problem { namespace: &one.namespace, persistent_pod_state: &one.pps, reason, message }
        };
        let unpinned = |key: &'a WorkloadKey| {
            let kind = if key.group == "apps" { "statefulset" } else { "statefulsets.apps.kruise.io" };
            let command = annotate(commands, &format!("{kind} {}", key.name), &key.namespace);
            Unpinned { namespace: &key.namespace, kind: &key.kind, name: &key.name, command }
        };
        Self {
            pods: &status.pods,
            problems: status.problems.iter().map(problem).collect(),
            advice: status.advice.iter().map(|one| line(one, scope, commands)).collect(),
            governed: status.governed,
            unpinned: status.unpinned.iter().map(unpinned).collect(),
            left_out: status.left_out,
            unread: status.unread.iter().map(with_consequence).collect(),
            is_well: status.is_well,
        }
    }

    /// The answer for people. `with_namespaces` adds a column.
    pub fn text(&self, style: Style, is_wide: bool, with_namespaces: bool) -> String {
        let mut text = Text::new(style);
        if !self.pods.is_empty() {
            text.push(&table(self.pods, style, is_wide, with_namespaces));
        }
        if self.left_out > 0 {
            let pods = if self.left_out == 1 { "Pod does" } else { "Pods do" };
            text.sentence("", None, &format!("{} more {pods} not exist.", self.left_out));
        }
        if self.pods.is_empty() && self.governed > 0 && self.problems.is_empty() {
            let workloads = if self.governed == 1 { "workload" } else { "workloads" };
            let nothing = "with a PersistentPodState: no Pod is wanted, and nothing is recorded.";
            text.sentence("", None, &format!("{} {workloads} {nothing}", self.governed));
        }
        for Unpinned { kind, name, command, .. } in &self.unpinned {
            let sentence = format!(
                "{kind} {name} has no PersistentPodState: its Pods are not recorded, and start wherever the scheduler puts them."
            );
            text.sentence("", None, &sentence);
            text.command("", "To have them return to their zone", command);
        }
        for Problem { namespace, persistent_pod_state, reason, message } in &self.problems {
            let place = if with_namespaces { format!("{namespace}/") } else { String::new() };
            let sentence = format!("PersistentPodState {place}{persistent_pod_state}: {reason}: {message}");
            text.marked(Role::Warning, "problem:", &sentence);
        }
        for Line { text: sentence, command } in &self.advice {
            text.command("", sentence, command);
        }
        text.into_lines()
    }
}

/// The command that lets the sidecar make a PersistentPodState.
fn annotate(commands: &CommandLine, workload: &str, namespace: &str) -> String {
    let annotations = format!("{AUTO_GENERATE}=true {REQUIRED_TOPOLOGY}=topology.kubernetes.io/zone");
    commands.kubectl_in(&format!("annotate {workload} {annotations}"), namespace)
}

fn problem(kind: &ProblemKind) -> (&str, String) {
    match kind {
        ProblemKind::Condition(reason, message) => (reason, message.clone()),
        ProblemKind::NotSeen => {
            ("NotSeen", "no sidecar has looked at it yet, so nothing is recorded".to_owned())
        }
        ProblemKind::NotFound(alias) => {
            let why = "the policy does not find it, so nothing is injected: there is no alias";
            ("NotFound", format!("{why} {alias}, which the sidecar should keep"))
        }
        ProblemKind::Unreadable(error) => ("Unreadable", error.clone()),
        ProblemKind::Damaged(damaged) => ("Damaged", damaged.to_string()),
    }
}

/// What is wrong, and the next command.
fn line(advice: &Advice, scope: &Scope, commands: &CommandLine) -> Line {
    let pods = advice.pods.as_slice();
    let (namespace, first) =
        pods.first().map_or(("", ""), |(namespace, pod)| (namespace.as_str(), pod.as_str()));
    let is_one = pods.len() == 1;
    let pps = |words: String| commands.pps(&words, namespace);
    let explain = || pps(format!("explain {first}"));
    let record = |node: &Option<String>| match node {
        Some(node) => pps(format!("move {first} --to {node}")),
        None => explain(),
    };
    let to_first = |what: &str| {
        let first = if is_one { "it" } else { "the first" };
        what.replace("FIRST", first)
    };
    // A verb for one Pod, and for several.
    let (one, several, command) = match &advice.kind {
        AdviceKind::Pending => ("is Pending".to_owned(), "are Pending".to_owned(), explain()),
        AdviceKind::OwnNodeGone(node) => {
            let on = node.as_ref().map_or("bound to nodes that are gone".to_owned(), |node| {
                format!("bound to {node}, which is gone")
            });
            (format!("is {on}"), format!("are {on}"), explain())
        }
        AdviceKind::Missing => ("does not exist".to_owned(), "do not exist".to_owned(), explain()),
        AdviceKind::NoWayBack => {
            let what = "recorded without the labels that are required now";
            (
                format!("is {what}: it would start anywhere"),
                format!("are {what}: they would start anywhere"),
                explain(),
            )
        }
        AdviceKind::Misplaced => {
            ("is not where it must be".to_owned(), "are not where they must be".to_owned(), explain())
        }
        AdviceKind::UnfinishedMove(goal) => {
            let command = pps(format!("move {first} {}", goal_flag(goal.as_deref())));
            let [one, several] = ["has an unfinished move", "have unfinished moves"]
                .map(|what| to_first(&format!("{what}; to finish FIRST")));
            (one, several, command)
        }
        AdviceKind::UnrecordedByMove(node) => (
            "would start anywhere: a move is unfinished; to have it recorded where it is".to_owned(),
            "would start anywhere: their moves are unfinished; to have the first recorded where it is"
                .to_owned(),
            record(node),
        ),
        AdviceKind::ExemptByMove(node) => (
            "is not recorded, because a move is unfinished; to have it recorded again".to_owned(),
            "are not recorded, because their moves are unfinished; to have the first recorded again"
                .to_owned(),
            record(node),
        ),
        AdviceKind::Unrecorded => (
            "is Ready, and its node is not recorded: it would start anywhere. To see why".to_owned(),
            "are Ready, and their nodes are not recorded: they would start anywhere. To see why".to_owned(),
            commands.check(),
        ),
        AdviceKind::RecordedElsewhere => {
            let what = "Ready, and recorded elsewhere; if this lasts, the sidecar does not record";
            (format!("is {what}"), format!("are {what}"), commands.check())
        }
        AdviceKind::Differs => (
            "has another address or annotation than recorded".to_owned(),
            "have other addresses or annotations than recorded".to_owned(),
            explain(),
        ),
        AdviceKind::RecordedNodeGone(node) => (
            "is recorded on a node that is gone".to_owned(),
            "are recorded on nodes that are gone".to_owned(),
            // A name that no node can have would be refused on the command line.
            pps(node.as_ref().map_or(format!("forget {first}"), |node| format!("forget --node {node}"))),
        ),
        AdviceKind::ShutOut(why, place) => {
            let [one, several] = shut_out(*why, place.as_ref());
            (one, several, explain())
        }
        AdviceKind::LeftBehind => {
            let names: Vec<&str> =
                pods.iter().filter(|(own, _)| own == namespace).map(|(_, pod)| pod.as_str()).collect();
            let names = portions(&names).swap_remove(0).join(" ");
            (
                "waits for a node that is gone; to have it created again, for any node".to_owned(),
                "wait for a node that is gone; to have them created again, for any node".to_owned(),
                commands.kubectl_in(&format!("delete pod {names}"), namespace),
            )
        }
        AdviceKind::LostNode(node, is_across) => {
            let text =
                format!("To start the Pods of {node} on other nodes, without the data on its local disk");
            let words = format!("move --node {node} --anywhere");
            let command = if *is_across { anywhere(commands, &format!("{words} -A")) } else { pps(words) };
            return Line { text, command };
        }
        AdviceKind::Installation => {
            let text = "To see what is wrong with the installation".to_owned();
            return Line { text, command: commands.check() };
        }
        AdviceKind::NoPps => {
            let text = "No workload here has a PersistentPodState. To give one to a workload".to_owned();
            let namespace = scope.namespace().unwrap_or("NAMESPACE");
            return Line { text, command: annotate(commands, "statefulset NAME", namespace) };
        }
        AdviceKind::Elsewhere(namespaces) => {
            let plural = if namespaces.len() == 1 { "" } else { "s" };
            let text =
                format!("There are PersistentPodStates in namespace{plural} {}", list(namespaces, "and"));
            return Line { text, command: anywhere(commands, "status -A") };
        }
        AdviceKind::NobodyRecords(finding) => {
            let text = format!("{}: {}. To see why", finding.subject, finding.seen);
            return Line { text, command: commands.check() };
        }
    };
    Line { text: format!("{} {}", names(pods), if is_one { one } else { several }), command }
}

/// Why Pods could not come back: for one Pod, and for several.
fn shut_out(why: Shut, place: Option<&Option<BTreeMap<String, String>>>) -> [String; 2] {
    let (one, several, there) = match why {
        Shut::Cordoned => ("a cordoned node", "cordoned nodes", "all nodes there are cordoned"),
        Shut::NotReady => ("a node that is not Ready", "nodes that are not Ready", "no node there is Ready"),
        Shut::Tainted => (
            "a node whose taints it does not tolerate",
            "nodes whose taints they do not tolerate",
            "all nodes there have taints that keep new Pods out",
        ),
        Shut::Mixed => {
            ("a closed node", "closed nodes", "all nodes there are cordoned, not Ready or tainted")
        }
    };
    let (one, several) = match place {
        None => (
            format!("is on {one}, and must come back to it"),
            format!("are on {several}, and must come back to them"),
        ),
        Some(place) => {
            let words = |(key, value): (&String, &String)| format!("{}={value}", short(key));
            let place = place.as_ref().map(|all| all.iter().map(words).collect::<Vec<_>>().join(" and "));
            let must =
                format!("must come back to {}, and {there}", place.as_deref().unwrap_or("their places"));
            (must.clone(), must)
        }
    };
    [
        format!("{one}: it would be Pending if it were created again now"),
        format!("{several}: they would be Pending if they were created again now"),
    ]
}

/// A command whose namespace is not that of the answer.
fn anywhere(commands: &CommandLine, words: &str) -> String {
    CommandLine { own_namespace: Some(String::new()), ..commands.clone() }.pps(words, "")
}

/// `db-0`, or `3 Pods (db-0, db-1, db-2)`.
fn names(pods: &[(String, String)]) -> String {
    if let [(_, pod)] = pods {
        return pod.clone();
    }
    let shown: Vec<&str> = pods.iter().take(SHOWN).map(|(_, pod)| pod.as_str()).collect();
    let more = if pods.len() > SHOWN { ", …" } else { "" };
    format!("{} Pods ({}{more})", pods.len(), shown.join(", "))
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequiredTopology { key, found, wanted } => {
                write!(f, "{} is {}, not {wanted}", short(key), found.as_deref().unwrap_or("missing"))
            }
            Self::Node { recorded } => write!(f, "recorded on {recorded}"),
            Self::NodeGone { node } | Self::OwnNodeGone { node } => write!(f, "{node} is gone"),
            Self::Changed { recorded: true } => f.write_str("recorded state changed since"),
            Self::Changed { recorded: false } => f.write_str("no longer recorded"),
            Self::Address { recorded } => {
                let recorded: Vec<String> = recorded.iter().map(ToString::to_string).collect();
                write!(f, "its IP was {}", recorded.join(", "))
            }
            Self::Annotation { key } => write!(f, "{} is not as recorded", short(key)),
            Self::Exempt { unfinished: true } => f.write_str("a move is unfinished"),
            Self::Exempt { unfinished: false } => f.write_str("exempt from recording"),
            Self::Unrecorded { .. } => f.write_str("no node is recorded"),
        }
    }
}

fn table(rows: &[Row], style: Style, is_wide: bool, with_namespaces: bool) -> String {
    let has_drift = is_wide || rows.iter().any(|row| !row.drift.is_empty());
    let mut header = Vec::new();
    header.extend(with_namespaces.then_some("NAMESPACE"));
    header.extend(["POD", "PHASE", "NODE", "RECORDED", "ZONE", "REQUIRES"]);
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
        let role = role.map(|own| if own == recorded { Role::Dim } else { Role::Warning });
        cells.push((recorded.to_owned(), role));
        let unknown = if row.node.is_some() { "?" } else { "" };
        cells.push((row.zone.clone().unwrap_or_else(|| unknown.to_owned()), None));
        cells.push((requires(row), None));
        if is_wide {
            let exists = !matches!(row.phase, Phase::Missing | Phase::NotWanted | Phase::Unknown);
            let injected = if row.injected_from.is_some() { "yes" } else { "no" };
            cells.push((row.ips.join(","), None));
            cells.push((if exists { injected.to_owned() } else { String::new() }, None));
        }
        if has_drift {
            let is_bad =
                |one: &Drift| matches!(one, Drift::RequiredTopology { .. } | Drift::OwnNodeGone { .. });
            let role = row.drift.first().map(|one| if is_bad(one) { Role::Bad } else { Role::Warning });
            let all: Vec<String> = row.drift.iter().map(ToString::to_string).collect();
            cells.push((all.join("; "), role));
        }
        table.row(&cells.iter().map(|(text, role)| (text.as_str(), *role)).collect::<Vec<_>>());
    }
    table.render()
}

fn phase_role(row: &Row) -> Role {
    match row.phase {
        Phase::Ready => Role::Good,
        Phase::Pending if row.is_stuck() => Role::Bad,
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
