//! Reads from the result of a simulation what would happen in one namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::pps::{KIND, NodeDeletionPolicy};
use pps_scheduler::Exclusion;
use pps_simulation::{
    Absence, Action, EventKind, NodeVerdict, Phase, PodView, RunResult, Scenario, Severity, Source, Step,
};
use serde_json::Value;

use super::{Displaced, Forecast, Forgotten, Note, PodForecast, Question, Reason, StoppedRollout, Then, Why};
use crate::snapshot::{Index, Pps, Snapshot, WorkloadKey};

/// What happens to a Pod itself.
const TOUCHES: [EventKind; 6] = [
    EventKind::Deleted,
    EventKind::Evicted,
    EventKind::Scheduled,
    EventKind::Injected,
    EventKind::Refused,
    EventKind::Created,
];
/// How many nodes a reason names.
const NAMED: usize = 4;

/// The PersistentPodStates that govern the simulated workloads, by the workload's name.
pub(super) type Governing<'a> = BTreeMap<String, &'a Pps>;

/// Of two StatefulSets of one name the first is simulated; one that does not exist may be created.
pub(super) fn governing<'a>(index: &Index<'a>, snapshot: &Snapshot, namespace: &str) -> Governing<'a> {
    let here = snapshot.workloads.iter().filter(|workload| workload.namespace() == namespace).rev();
    let simulated: BTreeMap<&str, WorkloadKey> =
        here.map(|one| (one.name(), WorkloadKey::of(namespace, &one.target()))).collect();
    let is_meant = |key: &WorkloadKey| {
        simulated.get(key.name.as_str()).map_or(key.kind == "StatefulSet", |own| own == key)
    };
    let targeted = index.targeted_in(namespace).filter(|(key, _)| is_meant(key));
    targeted.filter_map(|(key, all)| Some((key.name.clone(), *all.first()?))).collect()
}

/// What was simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) namespace: &'a str,
    pub(super) scenario: &'a Scenario,
    /// The Pods, which come after the objects of the scenario.
    pub(super) pods: &'a [Arc<Value>],
    pub(super) governing: &'a Governing<'a>,
}

