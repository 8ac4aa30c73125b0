//! The PersistentPodStates: what the API server has shown of each, how far its recording is, and
//! which of them have to be examined after a fact.

mod aliases;
pub(crate) mod capacity;
mod definition;
pub(crate) mod entry_change;
mod intake;
pub(crate) mod name_absence;
mod node_entries;
mod objects;
mod outcomes;
pub(crate) mod progress;
pub(crate) mod recreations;
mod reported;
mod tracked_pps;
mod work;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pps_core::Reason;

pub(crate) use self::aliases::Aliases;
pub use self::definition::{CompactForm, CompactLimits};
use self::name_absence::NAME_ABSENCE;
pub use self::node_entries::Absence;
pub(crate) use self::node_entries::NodeEntries;
pub(crate) use self::objects::Objects;
pub use self::outcomes::StatusOutcome;
pub(crate) use self::outcomes::is_current;
use self::reported::Reported;
pub(crate) use self::tracked_pps::TrackedPps;
pub use self::work::{BoundPod, Work};
use crate::cluster::{Cluster, Dirty};
use crate::facts::{NamespacedName, Notice, Subject, WorkloadFact, WorkloadKey};
use crate::record::compare_placement;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) objects: Objects,
    pub(crate) aliases: Aliases,
    pub(crate) node_entries: NodeEntries,
    /// New nodes that lack a label of a recorded state: they may get it back.
    awaited_labels: HashSet<Arc<str>>,
    pub(crate) compact_form: CompactForm,
    /// The size below which an object is kept, in bytes.
    pub(crate) size_limit: usize,
    /// How long a name has to be absent before its entry is dropped.
    pub(crate) name_absence: Duration,
    /// The time when time passed last; nothing before.
    unix_time: Option<i64>,
    reported: Reported,
    pub(crate) work: Work,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            size_limit: pps_core::size::DEFAULT_LIMIT,
            name_absence: NAME_ABSENCE,
            ..Self::default()
        }
    }

    /// A definition without the compact form is `OpenKruise`'s: there each entry has about as many
    /// bytes of managed fields, and what the `PolicyServer` gets includes them.
    pub(crate) fn object_limit(&self) -> usize {
        if self.compact_form.is_kept == Some(false) {
            self.size_limit / 2
        } else {
            self.size_limit
        }
    }

    /// What is known of the compact form. That the definition has it means nothing until the API
    /// server uses it.
    pub(crate) fn compact_form_in_use(&self) -> CompactForm {
        let is_kept = self
            .compact_form
            .is_kept
            .filter(|is_kept| !is_kept || self.objects.is_current());
        CompactForm {
            is_kept,
            ..self.compact_form
        }
    }

    /// Whether the API server shows all states of an object that has the compact form.
    fn shows_packed(&self) -> bool {
        self.compact_form.is_kept == Some(true) && self.objects.is_current()
    }

    /// Marks the entries and objects that a change of the cluster concerns.
    pub(crate) fn mark(&mut self, dirty: Dirty, cluster: &Cluster) {
        match dirty {
            Dirty::Pod { pod, owners } => self.mark_pod(&pod, &owners, cluster),
            Dirty::Adopted { pod, owner } => self.note_adoption(&pod, &owner),
            Dirty::Ended { pod, ended } => self.count_recreation(&pod, &ended, cluster),
            Dirty::Bound(pod) => self.count_bound_pod(&pod, cluster),
            Dirty::WaitingPod(pod) => {
                self.work.evictions.insert(pod);
            }
            Dirty::WaitingPods => {
                let waiting = cluster.pods.waiting.iter().cloned();
                self.work.evictions.extend(waiting);
            }
            Dirty::NodeAppeared(node) => {
                self.work.new_nodes.insert(node);
            }
            Dirty::Node(node) => {
                if !cluster.nodes.is_new(&node) {
                    self.awaited_labels.remove(&node);
                }
                self.mark_pods_on(&node, cluster);
                self.update_absence(&node, cluster);
            }
            Dirty::NodeSettled(node) => {
                if self.awaited_labels.remove(&node) {
                    self.mark_pods_on(&node, cluster);
                }
            }
            Dirty::Workload {
                workload,
                uids,
                has_new_request,
            } => {
                if has_new_request {
                    self.reported.forget(&workload);
                }
                self.mark_claims(&workload);
                for uid in &uids {
                    self.mark_pods_of(&workload, uid, cluster);
                }
                if cluster.workloads.get(&workload).is_some() {
                    self.work.generated.insert(workload);
                }
            }
            Dirty::Kind(kind) => {
                if !cluster.workloads.is_watched(&kind) {
                    self.reported.forget_kind(&kind);
                }
                let claims: Vec<_> = self.objects.claims_of_kind(&kind).cloned().collect();
                for object in claims {
                    self.mark_all_of(&object);
                }
            }
            Dirty::Namespace(namespace) => {
                self.change_all(|object| {
                    let is_in_it = object.workload.object.namespace == namespace;
                    if is_in_it {
                        object.progress.mark_all();
                    }
                    is_in_it
                });
                self.retry_where(cluster, |other| *other == *namespace);
            }
            Dirty::Listed => {
                for node in self.node_entries.nodes().cloned().collect::<Vec<_>>() {
                    self.update_absence(&node, cluster);
                }
                self.retry_all(cluster);
            }
        }
    }

    /// Whether the lists of both the cluster and the PPS objects are complete.
    pub(crate) fn is_complete(&self, cluster: &Cluster) -> bool {
        cluster.is_complete() && self.objects.is_listed()
    }

    fn mark_with(&mut self, key: &NamespacedName, mark: impl FnOnce(&mut TrackedPps)) {
        if let Some(object) = self.objects.tracked.get_mut(key) {
            mark(object);
            self.work.statuses.insert(key.clone());
        }
    }

    fn mark_entry(&mut self, key: &NamespacedName, pod: &Arc<str>) {
        self.mark_with(key, |object| object.progress.mark_pod(pod));
    }

    fn mark_all_of(&mut self, key: &NamespacedName) {
        self.mark_with(key, |object| object.progress.mark_all());
    }

    /// Marks the entry of a Pod in the objects of its owners, past and present, and in all others
    /// that have an entry of its name: the Pod may be one of theirs after an orphaning delete, or
    /// if they targeted its workload before.
    fn mark_pod(&mut self, pod: &NamespacedName, owners: &[Option<Arc<str>>], cluster: &Cluster) {
        let claims = owners
            .iter()
            .flatten()
            .filter_map(|uid| cluster.workloads.key_of(&pod.namespace, uid))
            .flat_map(|workload| self.objects.claims(workload))
            .cloned();
        let concerned: BTreeSet<NamespacedName> =
            claims.chain(self.objects.with_entry(pod)).collect();
        for object in concerned {
            self.mark_entry(&object, &pod.name);
        }
    }

    /// Marks the entries that have the name of a Pod of this workload, in whichever object: whether
    /// the Pod is a former one depends on whether its workload exists.
    fn mark_pods_of(&mut self, workload: &WorkloadKey, uid: &Arc<str>, cluster: &Cluster) {
        let namespace = &workload.object.namespace;
        for name in cluster.pods.names_of(namespace, uid) {
            let pod = NamespacedName {
                namespace: namespace.clone(),
                name: name.clone(),
            };
            for object in self.objects.with_entry(&pod) {
                self.mark_entry(&object, name);
            }
        }
    }

    fn mark_pods_on(&mut self, node: &Arc<str>, cluster: &Cluster) {
        for pod in cluster.pods.on_node(node) {
            let owner = cluster
                .pods
                .facts
                .get(pod)
                .and_then(|fact| fact.owner.clone());
            self.mark_pod(pod, &[owner], cluster);
        }
    }

    fn mark_claims(&mut self, workload: &WorkloadKey) {
        for object in self.objects.claims(workload).cloned().collect::<Vec<_>>() {
            self.mark_all_of(&object);
        }
    }

    /// Changes objects. Those for which `change` returns true may need a write.
    fn change_all(&mut self, mut change: impl FnMut(&mut TrackedPps) -> bool) {
        let changed = self
            .objects
            .tracked
            .iter_mut()
            .filter_map(|(key, object)| change(object).then_some(key));
        self.work.statuses.extend(changed.cloned());
    }

    fn note_adoption(&mut self, pod: &NamespacedName, owner: &Arc<str>) {
        for object in self.objects.with_entry(pod) {
            self.mark_with(&object, |object| {
                let renewed = &mut object.progress.owners.by_pod;
                renewed.insert(pod.name.clone(), owner.clone());
            });
        }
    }

    /// Counts a Pod that has just been bound to a node, if a PPS governs its workload. The Pod is
    /// not Ready yet, so its state is that of its predecessor.
    fn count_bound_pod(&mut self, key: &NamespacedName, cluster: &Cluster) {
        let Some(pod) = cluster.pods.facts.get(key) else {
            return;
        };
        let workload = pod
            .owner
            .as_ref()
            .and_then(|owner| cluster.workloads.key_of(&key.namespace, owner));
        let governing = workload
            .and_then(|workload| self.objects.governing(workload))
            .filter(|(_, pps)| pps.observed.unreadable.is_none());
        if let Some(node) = &pod.node
            && let Some((_, pps)) = governing
            && self.is_complete(cluster)
            && cluster.scope.contains(&key.namespace)
        {
            let state = pps.observed.status.pod_states.get(&key.name);
            let fact = cluster.nodes.facts.get(node);
            let bound = BoundPod {
                placement: compare_placement(&pps.observed.spec, state.as_ref(), node, fact),
                is_injected: pod.injected,
            };
            *self.work.bound_pods.entry(bound).or_default() += 1;
        }
    }

    /// Follows whether a node that recorded states name exists.
    fn update_absence(&mut self, node: &Arc<str>, cluster: &Cluster) {
        if self.node_entries.update_absence(node, &cluster.nodes) {
            self.work.absences.insert(node.clone());
        }
    }

    /// Takes what time, or a lookup, has shown of a missing node.
    pub(crate) fn set_absence(&mut self, node: &Arc<str>, absence: Absence) {
        // If the node came back and went missing again, the answer may be to an earlier question.
        let is_outdated = absence == Absence::Confirmed
            && self.node_entries.absence(node) != Some(Absence::Overdue);
        if is_outdated || !self.node_entries.set_absence(node, absence) {
            return;
        }
        for entry in self.node_entries.on(node).cloned().collect::<Vec<_>>() {
            self.mark_entry(&entry.pps, &entry.pod);
        }
    }

    /// Brings up all work again that could not be decided while a list was incomplete, or on a
    /// standby.
    pub(crate) fn retry_all(&mut self, cluster: &Cluster) {
        self.retry_where(cluster, |_| true);
    }

    /// Does the same for some namespaces.
    fn retry_where(&mut self, cluster: &Cluster, is_meant: impl Fn(&str) -> bool) {
        if !self.is_complete(cluster) {
            return;
        }
        let dirty = self
            .objects
            .tracked
            .iter()
            .filter(|(_, object)| !object.progress.dirty.is_clean())
            .map(|(key, _)| key)
            .filter(|key| is_meant(&key.namespace));
        self.work.statuses.extend(dirty.cloned());
        let workloads = cluster
            .workloads
            .keys()
            .chain(self.objects.targets())
            .chain(self.aliases.waiting.values())
            .filter(|workload| is_meant(&workload.object.namespace));
        self.work.generated.extend(workloads.cloned());
        let waiting = cluster
            .pods
            .waiting
            .iter()
            .filter(|pod| is_meant(&pod.namespace));
        self.work.evictions.extend(waiting.cloned());
    }

    /// Retries every write that the API server refused as too large or did not store completely. It
    /// may accept it by now.
    pub(crate) fn retry_exceeded(&mut self) {
        self.change_all(|object| object.progress.retry_exceeded());
    }

    /// Tries again every drop and change that the API server has not confirmed.
    pub(crate) fn retry_unconfirmed(&mut self) {
        self.change_all(|object| object.progress.requeue_all_unconfirmed());
    }

    /// Ends a round and examines the surplus entries. A round takes as long as the grace period of
    /// nodes.
    pub(crate) fn end_surplus_round(&mut self, cluster: &Cluster) {
        for (key, object) in &mut self.objects.tracked {
            let is_met =
                cluster
                    .workloads
                    .get(&object.workload)
                    .is_some_and(|workload: &WorkloadFact| {
                        let living = cluster.pods.living(&key.namespace, &workload.uid);
                        workload.demand.is_met_by(living)
                    });
            if object.progress.end_surplus_round(is_met) {
                self.work.statuses.insert(key.clone());
            }
        }
    }

    /// Takes the time: on a monotonic clock, and in Unix seconds.
    pub(crate) fn pass_time(&mut self, now: Instant, unix_time: i64, cluster: &Cluster) {
        self.unix_time = Some(unix_time);
        self.measure_absences(now, cluster);
        self.end_loops(cluster);
        self.end_fallback_notes(cluster);
    }

    /// Measures for how long names have been absent that workloads do not list.
    fn measure_absences(&mut self, now: Instant, cluster: &Cluster) {
        for (key, object) in &mut self.objects.tracked {
            if object.progress.absent_names.is_empty() {
                continue;
            }
            let recorded = &object.observed.status.pod_states;
            let names = cluster.certain_names_of(&object.workload, recorded);
            let progress = &mut object.progress;
            if progress.measure_absences(now, self.name_absence, names) {
                self.work.statuses.insert(key.clone());
            }
        }
    }

    /// This process begins to lead. Another one may have recorded states until now.
    pub(crate) fn begin_term(&mut self, cluster: &Cluster) {
        for object in self.objects.tracked.values_mut() {
            object.progress.owners.covers_all = false;
            object.progress.restart_absences();
            object.progress.fallbacks.clear();
            object.progress.fallback_advice = None;
        }
        self.retry_all(cluster);
    }

    /// Reports to users, unless it was reported before and nothing has changed.
    pub(crate) fn report(
        &mut self,
        workload: &WorkloadKey,
        reason: Reason,
        message: String,
        cluster: &Cluster,
    ) {
        let Some(fact) = cluster.workloads.get(workload) else {
            return;
        };
        if !self.reported.is_news(workload, reason, &message) {
            return;
        }
        let kind = &workload.kind.kind;
        let subject = Subject::new(&fact.api_version, kind, workload.object.clone(), &fact.uid);
        self.work.notices.push(Notice {
            subject,
            reason,
            message,
        });
    }

    pub(crate) fn report_on_target(
        &mut self,
        object: &NamespacedName,
        reason: Reason,
        message: String,
        cluster: &Cluster,
    ) {
        if let Some(object) = self.objects.get(object) {
            self.report(&object.workload.clone(), reason, message, cluster);
        }
    }
}
