//! `simulate`: what would happen to Pods if nodes were drained or lost, or an object changed.
//!
//! The cluster as it was read becomes a scenario of `pps_simulation`, in which the policy's own code decides. The
//! namespaces are simulated one after the other: the Pods of all others take room where they are, or where they would be.

mod advice;
mod answer;
mod question;
mod reasons;
mod rollout;
mod scenario;
#[cfg(test)]
mod tests;
mod why;

use std::collections::BTreeSet;

use pps_simulation::{Limits, Severity, Source, run_live};
use serde::Serialize;

use self::answer::Asked;
pub use self::question::Question;
use super::hand::Hand;
use super::names::list;
use super::unread::{PPS, require, require_workloads};
use crate::snapshot::{Index, KRUISE_WORKLOADS, Scope, Snapshot, WorkloadKey};
use crate::{Failure, Outcome};

/// What would happen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The question in words: `node-1 is drained`.
    pub question: String,
    /// The Pods that something would happen to, by namespace and name.
    pub pods: Vec<PodForecast>,
    /// Rollouts that would not reach all Pods.
    pub stopped_rollouts: Vec<StoppedRollout>,
    /// The recorded states that would be dropped after the grace period for missing nodes.
    pub forgotten: Vec<Forgotten>,
    /// Pods that would lose their node and are not simulated.
    pub not_simulated: Vec<Displaced>,
    /// Whether nodes are drained: `kubectl drain` refuses some Pods.
    #[serde(skip)]
    pub is_drain: bool,
    /// What to do about it, step by step.
    pub advice: Vec<Advice>,
    /// What else one should know.
    pub notes: Vec<String>,
    /// What could not be read.
    pub unseen: Vec<String>,
    /// Whether the answer is incomplete because of it.
    pub incomplete: bool,
}

/// A rollout that would stop at a Pod that does not become Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoppedRollout {
    /// The namespace.
    pub namespace: String,
    /// The StatefulSet.
    pub workload: String,
    /// The Pod at which it stops.
    pub at: String,
    /// The Pods that keep their former template, in the order in which the rollout would reach them.
    pub not_reached: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// What it is for.
    pub text: String,
    /// The command.
    pub command: String,
}

/// What would happen to one Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodForecast {
    /// Its namespace.
    pub namespace: String,
    /// The name of its workload.
    pub workload: String,
    /// Its name.
    pub pod: String,
    /// The node that it is on now.
    pub node_now: Option<String>,
    /// How it would be.
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
    /// Whether it would have what was recorded. None if nothing was.
    pub as_recorded: Option<bool>,
    /// Why, in words.
    pub why: String,
    /// Why it could not run on other nodes, most frequent first. Empty unless it would be Pending.
    pub excluded_by: Vec<reasons::Reason>,
    /// The nodes that it could have if nothing were recorded of it. Empty unless it would be Pending.
    pub without_its_state: Vec<String>,
    /// Whether it is Pending now for what was injected into it, and nothing is recorded of it any more.
    #[serde(skip)]
    pub is_injected_only: bool,
    /// The PersistentPodState that governs its workload.
    #[serde(skip)]
    pub pps: Option<String>,
    /// What the simulation leaves out of what the Pod asks for.
    pub caveats: Vec<String>,
}

/// How a Pod would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    /// It runs.
    Running,
    /// No node can take it.
    Pending,
    /// Its creation is refused.
    Refused,
    /// It waits for another Pod of its workload before it is created.
    NotCreated,
    /// It cannot be evicted.
    NotEvicted,
    /// Its workload no longer wants it.
    #[default]
    Removed,
}

/// Recorded states that would be dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forgotten {
    /// The namespace.
    pub namespace: String,
    /// The PersistentPodState.
    pub pps: String,
    /// The Pods.
    pub pods: Vec<String>,
    /// Whether they are dropped at once, since the workload no longer wants the Pods; else after the grace period for nodes.
    pub unwanted: bool,
}

