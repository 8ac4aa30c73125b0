//! Where a Pod may land.

use pps_core::{AnnotationRules, INJECTED_ANNOTATION, PodState, Spec, apply, plan};
use pps_simulation::template::pods_of;
use serde_json::Value;

use crate::decide::injected::injected;
use crate::decide::landing::Landing;
use crate::decide::placement::{Nodes, unbound};
use crate::decide::template::{is_former, is_held_back};
use crate::snapshot::{Index, Pod, Snapshot, Workload, WorkloadKey};

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
    pod: &'a Pod,
    own: Value,
    selector: Option<&'a Value>,
    workload: Option<&'a Workload>,
}

impl<'a> Next<'a> {
    pub(super) fn of(index: &Index<'a>, pod: &'a Pod, spec: &Spec, before: Option<&PodState>) -> Self {
        let workload =
            pod.owner().and_then(|(owner, _)| index.workload(&WorkloadKey::of(pod.namespace(), &owner)));
        let selector = workload.map(|workload| &workload.object()["spec"]["selector"]);
        Self { pod, own: own(workload, pod, spec, before), selector, workload }
    }

    /// Whether the Pod was made from another template than its successor will be.
    pub(super) fn is_of_former_template(&self) -> bool {
        self.workload.is_some_and(|workload| is_former(self.pod, workload))
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
        let nodes = Nodes::of(snapshot, Some(self.pod))?;
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
}

/// The Pod as its controller creates it, before the policy sees it.
fn own(workload: Option<&Workload>, pod: &Pod, spec: &Spec, before: Option<&PodState>) -> Value {
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
