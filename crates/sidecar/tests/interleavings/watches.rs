//! The watches (0 Pods, 1 Nodes, 2 PPS, 3 to 5 the workload kinds, 6 the namespaces in scope): what
//! changes in the cluster is queued as events, which reach the recorder late, in pieces, and sometimes
//! as a new list.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_recorder::facts::WatchState;
use pps_recorder::facts::store::Update;
use pps_recorder::recording::RECORDING;
use pps_recorder::{Fact, Work};
use serde_json::json;

use super::super::cluster::{NAMED_NODES, Name, PPS_OBJECTS, Pod, Pps, WORKLOADS};
use super::super::snapshot::{
    NodeAbsence, WatchCache, WatchEvent, group_kind, node_fact, pod_fact, pps_fact, workload_fact,
};
use super::super::states::parse_status;
use super::{Simulation, key};

fn toggle(all: &mut BTreeSet<usize>, one: usize) {
    if !all.remove(&one) {
        all.insert(one);
    }
}

/// The object with the states that a client has erased which does not know the compact form. They
/// are known until they are written back.
fn with_erased_states(known: &Pps, mut object: Pps) -> Pps {
    let is_missing = |field: &str| object.status[field].is_null();
    let has_recording = parse_status(&object.status)
        .conditions
        .iter()
        .any(|one| one.type_ == RECORDING);
    let is_erased = !known.status["erased"].is_null()
        || (!known.status["packed"].is_null()
            && is_missing("targetUID")
            && is_missing("recorded")
            && !has_recording);
    let mut states = parse_status(&known.status).pod_states;
    let shown = parse_status(&object.status).pod_states;
    if is_missing("packed") && is_erased && states.keys().any(|pod| !shown.contains_key(pod)) {
        // Another client's states are not known to be the former workload's.
        if shown.is_empty() && object.status["targetUID"].is_null() {
            object.status["targetUID"] = known.status["targetUID"].clone();
        }
        states.extend(shown);
        object.status["erased"] = json!({"podStates": object.status["podStates"]});
        object.status["podStates"] = json!(states);
    }
    object
}

impl Simulation {
    /// Restarts a watch with a list of the present objects. Events that it has not delivered are
    /// lost.
    pub(crate) fn relist(&mut self, watch: usize) {
        match watch {
            0 | 1 if self.listed_revision.is_none() => {}
            0 => {
                self.pods.clear();
                self.list_pods();
            }
            1 => {
                self.nodes.clear();
                self.list_nodes();
            }
            2 => {
                self.objects.clear();
                self.objects.push_back(WatchEvent::ListStart(0));
                for (name, object) in &self.cluster.objects {
                    self.objects.push_back(WatchEvent::Apply(
                        name,
                        object.clone(),
                        pps_fact(name, object),
                    ));
                }
                self.objects.push_back(WatchEvent::ListEnd);
            }
            6 => {
                self.namespaces.clear();
                self.namespaces.push_back(WatchEvent::ListStart(0));
                if !self.cluster.is_disabled {
                    self.namespaces.push_back(WatchEvent::Apply("n", (), ()));
                }
                self.namespaces.push_back(WatchEvent::ListEnd);
            }
            watch => {
                let number = watch - 3;
                self.kinds[number].clear();
                if self.snapshot.kinds.contains_key(&number) {
                    self.kinds[number].push_back(WatchEvent::ListStart(0));
                    self.queue_workload(number);
                    self.kinds[number].push_back(WatchEvent::ListEnd);
                }
            }
        }
    }

    fn list_pods(&mut self) {
        self.pods
            .push_back(WatchEvent::ListStart(self.interest.revision()));
        for (name, pod) in &self.cluster.pods {
            self.pods.push_back(WatchEvent::Apply(
                name,
                pod.clone(),
                pod_fact(name, pod, &self.interest),
            ));
        }
        self.pods.push_back(WatchEvent::ListEnd);
    }

