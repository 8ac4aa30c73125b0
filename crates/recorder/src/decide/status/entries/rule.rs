//! What the rules want for one entry, from what the watches have shown.

use pps_core::pps::{PodState, RetentionPolicy};

use super::Entry;
use crate::decide::status::loss_check::{Criterion, DropCause};
use crate::decide::status::view::backing;
use crate::demand::Wanted;
use crate::facts::PodFact;
use crate::ledger::Absence;
use crate::ledger::name_absence::NameAbsence;
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
    /// Until the workload has not listed the name for long enough.
    AsAbsent(NameAbsence),
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
        let criterion = self.criterion();
        match (wanted, criterion) {
            (Wanted::Maybe, Criterion::Count) => {
                return Change::Keep(Keep::AsSurplus { rounds: 0 });
            }
            (Wanted::Maybe, Criterion::List) => {
                return Change::Keep(Keep::AsAbsent(NameAbsence::New));
            }
            _ => {}
        }
        if self.keeps(may_be_wanted) {
            return Change::Keep(Keep::Unchanged);
        }
        if wanted == Wanted::No
            && let Some(keep) = self.waits_as(criterion)
        {
            return Change::Keep(keep);
        }
        Change::Drop(DropCause::NotRetained {
            may_be_wanted,
            presence: self.entry.presence(may_be_wanted),
            criterion,
        })
    }

    /// How the entry of an unwanted Pod is kept until it has been unwanted for long enough.
    fn waits_as(&self, criterion: Criterion) -> Option<Keep> {
        let progress = &self.entry.view.pps.progress;
        let pod = &self.entry.pod;
        match criterion {
            Criterion::Name => None,
            Criterion::Count => {
                let rounds = progress.surplus.get(pod).copied().unwrap_or_default();
                (rounds < SURPLUS_ROUNDS).then_some(Keep::AsSurplus { rounds })
            }
            Criterion::List => {
                let absence = progress.absent_names.get(pod).copied().unwrap_or_default();
                (absence != NameAbsence::Overdue).then_some(Keep::AsAbsent(absence))
            }
        }
    }

    fn wanted(&self) -> Wanted {
        let view = self.entry.view;
        let namespace = &view.pps.workload.object.namespace;
        let name = &view.pps.workload.object.name;
        view.living_workload().map_or(Wanted::No, |workload| {
            let living = view.pods.living(namespace, &workload.uid);
            match workload.demand.wants(name, &self.entry.pod, living) {
                Wanted::No if view.names_doubt().is_some() => Wanted::Maybe,
                wanted => wanted,
            }
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

    /// What says whether the workload wants the Pod, if the policy asks for that.
    fn criterion(&self) -> Criterion {
        let view = self.entry.view;
        let name = &view.pps.workload.object.name;
        let Some(workload) = view.living_workload() else {
            return Criterion::Name;
        };
        let criterion = if workload.demand.names().is_some() {
            Criterion::List
        } else if workload.demand.depends_on_count(name, &self.entry.pod) {
            Criterion::Count
        } else {
            return Criterion::Name;
        };
        if !self.keeps(false) && self.keeps(true) {
            criterion
        } else {
            Criterion::Name
        }
    }
}