/// A Pod that would lose its node, and that is not simulated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Displaced {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Its controller: `ReplicaSet/web-5d4`.
    pub owner: Option<String>,
    /// Whether a PersistentPodState is about its controller.
    pub has_pps: bool,
    /// Whether a note says it: the Pod is of a namespace that was not asked for.
    #[serde(skip)]
    pub is_noted: bool,
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
/// If the question names what does not exist, the API server would refuse a change, or nodes could not be read.
pub fn forecast(
    snapshot: &Snapshot,
    question: &Question,
    workload: Option<&[WorkloadKey]>,
    hand: &Hand,
) -> Result<Forecast, Failure> {
    let Some(nodes) = &snapshot.nodes else {
        let why =
            snapshot.unread("nodes").map_or_else(|| "nodes were not read".to_owned(), ToString::to_string);
        return Err(Failure::Unreadable(format!("a forecast needs the nodes: {why}")));
    };
    let most = Limits::CLUSTER.nodes;
    if nodes.len() > most {
        let count = nodes.len();
        return Err(Failure::Refused(format!("the cluster has {count} nodes: at most {most} are simulated")));
    }
    require(snapshot, PPS)?;
    require(snapshot, "pods")?;
    require_workloads(snapshot)?;
    question.check(snapshot, nodes, hand)?;
    let is_drain = matches!(question, Question::Drain(_));
    let mut forecast = Forecast { question: question.in_words(), is_drain, ..Forecast::default() };
    let gone = question.gone_nodes(nodes);
    if !gone.is_empty() {
        let (verb, it) = if gone.len() == 1 { ("does", "it") } else { ("do", "them") };
        forecast.notes.push(format!(
            "{} {verb} not exist any more: Kubernetes deletes the Pods that are still bound to {it}, after about a minute",
            list(&gone, "and")
        ));
    }
    let index = Index::of(snapshot);
    let namespaces = namespaces(snapshot, question, workload);
    for namespace in &namespaces {
        let is_meant = workload.is_none_or(|only| only.iter().any(|key| key.namespace == *namespace));
        let said = (forecast.notes.len(), forecast.forgotten.len());
        let changes = question.changes(snapshot, namespace);
        forecast.notes.extend(changes.notes);
        let (mut scenario, pods) =
            scenario::of(snapshot, namespace, changes.actions, &gone, &placed(&forecast));
        let mut result = run_live(&scenario, &pods, &Limits::CLUSTER);
        // What a Pod without a node gets before the event, it would not have got.
        let governing = answer::governing(&index, snapshot, namespace);
        let is_at_once = answer::is_placed_in_vain(snapshot, namespace, &governing, &result)
            && scenario::shut(&mut scenario, |node| question.concerns(snapshot, node));
        if is_at_once {
            result = run_live(&scenario, &pods, &Limits::CLUSTER);
        }
        if let Some(refused) = result.problems.iter().find(|problem| {
            problem.severity == Severity::Error
                && (result.steps.is_empty()
                    || matches!(problem.source, Source::Action { index } if index > 0))
        }) {
            return Err(Failure::Refused(refused.message.clone()));
        }
        let asked = Asked { scenario: &scenario, pods: &pods, governing: &governing, is_at_once };
        answer::add(&mut forecast, snapshot, namespace, &asked, &result);
        if !is_meant {
            forecast.notes.truncate(said.0);
            forecast.forgotten.truncate(said.1);
        }
    }
    if let Some(only) = workload {
        let is_meant = |namespace: &str, name: &str| {
            only.iter().any(|key| key.namespace == namespace && key.name == name)
        };
        forecast.pods.retain(|one| is_meant(&one.namespace, &one.workload));
        forecast.stopped_rollouts.retain(|one| is_meant(&one.namespace, &one.workload));
        let unknown = only.iter().filter(|key| key.kind != "StatefulSet");
        let note = |key: &WorkloadKey| format!("{}/{}: this kind is not simulated", key.kind, key.name);
        forecast.notes.extend(unknown.map(note));
    }
    if namespaces.len() > 1 {
        forecast.notes.push(
            "the namespaces are simulated one after the other; if room is short, the Pods of another namespace may get it"
                .into(),
        );
    }
    if workload.is_none() {
        add_other_namespaces(&mut forecast, snapshot, question);
    }
    add_unseen(&mut forecast, snapshot);
    forecast.pods.sort_by(|one, other| order(one).cmp(&order(other)));
    forecast.not_simulated.sort();
    forecast.not_simulated.dedup();
    forecast.advice = advice::advice(snapshot, question, &forecast.pods, hand);
    let mut said = BTreeSet::new();
    forecast.notes.retain(|note| said.insert(note.clone()));
    Ok(forecast)
}