    fn list_nodes(&mut self) {
        self.nodes
            .push_back(WatchEvent::ListStart(self.interest.revision()));
        for (name, node) in &self.cluster.nodes {
            self.nodes.push_back(WatchEvent::Apply(
                name,
                node.clone(),
                node_fact(name, node, &self.interest),
            ));
        }
        self.nodes.push_back(WatchEvent::ListEnd);
    }

    /// Queues the present version of a Pod, or its deletion.
    pub(crate) fn queue_pod(&mut self, name: Name) {
        if self.listed_revision.is_some() {
            self.pods.push_back(match self.cluster.pods.get(name) {
                Some(pod) => {
                    WatchEvent::Apply(name, pod.clone(), pod_fact(name, pod, &self.interest))
                }
                None => WatchEvent::Delete(name),
            });
        }
    }

    pub(crate) fn queue_node(&mut self, name: Name) {
        if self.listed_revision.is_some() {
            self.nodes.push_back(match self.cluster.nodes.get(name) {
                Some(node) => {
                    WatchEvent::Apply(name, node.clone(), node_fact(name, node, &self.interest))
                }
                None => WatchEvent::Delete(name),
            });
        }
    }

    /// The namespace enters or leaves the scope.
    pub(crate) fn set_disabled(&mut self, is_disabled: bool) {
        self.cluster.is_disabled = is_disabled;
        let enabled = WatchEvent::Apply("n", (), ());
        self.namespaces.push_back(if is_disabled {
            WatchEvent::Delete("n")
        } else {
            enabled
        });
    }

    pub(crate) fn queue_pps(&mut self, name: Name) {
        self.objects
            .push_back(match self.cluster.objects.get(name) {
                Some(object) => WatchEvent::Apply(name, object.clone(), pps_fact(name, object)),
                None => WatchEvent::Delete(name),
            });
    }

    pub(crate) fn queue_workload(&mut self, number: usize) {
        if self.snapshot.kinds.contains_key(&number) {
            let name = WORKLOADS[number].2;
            match self.cluster.workloads.get(&number) {
                Some(workload) => {
                    let fact = workload_fact(number, workload);
                    self.kinds[number].push_back(WatchEvent::Apply(name, workload.clone(), fact));
                }
                None if self.kinds[number].is_empty()
                    && !self.snapshot.kinds[&number].objects.contains_key(name) => {}
                None => self.kinds[number].push_back(WatchEvent::Delete(name)),
            }
        }
    }

    pub(super) fn watch_kind(&mut self, number: usize) {
        self.recorder.apply(Fact::KindWatched(group_kind(number)));
        self.snapshot.kinds.insert(number, WatchCache::default());
        self.relist(3 + number);
        self.take_work();
    }

    /// Stops watching a workload kind, or starts to.
    pub(crate) fn toggle_watched_kind(&mut self, number: usize) {
        if self.snapshot.kinds.remove(&number).is_none() {
            self.watch_kind(number);
            return;
        }
        self.kinds[number].clear();
        self.snapshot.forbidden.remove(&number);
        self.snapshot.failing.remove(&number);
        self.recorder.apply(Fact::KindUnwatched(group_kind(number)));
        self.take_work();
    }

    /// Revokes the permission to list a workload kind, or grants it.
    pub(crate) fn toggle_forbidden_kind(&mut self, number: usize) {
        if self.snapshot.kinds.contains_key(&number) {
            toggle(&mut self.snapshot.forbidden, number);
            self.set_watch_state(number);
        }
    }

    /// The watch of a workload kind fails, or works again.
    pub(crate) fn toggle_failing_kind(&mut self, number: usize) {
        if self.snapshot.kinds.contains_key(&number) {
            toggle(&mut self.snapshot.failing, number);
            self.set_watch_state(number);
        }
    }

