//! A Pod, or the name of one, with everything that concerns it.

use pps_admission::plan::{Plan, Requirement};
use pps_admission::{apply, plan};
use pps_check::read::Read;
use pps_core::packed::Damaged;
use pps_core::succession::{is_held_back, ordinal};
use pps_core::{AnnotationRules, PodState, Spec};
use pps_scheduler::{HOSTNAME, Selection};
use pps_simulation::pods_of;
use serde_json::Value;

use crate::decide::injected::{Injected, injected, same_labels};
use crate::decide::placement::{Nodes, unbound};
use crate::decide::status::ProblemKind;
use crate::snapshot::{Index, Pod, Pps, Resource, Snapshot, Workload, WorkloadKey};

/// A Pod that needs a node: the present one, or the one that its controller would create.
pub(crate) struct Candidate {
    pub(crate) pod: Value,
    /// The Pod without the injected parts.
    pub(crate) before: Value,
    /// The node labels that the injected parts require.
    pub(crate) required: Vec<Requirement>,
    /// Whether another Pod that is created now would require something else.
    pub(crate) is_outdated: bool,
    /// Whether another Pod that is created now would be made from another template.
    pub(crate) other_template: bool,
}

/// A Pod, or the name of one, with everything that concerns it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub namespace: &'a str,
    pub name: &'a str,
    pub pod: Option<&'a Pod>,
    /// Its controller, or the workload that wants such a Pod or has its state.
    pub owner: Option<WorkloadKey>,
    /// The owner's object, if it was read.
    pub workload: Option<&'a Workload>,
    pub pps: Read<&'a Pps>,
    pub problem: Option<ProblemKind>,
    /// Its spec, if that can be read.
    pub spec: Option<Spec>,
    /// The recorded state of the Pod's name; an error if the state is damaged, or if its object
    /// could not be read.
    pub state: Result<Option<PodState>, Option<Damaged>>,
    pub injected: Option<Injected>,
    /// All nodes, without the Pod.
    pub(crate) nodes: Option<Nodes<'a>>,
}

/// The controller of a Pod.
struct Owner<'a> {
    key: Option<WorkloadKey>,
    /// Its object, if it was read.
    workload: Option<&'a Workload>,
}

impl<'a> Owner<'a> {
    fn of_pod(index: &Index<'a>, pod: &Pod) -> Self {
        let key = WorkloadKey::of_pod(pod);
        let workload = key.as_ref().and_then(|key| index.workload(key));
        Self { key, workload }
    }

    /// The workload that wants a Pod of this name, or has its state: one that a PersistentPodState
    /// governs comes first. None if nothing that was read does.
    fn of_name(
        snapshot: &'a Snapshot,
        index: &Index<'a>,
        namespace: &str,
        name: &str,
    ) -> Option<Self> {
        snapshot.require(Resource::Pods).ok()?;
        let workload = wanting(snapshot, namespace, name);
        let wanting = workload.map(|workload| WorkloadKey::of(namespace, &workload.target()));
        let is_governed = wanting
            .as_ref()
            .is_some_and(|key| index.governing(key).is_some());
        let key = if is_governed {
            wanting
        } else {
            recorded_owner(index, namespace, name).or(wanting)
        };
        Some(Self {
            key: Some(key?),
            workload,
        })
    }
}

/// The workload whose PersistentPodState has a state of this name.
fn recorded_owner(index: &Index, namespace: &str, name: &str) -> Option<WorkloadKey> {
    index
        .targeted()
        .filter(|(key, _)| key.namespace == namespace)
        .find(|(_, all)| {
            let governing = all.first();
            governing.is_some_and(|pps| matches!(pps.state(name), Ok(Some(_))))
        })
        .map(|(key, _)| key.clone())
}

