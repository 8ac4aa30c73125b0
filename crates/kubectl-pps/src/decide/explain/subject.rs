//! A Pod with everything that concerns it.

use pps_check::facts::Read;
use pps_core::plan::{Plan, Requirement};
use pps_core::{AnnotationRules, PodState, Spec, apply, plan};
use pps_simulation::scheduler::Selection;
use pps_simulation::template::pods_of;
use serde_json::Value;

use super::{HOSTNAME, Question};
use crate::decide::injected::{Injected, injected};
use crate::decide::placement::{Nodes, unbound};
use crate::decide::template;
use crate::snapshot::{Index, Pod, Pps, Workload, WorkloadKey};

/// A Pod that needs a node: the present one, or the one that its controller would create.
pub(super) struct Candidate {
    /// The Pod, without a node.
    pub(super) pod: Value,
    /// The same without what is injected.
    pub(super) before: Value,
    /// The labels of nodes that what is injected requires.
    pub(super) required: Vec<Requirement>,
    /// Whether another Pod that is created now would require something else.
    pub(super) is_outdated: bool,
    /// Whether another Pod that is created now would be made from another template.
    pub(super) is_former: bool,
}

/// A Pod with everything that concerns it.
pub(super) struct Subject<'a> {
    pub(super) pod: &'a Pod,
    /// Its controller.
    pub(super) owner: Option<WorkloadKey>,
    pub(super) workload: Option<&'a Workload>,
    /// What governs its workload.
    pub(super) pps: Read<&'a Pps>,
    /// Its spec, if that can be read.
    pub(super) spec: Option<Spec>,
    /// What is recorded under the Pod's name, or why that is not known.
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
        let pps = owner.as_ref().map_or(Read::Absent, |key| index.read_governing(key));
        let spec = pps.known().and_then(|pps| pps.spec().ok());
        let state = match pps {
            Read::Known(pps) => pps.state(pod.name()).map_err(|damaged| damaged.to_string()),
            Read::Absent => Ok(None),
            Read::Unknown => Err("PersistentPodStates could not be read".to_owned()),
        };
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
        let plan = plan(
            self.pps.known()?.name(),
            self.spec.as_ref()?,
            self.recorded()?,
            &AnnotationRules::default(),
        );
        (!plan.is_empty()).then_some(plan)
    }

    /// Labels that the node must have because they were injected.
    pub(super) fn required(&self) -> &[Requirement] {
        self.injected.as_ref().map_or(&[], |injected| &injected.required)
    }

    /// The Pod as it is, without a node.
    pub(super) fn present(&self) -> Candidate {
        Candidate {
            pod: unbound(self.pod.object()),
            before: self.before(),
            required: self.required().to_vec(),
            is_outdated: self.has_changed(),
            is_former: self.is_former(),
        }
    }

    /// The Pod as it is, without a node and without what was injected.
    pub(super) fn before(&self) -> Value {
        unbound(self.injected.as_ref().map_or(self.pod.object(), |injected| &injected.before))
    }

    /// The Pod as its controller would create it now; none if what is recorded is not known.
    pub(super) fn successor(&self) -> Option<Candidate> {
        self.state.as_ref().ok()?;
        let made = self.workload.and_then(|workload| {
            pods_of(workload.object(), self.pod.namespace(), [self.pod.name()]).into_iter().next()
        });
        let before = made.unwrap_or_else(|| self.before());
        let plan = self.plan().unwrap_or_default();
        let mut pod = before.clone();
        if !plan.is_empty() && apply(&plan, &mut pod).is_err() {
            pod = before.clone();
        }
        Some(Candidate { pod, before, required: plan.required, is_outdated: false, is_former: false })
    }

    /// What the simulation of the scheduler says about a Pod; none if nodes may not be read.
    pub(super) fn select(&self, candidate: &Candidate) -> Option<Selection> {
        Some(self.nodes.as_ref()?.select(&candidate.pod, Some(&candidate.before), self.selector()))
    }

    /// The node that the Pod was or is recorded on, if nodes may be read and it does not exist any more.
    pub(super) fn gone_node(&self, question: &Question) -> Option<String> {
        let recorded = || self.recorded().map(|state| state.node_name.clone());
        let required = || self.required().iter().find(|one| one.key == HOSTNAME).map(|one| one.value.clone());
        let name = if self.has_changed() { required() } else { recorded() };
        name.filter(|name| !name.is_empty() && question.snapshot.lacks_node(name))
    }

    /// Why nothing is recorded of a Pod that is Ready, if its PersistentPodState says that, or that no sidecar serves it.
    pub(super) fn unrecorded(&self) -> Option<String> {
        let pps = self.pps.known()?;
        let is_lasting = self.pod.is_ready() && !self.pod.is_terminating() && self.state == Ok(None);
        if !is_lasting || self.pod.is_exempt() {
            return None;
        }
        match pps.recording() {
            Some((true, ..)) => None,
            Some((false, reason, message)) => Some(format!("{reason}: {message}")),
            None => Some(format!("no sidecar has looked at PersistentPodState {} yet", pps.name())),
        }
    }

    /// The selector of its controller, by which the scheduler spreads Pods.
    pub(super) fn selector(&self) -> Option<&Value> {
        let selector = &self.workload?.object()["spec"]["selector"];
        (!selector.is_null()).then_some(selector)
    }

    /// Whether its controller would make the Pod from another template now.
    pub(super) fn is_former(&self) -> bool {
        let is_known = |workload: &&Workload| !template::is_unobserved(workload);
        self.workload.filter(is_known).is_some_and(|workload| template::is_former(self.pod, workload))
    }

    /// Whether the state that would be injected now differs from what was injected in what it requires.
    pub(super) fn has_changed(&self) -> bool {
        let now = self.plan().map(|plan| plan.required).unwrap_or_default();
        self.state.is_ok() && self.injected.as_ref().is_some_and(|injected| injected.differs_from(&now))
    }
}

/// `zone=a and disk=ssd`
pub(super) fn words(requirements: &[Requirement]) -> String {
    let one = |one: &Requirement| format!("{}={}", one.key, one.value);
    requirements.iter().map(one).collect::<Vec<_>>().join(" and ")
}
