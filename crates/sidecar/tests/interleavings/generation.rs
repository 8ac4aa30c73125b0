//! Generated PPS objects: what the recorder wants done reaches the API server late.

use std::collections::BTreeSet;

use pps_core::TargetReference;
use pps_core::governing::second_name;
use pps_recorder::GeneratedPps;
use pps_recorder::facts::store::Update;
use pps_recorder::facts::{NamespacedName, WorkloadFact, WorkloadKey};

use super::super::cluster::{Name, PPS_OBJECTS, WORKLOADS};
use super::super::snapshot::{alias_fact, group_kind, workload_fact};
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
    WorkloadKey {
        object: key(WORKLOADS[number].2),
        kind: group_kind(number),
    }
}

fn name_of(write: &GeneratedPps) -> Name {
    PPS_OBJECTS
        .iter()
        .map(|(name, _)| *name)
        .find(|name| **name == *write.key().name)
        .unwrap()
}

impl Simulation {
    /// The recorder decides about the generated PPS of a workload. Returns whether something is to be
    /// done.
    pub(crate) fn generate(&mut self, number: usize) -> bool {
        let workload = workload_key(number);
        if !self.due_generated.remove(&number) {
            return false;
        }
        let decided_from = self.recorder.workload(&workload).cloned();
        let Some(write) = self.recorder.decide_generated(&workload) else {
            return false;
        };
        self.take_work();
        self.generated.push(PendingGenerated {
            number,
            write,
            decided_from,
        });
        true
    }

    /// The API server receives what is to be done about a generated PPS, and the sidecar learns the
    /// answer. Before a creation or a deletion, the workload is read.
    pub(crate) fn serve_generated(&mut self, number: usize) {
        if number >= self.generated.len() {
            return;
        }
        let PendingGenerated {
            number,
            write,
            decided_from,
        } = self.generated.swap_remove(number);
        if let GeneratedPps::Create { is_alias: true, .. }
        | GeneratedPps::Delete { is_alias: true, .. } = &write
        {
            return self.serve_alias(number, &write);
        }
        let name = name_of(&write);
        let before = self.cluster.objects.get(name).cloned();
        let may_write =
            !write.depends_on_workload() || self.is_workload_current(number, decided_from.as_ref());
        let is_written = may_write
            && match &write {
                GeneratedPps::Create { body, .. } => self.cluster.create_generated(name, body),
                GeneratedPps::Update { patch, .. } => self.cluster.update_generated(name, patch),
                GeneratedPps::Delete {
                    uid,
                    resource_version,
                    ..
                } => self.cluster.delete_generated(name, uid, resource_version),
            };
        if self.cluster.objects.get(name) != before.as_ref() {
            self.queue_pps(name);
        }
        self.recorder
            .on_generated_done(&workload_key(number), is_written);
        self.take_work();
    }

    /// Whether a read of a workload shows the one from which something was decided.
    fn is_workload_current(&self, number: usize, decided_from: Option<&WorkloadFact>) -> bool {
        let workload = self.cluster.workloads.get(&number);
        let is_readable = !self.are_reads_failing
            && !self.snapshot.forbidden.contains(&number)
            && !self.cluster.is_disabled;
        is_readable
            && workload
                .map(|workload| workload_fact(number, workload))
                .as_ref()
                == decided_from
    }

    /// The API server receives an alias, or its deletion, and the watch delivers that at once.
    fn serve_alias(&mut self, number: usize, write: &GeneratedPps) {
        let key = write.key().clone();
        let is_written = match write {
            GeneratedPps::Create { body, .. } => self.cluster.create_alias(&key.name, body),
            GeneratedPps::Update { .. } => panic!("an alias is never changed: {write:?}"),
            GeneratedPps::Delete {
                uid,
                resource_version,
                ..
            } => self.cluster.delete_alias(&key.name, uid, resource_version),
        };
        self.deliver_alias(&key.name);
        self.recorder
            .on_generated_done(&workload_key(number), is_written);
        self.take_work();
    }

    /// The watch delivers an alias unchanged.
    pub(super) fn deliver_alias(&mut self, name: &str) {
        let key = NamespacedName::new("n", name);
        let update = match self.cluster.aliases.get(name) {
            Some(alias) => Update::Apply(key, alias_fact(alias)),
            None => Update::Delete(key),
        };
        self.recorder.apply_pps(update);
    }

    /// Asserts, once everything is delivered and written, that each PPS that governs a workload and
    /// has another name has an alias, and that no known workload has another one.
    pub(crate) fn assert_aliases(&self) {
        if self.cluster.is_disabled {
            return;
        }
        let objects = &self.cluster.objects;
        let mut left: BTreeSet<&String> = self.cluster.aliases.keys().collect();
        for (number, (api_version, kind, workload)) in WORKLOADS.iter().enumerate() {
            let target = TargetReference {
                api_version: (*api_version).into(),
                kind: (*kind).into(),
                name: (*workload).into(),
            };
            let name = second_name(&target);
            left.remove(&name);
            let alias = self.cluster.aliases.get(&name);
            let mut targeting = objects.iter().filter(|(_, object)| object.target == number);
            let expected = match (
                objects.get(workload).filter(|own| own.target == number),
                targeting.next(),
            ) {
                (None, Some((other, _))) => Some(*other),
                _ => None,
            };
            let is_terminating = objects
                .values()
                .any(|object| object.target == number && object.terminating);
            // A sidecar that starts cannot tell whose alias it was, if there is neither a PPS nor a
            // workload.
            let is_known = expected.is_some() || self.snapshot.workload(number).is_some();
            if is_known && !is_terminating {
                let actual =
                    alias.map(|alias| alias["spec"]["targetRef"]["name"].as_str().unwrap());
                assert_eq!(actual, expected, "the alias {name}");
            }
        }
        assert!(left.is_empty(), "{left:?} are no one's aliases");
    }

    /// Asserts, once everything is delivered and written, that a PPS exists for each workload that
    /// asks for one, and that no generated one is left for a workload that does not. Neither holds
    /// for workloads that cannot be read.
    pub(crate) fn assert_generated(&self) {
        for (number, workload) in self
            .cluster
            .workloads
            .iter()
            .filter(|(_, workload)| !workload.terminating)
        {
            let is_readable = self.snapshot.kinds.contains_key(number)
                && !self.snapshot.forbidden.contains(number);
            if !is_readable || self.cluster.is_disabled {
                continue;
            }
            let of_workload = self
                .cluster
                .objects
                .values()
                .filter(|object| object.target == *number);
            if workload.annotated {
                assert!(of_workload.count() > 0, "no PPS was generated for {number}");
            } else {
                let mut left = of_workload.filter(|object| !object.terminating);
                assert!(
                    left.all(|object| object.generated_for.is_none()),
                    "a generated PPS is left for {number}"
                );
            }
        }
    }
}