impl<'a> Subject<'a> {
    /// None if there is no such Pod, and nothing that was read wants it or has its state.
    pub(crate) fn of(
        snapshot: &'a Snapshot,
        index: &Index<'a>,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<Self> {
        let pod = index.pod(namespace, name);
        let Owner {
            key: owner,
            workload,
        } = match pod {
            Some(pod) => Owner::of_pod(index, pod),
            None => Owner::of_name(snapshot, index, namespace, name)?,
        };
        let pps = owner
            .as_ref()
            .map_or(Read::Absent, |owner| index.read_governing(owner));
        let spec = pps.known().map(|pps| pps.spec_in_force()).transpose();
        let unreadable = spec.as_ref().err().cloned().map(ProblemKind::Unreadable);
        let problem = unreadable.or_else(|| ProblemKind::of(pps.known()?));
        let spec = spec.ok().flatten();
        let state = match pps {
            Read::Known(pps) => pps.state(name).map_err(Some),
            Read::Absent => Ok(None),
            Read::Unknown => Err(None),
        };
        let recorded = state.as_ref().ok().and_then(Option::as_ref);
        let injected = pod.and_then(|pod| injected(pod, workload, spec.as_ref(), recorded));
        let nodes = Nodes::of(snapshot, pod);
        Some(Self {
            snapshot,
            namespace,
            name,
            pod,
            owner,
            workload,
            pps,
            problem,
            spec,
            state,
            injected,
            nodes,
        })
    }

    /// Whether the Pod exists, is wanted, or has a state, as far as is known.
    pub(crate) fn is_anything(&self) -> bool {
        let is_wanted = self
            .workload
            .is_some_and(|workload| workload.wants(self.name));
        self.pod.is_some() || is_wanted || self.state != Ok(None)
    }

    /// The recorded state, unless it is empty.
    pub fn recorded(&self) -> Option<&PodState> {
        self.state
            .as_ref()
            .ok()?
            .as_ref()
            .filter(|state| **state != PodState::default())
    }

    pub fn recorded_node(&self) -> Option<&str> {
        self.recorded()
            .map(|state| state.node_name.as_str())
            .filter(|node| !node.is_empty())
    }

    /// What the policy would inject into a Pod of this name now.
    pub fn plan(&self) -> Plan {
        self.plan_of(self.recorded())
    }

    fn plan_of(&self, state: Option<&PodState>) -> Plan {
        let pps = self.pps.known().filter(|pps| pps.is_enabled());
        match (pps, &self.spec, state) {
            (Some(pps), Some(spec), Some(state)) => {
                plan(pps.name(), spec, state, &AnnotationRules::default())
            }
            _ => Plan::default(),
        }
    }

    /// The home of a Pod that runs elsewhere, to which it returns when it is created again.
    pub fn home(&self) -> Option<&str> {
        let (home, node) = self.recorded_node().zip(self.pod?.node())?;
        self.spec
            .as_ref()
            .filter(|spec| spec.is_away(home, node))
            .map(|_| home)
    }

    /// Labels that the node must have because they were injected.
    pub fn required(&self) -> &[Requirement] {
        self.injected
            .as_ref()
            .map_or(&[], |injected| &injected.required)
    }

    /// The node that the Pod was or is recorded on, if nodes may be read and it does not exist any
    /// more.
    pub fn gone_node(&self) -> Option<&str> {
        let name = if self.has_changed() || !self.is_readable() {
            self.required_node()
        } else {
            self.recorded_node()
        };
        name.filter(|name| self.snapshot.lacks_node(name))
    }

    /// The node whose host name was injected.
    fn required_node(&self) -> Option<&str> {
        self.required()
            .iter()
            .find(|one| one.key == HOSTNAME)
            .map(|one| one.value.as_str())
    }

    /// Whether a Pod that is created now would require other labels than the injected ones.
    pub fn has_changed(&self) -> bool {
        self.is_readable()
            && self
                .injected
                .as_ref()
                .is_some_and(|injected| !same_labels(&injected.required, &self.plan().required))
    }