/// Where the Pods of the namespaces that are simulated already would be: they take room there, and nowhere else.
fn placed(forecast: &Forecast) -> scenario::Placed {
    let key = |pod: &PodForecast| (pod.namespace.clone(), pod.pod.clone());
    forecast.pods.iter().map(|pod| (key(pod), pod.node_then.clone())).collect()
}

/// Says that Pods of other namespaces lose their nodes, too: a node that is drained or lost is that of all namespaces. An
/// answer without any Pod would otherwise be taken for an all-clear.
fn add_other_namespaces(forecast: &mut Forecast, snapshot: &Snapshot, question: &Question) {
    for pod in &mut forecast.not_simulated {
        let is_of_set = pod.owner.as_ref().is_some_and(|owner| owner.starts_with("StatefulSet/"));
        pod.is_noted = is_of_set && !snapshot.scope.contains(&pod.namespace);
    }
    let is_other = |pod: &&crate::snapshot::Pod| {
        !snapshot.scope.contains(pod.namespace())
            && pod.node().is_some_and(|node| question.concerns(snapshot, node))
            && pod.owner().is_some_and(|(owner, _)| owner.kind == "StatefulSet")
    };
    let others: Vec<&str> =
        snapshot.pods.iter().filter(is_other).map(crate::snapshot::Pod::namespace).collect();
    if others.is_empty() {
        return;
    }
    let namespaces: BTreeSet<&str> = others.iter().copied().collect();
    let names: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
    forecast.notes.push(format!(
        "{} of StatefulSets in other namespaces would lose their nodes as well ({}): -A forecasts them",
        if others.len() == 1 { "1 Pod".to_owned() } else { format!("{} Pods", others.len()) },
        list(&names, "and"),
    ));
    forecast.incomplete |= forecast.pods.is_empty();
}

fn order(pod: &PodForecast) -> (&str, &str, u64, &str) {
    let ordinal = pps_core::workload::ordinal(&pod.workload, &pod.pod).unwrap_or(u64::MAX);
    (&pod.namespace, &pod.workload, ordinal, &pod.pod)
}

/// The namespaces in which something may happen.
fn namespaces(
    snapshot: &Snapshot,
    question: &Question,
    workload: Option<&[WorkloadKey]>,
) -> BTreeSet<String> {
    // The Pods of the other namespaces take room, or leave it, also if only some workloads are asked about.
    let meant = workload.into_iter().flatten().map(|key| key.namespace.clone());
    let mut namespaces = match &snapshot.scope {
        Scope::Namespace(namespace) => BTreeSet::from([namespace.clone()]),
        Scope::All => {
            let with_workload: BTreeSet<&str> =
                snapshot.workloads.iter().map(crate::snapshot::Workload::namespace).collect();
            let named = question.namespaces();
            // A Pod without a node may wait for one of them.
            let asks_about_nodes = !matches!(question, Question::Spec(_));
            let touched = snapshot
                .pods
                .iter()
                .filter(|pod| match pod.node() {
                    Some(node) => question.concerns(snapshot, node),
                    None => asks_about_nodes && !pod.is_finished(),
                })
                .map(crate::snapshot::Pod::namespace)
                .filter(|namespace| with_workload.contains(namespace));
            touched.map(str::to_owned).chain(named).collect()
        }
    };
    namespaces.extend(meant);
    namespaces
}

/// Says what could not be read, and what that means here.
fn add_unseen(forecast: &mut Forecast, snapshot: &Snapshot) {
    for unseen in &snapshot.unseen {
        let effect = match unseen.resource() {
            "pods" => "so Pods of other namespaces take no room in this forecast",
            "persistentvolumes" | "persistentvolumeclaims" => "so volumes are not considered",
            "poddisruptionbudgets.policy" => "so PodDisruptionBudgets are not considered",
            KRUISE_WORKLOADS => "so OpenKruise's StatefulSets are not simulated",
            _ => {
                forecast.incomplete = true;
                "so the forecast is incomplete"
            }
        };
        forecast.unseen.push(format!("{unseen}, {effect}"));
    }
}
