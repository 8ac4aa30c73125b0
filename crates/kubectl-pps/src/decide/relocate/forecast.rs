//! Where a Pod may land.

use pps_core::workload::ordinal;
use pps_core::{AnnotationRules, INJECTED_ANNOTATION, PodState, Spec, apply, plan};
use pps_simulation::template::pods_of;
use serde_json::Value;

use crate::decide::injected::injected;
use crate::decide::placement::{Nodes, unbound};
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
    /// All nodes that could take the Pod, the best ones first.
    pub fn candidates(&self) -> Vec<String> {
        let others = self.others.iter().filter(|(_, why)| why.is_empty()).map(|(node, _)| node);
        self.may_land_on.iter().chain(others).cloned().collect()
    }

    /// Why a node cannot take it; none if it can.
    pub fn excluded(&self, node: &str) -> Option<&[String]> {
        let (_, why) = self.others.iter().find(|(name, _)| name == node)?;
        (!why.is_empty()).then_some(why)
    }
}

/// Where the Pod's successor may land with this state; none if nodes may not be read.
pub(super) fn forecast(
    snapshot: &Snapshot,
    index: &Index<'_>,
    pod: &Pod,
    pps: &Pps,
    spec: &Spec,
    before: Option<&PodState>,
    after: Option<&PodState>,
) -> Option<Forecast> {
    let nodes = Nodes::of(snapshot, Some(pod))?;
    let own = own_pod(index, pod, spec, before);
    let new = with_state(&own, pps, spec, after);
    let selector = pod
        .owner()
        .and_then(|(owner, _)| index.workload(&WorkloadKey::of(pod.namespace(), &owner)))
        .map(|workload| &workload.object()["spec"]["selector"]);
    let selection = nodes.select(&new, Some(&own), selector);
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

/// The Pod that is created next, with this state.
pub(super) fn successor(
    index: &Index<'_>,
    pod: &Pod,
    pps: &Pps,
    spec: &Spec,
    before: Option<&PodState>,
    after: Option<&PodState>,
) -> Value {
    with_state(&own_pod(index, pod, spec, before), pps, spec, after)
}

/// The Pod as its controller creates it.
fn own_pod(index: &Index<'_>, pod: &Pod, spec: &Spec, before: Option<&PodState>) -> Value {
    let workload =
        pod.owner().and_then(|(owner, _)| index.workload(&WorkloadKey::of(pod.namespace(), &owner)));
    // The next Pod is made from the template that the workload has by then.
    if let Some(workload) = workload.filter(|workload| !is_held_back(workload, pod))
        && let Some(made) = pods_of(workload.object(), pod.namespace(), [pod.name()]).into_iter().next()
    {
        return made;
    }
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

/// Whether the update strategy keeps the former template for a Pod of this ordinal.
fn is_held_back(workload: &Workload, pod: &Pod) -> bool {
    let partition = workload.object()["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_u64();
    ordinal(workload.name(), pod.name()).is_some_and(|ordinal| ordinal < partition.unwrap_or(0))
}

/// The Pod as the policy lets it pass.
fn with_state(own: &Value, pps: &Pps, spec: &Spec, state: Option<&PodState>) -> Value {
    let mut pod = own.clone();
    if let Some(state) = state {
        let plan = plan(pps.name(), spec, state, &AnnotationRules::default());
        // A Pod that the policy refuses is shown as its controller makes it: the refusal is shown when it comes.
        if apply(&plan, &mut pod).is_err() {
            own.clone_into(&mut pod);
        }
    }
    pod
}
