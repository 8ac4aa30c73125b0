//! `simulate`: what would happen to Pods if nodes were drained or lost.
//!
//! The cluster as it was read becomes a scenario of `pps_simulation`, in which the policy's own
//! code decides. The namespaces are simulated one after the other: the Pods of all others take room
//! where they are, or where they would be.

mod advice;
mod input;
mod simulated;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pps_core::succession::name_order;
use pps_scheduler::Verdict;
use pps_simulation::{Action, Limits, Problem, Severity, Source, run_live};
use serde::Serialize;

use self::advice::advice;
use self::input::Input;
use self::simulated::Simulated;
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
    /// After how many seconds the sidecar takes a Pod that would be Pending elsewhere, if it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub falls_back_after: Option<u32>,
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
        if self.pods.iter().any(|pod| pod.then != Fate::Running) {
            Outcome::NotWell
        } else if self.incomplete {
            Outcome::Incomplete
        } else {
            Outcome::Well
        }
    }
}

impl Why {
    fn fate(&self) -> Fate {
        match self {
            Self::AsRecorded(_) | Self::NotAsRecorded { .. } | Self::NotRecorded => Fate::Running,
            Self::Excluded | Self::Waits(_) => Fate::Pending,
            Self::Refused(_) => Fate::Refused,
            Self::Protected(_) => Fate::NotEvicted,
            Self::WaitsForOther => Fate::NotCreated,
        }
    }
}

impl Question {
    /// The nodes that it is about.
    fn nodes(&self, all: &BTreeMap<String, Node>) -> Result<BTreeSet<String>, Failure> {
        let zone = match self {
            Self::WithoutNodes(nodes) | Self::Drain(nodes) => {
                return match nodes.iter().find(|node| !all.contains_key(*node)) {
                    Some(missing) => Err(Failure::NoNode(missing.clone())),
                    None => Ok(nodes.clone()),
                };
            }
            Self::ZoneDown(zone) => zone,
        };
        let nodes: BTreeSet<String> = all
            .values()
            .filter(|node| node.zone() == Some(zone))
            .map(|node| node.name().to_owned())
            .collect();
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
    /// What happens to these nodes.
    fn actions(&self, nodes: &BTreeSet<String>) -> Vec<Action> {
        // Changes that happen in any case come first.
        let mut actions = vec![Action::RollOut {}];
        match self {
            Self::Drain(_) => actions.extend(
                nodes
                    .iter()
                    .map(|node| Action::Drain { node: node.clone() }),
            ),
            Self::WithoutNodes(_) | Self::ZoneDown(_) => actions.push(Action::LoseNodes {
                nodes: nodes.iter().cloned().collect(),
            }),
        }
        actions
    }
}

/// Answers a question.
pub fn forecast(snapshot: &Snapshot, question: &Question) -> Result<Forecast, Failure> {
    let disruption = Disruption::read(snapshot, question)?;
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
    for namespace in disruption.namespaces() {
        forecast.add_namespace(&disruption, namespace)?;
    }
    forecast.add_others(&disruption);
    forecast.pods.sort_by(|one, other| {
        (&one.namespace, name_order(&one.pod)).cmp(&(&other.namespace, name_order(&other.pod)))
    });
    forecast.advice = advice(&disruption, &forecast.pods);
    Ok(forecast)
}

/// What happens to which nodes of a cluster.
struct Disruption<'a> {
    snapshot: &'a Snapshot,
    index: Index<'a>,
    question: &'a Question,
    nodes: BTreeSet<String>,
}

impl<'a> Disruption<'a> {
    /// Fails if the cluster is too large, or too little of it was read.
    fn read(snapshot: &'a Snapshot, question: &'a Question) -> Result<Self, Failure> {
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
        let count = all.len();
        let most = Limits::CLUSTER.nodes;
        if count > most {
            return Err(Failure::TooManyNodes { count, most });
        }
        Ok(Self {
            snapshot,
            index: Index::of(snapshot),
            question,
            nodes: question.nodes(all)?,
        })
    }

    /// Whether the nodes are gone afterwards.
    fn loses_nodes(&self) -> bool {
        !matches!(self.question, Question::Drain(_))
    }

    /// The namespaces in which something may happen. A Pod without a node may wait for one of these
    /// nodes.
    fn namespaces(&self) -> BTreeSet<&'a str> {
        let snapshot = self.snapshot;
        if let Some(own) = snapshot.namespaces.one() {
            return [own].into();
        }
        let with_workloads: BTreeSet<&str> =
            snapshot.workloads.iter().map(Workload::namespace).collect();
        snapshot
            .pods
            .iter()
            .filter(|pod| match pod.node() {
                Some(node) => self.nodes.contains(node),
                None => !pod.is_finished(),
            })
            .map(Pod::namespace)
            .filter(|namespace| with_workloads.contains(namespace))
            .collect()
    }

    /// The PersistentPodState that governs a workload. Of two StatefulSets of one name the first is
    /// simulated.
    fn governing(&self, namespace: &str, name: &str) -> Option<&'a Pps> {
        let workload = self
            .snapshot
            .workloads
            .iter()
            .find(|one| one.namespace() == namespace && one.name() == name)?;
        self.index
            .governing(&WorkloadKey::of(namespace, &workload.target()))
            .filter(|pps| pps.is_enabled())
    }
}

impl Forecast {
    fn add_namespace(&mut self, disruption: &Disruption, namespace: &str) -> Result<(), Failure> {
        let input = Input::of(disruption, namespace, &self.pods);
        let result = run_live(&input.scenario, &input.pods, &Limits::CLUSTER);
        let has_steps = !result.steps.is_empty();
        let mut problems = result.problems.iter();
        if let Some(fatal) = problems.find(|problem| is_fatal(problem, has_steps)) {
            return Err(Failure::Refused(fatal.message.clone()));
        }
        let Some(last) = result.steps.last() else {
            return Ok(());
        };
        let simulated = Simulated {
            disruption,
            namespace,
        };
        let views = last.world.pods.iter();
        self.pods
            .extend(views.filter_map(|view| simulated.describe(view)));
        simulated.add_problems(self, &result.problems, &input.objects());
        Ok(())
    }

    /// Adds the Pods that lose their node and are not simulated: a user would take an answer
    /// without any Pod for an all-clear.
    fn add_others(&mut self, disruption: &Disruption) {
        let snapshot = disruption.snapshot;
        for pod in &snapshot.pods {
            let leaves = pod
                .node()
                .is_some_and(|node| disruption.nodes.contains(node));
            if !leaves || pod.is_finished() {
                continue;
            }
            let controller = WorkloadKey::of_pod(pod);
            match controller.as_ref().map(|key| key.kind.as_str()) {
                // These Pods stay with their node.
                Some("DaemonSet" | "Node") => {}
                Some("StatefulSet") if !snapshot.namespaces.contains(pod.namespace()) => {
                    self.other_namespaces.insert(pod.namespace().to_owned());
                }
                _ if controller
                    .as_ref()
                    .is_some_and(|key| disruption.index.workload(key).is_some()) => {}
                _ => self
                    .not_simulated
                    .push(format!("{}/{}", pod.namespace(), pod.name())),
            }
        }
        self.incomplete |= self.pods.is_empty() && !self.other_namespaces.is_empty();
    }
}

/// Whether a problem leaves no answer.
fn is_fatal(problem: &Problem, has_steps: bool) -> bool {
    // The first action fails where there is no StatefulSet.
    let is_of_action = matches!(problem.source, Source::Action { index: 1.. });
    problem.severity == Severity::Error && (!has_steps || is_of_action)
}
