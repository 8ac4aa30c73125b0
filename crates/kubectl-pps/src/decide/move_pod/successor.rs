//! The Pod as its controller creates it next, and where it may land.

use pps_core::edit::without_place;
use pps_core::{AnnotationRules, INJECTED_ANNOTATION, PodState, Spec, apply, plan};
use pps_scheduler::Selection;
use pps_simulation::pods_of;
use serde_json::Value;

use super::keep::WayOut;
use crate::decide::landing::Landing;
use crate::decide::placement::{Nodes, unbound};
use crate::decide::template::{injected, is_former, is_held_back};
use crate::snapshot::{Index, Pod, Pps, Snapshot, Workload, WorkloadKey};

/// The Pod as its controller creates it next.
pub(super) struct Successor<'a> {
    /// The Pod that there is now.
    pod: Option<&'a Pod>,
    workload: Option<&'a Workload>,
    pps: &'a str,
    spec: &'a Spec,
    /// The next Pod before the policy has seen it.
    own: Value,
}

impl<'a> Successor<'a> {
    /// None if neither the Pod nor its workload is there.
    pub(super) fn of(
        index: &Index<'a>,
        key: &WorkloadKey,
        name: &str,
        pod: Option<&'a Pod>,
        (pps, spec, before): (&'a str, &'a Spec, Option<&PodState>),
    ) -> Option<Self> {
        let workload = index.workload(key);
        // The next Pod is made from the template that the workload has by then.
        let own = workload
            .filter(|workload| !is_held_back(workload, name))
            .and_then(|workload| pods_of(workload.object(), &key.namespace, [name]).into_iter().next())
            .or_else(|| Some(without_state(workload, pod?, spec, before)))?;
        Some(Self { pod, workload, pps, spec, own })
    }

    /// Whether the Pod was made from another template than its successor will be.
    pub(super) fn is_of_other_template(&self) -> bool {
        self.workload.zip(self.pod).is_some_and(|(workload, pod)| is_former(pod, workload))
    }

    /// The Pod as the policy lets it pass with this state. A Pod that the policy refuses is shown as its controller makes it.
    pub(super) fn with_state(&self, state: Option<&PodState>) -> Value {
        let mut pod = self.own.clone();
        let plan = state.map(|state| plan(self.pps, self.spec, state, &AnnotationRules::default()));
        match plan.map(|plan| apply(&plan, &mut pod)) {
            Some(Err(_)) => self.own.clone(),
            Some(Ok(_)) | None => pod,
        }
    }

    /// Where this Pod may land; none if nodes may not be read.
    pub(super) fn forecast(&self, snapshot: &Snapshot, injected: &Value) -> Option<Selection> {
        let selector = self.workload.map(|workload| &workload.object()["spec"]["selector"]);
        Some(Nodes::of(snapshot, self.pod)?.select(injected, Some(&self.own), selector))
    }

    /// Of a Pod that no node can take with this state: what excludes the nodes that could.
    pub(super) fn way_out(&self, snapshot: &Snapshot, state: &PodState) -> Option<WayOut> {
        let free = self.forecast(snapshot, &self.with_state(Some(&without_place(state))))?;
        let landing = Landing::of(&free);
        let nodes = landing.favourites().iter().chain(landing.others());
        WayOut::of(self.spec, state, nodes.filter_map(|node| snapshot.node(node)))
    }
}

/// Whether a Pod that does not run comes back by itself: a node could take it with the recorded state. Not known, and so
/// false, if nodes may not be read.
pub(super) fn comes_back(
    snapshot: &Snapshot,
    index: &Index<'_>,
    key: &WorkloadKey,
    pps: &Pps,
    name: &str,
) -> bool {
    let (Ok(spec), Ok(state)) = (pps.spec(), pps.state(name)) else { return false };
    let pod = index.pod(&key.namespace, name).filter(|pod| !pod.is_finished());
    let recorded = (pps.name(), &spec, state.as_ref());
    let Some(successor) = Successor::of(index, key, name, pod, recorded) else { return false };
    // A Pod that waits may have been created with another state.
    let pod = match pod.filter(|pod| pod.node().is_none() && !pod.is_terminating()) {
        Some(waiting) => waiting.object().clone(),
        None => successor.with_state(state.as_ref()),
    };
    successor.forecast(snapshot, &pod).is_some_and(|forecast| !forecast.may_land_on.is_empty())
}

/// The Pod as its controller created it, before the policy saw it.
fn without_state(workload: Option<&Workload>, pod: &Pod, spec: &Spec, before: Option<&PodState>) -> Value {
    let injected = injected(pod, workload, Some(spec), before);
    let mut own = unbound(injected.as_ref().map_or(pod.object(), |injected| &injected.before));
    if let Some(annotations) = own["metadata"]["annotations"].as_object_mut() {
        annotations.remove(INJECTED_ANNOTATION);
    }
    if let Some(object) = own.as_object_mut() {
        object.remove("status");
    }
    own
}
