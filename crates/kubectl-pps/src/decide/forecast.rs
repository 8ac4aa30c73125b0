//! `simulate`: what would happen to Pods if nodes were drained or lost, or an object changed.
//!
//! The cluster as it was read becomes a scenario of `pps_simulation`, in which the policy's own code decides.
//! The namespaces are simulated one after the other: the Pods of all others take room where they are, or
//! where they would be.

mod answer;
mod question;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pps_core::TargetReference;
use pps_scheduler::ExclusionKind;
use pps_simulation::{Limits, Severity, Source, run_live};
use serde::Serialize;

pub use self::question::{Question, reference};
use super::command_line::portions;
use super::move_pod::WayOut;
use crate::decide::command_line::CommandLine;
use crate::snapshot::{Index, Node, Pod, Resource, Scope, Snapshot, Unread, Workload, WorkloadKey};
use crate::{Failure, Outcome};

/// What would happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Forecast {
    pub question: Question,
    /// The Pods that something would happen to, or that wait already, by namespace and name.
    pub pods: Vec<PodForecast>,
    /// Rollouts that would not reach all Pods.
    pub stopped_rollouts: Vec<StoppedRollout>,
    pub forgotten: Vec<Forgotten>,
    /// Pods that would lose their node and are not simulated.
    pub not_simulated: Vec<Displaced>,
    /// What lets Pods start that would wait because of a recorded state.
    pub advice: Vec<Step>,
    /// What the user should know beside the answer.
    pub notes: Vec<Note>,
    /// The lists that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// Whether the answer is incomplete because of that.
    pub incomplete: bool,
}

/// A rollout that would stop at a Pod that does not become Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct StoppedRollout {
    pub namespace: String,
    pub workload: String,
    pub at: String,
    /// The Pods that keep their former template, in the order in which the rollout would reach them.
    pub not_reached: Vec<String>,
}

/// What a user can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Step {
    Cordon {
        nodes: Vec<String>,
    },
    Move {
        namespace: String,
        pods: Vec<String>,
        flags: String,
    },
    /// Have Pods created again without the state that was injected, which is no longer recorded.
    Delete {
        namespace: String,
        pods: Vec<String>,
    },
}

/// What would happen to one Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct PodForecast {
    pub namespace: String,
    pub workload: String,
    pub pod: String,
    /// The node that it is on now.
    pub node_now: Option<String>,
    pub then: Then,
    /// Whether it is so now: nothing changes for it, and it does not run.
    pub already: bool,
    /// The node that it would be on; one of `may_land_on`.
    pub node_then: Option<String>,
    /// The scheduler would take one of these nodes.
    pub may_land_on: Vec<String>,
    /// All other nodes that could take it. Empty unless it would run.
    pub others: Vec<String>,
    /// The node that is recorded of it now.
    pub recorded_node: Option<String>,
    /// Whether it would have its recorded state. None if nothing was recorded.
    pub as_recorded: Option<bool>,
    pub why: Why,
    /// Why it could not run on other nodes, most frequent first. Empty unless it would be Pending.
    pub excluded_by: Vec<Reason>,
    /// The nodes that it could have if nothing were recorded of it. Empty unless it would be Pending.
    pub without_its_state: Vec<String>,
    /// The PersistentPodState that governs its workload.
    #[serde(skip)]
    pub pps: Option<String>,
    /// What the simulation leaves out of the Pod's requirements, in the scheduler's words.
    pub caveats: Vec<String>,
}

/// How a Pod would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Then {
    Running,
    Pending,
    Refused,
    /// It waits for another Pod of its workload before it is created.
    NotCreated,
    NotEvicted,
    /// Its workload no longer wants it.
    #[default]
    Removed,
}

/// Why a Pod would be how it would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Why {
    /// It has its recorded values: `zone=a`.
    AsRecorded(Vec<String>),
    /// It could not have its recorded node, which something excludes.
    NotAsRecorded {
        node: String,
        /// What excludes it; none if it does not exist or others are better.
        because: Option<String>,
    },
    /// It is Pending now, and gets a node.
    GetsNode,
    NotRecorded,
    New,
    /// All nodes are excluded: `excluded_by` says by what.
    Excluded {
        /// Whether the state that excludes nodes was injected and is no longer recorded.
        by_former_state: bool,
    },
    /// What the simulation says of a Pod without a node.
    Waits(String),
    /// The policy's or the API server's message.
    Refused(String),
    /// What keeps it from being evicted.
    Protected(String),
    WaitsForOther,
    /// Its workload no longer wants it.
    #[default]
    Unwanted,
}

