//! What the rules want for one entry, from what the watches have shown.

use pps_core::pps::{PodState, RetentionPolicy};

use super::Entry;
use crate::decide::status::loss_check::DropCause;
use crate::decide::status::view::backing;
use crate::demand::Wanted;
use crate::facts::PodFact;
use crate::ledger::Absence;
use crate::record::{Place, record};
use crate::workload::{PodOwnership, WorkloadPresence, retains_state};

/// After how many rounds a surplus entry is dropped. A Pod that is created again is not missing for
/// so long, even if Pods that the workload's number does not count live meanwhile.
const SURPLUS_ROUNDS: u8 = 2;

pub(super) enum Change {
    Keep(Keep),
    /// The Pod is Ready, and nothing is known of its node.
    AwaitNode,
    Record(PodState),
    Drop(DropCause),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Unchanged,
    /// Until the workload has had exactly the Pods that it wants in enough rounds; says in how
    /// many it has had them so far.
    AsSurplus {
        rounds: u8,
    },
}

pub(super) fn wanted_change(entry: &Entry<'_>) -> Change {
    if let Some(running) = recordable_pod(entry) {
        // Until the node is known, so are none of its labels.
        let Some(node) = entry.view.nodes.facts.get(running.node) else {
            return Change::AwaitNode;
        };
        let place = Place {
            name: running.node,
            node,
            is_new: entry.view.nodes.is_new(running.node),
        };
        let before = entry.before.as_ref();
        return Change::Record(record(entry.view.spec(), running.pod, place, before));
    }
    match &entry.before {
        None => Change::Keep(Keep::Unchanged),
        Some(_) if entry.absence == Some(Absence::Confirmed) => Change::Drop(DropCause::NodeGone),
        Some(before) => Retention { entry, before }.wanted_change(),
    }
}

struct RunningPod<'a> {
    pod: &'a PodFact,
    node: &'a str,
}

/// The Pod, if its state is to be recorded where it runs.
fn recordable_pod<'a>(entry: &Entry<'a>) -> Option<RunningPod<'a>> {
    let is_own = entry.view.living_workload().is_some() && entry.ownership == PodOwnership::Owned;
    let pod = entry.view.pod(&entry.pod)?;
    let node = pod.node.as_deref()?;
    let is_recordable = is_own && pod.ready && !pod.exempt && !stays_away(entry, node);
    is_recordable.then_some(RunningPod { pod, node })
}

/// Whether the entry keeps the Pod's home although the Pod runs on this node.
fn stays_away(entry: &Entry<'_>, node: &str) -> bool {
    let spec = entry.view.spec();
    let Some(before) = &entry.before else {
        return false;
    };
    // The home of a former workload's Pod is not that of its namesake.
    let is_former = spec.retention() != RetentionPolicy::Retain
        && entry.presence(true) == WorkloadPresence::Replaced;
    !is_former && spec.is_away(&before.node_name, node)
}

/// An entry whose Pod cannot be recorded, and what the retention policy makes of it.
struct Retention<'a> {
    entry: &'a Entry<'a>,
    before: &'a PodState,
}

impl Retention<'_> {
    fn wanted_change(&self) -> Change {
        let wanted = self.wanted();
        let may_be_wanted = wanted != Wanted::No;
        let depends_on_count = self.depends_on_count();
        if wanted == Wanted::Maybe && depends_on_count {
            return Change::Keep(Keep::AsSurplus { rounds: 0 });
        }
        if self.keeps(may_be_wanted) {
            return Change::Keep(Keep::Unchanged);
        }
        let surplus = &self.entry.view.pps.progress.surplus;
        let rounds = surplus.get(&self.entry.pod).copied().unwrap_or_default();
        if wanted == Wanted::No && depends_on_count && rounds < SURPLUS_ROUNDS {
            return Change::Keep(Keep::AsSurplus { rounds });
        }
        Change::Drop(DropCause::NotRetained {
            may_be_wanted,
            presence: self.entry.presence(may_be_wanted),
            depends_on_count,
        })
    }

    fn wanted(&self) -> Wanted {
        let view = self.entry.view;
        let namespace = &view.pps.workload.object.namespace;
        let name = &view.pps.workload.object.name;
        view.living_workload().map_or(Wanted::No, |workload| {
            let living = view.pods.living(namespace, &workload.uid);
            workload.demand.wants(name, &self.entry.pod, living)
        })
    }

    /// Whether the policy keeps the entry if the workload may want the Pod, or does not.
    fn keeps(&self, may_be_wanted: bool) -> bool {
        let Entry {
            view,
            pod,
            ownership,
            ..
        } = self.entry;
        let presence = self.entry.presence(may_be_wanted);
        let backing = backing(*ownership, presence, view.pod(pod), &self.before.node_name);
        retains_state(view.spec().retention(), presence, may_be_wanted, backing)
    }

    /// Whether the name does not say if the workload wants the Pod, and the policy asks for that.
    fn depends_on_count(&self) -> bool {
        let view = self.entry.view;
        let workload = &view.pps.workload.object.name;
        let is_named_freely = view
            .living_workload()
            .is_some_and(|living| living.demand.depends_on_count(workload, &self.entry.pod));
        is_named_freely && !self.keeps(false) && self.keeps(true)
    }
}