    fn set_watch_state(&mut self, number: usize) {
        let state = match (
            self.snapshot.forbidden.contains(&number),
            self.snapshot.failing.contains(&number),
        ) {
            (true, _) => WatchState::Forbidden,
            (false, true) => WatchState::Down,
            (false, false) => WatchState::Up,
        };
        self.recorder
            .apply(Fact::KindState(group_kind(number), state));
        self.take_work();
    }

    pub(crate) fn finish_discovery(&mut self) {
        self.snapshot.kinds_known = true;
        self.recorder.apply(Fact::KindsKnown);
        self.take_work();
    }

    /// Delivers the next event of a watch. Returns false if there is none.
    pub(crate) fn deliver(&mut self, watch: usize) -> bool {
        let is_delivered = match watch {
            0 => self.deliver_pod(),
            1 => self.deliver_node(),
            2 => self.deliver_pps(),
            6 => self.deliver_namespace(),
            watch => self.deliver_workload(watch - 3),
        };
        self.take_work();
        is_delivered
    }

    fn deliver_pod(&mut self) -> bool {
        let Some(event) = self.pods.pop_front() else {
            return false;
        };
        if let WatchEvent::Apply(name, pod, _) = &event {
            self.note_adoption(name, pod);
        }
        self.recorder
            .apply(Fact::Pods(self.snapshot.pods.apply(event, key)));
        true
    }

    /// The entry of a Pod that gets another owner, and runs on, belongs to the new one.
    fn note_adoption(&mut self, name: Name, pod: &Pod) {
        let Some(before) = self.snapshot.pods.objects.get(name) else {
            return;
        };
        let is_same = before.node.is_some() && before.node == pod.node && !pod.terminating;
        let Some(owner) = pod
            .owner
            .as_ref()
            .filter(|_| is_same && before.owner != pod.owner)
        else {
            return;
        };
        for object in self.snapshot.pps.objects.values() {
            if parse_status(&object.status).pod_states.contains_key(name) {
                let renewed = self.snapshot.renewed.entry(object.uid.clone()).or_default();
                renewed.pods.insert(name.to_owned(), owner.clone());
            }
        }
    }

    fn deliver_node(&mut self) -> bool {
        let Some(event) = self.nodes.pop_front() else {
            return false;
        };
        let before: Vec<Name> = self.snapshot.nodes.objects.keys().copied().collect();
        if let WatchEvent::Apply(name, _, fact) = &event {
            let keys: BTreeSet<String> =
                fact.labels.iter().map(|(key, _)| key.to_string()).collect();
            let had = self
                .snapshot
                .node_labels
                .insert(name, keys.clone())
                .unwrap_or_default();
            if before.contains(name) && !had.is_subset(&keys) {
                self.snapshot.new_nodes.remove(name);
            }
        }
        self.recorder
            .apply(Fact::Nodes(self.snapshot.nodes.apply(event, Arc::from)));
        let after = &self.snapshot.nodes.objects;
        self.snapshot
            .new_nodes
            .retain(|name| after.contains_key(name));
        self.snapshot
            .new_nodes
            .extend(after.keys().filter(|name| !before.contains(name)));
        true
    }

    fn deliver_namespace(&mut self) -> bool {
        let Some(event) = self.namespaces.pop_front() else {
            return false;
        };
        self.recorder.apply(Fact::Namespaces(
            self.snapshot.namespaces.apply(event, Arc::from),
        ));
        true
    }

    fn deliver_workload(&mut self, number: usize) -> bool {
        let Some(event) = self.kinds[number].pop_front() else {
            return false;
        };
        let cache = self.snapshot.kinds.get_mut(&number).unwrap();
        self.recorder
            .apply(Fact::Workloads(group_kind(number), cache.apply(event, key)));
        true
    }