/// A reason that excludes some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Reason {
    /// In the scheduler's words, without the name of a node.
    pub text: String,
    pub what: ExclusionKind,
    /// Whether the Pod has the requirement from its recorded state.
    pub from_pps: bool,
    /// How many nodes are excluded by it first.
    pub nodes: usize,
    /// Some of them.
    pub names: Vec<String>,
}

/// Recorded states that would be dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Forgotten {
    pub namespace: String,
    pub pps: String,
    pub pods: Vec<String>,
    /// Whether they are dropped at once, since the workload no longer wants the Pods; else after the grace
    /// period for nodes.
    pub unwanted: bool,
}

/// A Pod that would lose its node, and that is not simulated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Displaced {
    pub namespace: String,
    pub pod: String,
    pub node: String,
    /// Its controller: `ReplicaSet/web-5d4`.
    pub owner: Option<String>,
    /// Whether a PersistentPodState is about its controller.
    pub has_pps: bool,
}

/// What a user should know beside the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Note {
    /// These nodes do not exist any more, and Pods are still bound to them.
    NodesGone(Vec<String>),
    NotSimulated {
        kind: String,
        name: String,
    },
    /// Of several namespaces that lack room, another one may get it.
    OneAfterTheOther,
    /// Pods of StatefulSets in namespaces that were not asked about lose their nodes.
    OtherNamespaces {
        pods: usize,
        namespaces: Vec<String>,
    },
    /// Pods are being created or replaced now, with or without the question.
    Anyway(Vec<String>),
    /// An object is not simulated, or not completely.
    Problem {
        kind: String,
        name: String,
        message: String,
    },
    /// A warning of the policy or the sidecar about an object.
    Warning {
        object: String,
        text: String,
    },
    /// The file's object does not exist yet.
    Created(TargetReference),
    /// Fields that the file does not set for an object stay.
    KeepsFields(TargetReference),
    /// There is no such StatefulSet to be restarted.
    NothingToRestart(String),
    /// The StatefulSet replaces no Pod by itself.
    OnDelete(String),
}

impl Forecast {
    /// Not well if a Pod would have no node that has one now, or would be refused or stay where it must go.
    pub fn outcome(&self) -> Outcome {
        let is_well = self.pods.iter().all(|pod| matches!(pod.then, Then::Running | Then::Removed))
            && self.stopped_rollouts.is_empty();
        match (is_well, self.incomplete) {
            (false, _) => Outcome::NotWell,
            (true, true) => Outcome::Incomplete,
            (true, false) => Outcome::Well,
        }
    }
}

