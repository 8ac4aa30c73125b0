//! What happens in the cluster reaches the index: late, in pieces, and sometimes anew.

use std::sync::Arc;

use pps_sidecar::decide::index::Work;
use pps_sidecar::facts::store::Update;

use super::super::cluster::{NAMED_NODES, Name, OBJECTS, Object, WORKLOADS};
use super::super::view::{Absence, Known, Told, group_kind, node_fact, object_fact, pod_fact, workload_fact};
use super::{Run, key};

impl Run {
    /// A watch begins anew: with a list of what there is now. What it had not told yet is lost.
    pub(crate) fn relist(&mut self, stream: usize) {
        match stream {
            0 | 1 if !self.later_watches => {}
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
                self.objects.push_back(Told::Begin(0));
                for (name, object) in &self.cluster.objects {
                    self.objects.push_back(Told::Apply(name, object.clone(), object_fact(name, object)));
                }
                self.objects.push_back(Told::Done);
            }
            stream => {
                let number = stream - 3;
                self.kinds[number].clear();
                if self.view.kinds.contains_key(&number) {
                    self.kinds[number].push_back(Told::Begin(0));
                    self.tell_workload(number);
                    self.kinds[number].push_back(Told::Done);
                }
            }
        }
    }

    fn list_pods(&mut self) {
        self.pods.push_back(Told::Begin(self.interest.annotations().revision()));
        for (name, pod) in &self.cluster.pods {
            self.pods.push_back(Told::Apply(name, pod.clone(), pod_fact(name, pod, &self.interest)));
        }
        self.pods.push_back(Told::Done);
    }

    fn list_nodes(&mut self) {
        self.nodes.push_back(Told::Begin(self.interest.labels().revision()));
        for (name, node) in &self.cluster.nodes {
            self.nodes.push_back(Told::Apply(name, node.clone(), node_fact(name, node, &self.interest)));
        }
        self.nodes.push_back(Told::Done);
    }

    /// A Pod has changed, or gone.
    pub(crate) fn tell_pod(&mut self, name: Name) {
        if self.later_watches {
            self.pods.push_back(match self.cluster.pods.get(name) {
                Some(pod) => Told::Apply(name, pod.clone(), pod_fact(name, pod, &self.interest)),
                None => Told::Delete(name),
            });
        }
    }

    pub(crate) fn tell_node(&mut self, name: Name) {
        if self.later_watches {
            self.nodes.push_back(match self.cluster.nodes.get(name) {
                Some(node) => Told::Apply(name, node.clone(), node_fact(name, node, &self.interest)),
                None => Told::Delete(name),
            });
        }
    }

    pub(crate) fn tell_object(&mut self, name: Name) {
        self.objects.push_back(match self.cluster.objects.get(name) {
            Some(object) => Told::Apply(name, object.clone(), object_fact(name, object)),
            None => Told::Delete(name),
        });
    }

    pub(crate) fn tell_workload(&mut self, number: usize) {
        if self.view.kinds.contains_key(&number) {
            let name = WORKLOADS[number].2;
            match self.cluster.workloads.get(&number) {
                Some(workload) => {
                    let fact = workload_fact(number, workload);
                    self.kinds[number].push_back(Told::Apply(name, workload.clone(), fact));
                }
                None if self.kinds[number].is_empty()
                    && !self.view.kinds[&number].facts.contains_key(name) => {}
                None => self.kinds[number].push_back(Told::Delete(name)),
            }
        }
    }

    pub(super) fn watch_kind(&mut self, number: usize) {
        self.index.watch_kind(group_kind(number));
        self.view.kinds.insert(number, Known::default());
        self.relist(3 + number);
        self.take_up();
    }

    /// A kind is taken up, or let go.
    pub(crate) fn turn_kind(&mut self, number: usize) {
        if self.view.kinds.remove(&number).is_none() {
            self.watch_kind(number);
            return;
        }
        self.kinds[number].clear();
        self.view.forbidden.remove(&number);
        self.index.unwatch_kind(&group_kind(number));
        self.take_up();
    }

    /// A kind may not be listed, or may be after all.
    pub(crate) fn forbid_kind(&mut self, number: usize) {
        if self.view.kinds.contains_key(&number) {
            let forbidden = self.view.forbidden.insert(number) || !self.view.forbidden.remove(&number);
            self.index.forbid_kind(&group_kind(number), forbidden);
            self.take_up();
        }
    }

    pub(crate) fn know_kinds(&mut self) {
        self.view.kinds_known = true;
        self.index.set_kinds_known();
        self.take_up();
    }

    /// The index is told the next of what a watch tells; false if there is nothing.
    pub(crate) fn deliver(&mut self, stream: usize) -> bool {
        let told = match stream {
            0 => self.deliver_pod(),
            1 => self.deliver_node(),
            2 => self.deliver_object(),
            stream => self.deliver_workload(stream - 3),
        };
        self.take_up();
        told
    }

    fn deliver_pod(&mut self) -> bool {
        let (known, Some(told)) = (&mut self.view.pods, self.pods.pop_front()) else { return false };
        let update = known.hear(told, key);
        self.index.apply_pods(update);
        true
    }

    fn deliver_node(&mut self) -> bool {
        let (known, Some(told)) = (&mut self.view.nodes, self.nodes.pop_front()) else { return false };
        let update = known.hear(told, Arc::from);
        self.index.apply_nodes(update);
        true
    }

    fn deliver_workload(&mut self, number: usize) -> bool {
        let Some(told) = self.kinds[number].pop_front() else { return false };
        let known = self.view.kinds.get_mut(&number).unwrap();
        let update = known.hear(told, key);
        self.index.apply_workloads(&group_kind(number), update);
        true
    }

    fn deliver_object(&mut self) -> bool {
        let Some(told) = self.objects.pop_front() else { return false };
        let update = match told {
            Told::Begin(revision) => {
                self.view.objects.begin(revision);
                Update::Begin(revision)
            }
            Told::Apply(name, object, fact) => {
                self.view.objects.names(name);
                self.see(name, object);
                Update::Apply(key(name), fact)
            }
            Told::Delete(name) => {
                self.view.objects.delete(name);
                self.forget_flights();
                Update::Delete(key(name))
            }
            Told::Done => {
                self.view.objects.done();
                self.forget_flights();
                Update::Done
            }
        };
        self.index.apply_objects(update);
        true
    }

    /// An object is like this, as a watch or a read says. While a write of it is on its way, that waits.
    pub(super) fn see(&mut self, name: Name, object: Object) {
        match self.view.objects.facts.get(name) {
            Some(known) if known.uid == object.uid => {
                if let Some(flight) = self.flights.iter_mut().find(|one| one.name == name && one.is_awaited) {
                    flight.told = Some(object);
                } else if object.version > known.version {
                    self.view.objects.facts.insert(name, object);
                }
            }
            _ => {
                self.view.objects.facts.insert(name, object);
                self.forget_flights();
            }
        }
    }

    fn forget_flights(&mut self) {
        for flight in &mut self.flights {
            let known = self.view.objects.facts.get(flight.name);
            flight.is_awaited &= known.is_some_and(|known| known.uid == flight.uid);
            flight.told.take_if(|_| !flight.is_awaited);
        }
    }

    /// Takes up what has come up.
    pub(super) fn take_up(&mut self) {
        let Work { statuses, absences, relist, .. } = self.index.take_work();
        for object in statuses {
            let (name, _) = OBJECTS.iter().find(|(name, _)| **name == *object.name).unwrap();
            self.due.insert(name);
        }
        for node in absences {
            let Some(name) = NAMED_NODES.iter().find(|name| ***name == *node) else { continue };
            if self.index.is_missing(&node) {
                self.view.absences.insert(name, Absence::Excused);
            } else {
                self.view.absences.remove(name);
            }
        }
        if !self.later_watches && self.index.is_interest_known() {
            self.later_watches = true;
            self.list_pods();
            self.list_nodes();
        } else if self.later_watches {
            if relist.annotations {
                self.list_pods();
            }
            if relist.labels {
                self.list_nodes();
            }
        }
    }
}
