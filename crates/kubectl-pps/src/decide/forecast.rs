//! `simulate`: what would happen to Pods if nodes were drained or lost.
//!
//! The cluster as it was read becomes a scenario of `pps_simulation`, in which the policy's own
//! code decides. The namespaces are simulated one after the other: the Pods of all others take room
//! where they are, or where they would be.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::pps::{API_VERSION, KIND, NodeDeletionPolicy, short};
use pps_core::succession::name_order;
use pps_scheduler::{Exclusion, Verdict};
use pps_simulation::{
    Action, Limits, Pending, Phase, PodView, Problem, Scenario, Severity, Source, run_live,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::way_out::WayOut;
use crate::snapshot::{Index, Node, Pod, Pps, Resource, Snapshot, Unread, Workload, WorkloadKey};
use crate::{Failure, Outcome};

/// What happens to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    WithoutNodes(BTreeSet<String>),
    Drain(BTreeSet<String>),
    ZoneDown(String),
}

/// What would happen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The Pods that something would happen to, or that have no node already, by namespace and
    /// name.
    pub pods: Vec<PodForecast>,
    /// Pods that would lose their node, and whose controller is not simulated: `NAMESPACE/NAME`.
    pub not_simulated: Vec<String>,
    /// Namespaces that were not asked about, and whose StatefulSets would lose Pods.
    pub other_namespaces: BTreeSet<String>,
    /// What lets Pods start that would wait because of a recorded state.
    pub advice: Vec<Advice>,
    /// Objects that are not simulated, or not completely: each with why.
    pub problems: Vec<(String, String)>,
    /// Namespaces out of scope: recorded states do not count there.
    pub not_enabled: BTreeSet<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    pub incomplete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase")]
pub enum Advice {
    Cordon {
        nodes: Vec<String>,
    },
    Move {
        namespace: String,
        pods: Vec<String>,
        flags: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodForecast {
    pub namespace: String,
    pub workload: String,
    pub pod: String,
    pub node_now: Option<String>,
    pub then: Fate,
    /// Whether the Pod has no node now, either.
    pub already: bool,
    /// The Pod's node afterwards; one of `may_land_on`.
    pub node_then: Option<String>,
    /// The nodes among which the scheduler would choose.
    pub may_land_on: Vec<String>,
    pub recorded_node: Option<String>,
    /// Whether the Pod would have its recorded state. None for a Pod that would not run or has no
    /// recorded state.
    pub as_recorded: Option<bool>,
    pub why: Why,
    /// The nodes that cannot take a Pod that would be Pending.
    pub excluded: Vec<Verdict>,
    /// The nodes that could take a Pod that would be Pending, if it had no recorded state.
    pub without_its_state: Vec<String>,
    /// Whether `nodeDeletionPolicy: Forget` drops its recorded state after the grace period for
    /// nodes.
    pub forgotten: bool,
    /// What the simulation leaves out of the Pod's requirements, in the scheduler's words.
    pub caveats: Vec<String>,
}

/// What would become of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    Pending,
    Refused,
    /// It waits for another Pod of its workload before it is created.
    NotCreated,
    NotEvicted,
    Running,
}

/// Why a Pod would be how it would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// It has its recorded values: `zone=a`.
    AsRecorded(Vec<String>),
    /// `because` is what excludes the recorded node; none if it does not exist or others are
    /// better.
    NotAsRecorded {
        node: String,
        because: Option<String>,
    },
    NotRecorded,
    /// All nodes are excluded.
    Excluded,
    /// What the simulation says of a Pod without a node.
    Waits(String),
    /// The policy's or the API server's message.
    Refused(String),
    /// What keeps it from being evicted.
    Protected(String),
    WaitsForOther,
}

impl Forecast {
    /// Not well if a Pod would have no node, would be refused, or would stay where it must go.
    pub fn outcome(&self) -> Outcome {
        match self.pods.iter().all(|pod| pod.then == Fate::Running) {
            false => Outcome::NotWell,
            true if self.incomplete => Outcome::Incomplete,
            true => Outcome::Well,
        }
    }
}