/// Answers a question. `workload` restricts the answer to the Pods of these workloads.
///
/// # Errors
///
/// If the question names what does not exist, the API server would refuse a change, or nodes could not be
/// read.
pub fn forecast(
    snapshot: &Snapshot,
    question: &Question,
    workload: Option<&[WorkloadKey]>,
    commands: &CommandLine,
) -> Result<Forecast, Failure> {
    let Some(nodes) = &snapshot.nodes else {
        let why =
            snapshot.unread(Resource::Nodes).map_or_else(|| "they were not read".into(), ToString::to_string);
        return Err(Failure::Unreadable(format!("a forecast needs the nodes: {why}")));
    };
    let (count, most) = (nodes.len(), Limits::CLUSTER.nodes);
    if count > most {
        return Err(Failure::Refused(format!("the cluster has {count} nodes: at most {most} are simulated")));
    }
    snapshot.require(Resource::PersistentPodStates)?;
    snapshot.require(Resource::Pods)?;
    snapshot.require_workloads()?;
    question.check(snapshot, nodes, commands)?;
    let mut forecast = Forecast {
        question: question.clone(),
        pods: Vec::new(),
        stopped_rollouts: Vec::new(),
        forgotten: Vec::new(),
        not_simulated: Vec::new(),
        advice: Vec::new(),
        notes: Vec::new(),
        unread: snapshot.unread.clone(),
        incomplete: snapshot.unread.iter().any(|unread| !is_optional(unread.resource)),
    };
    let gone = question.gone_nodes(nodes);
    if !gone.is_empty() {
        forecast.notes.push(Note::NodesGone(gone.clone()));
    }
    let index = Index::of(snapshot);
    let namespaces = namespaces(snapshot, question, workload);
    for namespace in &namespaces {
        let before = (forecast.notes.len(), forecast.forgotten.len());
        let changes = question.changes(snapshot, namespace);
        forecast.notes.extend(changes.notes);
        let (scenario, pods) =
            question.scenario(snapshot, namespace, changes.actions, &gone, &placed(&forecast));
        let result = run_live(&scenario, &pods, &Limits::CLUSTER);
        let is_refused = |source: &Source| {
            result.steps.is_empty() || matches!(source, Source::Action { index } if *index > 0)
        };
        let mut errors = result.problems.iter().filter(|problem| problem.severity == Severity::Error);
        if let Some(refused) = errors.find(|problem| is_refused(&problem.source)) {
            return Err(Failure::Refused(refused.message.clone()));
        }
        let governing = answer::governing(&index, snapshot, namespace);
        let asked =
            answer::Asked { snapshot, namespace, scenario: &scenario, pods: &pods, governing: &governing };
        asked.add(&mut forecast, &result);
        if workload.is_some_and(|only| !only.iter().any(|key| key.namespace == *namespace)) {
            forecast.notes.truncate(before.0);
            forecast.forgotten.truncate(before.1);
        }
    }
    if let Some(only) = workload {
        let is_meant = |namespace: &str, name: &str| {
            only.iter().any(|key| key.namespace == namespace && key.name == name)
        };
        forecast.pods.retain(|one| is_meant(&one.namespace, &one.workload));
        forecast.stopped_rollouts.retain(|one| is_meant(&one.namespace, &one.workload));
        let unknown = only.iter().filter(|key| key.kind != "StatefulSet");
        forecast
            .notes
            .extend(unknown.map(|key| Note::NotSimulated { kind: key.kind.clone(), name: key.name.clone() }));
    } else {
        add_other_namespaces(&mut forecast, snapshot, question);
    }
    if namespaces.len() > 1 {
        forecast.notes.push(Note::OneAfterTheOther);
    }
    forecast.pods.sort_by(|one, other| order(one).cmp(&order(other)));
    forecast.not_simulated.sort();
    forecast.not_simulated.dedup();
    forecast.advice = advice(snapshot, question, &forecast.pods);
    let mut kept: Vec<Note> = Vec::new();
    for note in std::mem::take(&mut forecast.notes) {
        if !kept.contains(&note) {
            kept.push(note);
        }
    }
    forecast.notes = kept;
    Ok(forecast)
}

/// Whether a forecast is complete enough without these objects.
fn is_optional(resource: Resource) -> bool {
    !matches!(resource, Resource::Nodes | Resource::StatefulSets | Resource::PersistentPodStates)
}

/// Where the Pods of the namespaces that are simulated already would be: they take room there, and nowhere
/// else.
fn placed(forecast: &Forecast) -> question::Placed {
    let key = |pod: &PodForecast| (pod.namespace.clone(), pod.pod.clone());
    forecast.pods.iter().map(|pod| (key(pod), pod.node_then.clone())).collect()
}

/// A node that is drained or lost is that of all namespaces: an answer without any Pod would otherwise be
/// taken for an all-clear.
fn add_other_namespaces(forecast: &mut Forecast, snapshot: &Snapshot, question: &Question) {
    let is_of_set =
        |owner: &Option<String>| owner.as_ref().is_some_and(|owner| owner.starts_with("StatefulSet/"));
    forecast.not_simulated.retain(|pod| snapshot.scope.contains(&pod.namespace) || !is_of_set(&pod.owner));
    let is_other = |pod: &&Pod| {
        !snapshot.scope.contains(pod.namespace())
            && pod.node().is_some_and(|node| question.concerns(snapshot, node))
            && pod.owner().is_some_and(|(owner, _)| owner.kind == "StatefulSet")
    };
    let others: Vec<&str> = snapshot.pods.iter().filter(is_other).map(Pod::namespace).collect();
    if !others.is_empty() {
        let namespaces =
            others.iter().copied().collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect();
        forecast.notes.push(Note::OtherNamespaces { pods: others.len(), namespaces });
        forecast.incomplete |= forecast.pods.is_empty();
    }
}

fn order(pod: &PodForecast) -> (&str, &str, u64, &str) {
    let ordinal = pps_recorder::workload::ordinal(&pod.workload, &pod.pod).unwrap_or(u64::MAX);
    (&pod.namespace, &pod.workload, ordinal, &pod.pod)
}

