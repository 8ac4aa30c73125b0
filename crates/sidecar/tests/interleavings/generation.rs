//! Generated PPS objects: what the index wants done reaches the API server late.

use pps_sidecar::decide::GeneratedPps;
use pps_sidecar::facts::{WorkloadFact, WorkloadKey};

use super::super::cluster::{Name, PPS_OBJECTS, WORKLOADS};
use super::super::snapshot::{group_kind, workload_fact};
use super::{Simulation, key};

/// A generated PPS that is to be written or deleted.
#[derive(Debug)]
pub(crate) struct PendingGenerated {
    number: usize,
    write: GeneratedPps,
    /// The workload from which it was decided.
    decided_from: Option<WorkloadFact>,
}

fn workload_key(number: usize) -> WorkloadKey {
    WorkloadKey { object: key(WORKLOADS[number].2), kind: group_kind(number) }
}

fn name_of(write: &GeneratedPps) -> Name {
    let (GeneratedPps::Apply { key, .. } | GeneratedPps::Delete { key, .. }) = write;
    PPS_OBJECTS.iter().map(|(name, _)| *name).find(|name| **name == *key.name).unwrap()
}

impl Simulation {
    /// The index decides about the generated PPS of a workload. Returns whether something is to be done.
    pub(crate) fn generate(&mut self, number: usize) -> bool {
        let workload = workload_key(number);
        if !self.due_generated.remove(&number) {
            return false;
        }
        let decided_from = self.index.workload(&workload).cloned();
        let Some(write) = self.index.generated_pps(&workload) else { return false };
        self.take_work();
        self.generated.push(PendingGenerated { number, write, decided_from });
        true
    }

    /// The API server receives what is to be done about a generated PPS, and the sidecar learns the answer. Before a
    /// deletion, the workload is read.
    pub(crate) fn serve_generated(&mut self, number: usize) {
        if number >= self.generated.len() {
            return;
        }
        let PendingGenerated { number, write, decided_from } = self.generated.swap_remove(number);
        let name = name_of(&write);
        let before = self.cluster.objects.get(name).cloned();
        let is_written = match &write {
            GeneratedPps::Apply { body, new, .. } => self.cluster.apply_generated(name, body, *new),
            GeneratedPps::Delete { uid, resource_version, .. } => {
                let workload = self.cluster.workloads.get(&number);
                let is_readable = !self.are_reads_failing && !self.snapshot.forbidden.contains(&number);
                is_readable
                    && workload.map(|workload| workload_fact(number, workload)) == decided_from
                    && self.cluster.delete_generated(name, uid, resource_version)
            }
        };
        if self.cluster.objects.get(name) != before.as_ref() {
            self.queue_pps(name);
        }
        self.index.on_generated_pps_written(&workload_key(number), is_written);
        self.take_work();
    }

    /// Asserts, once everything is delivered and written, that a PPS exists for each workload that asks for one, and that
    /// no generated one is left for a workload that does not.
    pub(crate) fn assert_generated(&self) {
        for (number, workload) in self.cluster.workloads.iter().filter(|(_, workload)| !workload.terminating)
        {
            if !self.snapshot.kinds.contains_key(number) {
                continue;
            }
            let of_workload = self.cluster.objects.values().filter(|object| object.target == *number);
            if workload.annotated {
                assert!(of_workload.count() > 0, "no PPS was generated for {number}");
            } else if !self.snapshot.forbidden.contains(number) {
                let mut left = of_workload.filter(|object| !object.terminating);
                assert!(
                    left.all(|object| object.generated_for.is_none()),
                    "a generated PPS is left for {number}"
                );
            }
        }
    }
}
