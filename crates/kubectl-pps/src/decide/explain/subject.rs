//! A Pod with everything that concerns it.

use pps_check::read::Read;
use pps_core::packed::Damaged;
use pps_core::plan::{Plan, Requirement};
use pps_core::{AnnotationRules, PodState, Spec, apply, plan};
use pps_scheduler::Selection;
use pps_simulation::pods_of;
use serde_json::Value;

use super::{HOSTNAME, Question, Unrecorded};
use crate::decide::placement::{Nodes, unbound};
use crate::decide::template::{self, Injected, injected};
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
    /// The PersistentPodState that governs its workload.
    pub(super) pps: Read<&'a Pps>,
    /// Its spec, if that can be read.
    pub(super) spec: Option<Spec>,
    /// The state that is recorded under the Pod's name; an error if that is not known, because it is damaged or could
    /// not be read.
    pub(super) state: Result<Option<PodState>, Option<Damaged>>,
    /// What was injected into it.
    pub(super) injected: Option<Injected>,
    /// All nodes, without the Pod.
    pub(super) nodes: Option<Nodes<'a>>,
}

impl<'a> Subject<'a> {
    pub(super) fn of(question: &Question<'a>, index: &Index<'a>, pod: &'a Pod) -> Self {
        let owner = WorkloadKey::of_pod(pod);
        let workload = owner.as_ref().and_then(|key| index.workload(key));
        let pps = owner.as_ref().map_or(Read::Absent, |key| index.read_governing(key));
        let spec = pps.known().and_then(|pps| pps.spec().ok());
        let state = match pps {
            Read::Known(pps) => pps.state(pod.name()).map_err(Some),
            Read::Absent => Ok(None),
            Read::Unknown => Err(None),
        };
        let recorded = state.as_ref().ok().and_then(Option::as_ref);
        let injected = injected(pod, workload, spec.as_ref(), recorded);
        let nodes = Nodes::of(question.snapshot, Some(pod));
        Self { pod, owner, workload, pps, spec, state, injected, nodes }
    }

    /// The recorded state, unless it is empty.
    pub(super) fn recorded(&self) -> Option<&PodState> {
        self.state.as_ref().ok()?.as_ref().filter(|state| **state != PodState::default())
    }

    /// The recorded node.
    pub(super) fn recorded_node(&self) -> Option<&str> {
        self.recorded().map(|state| state.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// What the policy would inject into a Pod of this name now.
    pub(super) fn plan(&self) -> Plan {
        let parts = self.pps.known().zip(self.spec.as_ref()).zip(self.recorded());
        parts.map_or_else(Plan::default, |((pps, spec), state)| {
            plan(pps.name(), spec, state, &AnnotationRules::default())
        })
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

    /// The Pod as its controller would create it now; none if the recorded state is not known.
    pub(super) fn successor(&self) -> Option<Candidate> {
        self.state.as_ref().ok()?;
        let name = self.pod.name();
        // A Pod that a partition holds back is made from the former template, which is not at hand: it stays as it is.
        let workload = self.workload.filter(|workload| !template::is_held_back(workload, name));
        let made = workload
            .and_then(|workload| pods_of(workload.object(), self.pod.namespace(), [name]).into_iter().next());
        let before = made.unwrap_or_else(|| self.before());
        let plan = self.plan();
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
        let required =
            || self.required().iter().find(|one| one.key == HOSTNAME).map(|one| one.value.as_str());
        let name = if self.has_changed() { required() } else { self.recorded_node() }?;
        question.snapshot.lacks_node(name).then(|| name.to_owned())
    }

    /// Why nothing is recorded of a Pod that is Ready, if its PersistentPodState says that, or that no sidecar serves it.
    pub(super) fn unrecorded(&self) -> Option<Unrecorded> {
        let pps = self.pps.known()?;
        let is_due = self.pod.is_ready() && !self.pod.is_terminating() && self.state == Ok(None);
        if !is_due || self.pod.is_exempt() {
            return None;
        }
        problem_of(pps)
    }

    /// The selector of its controller, by which the scheduler spreads Pods.
    pub(super) fn selector(&self) -> Option<&Value> {
        self.workload?.selector()
    }

    /// Whether its controller would make the Pod from another template now.
    pub(super) fn is_former(&self) -> bool {
        let is_known = |workload: &&Workload| !template::is_unobserved(workload);
        self.workload.filter(is_known).is_some_and(|workload| template::is_former(self.pod, workload))
    }

    /// Whether the state that would be injected now differs from what was injected in what it requires.
    pub(super) fn has_changed(&self) -> bool {
        let differs = |injected: &Injected| !template::same_labels(&injected.required, &self.plan().required);
        self.state.is_ok() && self.injected.as_ref().is_some_and(differs)
    }
}

/// What the condition of a PersistentPodState says, unless that is True.
pub(super) fn problem_of(pps: &Pps) -> Option<Unrecorded> {
    match pps.recording() {
        Some((true, ..)) => None,
        Some((false, reason, message)) => Some(Unrecorded::Condition(reason.into(), message.into())),
        None => Some(Unrecorded::NotSeen(pps.name().to_owned())),
    }
}