/// The namespaces in which something may happen.
fn namespaces(
    snapshot: &Snapshot,
    question: &Question,
    workload: Option<&[WorkloadKey]>,
) -> BTreeSet<String> {
    // The Pods of the other namespaces take room, or leave it, also if only some workloads are asked about.
    let mut namespaces: BTreeSet<String> =
        workload.into_iter().flatten().map(|key| key.namespace.clone()).collect();
    let Scope::All = &snapshot.scope else {
        namespaces.extend(snapshot.scope.namespace().map(str::to_owned));
        return namespaces;
    };
    let with_workload: BTreeSet<&str> = snapshot.workloads.iter().map(Workload::namespace).collect();
    // A Pod without a node may wait for one of the nodes.
    let asks_about_nodes = !matches!(question, Question::Spec(_));
    let is_touched = |pod: &&Pod| match pod.node() {
        Some(node) => question.concerns(snapshot, node),
        None => asks_about_nodes && !pod.is_finished(),
    };
    let touched = snapshot.pods.iter().filter(is_touched).map(Pod::namespace);
    namespaces.extend(touched.filter(|one| with_workload.contains(one)).map(str::to_owned));
    namespaces.extend(question.namespaces());
    namespaces
}

/// What lets Pods start that only a recorded or injected state would keep Pending. Pods that cannot be
/// evicted while these wait are moved with them.
fn advice(snapshot: &Snapshot, question: &Question, pods: &[PodForecast]) -> Vec<Step> {
    let is_kept = |pod: &&PodForecast| pod.then == Then::Pending && !pod.without_its_state.is_empty();
    let is_former = |pod: &PodForecast| pod.why == Why::Excluded { by_former_state: true };
    let (former, held): (Vec<&PodForecast>, Vec<&PodForecast>) =
        pods.iter().filter(is_kept).partition(|pod| is_former(pod));
    let mut steps = Vec::new();
    if !held.is_empty() {
        // A Pod that is moved away from a node that takes Pods may start there again.
        let is_open = |node: &&String| snapshot.node(node).is_some_and(|node| !Node::is_cordoned(node));
        let nodes: Vec<String> = question.nodes().iter().filter(is_open).cloned().collect();
        if !nodes.is_empty() {
            steps.push(Step::Cordon { nodes });
        }
        let blocked = pods.iter().filter(|pod| pod.then == Then::NotEvicted).filter_map(|pod| {
            let is_same =
                |held: &&&PodForecast| (&held.namespace, &held.workload) == (&pod.namespace, &pod.workload);
            Some((pod, *held.iter().find(is_same)?))
        });
        let mut groups: BTreeMap<(String, String), Vec<&PodForecast>> = BTreeMap::new();
        for (pod, like) in held.iter().map(|pod| (*pod, *pod)).chain(blocked) {
            let flags = move_flags(snapshot, pod, &like.without_its_state);
            groups.entry((pod.namespace.clone(), flags)).or_default().push(pod);
        }
        for ((namespace, flags), mut pods) in groups {
            pods.sort_by(|one, other| order(one).cmp(&order(other)));
            let step = |pods| Step::Move { namespace: namespace.clone(), pods, flags: flags.clone() };
            steps.extend(in_portions(&pods).map(step));
        }
    }
    let mut namespaces: BTreeMap<&String, Vec<&PodForecast>> = BTreeMap::new();
    for pod in former {
        namespaces.entry(&pod.namespace).or_default().push(pod);
    }
    for (namespace, pods) in namespaces {
        steps.extend(in_portions(&pods).map(|pods| Step::Delete { namespace: namespace.clone(), pods }));
    }
    steps
}

fn in_portions(pods: &[&PodForecast]) -> impl Iterator<Item = Vec<String>> {
    let names: Vec<&str> = pods.iter().map(|pod| pod.pod.as_str()).collect();
    let portions: Vec<Vec<String>> =
        portions(&names).into_iter().map(|names| names.into_iter().map(str::to_owned).collect()).collect();
    portions.into_iter()
}

/// The flags of the move that lets a Pod start on one of these nodes.
fn move_flags(snapshot: &Snapshot, pod: &PodForecast, nodes: &[String]) -> String {
    let way_out = || {
        let pps = snapshot.pps(&pod.namespace, pod.pps.as_deref()?)?;
        let nodes = nodes.iter().filter_map(|node| snapshot.node(node));
        WayOut::of(&pps.spec().ok()?, &pps.state(&pod.pod).ok()??, nodes)
    };
    format!("--anywhere{}", way_out().map(|way_out| way_out.flags).unwrap_or_default())
}
