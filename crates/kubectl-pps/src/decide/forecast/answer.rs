//! Reads from the result of a simulation what would happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::pps::{KIND, NodeDeletionPolicy};
use pps_simulation::{Event, EventKind, Phase, PodView, RunResult, Scenario, Severity, Source, Step};

use serde_json::Value;

use super::why::{why_pending, why_there};
use super::{Displaced, Forecast, Forgotten, PodForecast, Then, reasons, rollout};
use crate::decide::names::list;
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

/// The PersistentPodStates that govern the simulated workloads, by the workload's name.
pub(super) type Governing<'a> = BTreeMap<String, &'a Pps>;

/// Those of a namespace. Of two StatefulSets of one name the first is simulated; one that does not exist may be created.
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
    pub(super) scenario: &'a Scenario,
    /// The Pods, which come after the objects of the scenario.
    pub(super) pods: &'a [Arc<Value>],
    pub(super) governing: &'a Governing<'a>,
    /// Whether the nodes are shut before anything happens: then what happens anyway is a part of the answer.
    pub(super) is_at_once: bool,
}

impl Asked<'_> {
    /// The kind and the name of an object.
    fn named(&self, index: usize) -> Option<(&str, &str)> {
        let objects = &self.scenario.objects;
        let (object, kind) = match objects.get(index) {
            Some(object) => (object, object["kind"].as_str().unwrap_or_default()),
            None => (self.pods.get(index - objects.len())?.as_ref(), "Pod"),
        };
        Some((kind, object["metadata"]["name"].as_str().unwrap_or_default()))
    }
}

/// Adds what happens in one namespace.
pub(super) fn add(
    forecast: &mut Forecast,
    snapshot: &Snapshot,
    namespace: &str,
    simulated: &Asked<'_>,
    result: &RunResult,
) {
    let actions = &simulated.scenario.actions;
    let Some(last) = result.steps.last() else { return };
    // The first action is what happens without the question.
    let (anyway, asked) = result.steps.split_at(result.steps.len().min(2));
    let mut touched = touched(asked);
    let told = Told::of(if simulated.is_at_once { &result.steps } else { asked });
    let recorded = recorded(simulated.governing);
    let now = |pod: &str| snapshot.pod(namespace, pod).and_then(|pod| pod.node()).map(str::to_owned);
    let mut workloads = BTreeSet::new();
    let mut there = BTreeSet::new();
    let asked_workloads = rollout::asked(actions);
    for view in &last.world.pods {
        there.insert(view.name.as_str());
        if simulated.is_at_once && view.node != now(&view.name) {
            touched.insert(&view.name);
        }
        let is_concerned = touched.contains(view.name.as_str())
            || view.kept_by.is_some()
            || told.waits.contains_key(view.workload.as_str()) && matches!(view.phase, Phase::NotCreated);
        if !is_concerned {
            let is_asked = asked_workloads.is_empty() || asked_workloads.contains(&view.workload.as_str());
            if is_asked && view.phase != Phase::Running && view.node.is_none() {
                let as_now = describe(view, namespace, None, recorded.get(&view.name), &told);
                forecast.pods.push(as_it_is(PodForecast { already: true, ..as_now }, snapshot));
            }
            continue;
        }
        workloads.insert(view.workload.as_str());
        let node_now = now(&view.name);
        forecast.pods.push(describe(view, namespace, node_now, recorded.get(&view.name), &told));
    }
    for name in touched.iter().filter(|name| !there.contains(*name)) {
        if let Some(pod) = snapshot.pod(namespace, name) {
            let workload = pod.owner().map(|(owner, _)| owner.name).unwrap_or_default();
            forecast.pods.push(removed(namespace, &workload, name, pod.node(), recorded.get(*name)));
        }
    }
    for pod in forecast.pods.iter_mut().filter(|pod| pod.namespace == namespace) {
        pod.pps = simulated.governing.get(&pod.workload).map(|pps| pps.name().to_owned());
    }
    add_forgotten(forecast, simulated.governing, last);
    add_displaced(forecast, snapshot, asked);
    add_notes(forecast, simulated, result, &workloads);
    let anyway = touched_names(anyway, &touched);
    if !anyway.is_empty() {
        let verb = if anyway.len() == 1 { "is" } else { "are" };
        let names = list(&anyway, "and");
        forecast.notes.push(format!("{names} {verb} being created or replaced now, with or without this"));
    }
    forecast.stopped_rollouts.extend(rollout::stopped(namespace, actions, &last.world));
}