impl Question {
    /// The nodes that it is about.
    fn nodes(&self, all: &BTreeMap<String, Node>) -> Result<BTreeSet<String>, Failure> {
        let zone = match self {
            Self::WithoutNodes(nodes) | Self::Drain(nodes) => {
                let missing = nodes.iter().find(|node| !all.contains_key(*node));
                return missing.map_or_else(
                    || Ok(nodes.clone()),
                    |node| Err(Failure::NoNode(node.clone())),
                );
            }
            Self::ZoneDown(zone) => zone,
        };
        let nodes = all
            .values()
            .filter(|node| node.zone() == Some(zone))
            .map(|node| node.name().to_owned());
        let nodes: BTreeSet<String> = nodes.collect();
        if nodes.is_empty() {
            let known: BTreeSet<&str> = all.values().filter_map(Node::zone).collect();
            let known = known.into_iter().take(10).map(str::to_owned).collect();
            return Err(Failure::NoZone {
                zone: zone.clone(),
                known,
            });
        }
        Ok(nodes)
    }
}

/// Answers a question.
pub fn forecast(snapshot: &Snapshot, question: &Question) -> Result<Forecast, Failure> {
    for resource in [
        Resource::Nodes,
        Resource::PersistentPodStates,
        Resource::Pods,
    ] {
        snapshot.require(resource)?;
    }
    snapshot.require_workloads()?;
    let none = BTreeMap::new();
    let all = snapshot.nodes.as_ref().unwrap_or(&none);
    let (count, most) = (all.len(), Limits::CLUSTER.nodes);
    if count > most {
        return Err(Failure::TooManyNodes { count, most });
    }
    let nodes = &question.nodes(all)?;
    let index = &Index::of(snapshot);
    // Changes that happen in any case come first.
    let mut actions = vec![Action::RollOut {}];
    let mut lost = &BTreeSet::new();
    if let Question::Drain(_) = question {
        actions.extend(
            nodes
                .iter()
                .map(|node| Action::Drain { node: node.clone() }),
        );
    } else {
        actions.push(Action::LoseNodes {
            nodes: nodes.iter().cloned().collect(),
        });
        lost = nodes;
    }
    let unread: Vec<Unread> = snapshot.relevant_unread().cloned().collect();
    // The Pods of other namespaces only take room, and a claim whose volume is not known has a
    // caveat.
    let may_lack = [Resource::Pods, Resource::PersistentVolumes];
    let incomplete = unread.iter().any(|one| !may_lack.contains(&one.resource));
    let mut forecast = Forecast {
        unread,
        incomplete,
        ..Forecast::default()
    };
    for namespace in namespaces(snapshot, nodes) {
        let (scenario, pods) =
            scenario(snapshot, namespace, nodes, actions.clone(), &forecast.pods);
        let result = run_live(&scenario, &pods, &Limits::CLUSTER);
        let is_fatal = |problem: &&Problem| {
            // The first action fails where there is no StatefulSet.
            let is_of_action = matches!(problem.source, Source::Action { index: 1.. });
            problem.severity == Severity::Error && (result.steps.is_empty() || is_of_action)
        };
        if let Some(fatal) = result.problems.iter().find(is_fatal) {
            return Err(Failure::Refused(fatal.message.clone()));
        }
        let Some(last) = result.steps.last() else {
            continue;
        };
        let simulated = Simulated {
            snapshot,
            namespace,
            index,
            lost,
        };
        forecast.pods.extend(
            last.world
                .pods
                .iter()
                .filter_map(|view| simulated.describe(view)),
        );
        let objects: Vec<&Value> = scenario
            .objects
            .iter()
            .chain(pods.iter().map(Arc::as_ref))
            .collect();
        simulated.add_problems(&mut forecast, &result.problems, &objects);
    }
    forecast.add_others(snapshot, index, nodes);
    forecast.pods.sort_by(|one, other| {
        (&one.namespace, name_order(&one.pod)).cmp(&(&other.namespace, name_order(&other.pod)))
    });
    forecast.advice = advice(snapshot, index, question, &forecast.pods);
    Ok(forecast)
}

