//! Where a Pod may land.

use pps_core::edit::without_place;
use pps_core::{AnnotationRules, INJECTED_ANNOTATION, PodState, Spec, apply, plan};
use pps_simulation::template::pods_of;
use serde_json::Value;

use super::keep::WayOut;
use crate::decide::injected::injected;
use crate::decide::landing::Landing;
use crate::decide::placement::{Nodes, unbound};
use crate::decide::template::{is_former, is_held_back};
use crate::snapshot::{Index, Pod, Pps, Snapshot, Workload, WorkloadKey};

/// What the scheduler would do with a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// The nodes that it may choose.
    pub may_land_on: Vec<String>,
    /// All other nodes, each with why it is excluded; nothing if others are only better.
    pub others: Vec<(String, Vec<String>)>,
    /// What is not simulated, in words that follow the Pod's name.
    pub caveats: Vec<String>,
}

impl Forecast {
    /// The nodes that the scheduler prefers, and the others that could take the Pod.
    pub fn landing(&self) -> Landing {
        let others = self.others.iter().filter(|(_, why)| why.is_empty()).map(|(node, _)| node.clone());
        Landing::new(self.may_land_on.clone(), others.collect())
    }

    /// Why a node cannot take it; none if it can.
    pub fn excluded(&self, node: &str) -> Option<&[String]> {
        let (_, why) = self.others.iter().find(|(name, _)| name == node)?;
        (!why.is_empty()).then_some(why)
    }
}

/// The Pod as its controller creates it next.
pub(super) struct Next<'a> {
    /// The Pod that there is now.
    pod: Option<&'a Pod>,
    own: Value,
    selector: Option<&'a Value>,
    workload: Option<&'a Workload>,
}

impl<'a> Next<'a> {
    /// None if neither the Pod nor its workload is there.
    pub(super) fn of(
        index: &Index<'a>,
        key: &WorkloadKey,
        name: &str,
        pod: Option<&'a Pod>,
        spec: &Spec,
        before: Option<&PodState>,
    ) -> Option<Self> {
        let workload = index.workload(key);
        let selector = workload.map(|workload| &workload.object()["spec"]["selector"]);
        // The next Pod is made from the template that the workload has by then.
        let own = workload
            .filter(|workload| pod.is_none_or(|pod| !is_held_back(workload, pod)))
            .and_then(|workload| pods_of(workload.object(), &key.namespace, [name]).into_iter().next())
            .or_else(|| Some(own(workload, pod?, spec, before)))?;
        Some(Self { pod, own, selector, workload })
    }

    /// Whether the Pod was made from another template than its successor will be.
    pub(super) fn is_of_former_template(&self) -> bool {
        self.workload.zip(self.pod).is_some_and(|(workload, pod)| is_former(pod, workload))
    }

    /// The Pod as the policy lets it pass with this state.
    pub(super) fn with_state(&self, pps: &str, spec: &Spec, state: Option<&PodState>) -> Value {
        let mut pod = self.own.clone();
        if let Some(state) = state {
            let plan = plan(pps, spec, state, &AnnotationRules::default());
            // A Pod that the policy refuses is shown as its controller makes it: the refusal is shown when it comes.
            if apply(&plan, &mut pod).is_err() {
                self.own.clone_into(&mut pod);
            }
        }
        pod
    }

    /// Where it may land; none if nodes may not be read.
    pub(super) fn forecast(&self, snapshot: &Snapshot, successor: &Value) -> Option<Forecast> {
        let nodes = Nodes::of(snapshot, self.pod)?;
        let selection = nodes.select(successor, Some(&self.own), self.selector);
        let others = selection
            .verdicts
            .iter()
            .filter(|verdict| !selection.may_land_on.contains(&verdict.node))
            .map(|verdict| {
                (verdict.node.clone(), verdict.exclusions.iter().map(|one| one.text.clone()).collect())
            })
            .collect();
        Some(Forecast { others, may_land_on: selection.may_land_on, caveats: selection.caveats })
    }

    /// Of a Pod that no node can take with this state: what excludes those that could.
    pub(super) fn way_out(
        &self,
        snapshot: &Snapshot,
        pps: &str,
        spec: &Spec,
        state: &PodState,
    ) -> Option<WayOut> {
        let free =
            self.forecast(snapshot, &self.with_state(pps, spec, Some(&without_place(state))))?.landing();
        let nodes = free.favourites().iter().chain(free.others()).filter_map(|node| snapshot.node(node));
        WayOut::of(spec, state, nodes)
    }
}

/// Whether a Pod that does not run comes back by itself: a node could take it with what is recorded of it now. Not known, and
/// so false, if nodes may not be read.
pub(super) fn comes_back(
    snapshot: &Snapshot,
    index: &Index<'_>,
    key: &WorkloadKey,
    pps: &Pps,
    name: &str,
) -> bool {
    let (Ok(spec), Ok(state)) = (pps.spec(), pps.state(name)) else { return false };
    let pod = index.pod(&key.namespace, name).filter(|pod| !pod.is_finished());
    let Some(next) = Next::of(index, key, name, pod, &spec, state.as_ref()) else { return false };
    // One that waits was created already, maybe with another state.
    let pod = match pod.filter(|pod| pod.node().is_none() && !pod.is_terminating()) {
        Some(waiting) => waiting.object().clone(),
        None => next.with_state(pps.name(), &spec, state.as_ref()),
    };
    next.forecast(snapshot, &pod).is_some_and(|forecast| !forecast.may_land_on.is_empty())
}

/// The Pod as its controller created it, before the policy saw it.
fn own(workload: Option<&Workload>, pod: &Pod, spec: &Spec, before: Option<&PodState>) -> Value {
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
