//! A Pod with everything that concerns it.

use pps_core::plan::{Plan, Requirement};
use pps_core::{AnnotationRules, PodState, Spec, apply, plan};
use pps_simulation::template::pods_of;
use serde_json::Value;

use super::Question;
use crate::decide::injected::{Injected, injected};
use crate::decide::placement::{Nodes, unbound};
use crate::snapshot::{Index, Pod, Pps, Workload, WorkloadKey};

/// A Pod with everything that concerns it.
pub(super) struct Subject<'a> {
    pub(super) pod: &'a Pod,
    /// Its controller.
    pub(super) owner: Option<WorkloadKey>,
    pub(super) workload: Option<&'a Workload>,
    /// What governs its workload.
    pub(super) pps: Option<&'a Pps>,
    /// Its spec, if that can be read.
    pub(super) spec: Option<Spec>,
    /// What is recorded under the Pod's name, or why that cannot be read.
    pub(super) state: Result<Option<PodState>, String>,
    /// What was injected into it.
    pub(super) injected: Option<Injected>,
    /// All nodes, without the Pod.
    pub(super) nodes: Option<Nodes<'a>>,
}

impl<'a> Subject<'a> {
    pub(super) fn of(question: &Question<'a>, index: &Index<'a>, pod: &'a Pod) -> Self {
        let owner = pod.owner().map(|(target, _)| WorkloadKey::of(pod.namespace(), &target));
        let workload = owner.as_ref().and_then(|key| index.workload(key));
        let pps = owner.as_ref().and_then(|key| index.governing(key));
        let spec = pps.and_then(|pps| pps.spec().ok());
        let state = pps.map_or(Ok(None), |pps| pps.state(pod.name()).map_err(|damaged| damaged.to_string()));
        let recorded = state.as_ref().ok().and_then(Option::as_ref);
        let injected = injected(pod, workload, spec.as_ref(), recorded);
        let nodes = Nodes::of(question.snapshot, Some(pod));
        Self { pod, owner, workload, pps, spec, state, injected, nodes }
    }

    /// What is recorded.
    pub(super) fn recorded(&self) -> Option<&PodState> {
        self.state.as_ref().ok()?.as_ref().filter(|state| **state != PodState::default())
    }

    /// What the policy would inject into a Pod of this name now.
    pub(super) fn plan(&self) -> Option<Plan> {
        let plan = plan(self.pps?.name(), self.spec.as_ref()?, self.recorded()?, &AnnotationRules::default());
        (!plan.is_empty()).then_some(plan)
    }

    /// Labels that the node must have because they were injected.
    pub(super) fn required(&self) -> &[Requirement] {
        self.injected.as_ref().map_or(&[], |injected| &injected.required)
    }

    /// The Pod as it is, without a node.
    pub(super) fn present(&self) -> Value {
        unbound(self.pod.object())
    }

    /// The Pod as it is, without a node and without what was injected.
    pub(super) fn before(&self) -> Value {
        unbound(self.injected.as_ref().map_or(self.pod.object(), |injected| &injected.before))
    }

    /// The Pod as its controller would create it now, before and after the policy.
    pub(super) fn successor(&self) -> (Value, Value) {
        let made = self.workload.and_then(|workload| {
            pods_of(workload.object(), self.pod.namespace(), [self.pod.name()]).into_iter().next()
        });
        let before = made.unwrap_or_else(|| self.before());
        let mut after = before.clone();
        if let Some(plan) = self.plan()
            && apply(&plan, &mut after).is_err()
        {
            after = before.clone();
        }
        (before, after)
    }

    /// The selector of its controller, by which the scheduler spreads Pods.
    pub(super) fn selector(&self) -> Option<&Value> {
        let selector = &self.workload?.object()["spec"]["selector"];
        (!selector.is_null()).then_some(selector)
    }

    /// Whether the state that would be injected now differs from what was injected in what it requires.
    pub(super) fn has_changed(&self) -> bool {
        let now = self.plan().map(|plan| plan.required).unwrap_or_default();
        let was = self.required();
        self.state.is_ok()
            && self.injected.is_some()
            && !(now.iter().all(|one| was.contains(one)) && was.iter().all(|one| now.contains(one)))
    }
}

/// `zone=a and disk=ssd`
pub(super) fn words(requirements: &[Requirement]) -> String {
    let one = |one: &Requirement| format!("{}={}", one.key, one.value);
    requirements.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// `node-1`, `node-1 and node-2`, `node-1, node-2, node-3 and 7 others`.
pub(crate) fn list(names: &[String], conjunction: &str) -> String {
    const SHOWN: usize = 4;
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [rest @ .., last] if names.len() <= SHOWN => format!("{} {conjunction} {last}", rest.join(", ")),
        _ => format!("{} {conjunction} {} others", names[..SHOWN - 1].join(", "), names.len() - SHOWN + 1),
    }
}
