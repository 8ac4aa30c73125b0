//! The aliases that exist, the workloads that need one, and the workloads for which an object is
//! being made.

use std::collections::{BTreeMap, HashMap};

use crate::facts::{NamespacedName, PpsFact, WorkloadKey};

#[derive(Debug, Default)]
pub(crate) struct Aliases {
    pub(crate) objects: BTreeMap<NamespacedName, PpsFact>,
    /// Why the API server or a policy has refused these.
    pub(crate) refused: BTreeMap<NamespacedName, String>,
    /// By the name of the alias: the workloads that need one, or needed one when they were last
    /// examined. They are examined when the object of this name changes.
    pub(crate) waiting: BTreeMap<NamespacedName, WorkloadKey>,
    /// Workloads whose generated PPS or alias is being written.
    in_flight: HashMap<WorkloadKey, WriteInFlight>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteInFlight {
    Last,
    /// Another write was asked for meanwhile.
    AskedAgain,
}

impl Aliases {
    /// Notes whether a workload has to be examined when the object of its second name changes.
    pub(super) fn note_need(&mut self, name: NamespacedName, workload: &WorkloadKey, needed: bool) {
        if !needed {
            self.refused.remove(&name);
        }
        if needed || self.objects.contains_key(&name) {
            self.waiting.insert(name, workload.clone());
        } else {
            self.waiting.remove(&name);
        }
    }

    pub(crate) fn is_in_flight(&self, workload: &WorkloadKey) -> bool {
        self.in_flight.contains_key(workload)
    }

    pub(crate) fn begin_write(&mut self, workload: WorkloadKey) {
        self.in_flight.insert(workload, WriteInFlight::Last);
    }

    /// Asks for another write after the one in flight. Returns whether one is in flight.
    pub(crate) fn ask_again(&mut self, workload: &WorkloadKey) -> bool {
        let in_flight = self.in_flight.get_mut(workload);
        in_flight
            .map(|write| *write = WriteInFlight::AskedAgain)
            .is_some()
    }

    /// Returns whether another write was asked for.
    pub(super) fn end_write(&mut self, workload: &WorkloadKey) -> bool {
        self.in_flight.remove(workload) == Some(WriteInFlight::AskedAgain)
    }
}