impl Asked<'_> {
    /// Adds what happens to a forecast.
    pub(super) fn add(&self, forecast: &mut Forecast, result: &RunResult) {
        let Some(last) = result.steps.last() else { return };
        // The first action is what happens without the question.
        let (anyway, asked) = result.steps.split_at(result.steps.len().min(2));
        let mut touched = touched(asked);
        if let Question::Spec(_) = &forecast.question {
            let mut anyway = self::touched(anyway);
            anyway.retain(|pod| !touched.contains(pod));
            if !anyway.is_empty() {
                forecast.notes.push(Note::Anyway(anyway.into_iter().map(str::to_owned).collect()));
            }
        } else {
            // Nodes are shut before anything happens: whatever happens is a part of the answer.
            let moved = last.world.pods.iter().filter(|view| view.node != self.node_now(&view.name));
            touched.extend(moved.map(|view| view.name.as_str()));
        }
        let workloads = rolled_out(&self.scenario.actions);
        let waiting: BTreeSet<&str> = last
            .world
            .workloads
            .iter()
            .filter(|one| one.wait.is_some())
            .map(|one| one.name.as_str())
            .collect();
        let mut there = BTreeSet::new();
        for view in &last.world.pods {
            there.insert(view.name.as_str());
            let is_waiting = view.phase == Phase::NotCreated && waiting.contains(view.workload.as_str());
            if touched.contains(view.name.as_str()) || view.kept_by.is_some() || is_waiting {
                forecast.pods.push(self.describe(view, false));
            } else if view.phase != Phase::Running
                && view.node.is_none()
                && (workloads.is_empty() || workloads.contains(view.workload.as_str()))
            {
                forecast.pods.push(self.describe(view, true));
            }
        }
        for name in touched.iter().filter(|name| !there.contains(*name)) {
            forecast.pods.extend(self.removed(name));
        }
        self.add_forgotten(forecast, last);
        self.add_displaced(forecast, asked);
        self.add_notes(forecast, result);
        let stopped = workloads.into_iter().filter_map(|workload| self.stopped(workload, &last.world.pods));
        forecast.stopped_rollouts.extend(stopped);
    }

    fn node_now(&self, pod: &str) -> Option<String> {
        self.snapshot.pod(self.namespace, pod)?.node().map(str::to_owned)
    }

    /// The node that is recorded for a Pod.
    fn recorded_node(&self, workload: &str, pod: &str) -> Option<String> {
        Some(self.governing.get(workload)?.state(pod).ok()??.node_name)
    }

    /// `already` is whether nothing changes for a Pod that does not run now.
    fn describe(&self, view: &PodView, already: bool) -> PodForecast {
        let then = match view.phase {
            _ if view.kept_by.is_some() => Then::NotEvicted,
            Phase::Running => Then::Running,
            Phase::Pending => Then::Pending,
            Phase::Refused => Then::Refused,
            Phase::NotCreated => Then::NotCreated,
        };
        let node_now = self.node_now(&view.name);
        let recorded_node = self.recorded_node(&view.workload, &view.name);
        let pod = self.snapshot.pod(self.namespace, &view.name);
        let is_former =
            already && recorded_node.is_none() && pod.is_some_and(|pod| pod.injected_from().is_some());
        let (mut excluded_by, mut without_its_state, mut others) = (Vec::new(), Vec::new(), Vec::new());
        match then {
            Then::Pending => {
                excluded_by = group(&view.scheduler, is_former);
                let is_only_state = |verdict: &&NodeVerdict| {
                    !verdict.excluded_by.is_empty() && verdict.excluded_by.iter().all(Exclusion::from_pps)
                };
                without_its_state = names(view.scheduler.iter().filter(is_only_state));
            }
            Then::Running => {
                let is_other = |one: &&NodeVerdict| one.fits && !view.may_land_on.contains(&one.node);
                others = names(view.scheduler.iter().filter(is_other));
            }
            _ => {}
        }
        // The simulation records it, and restarts it: that says nothing about what is recorded now.
        let is_new = node_now.is_none() && recorded_node.is_none();
        let why = match then {
            Then::Running if is_new && view.is_adopted => Why::GetsNode,
            Then::Running if is_new => Why::New,
            Then::Running => why_there(view),
            Then::Pending if excluded_by.is_empty() => {
                Why::Waits(view.pending.as_ref().map(ToString::to_string).unwrap_or_default())
            }
            Then::Pending => Why::Excluded { by_former_state: is_former && !without_its_state.is_empty() },
            Then::NotEvicted => Why::Protected(view.kept_by.clone().unwrap_or_default()),
            Then::Refused => {
                Why::Refused(view.refusal.as_ref().map(|refusal| refusal.message.clone()).unwrap_or_default())
            }
            Then::NotCreated => Why::WaitsForOther,
            Then::Removed => Why::Unwanted,
        };
        PodForecast {
            namespace: self.namespace.to_owned(),
            workload: view.workload.clone(),
            pod: view.name.clone(),
            node_now,
            then,
            already,
            node_then: view.node.clone(),
            may_land_on: view.may_land_on.clone(),
            others,
            recorded_node,
            as_recorded: view.came_home.filter(|_| then == Then::Running && !is_new),
            why,
            excluded_by,
            without_its_state,
            pps: self.governing.get(&view.workload).map(|pps| pps.name().to_owned()),
            caveats: view.caveats.iter().map(ToString::to_string).collect(),
        }
    }

    /// A Pod that its workload no longer wants.
    fn removed(&self, name: &str) -> Option<PodForecast> {
        let pod = self.snapshot.pod(self.namespace, name)?;
        let workload = pod.owner().map(|(owner, _)| owner.name).unwrap_or_default();
        Some(PodForecast {
            namespace: self.namespace.to_owned(),
            pod: name.to_owned(),
            node_now: pod.node().map(str::to_owned),
            recorded_node: self.recorded_node(&workload, name),
            workload,
            ..PodForecast::default()
        })
    }

    /// A rollout stops at a Pod that is not Ready: the StatefulSet controller waits for it.
    fn stopped(&self, workload: &str, pods: &[PodView]) -> Option<StoppedRollout> {
        // In the order of a rollout: the Pod with the highest ordinal first.
        let pods: Vec<&PodView> = pods.iter().rev().filter(|pod| pod.workload == workload).collect();
        let at = pods.iter().find(|pod| pod.phase != Phase::Running)?.name.clone();
        if !pods.iter().any(|pod| pod.is_outdated) {
            return None;
        }
        let not_reached = pods.iter().filter(|pod| pod.is_outdated && pod.name != at);
        Some(StoppedRollout {
            namespace: self.namespace.to_owned(),
            workload: workload.to_owned(),
            not_reached: not_reached.map(|pod| pod.name.clone()).collect(),
            at,
        })
    }

    fn add_forgotten(&self, forecast: &mut Forecast, last: &Step) {
        for before in self.governing.values() {
            let after = last.world.pps.iter().find(|after| after.name == before.name());
            let (Ok(states), Some(after)) = (before.states(), after) else { continue };
            let dropped = states.into_keys().filter(|pod| !after.states.contains_key(pod));
            let is_wanted = |pod: &String| last.world.pods.iter().any(|view| view.name == *pod);
            let (wanted, unwanted): (Vec<String>, Vec<String>) = dropped.partition(is_wanted);
            // Else it was recorded for a former workload of this name, and is dropped with or without this.
            let forgets = before.spec().is_ok_and(|spec| spec.node_deletion() == NodeDeletionPolicy::Forget);
            for (pods, unwanted) in [(wanted, false), (unwanted, true)] {
                if !pods.is_empty() && (unwanted || forgets) {
                    let (namespace, pps) = (before.namespace().to_owned(), before.name().to_owned());
                    forecast.forgotten.push(Forgotten { namespace, pps, pods, unwanted });
                }
            }
        }
    }

    fn add_displaced(&self, forecast: &mut Forecast, steps: &[Step]) {
        for pod in steps.iter().flat_map(|step| &step.displaced) {
            let is_owner = |namespace: &str, kind: &str, name: &str| {
                let owner = pod.owner.as_ref();
                namespace == pod.namespace
                    && owner.is_some_and(|[_, own, named]| own == kind && named == name)
            };
            let is_simulated =
                |one: &crate::snapshot::Workload| is_owner(one.namespace(), &one.target().kind, one.name());
            if self.snapshot.workloads.iter().any(is_simulated) {
                continue;
            }
            let is_target = |one: &Pps| {
                let target = one.target();
                is_owner(one.namespace(), &target.kind, &target.name)
            };
            forecast.not_simulated.push(Displaced {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                node: pod.node.clone(),
                has_pps: self.snapshot.pps.iter().any(is_target),
                owner: pod.owner.as_ref().map(|[_, kind, name]| format!("{kind}/{name}")),
            });
        }
    }

    /// What is not simulated, and what the policy and the sidecar warn of.
    fn add_notes(&self, forecast: &mut Forecast, result: &RunResult) {
        let workloads: BTreeSet<String> = forecast.pods.iter().map(|pod| pod.workload.clone()).collect();
        for problem in &result.problems {
            let Source::Objects { object: Some(index) } = problem.source else { continue };
            let objects = &self.scenario.objects;
            let object = objects.get(index).or_else(|| self.pods.get(index - objects.len()).map(Arc::as_ref));
            let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
            let name = text(object.map(|object| &object["metadata"]["name"]));
            let kind =
                if index < objects.len() { text(object.map(|object| &object["kind"])) } else { "Pod".into() };
            let is_theirs = workloads.contains(&name) && (kind == "StatefulSet" || kind == KIND);
            // Such an object is left out.
            let is_error = problem.severity == Severity::Error;
            forecast.incomplete |= is_error;
            if is_theirs || is_error {
                forecast.notes.push(Note::Problem { kind, name, message: problem.message.clone() });
            }
        }
        let events = result.steps.iter().skip(2).flat_map(|step| &step.events);
        for event in events.filter(|event| event.kind == EventKind::Warning) {
            let (object, text) = (event.object.clone(), event.text.clone());
            forecast.notes.push(Note::Warning { object, text });
        }
    }
}

