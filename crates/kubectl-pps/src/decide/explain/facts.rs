//! What concerns a Pod.

use pps_check::read::Read;
use pps_core::PodState;
use pps_core::packed::Damaged;
use pps_core::plan::{Preference, Requirement};
use pps_core::pps::NodeDeletionPolicy;

use super::subject::{Subject, problem_of};
use super::{LostNode, Question, Reason, Unrecorded};
use crate::decide::landing::Landing;
use crate::decide::status::Drift;
use crate::snapshot::{FoundBy, Index, WorkloadKey};

/// What an answer follows from.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum Fact {
    /// Where the Pod would go that its controller created if this one were deleted.
    IfDeleted {
        node: String,
        landing: Landing,
        /// Why its node could not take it.
        excluded: Vec<Reason>,
        required: Vec<Requirement>,
        /// If nothing is required.
        preferred: Vec<Preference>,
    },
    /// Nothing confirms that the Pod runs.
    NodeLost(LostNode),
    /// It is not Ready, but not for want of its place.
    HasItsPlace,
    /// The sidecar should record it where it runs.
    NotRecordedAgain,
    /// How it differs from its recorded state.
    Differs(Drift),
    /// Why the scheduler has found no node.
    SchedulerSays(String),
    /// Its controller reports this message.
    Refusal { workload: String, message: String, by: Refuser },
    /// No Event says why it does not exist.
    NoEvent { workload: String, are_events_read: bool },
    /// It waits for a node that is gone, and whose states are dropped.
    IsForgotten { is_recorded: bool },
    /// Which PersistentPodState governs its workload.
    Governance(Governance),
    /// Its recorded state cannot be read.
    RecordDamaged(Damaged),
    /// Nothing is recorded under its name.
    NothingRecorded { has_changed: bool, is_ready: bool },
    /// Its recorded state; whether its node is gone, and in which field of the status it is.
    Recorded { state: PodState, is_gone: bool, form: Option<&'static str> },
    /// Nothing was injected when it was created at this time.
    NotInjected { created: String },
    /// What was injected when it was created; from another PersistentPodState than the one that governs it now.
    Injected {
        from: Option<String>,
        created: String,
        required: Vec<Requirement>,
        preferred: Vec<Preference>,
        is_known: bool,
    },
    /// Another Pod that is created now would require this.
    WouldRequire { required: Vec<Requirement>, has_changed: bool },
    /// The sidecar does not record it.
    Exempt { by_move: bool },
    /// The PersistentPodState of this name has a problem.
    Problem { pps: String, why: Unrecorded },
}

/// Who refuses a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// The policy, or its webhook, which is not reached.
    Policy,
    /// Another webhook.
    OtherWebhook,
    /// Something else.
    Other,
}

/// Which PersistentPodState governs a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum Governance {
    /// The Pod has no controller.
    NoController,
    /// That could not be read.
    Unknown(WorkloadKey),
    /// None.
    None(WorkloadKey),
    /// None can: its Pods get new names each time.
    Impossible(WorkloadKey),
    /// This one.
    By { pps: String, workload: WorkloadKey, found_by: FoundBy },
}

/// All facts, the most important first.
pub(super) fn of(question: &Question, index: &Index, subject: &Subject) -> Vec<Fact> {
    let pod = subject.pod;
    let mut facts = Vec::new();
    facts.extend(forgotten(question, subject));
    facts.push(Fact::Governance(governance(index, subject)));
    facts.extend(recorded(question, subject));
    facts.extend(injected(subject));
    if subject.has_changed() && subject.recorded().is_some() {
        facts.push(Fact::WouldRequire { required: subject.plan().required, has_changed: true });
    }
    facts.extend(pod.is_exempt().then(|| Fact::Exempt { by_move: pod.is_marked() }));
    // An answer that is about the problem has it already.
    if let (Some(pps), None) = (subject.pps.known(), subject.unrecorded()) {
        facts.extend(problem_of(pps).map(|why| Fact::Problem { pps: pps.name().to_owned(), why }));
    }
    facts
}

/// What is missing if a Pod waits for a node whose states are dropped when it is gone.
fn forgotten(question: &Question, subject: &Subject) -> Option<Fact> {
    let keeps = subject.spec.as_ref()?.node_deletion() == NodeDeletionPolicy::Keep;
    let required = subject.required();
    let waits = subject.pod.node().is_none() && !required.is_empty();
    let is_gone = !keeps && waits && !question.snapshot.has_node(required)?;
    is_gone.then(|| Fact::IsForgotten { is_recorded: subject.recorded().is_some() })
}

fn governance(index: &Index, subject: &Subject) -> Governance {
    let Some(workload) = subject.owner.clone() else { return Governance::NoController };
    match subject.pps {
        Read::Known(pps) => {
            let found_by = index.found_by(&workload, pps);
            Governance::By { pps: pps.name().to_owned(), workload, found_by }
        }
        Read::Unknown => Governance::Unknown(workload),
        Read::Absent if workload.has_stable_names() => Governance::None(workload),
        Read::Absent => Governance::Impossible(workload),
    }
}

/// The state that is recorded under the Pod's name, and in which form.
fn recorded(question: &Question, subject: &Subject) -> Option<Fact> {
    let pps = subject.pps.known()?;
    if let Err(damaged) = &subject.state {
        return damaged.clone().map(Fact::RecordDamaged);
    }
    let Some(state) = subject.recorded() else {
        let (has_changed, is_ready) = (subject.has_changed(), subject.pod.is_ready());
        return Some(Fact::NothingRecorded { has_changed, is_ready });
    };
    let is_plain = pps.object()["status"]["podStates"][subject.pod.name()].is_object();
    let form = Some(if is_plain { "status.podStates" } else { "status.packed" });
    let is_gone = question.snapshot.lacks_node(&state.node_name);
    Some(Fact::Recorded { state: state.clone(), is_gone, form })
}

/// What the policy has injected, and when.
fn injected(subject: &Subject) -> Option<Fact> {
    let created = subject.pod.created().to_owned();
    let Some(injected) = &subject.injected else {
        subject.pps.known()?;
        return Some(Fact::NotInjected { created });
    };
    let is_foreign = subject.pps.known().is_none_or(|pps| pps.name() != injected.pps);
    Some(Fact::Injected {
        from: is_foreign.then(|| injected.pps.clone()),
        created,
        required: injected.required.clone(),
        preferred: injected.preferred.clone(),
        is_known: subject.spec.is_some(),
    })
}