/// The namespaces in which something may happen. A Pod without a node may wait for one of these
/// nodes.
fn namespaces<'a>(snapshot: &'a Snapshot, nodes: &BTreeSet<String>) -> BTreeSet<&'a str> {
    if let Some(own) = snapshot.namespaces.one() {
        return [own].into();
    }
    let with_workloads: BTreeSet<&str> =
        snapshot.workloads.iter().map(Workload::namespace).collect();
    let is_concerned = |pod: &&Pod| {
        pod.node()
            .map_or(!pod.is_finished(), |node| nodes.contains(node))
    };
    let concerned = snapshot
        .pods
        .iter()
        .filter(is_concerned)
        .map(Pod::namespace);
    concerned
        .filter(|namespace| with_workloads.contains(namespace))
        .collect()
}

/// A scenario of the workloads of one namespace, and the Pods of all namespaces: they take room.
/// `before` are the Pods of the namespaces that were simulated before.
fn scenario(
    snapshot: &Snapshot,
    namespace: &str,
    nodes: &BTreeSet<String>,
    actions: Vec<Action>,
    before: &[PodForecast],
) -> (Scenario, Vec<Arc<Value>>) {
    let is_here = |object: &&Value| object["metadata"]["namespace"] == namespace;
    let all_nodes = snapshot
        .nodes
        .iter()
        .flat_map(BTreeMap::values)
        .map(|node| {
            let mut object = typed(node.object(), "v1", "Node");
            // No Pod starts on these nodes before the event: kubectl, too, cordons all nodes before
            // it drains the first.
            if nodes.contains(node.name()) {
                object["spec"]["unschedulable"] = true.into();
            }
            object
        });
    let workloads = snapshot
        .workloads
        .iter()
        .map(Workload::object)
        .filter(is_here)
        .cloned();
    let pps = snapshot
        .pps
        .iter()
        .filter(|pps| pps.is_enabled())
        .map(Pps::object)
        .filter(is_here);
    let claims = snapshot.claims.iter().filter(is_here);
    let budgets = snapshot.budgets.iter().filter(is_here);
    let objects = all_nodes
        .chain(workloads)
        .chain(pps.map(|object| typed(object, API_VERSION, KIND)))
        .chain(claims.map(|object| typed(object, "v1", "PersistentVolumeClaim")))
        .chain(
            snapshot
                .volumes
                .iter()
                .map(|object| typed(object, "v1", "PersistentVolume")),
        )
        .chain(budgets.map(|object| typed(object, "policy/v1", "PodDisruptionBudget")))
        .collect();
    let places: BTreeMap<(&str, &str), &Option<String>> = before
        .iter()
        .map(|pod| ((pod.namespace.as_str(), pod.pod.as_str()), &pod.node_then))
        .collect();
    let pods = snapshot.pods.iter().filter_map(|pod| {
        let mut shared = Arc::clone(pod.shared());
        if let Some(node) = places.get(&(pod.namespace(), pod.name())) {
            let moved = Arc::make_mut(&mut shared);
            moved["spec"]["nodeName"] = node.as_deref()?.into();
            moved["status"] = json!({"phase": "Running"});
        }
        Some(shared)
    });
    let namespace = namespace.to_owned();
    let scenario = Scenario {
        objects,
        live: true,
        namespace,
        with_pps: true,
        actions,
        ..Scenario::default()
    };
    (scenario, pods.collect())
}

/// The items of a list carry no type.
fn typed(object: &Value, api_version: &str, kind: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields
            .entry("apiVersion")
            .or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    object
}

/// A namespace that was simulated.
#[derive(Clone, Copy)]
struct Simulated<'a> {
    snapshot: &'a Snapshot,
    namespace: &'a str,
    index: &'a Index<'a>,
    lost: &'a BTreeSet<String>,
}