    /// Whether what a new Pod would get is known.
    pub fn is_readable(&self) -> bool {
        self.state.is_ok() && (self.spec.is_some() || self.pps.known().is_none())
    }

    /// Whether it is Ready and its node is not recorded, for long or because of a problem.
    pub fn is_unrecorded(&self) -> bool {
        let is_due = self.pod.is_some_and(|pod| {
            let is_late = self.problem.is_some() || self.snapshot.is_lasting(pod.ready_since());
            is_late && self.snapshot.is_recordable(pod)
        });
        is_due && self.state.is_ok() && self.pps.known().is_some() && self.recorded_node().is_none()
    }

    pub(crate) fn present(&self, pod: &Pod) -> Candidate {
        Candidate {
            pod: unbound(pod.object()),
            before: self.before(pod),
            required: self.required().to_vec(),
            is_outdated: self.has_changed(),
            other_template: self
                .workload
                .is_some_and(|workload| workload.has_replaced(pod)),
        }
    }

    /// The present Pod without the injected parts.
    fn before(&self, pod: &Pod) -> Value {
        unbound(
            self.injected
                .as_ref()
                .map_or(pod.object(), |injected| &injected.before),
        )
    }

    /// Whether a controller creates a Pod of this name, as far as is known.
    pub fn may_come_back(&self) -> bool {
        let Some(owner) = &self.owner else {
            return false;
        };
        self.workload.map_or_else(
            || !self.snapshot.has_all_like(owner),
            |known| known.wants(self.name),
        )
    }

    /// The Pod as its controller would create it now; none without a controller, or if what it
    /// would get is not known.
    pub(crate) fn successor(&self) -> Option<Candidate> {
        self.successor_with(self.recorded())
    }

    pub(crate) fn successor_with(&self, state: Option<&PodState>) -> Option<Candidate> {
        if !self.may_come_back() || !self.is_readable() {
            return None;
        }
        // A Pod that a partition holds back is made from the old template, which is not at hand:
        // the present Pod stands for it.
        let workload = self
            .workload
            .filter(|workload| !is_held_back(workload.object(), self.name));
        let made = workload.and_then(|workload| {
            pods_of(workload.object(), self.namespace, [self.name])
                .into_iter()
                .next()
        });
        let before = made.or_else(|| Some(self.before(self.pod?)))?;
        let plan = self.plan_of(state);
        let mut pod = before.clone();
        if !plan.is_empty() && apply(&plan, &mut pod).is_err() {
            pod = before.clone();
        }
        Some(Candidate {
            pod,
            before,
            required: plan.required,
            is_outdated: false,
            other_template: false,
        })
    }

    /// What the simulation of the scheduler says about a Pod; none if nodes may not be read.
    pub(crate) fn select(&self, candidate: &Candidate) -> Option<Selection> {
        let nodes = self.nodes.as_ref()?;
        Some(self.select_on(nodes, &candidate.pod, Some(&candidate.before)))
    }

    /// The same for a Pod without injected parts; none if the injected parts require nothing.
    pub(crate) fn select_freed(&self, candidate: &Candidate) -> Option<Selection> {
        let nodes = self
            .nodes
            .as_ref()
            .filter(|_| !candidate.required.is_empty())?;
        Some(self.select_on(nodes, &candidate.before, None))
    }

    /// The same on these nodes alone.
    pub(crate) fn select_on(
        &self,
        nodes: &Nodes,
        pod: &Value,
        before: Option<&Value>,
    ) -> Selection {
        nodes.select(pod, before, self.workload.and_then(Workload::selector))
    }
}

/// The workload that wants a Pod of this name, or else one that could.
pub fn wanting<'a>(snapshot: &'a Snapshot, namespace: &str, pod: &str) -> Option<&'a Workload> {
    snapshot
        .workloads
        .iter()
        .filter(|one| one.namespace() == namespace && ordinal(one.name(), pod).is_some())
        .max_by_key(|workload| workload.wants(pod))
}