/// Whether the simulation gives a node to a Pod that has none or is not recorded, and the event then takes that node away. The
/// answer would name a recorded state that only the simulation has.
pub(super) fn is_placed_in_vain(
    snapshot: &Snapshot,
    namespace: &str,
    governing: &Governing<'_>,
    result: &RunResult,
) -> bool {
    let (anyway, asked) = result.steps.split_at(result.steps.len().min(2));
    let touched = touched(asked);
    let pods = result.steps.last().into_iter().flat_map(|last| &last.world.pods);
    let kept: BTreeSet<&str> =
        pods.filter(|view| view.kept_by.is_some()).map(|view| view.name.as_str()).collect();
    let events = anyway.iter().flat_map(|step| &step.events);
    let placed = events.filter(|event| event.kind == EventKind::Scheduled);
    let mut lost = placed
        .filter_map(|event| event.object.strip_prefix("Pod/"))
        .filter(|pod| touched.contains(pod) || kept.contains(pod))
        .peekable();
    if lost.peek().is_none() {
        return false;
    }
    let recorded = recorded(governing);
    lost.any(|pod| {
        let has_node = snapshot.pod(namespace, pod).is_some_and(|pod| pod.node().is_some());
        !has_node || !recorded.contains_key(pod)
    })
}

/// The Pods to which something happens in these steps.
fn touched(steps: &[Step]) -> BTreeSet<&str> {
    let events = steps.iter().flat_map(|step| &step.events);
    let touches = events.filter(|event| TOUCHES.contains(&event.kind));
    touches.filter_map(|event| event.object.strip_prefix("Pod/")).collect()
}

fn touched_names(steps: &[Step], but: &BTreeSet<&str>) -> Vec<String> {
    touched(steps).into_iter().filter(|name| !but.contains(name)).map(str::to_owned).collect()
}

/// What was said about objects, the last of it.
pub(super) struct Told<'a> {
    /// What a workload waits for.
    pub(super) waits: BTreeMap<&'a str, &'a str>,
    /// Where a Pod runs, and why there.
    pub(super) runs: BTreeMap<&'a str, &'a str>,
    /// Why it runs nowhere.
    pub(super) pending: BTreeMap<&'a str, &'a str>,
}

impl<'a> Told<'a> {
    fn of(steps: &'a [Step]) -> Self {
        let mut told = Self { waits: BTreeMap::new(), runs: BTreeMap::new(), pending: BTreeMap::new() };
        for Event { kind, object, text } in steps.iter().flat_map(|step| &step.events) {
            match (kind, object.split_once('/')) {
                (EventKind::Scheduled, Some(("Pod", pod))) => drop(told.runs.insert(pod, text)),
                (EventKind::Pending, Some(("Pod", pod))) => drop(told.pending.insert(pod, text)),
                (EventKind::Pending, Some((_, workload))) => drop(told.waits.insert(workload, text)),
                _ => {}
            }
        }
        told
    }
}

/// The node that is recorded for each Pod.
fn recorded(governing: &Governing<'_>) -> BTreeMap<String, String> {
    let states = governing.values().filter_map(|pps| pps.states().ok()).flatten();
    states.map(|(pod, state)| (pod, state.node_name)).collect()
}

fn describe(
    view: &PodView,
    namespace: &str,
    node_now: Option<String>,
    recorded_node: Option<&String>,
    told: &Told<'_>,
) -> PodForecast {
    let then = match view.phase {
        _ if view.kept_by.is_some() => Then::NotEvicted,
        Phase::Running => Then::Running,
        Phase::Pending => Then::Pending,
        Phase::Refused => Then::Refused,
        Phase::NotCreated => Then::NotCreated,
    };
    let is_pending = then == Then::Pending;
    let excluded_by = if is_pending { reasons::group(&view.scheduler) } else { Vec::new() };
    let without_its_state =
        if is_pending { reasons::excluded_by_state_only(&view.scheduler) } else { Vec::new() };
    // The simulation records it, and restarts it: that says nothing about what is recorded now.
    let is_new = node_now.is_none() && recorded_node.is_none();
    let why = match then {
        Then::Running if is_new && view.is_adopted => {
            "it is Pending now, and nothing is recorded of it yet".into()
        }
        Then::Running if is_new => "it is new: nothing is recorded of it yet".into(),
        Then::NotEvicted => view.kept_by.clone().unwrap_or_default(),
        Then::Running => why_there(view, told),
        Then::Pending => why_pending(view, &excluded_by, &without_its_state, told),
        Then::Refused => view.refusal.as_ref().map(|refusal| refusal.message.clone()).unwrap_or_default(),
        Then::NotCreated => {
            told.waits.get(view.workload.as_str()).map(|text| (*text).to_owned()).unwrap_or_default()
        }
        Then::Removed => String::new(),
    };
    let caveat =
        |warning: &String| warning.strip_prefix("the Pod is not simulated completely: ").map(str::to_owned);
    PodForecast {
        namespace: namespace.to_owned(),
        workload: view.workload.clone(),
        pod: view.name.clone(),
        node_now,
        then,
        node_then: view.node.clone(),
        may_land_on: view.may_land_on.clone(),
        others: if then == Then::Running { others(view) } else { Vec::new() },
        recorded_node: recorded_node.cloned(),
        as_recorded: view.came_home.filter(|_| then == Then::Running && !is_new),
        why,
        excluded_by,
        without_its_state,
        caveats: view.warnings.iter().filter_map(caveat).collect(),
        ..PodForecast::default()
    }
}