impl Simulated<'_> {
    /// What happens to a Pod; none if it stays where it is.
    fn describe(&self, view: &PodView) -> Option<PodForecast> {
        let node_now = self
            .index
            .pod(self.namespace, &view.name)
            .and_then(Pod::node)
            .map(str::to_owned);
        if view.node.is_some() && view.node == node_now && view.kept_by.is_none() {
            return None;
        }
        let governing = governing(self.snapshot, self.index, self.namespace, &view.workload);
        let recorded_node = governing
            .and_then(|pps| pps.state(&view.name).ok()?)
            .map(|state| state.node_name);
        let forgets = governing
            .and_then(|pps| pps.spec().ok())
            .map(|spec| spec.node_deletion())
            == Some(NodeDeletionPolicy::Forget);
        let (then, why) = match (&view.kept_by, view.phase) {
            (Some(kept_by), _) => (Fate::NotEvicted, Why::Protected(kept_by.clone())),
            (None, Phase::Running) => (Fate::Running, why_there(view)),
            (None, Phase::Pending) => match &view.pending {
                Some(Pending::Excluded) => (Fate::Pending, Why::Excluded),
                why => (
                    Fate::Pending,
                    Why::Waits(why.as_ref().map(ToString::to_string).unwrap_or_default()),
                ),
            },
            (None, Phase::Refused) => {
                let message = view.refusal.as_ref().map(|refusal| refusal.message.clone());
                (Fate::Refused, Why::Refused(message.unwrap_or_default()))
            }
            (None, Phase::NotCreated) => (Fate::NotCreated, Why::WaitsForOther),
        };
        let is_pending = then == Fate::Pending;
        let excluded = view
            .scheduler
            .iter()
            .filter(|verdict| is_pending && !verdict.exclusions.is_empty());
        let is_kept = |verdict: &&Verdict| verdict.exclusions.iter().all(Exclusion::from_pps);
        let without_its_state = excluded
            .clone()
            .filter(is_kept)
            .map(|verdict| verdict.node.clone());
        Some(PodForecast {
            namespace: self.namespace.to_owned(),
            workload: view.workload.clone(),
            pod: view.name.clone(),
            already: then != Fate::Running && node_now.is_none(),
            node_now,
            then,
            node_then: view.node.clone(),
            may_land_on: view.may_land_on.clone(),
            forgotten: is_pending
                && forgets
                && recorded_node
                    .as_ref()
                    .is_some_and(|node| self.lost.contains(node)),
            recorded_node,
            as_recorded: view.came_home.filter(|_| then == Fate::Running),
            why,
            excluded: excluded.cloned().collect(),
            without_its_state: without_its_state.collect(),
            caveats: view.caveats.iter().map(ToString::to_string).collect(),
        })
    }

    fn add_problems(&self, forecast: &mut Forecast, problems: &[Problem], objects: &[&Value]) {
        let is_out = |pps: &Pps| pps.namespace() == self.namespace && !pps.is_enabled();
        if self.snapshot.pps.iter().any(is_out) {
            forecast.not_enabled.insert(self.namespace.to_owned());
        }
        for problem in problems {
            let Source::Objects { object: Some(at) } = problem.source else {
                continue;
            };
            let text = |pointer: &str| {
                objects
                    .get(at)
                    .and_then(|object| object.pointer(pointer)?.as_str())
            };
            let (kind, name) = (
                text("/kind").unwrap_or("Pod"),
                text("/metadata/name").unwrap_or_default(),
            );
            let is_workload =
                |pod: &PodForecast| pod.namespace == self.namespace && pod.workload == name;
            // An object with an error is left out.
            let is_error = problem.severity == Severity::Error;
            if is_error || forecast.pods.iter().any(is_workload) {
                forecast
                    .problems
                    .push((format!("{kind} {name}"), problem.message.clone()));
            }
            forecast.incomplete |= is_error;
        }
    }
}

/// The PersistentPodState that governs a workload. Of two StatefulSets of one name the first is
/// simulated.
fn governing<'a>(
    snapshot: &'a Snapshot,
    index: &Index<'a>,
    namespace: &str,
    name: &str,
) -> Option<&'a Pps> {
    let mut workloads = snapshot.workloads.iter();
    let workload = workloads.find(|one| one.namespace() == namespace && one.name() == name)?;
    let governing = index.governing(&WorkloadKey::of(namespace, &workload.target()));
    governing.filter(|pps| pps.is_enabled())
}