    fn deliver_pps(&mut self) -> bool {
        let Some(event) = self.objects.pop_front() else {
            return false;
        };
        let update = match event {
            WatchEvent::ListStart(revision) => {
                self.snapshot.pps.start_list(revision);
                Update::Begin(revision)
            }
            WatchEvent::Apply(name, object, fact) => {
                self.snapshot.pps.note_listed(name);
                let is_listed = self.snapshot.pps.is_listing();
                self.update_known_pps(name, object, is_listed);
                Update::Apply(key(name), fact)
            }
            WatchEvent::Delete(name) => {
                self.snapshot.pps.delete(name);
                self.mark_obsolete_writes();
                Update::Delete(key(name))
            }
            WatchEvent::ListEnd => {
                let aliases: Vec<String> = self.cluster.aliases.keys().cloned().collect();
                for alias in aliases {
                    self.deliver_alias(&alias);
                }
                self.snapshot.pps.end_list();
                self.mark_obsolete_writes();
                Update::Done
            }
        };
        self.recorder.apply_pps(update);
        true
    }

    /// Takes a version of a PPS that a watch or a response has delivered. While a write of that PPS
    /// is pending, it is set aside. What a list says is right even if its version is older, as
    /// after etcd was restored.
    pub(super) fn update_known_pps(&mut self, name: Name, object: Pps, is_listed: bool) {
        match self.snapshot.pps.objects.get(name) {
            Some(known) if known.uid == object.uid => {
                let pending = self
                    .pending
                    .iter_mut()
                    .find(|one| one.name == name && one.is_current);
                if let Some(pending) = pending {
                    // An event after a list is newer than the list.
                    let was_listed = pending
                        .watched
                        .take()
                        .is_some_and(|(_, was_listed)| was_listed);
                    pending.watched = Some((object, is_listed || was_listed));
                } else if is_listed || object.version > known.version {
                    let object = with_erased_states(known, object);
                    self.snapshot.pps.objects.insert(name, object);
                }
            }
            _ => {
                self.snapshot.pps.objects.insert(name, object);
                self.mark_obsolete_writes();
            }
        }
    }

    /// A Node is new no longer.
    pub(crate) fn settle_node(&mut self, node: Name) {
        self.snapshot.new_nodes.remove(node);
        self.recorder.apply(Fact::NodeSettled(Arc::from(node)));
        self.take_work();
    }

    /// Marks the pending writes whose object is deleted or replaced.
    fn mark_obsolete_writes(&mut self) {
        for pending in &mut self.pending {
            let known = self.snapshot.pps.objects.get(pending.name);
            pending.is_current &= known.is_some_and(|known| known.uid == pending.uid);
            pending.watched.take_if(|_| !pending.is_current);
        }
    }

    /// Takes the work that the recorder has handed out.
    pub(super) fn take_work(&mut self) {
        let Work {
            statuses,
            generated,
            absences,
            notices,
            ..
        } = self.recorder.take_work();
        self.notices.extend(notices);
        for workload in generated {
            let number = (0..WORKLOADS.len()).find(|number| {
                WORKLOADS[*number].2 == &*workload.object.name
                    && group_kind(*number) == workload.kind
            });
            self.due_generated.extend(number);
        }
        for object in statuses {
            let (name, _) = PPS_OBJECTS
                .iter()
                .find(|(name, _)| **name == *object.name)
                .unwrap();
            self.due.insert(name);
        }
        for node in absences {
            let Some(name) = NAMED_NODES.iter().find(|name| ***name == *node) else {
                continue;
            };
            if self.recorder.is_missing(&node) {
                self.snapshot
                    .absences
                    .insert(name, NodeAbsence::InGracePeriod);
            } else {
                self.snapshot.absences.remove(name);
            }
        }
        let revision = Some(self.interest.revision());
        let are_watched = self.listed_revision.is_some() || self.recorder.is_interest_known();
        if are_watched && self.listed_revision != revision {
            self.listed_revision = revision;
            self.list_pods();
            self.list_nodes();
        }
    }
}