/// A Pod that is Pending now. If nothing is recorded of it, what was injected when it was created keeps it: its words say
/// so.
fn as_it_is(pod: PodForecast, snapshot: &Snapshot) -> PodForecast {
    let there = snapshot.pod(&pod.namespace, &pod.pod);
    let is_injected = there.is_some_and(|pod| pod.injected_from().is_some());
    let is_injected_only = is_injected && pod.recorded_node.is_none() && !pod.without_its_state.is_empty();
    if !is_injected_only {
        return pod;
    }
    let why = pod
        .why
        .replace("the Pod's recorded state requires", "what was injected into the Pod requires")
        .replace("Without its recorded state,", "Without that,");
    PodForecast { why, is_injected_only, ..pod }
}

/// The nodes that could take it, but the best ones.
fn others(view: &PodView) -> Vec<String> {
    let best: BTreeSet<&String> = view.may_land_on.iter().collect();
    let could = view.scheduler.iter().filter(|verdict| verdict.fits && !best.contains(&verdict.node));
    could.map(|verdict| verdict.node.clone()).collect()
}

fn removed(
    namespace: &str,
    workload: &str,
    pod: &str,
    node: Option<&str>,
    recorded: Option<&String>,
) -> PodForecast {
    PodForecast {
        namespace: namespace.to_owned(),
        workload: workload.to_owned(),
        pod: pod.to_owned(),
        node_now: node.map(str::to_owned),
        recorded_node: recorded.cloned(),
        why: "its workload no longer wants it".into(),
        ..PodForecast::default()
    }
}

fn add_forgotten(forecast: &mut Forecast, governing: &Governing<'_>, last: &Step) {
    for before in governing.values() {
        let (Ok(states), Some(after)) =
            (before.states(), last.world.pps.iter().find(|after| after.name == before.name()))
        else {
            continue;
        };
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

fn add_displaced(forecast: &mut Forecast, snapshot: &Snapshot, steps: &[Step]) {
    let displaced: Vec<_> = steps.iter().flat_map(|step| &step.displaced).collect();
    if displaced.is_empty() {
        return;
    }
    let key = |namespace: &str, kind: &str, name: &str| [namespace, kind, name].map(str::to_owned);
    // These are simulated with the other workloads of their namespace.
    let simulated: BTreeSet<[String; 3]> = snapshot
        .workloads
        .iter()
        .map(|workload| key(workload.namespace(), &workload.target().kind, workload.name()))
        .collect();
    let with_pps: BTreeSet<[String; 3]> = snapshot
        .pps
        .iter()
        .map(|pps| (pps.namespace(), pps.target()))
        .map(|(namespace, target)| key(namespace, &target.kind, &target.name))
        .collect();
    for pod in displaced {
        let owner = pod.owner.as_ref().map(|[_, kind, name]| key(&pod.namespace, kind, name));
        if owner.as_ref().is_some_and(|owner| simulated.contains(owner)) {
            continue;
        }
        forecast.not_simulated.push(Displaced {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            node: pod.node.clone(),
            has_pps: owner.as_ref().is_some_and(|owner| with_pps.contains(owner)),
            is_noted: false,
            owner: owner.map(|[_, kind, name]| format!("{kind}/{name}")),
        });
    }
}

/// What is not simulated of the workloads that something happens to, and what the product says.
fn add_notes(forecast: &mut Forecast, simulated: &Asked<'_>, result: &RunResult, workloads: &BTreeSet<&str>) {
    for problem in &result.problems {
        let Source::Objects { object: Some(index) } = problem.source else { continue };
        let Some((kind, name)) = simulated.named(index) else { continue };
        let is_theirs = workloads.contains(name) && (kind == "StatefulSet" || kind == KIND);
        // Such an object is left out.
        forecast.incomplete |= problem.severity == Severity::Error;
        if is_theirs || problem.severity == Severity::Error {
            forecast.notes.push(format!("{kind} {name}: {}", problem.message));
        }
    }
    let events = result.steps.iter().skip(2).flat_map(|step| &step.events);
    for event in events.filter(|event| event.kind == EventKind::Warning) {
        let is_of_pod = event.object.starts_with("Pod/");
        let is_known = is_of_pod
            && (event.text.contains("not simulated completely") || event.text.starts_with("stays on "));
        if !is_known {
            forecast.notes.push(format!("{} {}", event.object, event.text));
        }
    }
}