/// Why a Pod runs where it does.
fn why_there(view: &PodView) -> Why {
    let Some(state) = &view.recorded_before else {
        return Why::NotRecorded;
    };
    if view.came_home == Some(true) {
        let values = state.node_topology_labels.iter().chain(&state.annotations);
        return Why::AsRecorded(
            values
                .map(|(key, value)| format!("{}={value}", short(key)))
                .collect(),
        );
    }
    let because = view.kept_away_by.first().map(Exclusion::in_general);
    Why::NotAsRecorded {
        node: state.node_name.clone(),
        because,
    }
}

impl Forecast {
    /// Adds the Pods that lose their node and are not simulated: a user would take an answer
    /// without any Pod for an all-clear.
    fn add_others(&mut self, snapshot: &Snapshot, index: &Index, nodes: &BTreeSet<String>) {
        let leaves =
            |pod: &&Pod| !pod.is_finished() && pod.node().is_some_and(|node| nodes.contains(node));
        for pod in snapshot.pods.iter().filter(leaves) {
            let controller = WorkloadKey::of_pod(pod);
            match controller.as_ref().map(|key| key.kind.as_str()) {
                // These Pods stay with their node.
                Some("DaemonSet" | "Node") => {}
                Some("StatefulSet") if !snapshot.namespaces.contains(pod.namespace()) => {
                    self.other_namespaces.insert(pod.namespace().to_owned());
                }
                _ if controller
                    .as_ref()
                    .is_some_and(|key| index.workload(key).is_some()) => {}
                _ => self
                    .not_simulated
                    .push(format!("{}/{}", pod.namespace(), pod.name())),
            }
        }
        self.incomplete |= self.pods.is_empty() && !self.other_namespaces.is_empty();
    }
}

/// How to let Pods start that only a recorded state would keep Pending. Pods that cannot be evicted
/// while such a Pod waits are moved with it.
fn advice(
    snapshot: &Snapshot,
    index: &Index,
    question: &Question,
    pods: &[PodForecast],
) -> Vec<Advice> {
    let is_held =
        |pod: &&PodForecast| !pod.without_its_state.is_empty() && pod.recorded_node.is_some();
    let held: Vec<&PodForecast> = pods.iter().filter(is_held).collect();
    let mut moves: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for pod in pods {
        let is_like = |other: &&&PodForecast| {
            (&other.namespace, &other.workload) == (&pod.namespace, &pod.workload)
                && (other.pod == pod.pod || pod.then == Fate::NotEvicted)
        };
        let Some(like) = held.iter().find(is_like) else {
            continue;
        };
        let way_out = || {
            let pps = governing(snapshot, index, &pod.namespace, &pod.workload)?;
            let nodes = like
                .without_its_state
                .iter()
                .filter_map(|node| snapshot.node(node));
            WayOut::of(&pps.spec().ok()?, &pps.state(&pod.pod).ok()??, nodes)
        };
        let flags = format!(
            "--anywhere{}",
            way_out().map(|way_out| way_out.flags).unwrap_or_default()
        );
        moves
            .entry((pod.namespace.clone(), flags))
            .or_default()
            .push(pod.pod.clone());
    }
    let mut advice = Vec::new();
    if let Question::WithoutNodes(nodes) | Question::Drain(nodes) = question
        && !held.is_empty()
    {
        // A Pod that is moved away from a node that takes Pods may start there again.
        let is_open = |node: &&String| snapshot.node(node).is_some_and(|node| !node.is_cordoned());
        let nodes: Vec<String> = nodes.iter().filter(is_open).cloned().collect();
        advice.extend((!nodes.is_empty()).then_some(Advice::Cordon { nodes }));
    }
    let moves = moves.into_iter();
    advice.extend(moves.map(|((namespace, flags), pods)| Advice::Move {
        namespace,
        pods,
        flags,
    }));
    advice
}