/// Why a Pod runs where it does.
fn why_there(view: &PodView) -> Why {
    match (&view.recorded_before, view.came_home) {
        (Some(state), Some(true)) => {
            let values = state.node_topology_labels.iter().chain(&state.annotations);
            let short = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
            Why::AsRecorded(values.map(|(key, value)| format!("{}={value}", short(key))).collect())
        }
        (Some(state), _) => {
            let because = match &view.absence {
                Some(Absence::Excluded(exclusions)) => exclusions.first().map(Exclusion::in_general),
                _ => None,
            };
            Why::NotAsRecorded { node: state.node_name.clone(), because }
        }
        (None, _) if view.is_adopted => Why::GetsNode,
        (None, _) => Why::NotRecorded,
    }
}

/// Groups the first reason of each node, the most frequent one first.
fn group(verdicts: &[NodeVerdict], is_former: bool) -> Vec<Reason> {
    let mut groups: BTreeMap<(String, bool), Reason> = BTreeMap::new();
    for verdict in verdicts {
        let Some(first) = verdict.excluded_by.first().cloned() else { continue };
        let first = if is_former { first.of_former_state() } else { first };
        let (text, what, from_pps) = (first.in_general(), first.kind(), first.from_pps());
        let key = (text.clone(), from_pps);
        let group = groups.entry(key).or_insert(Reason { text, what, from_pps, nodes: 0, names: Vec::new() });
        group.nodes += 1;
        if group.names.len() < NAMED {
            group.names.push(verdict.node.clone());
        }
    }
    let mut groups: Vec<Reason> = groups.into_values().collect();
    groups.sort_by(|one, other| other.nodes.cmp(&one.nodes).then_with(|| one.text.cmp(&other.text)));
    groups
}

fn names<'a>(verdicts: impl Iterator<Item = &'a NodeVerdict>) -> Vec<String> {
    verdicts.map(|verdict| verdict.node.clone()).collect()
}

/// The Pods to which something happens in these steps.
fn touched(steps: &[Step]) -> BTreeSet<&str> {
    let events = steps.iter().flat_map(|step| &step.events);
    let touches = events.filter(|event| TOUCHES.contains(&event.kind));
    touches.filter_map(|event| event.object.strip_prefix("Pod/")).collect()
}

/// The workloads that these actions roll out.
fn rolled_out(actions: &[Action]) -> BTreeSet<&str> {
    let rolled_out = actions.iter().filter_map(|action| match action {
        Action::RollingUpdate { workload } => Some(workload.as_str()),
        Action::ChangeSpec { object } if object["kind"] != KIND => object["metadata"]["name"].as_str(),
        _ => None,
    });
    rolled_out.collect()
}
