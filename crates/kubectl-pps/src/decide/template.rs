//! From which template a Pod was made, what was injected into it, and the Pod that its controller creates next.

use pps_core::edit::without_place;
pub use pps_core::injected::Injected;
use pps_core::injected::Template;
use pps_core::plan::Requirement;
use pps_core::{AnnotationRules, PodState, Spec, apply, plan};
use pps_recorder::workload::{Revision, UpdateStrategy, ordinal, successor_revision};
use pps_scheduler::Selection;
use pps_simulation::pods_of;
use serde_json::Value;

use super::landing::Landing;
use super::move_pod::WayOut;
use super::placement::{Nodes, unbound};
use crate::snapshot::{Pod, Pps, Snapshot, Workload};

/// By this label of a Pod a StatefulSet knows from which of its templates the Pod was made.
const REVISION: &str = "controller-revision-hash";

/// The template from which a Pod was made; none if it does not say so.
pub fn revision(pod: &Pod) -> Option<&str> {
    pod.label(REVISION)
}

/// Whether the Pod is of the newest revision of its workload; none if one of them does not say its revision.
fn has_newest_revision(pod: &Pod, workload: &Workload) -> Option<bool> {
    Some(workload.object()["status"]["updateRevision"].as_str()? == revision(pod)?)
}

/// Whether the Pod was made from another template than its successor will be.
pub fn is_former(pod: &Pod, workload: &Workload) -> bool {
    let next = successor_revision(workload.object(), pod.name());
    next.zip(revision(pod)).is_some_and(|(next, own)| next != own)
}

/// Whether the next Pod of this name is made from a former template: the update strategy holds it back.
pub fn is_held_back(workload: &Workload, pod: &str) -> bool {
    let object = workload.object();
    let newest = object["status"]["updateRevision"].as_str();
    if let Some((next, newest)) = successor_revision(object, pod).zip(newest) {
        return next != newest;
    }
    let strategy = UpdateStrategy::read(&object["spec"]);
    let ordinal = ordinal(workload.name(), pod);
    ordinal.is_some_and(|ordinal| strategy.successor(ordinal) == Revision::Current)
}

/// Whether the workload's controller has not seen its latest change yet.
pub fn is_unobserved(workload: &Workload) -> bool {
    let object = workload.object();
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    object["status"]["observedGeneration"].as_i64().unwrap_or_default() < generation
}

/// What the policy has injected into a Pod; none if it has changed nothing.
pub fn injected(
    pod: &Pod,
    workload: Option<&Workload>,
    spec: Option<&Spec>,
    state: Option<&PodState>,
) -> Option<Injected> {
    let template = workload.and_then(|workload| {
        // Without a revision it may have been made from this template.
        let is_newest = has_newest_revision(pod, workload);
        let template = &workload.object()["spec"]["template"];
        (is_newest != Some(false)).then_some(Template { template, is_certain: is_newest == Some(true) })
    });
    pps_core::injected::injected(pod.object(), template, spec, state)
}

/// Whether these are the same labels, in whichever order.
pub fn same_labels(some: &[Requirement], others: &[Requirement]) -> bool {
    let has_all = |some: &[Requirement], others: &[Requirement]| some.iter().all(|one| others.contains(one));
    has_all(some, others) && has_all(others, some)
}

/// The Pod as its controller creates it next.
pub struct Successor<'a> {
    /// The Pod that there is now.
    pod: Option<&'a Pod>,
    workload: Option<&'a Workload>,
    /// What governs it, with its spec.
    pps: Option<(&'a Pps, &'a Spec)>,
    /// The next Pod before the policy has seen it.
    pub own: Value,
}

impl<'a> Successor<'a> {
    /// None if neither the Pod nor its workload is there. `state` is what is recorded.
    pub fn of(
        workload: Option<&'a Workload>,
        name: &str,
        pod: Option<&'a Pod>,
        pps: Option<(&'a Pps, &'a Spec)>,
        state: Option<&PodState>,
    ) -> Option<Self> {
        // A Pod that a partition holds back is made from the former template, which is not at hand: it stays as it is.
        let made = workload
            .filter(|workload| !is_held_back(workload, name))
            .and_then(|workload| pods_of(workload.object(), workload.namespace(), [name]).into_iter().next());
        let before = |pod: &Pod| {
            let injected = injected(pod, workload, pps.map(|(_, spec)| spec), state);
            unbound(injected.as_ref().map_or(pod.object(), |injected| &injected.before))
        };
        Some(Self { pod, workload, pps, own: made.or_else(|| pod.map(before))? })
    }

    /// The Pod as the policy lets it pass with this state. A Pod that the policy refuses is shown as its controller makes it.
    pub fn with_state(&self, state: Option<&PodState>) -> Value {
        let mut pod = self.own.clone();
        let plan = self
            .pps
            .zip(state)
            .map(|((pps, spec), state)| plan(pps.name(), spec, state, &AnnotationRules::default()));
        match plan.map(|plan| apply(&plan, &mut pod)) {
            Some(Err(_)) => self.own.clone(),
            Some(Ok(_)) | None => pod,
        }
    }

    /// Where this Pod may start; none if nodes may not be read.
    pub fn forecast(&self, snapshot: &Snapshot, injected: &Value) -> Option<Selection> {
        let selector = self.workload.and_then(Workload::selector);
        Some(Nodes::of(snapshot, self.pod)?.select(injected, Some(&self.own), selector))
    }

    /// Of a Pod that no node can take with this state: what excludes the nodes that could.
    pub fn way_out(&self, snapshot: &Snapshot, state: &PodState) -> Option<WayOut> {
        let free = self.forecast(snapshot, &self.with_state(Some(&without_place(state))))?;
        let landing = Landing::of(&free);
        let nodes = landing.favourites().iter().chain(landing.others());
        WayOut::of(self.pps?.1, state, nodes.filter_map(|node| snapshot.node(node)))
    }
}
