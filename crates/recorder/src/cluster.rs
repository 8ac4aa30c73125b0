//! The cluster as the watches have shown it. Each fact says what it makes dirty; what that means
//! for a PersistentPodState is not known here.

mod nodes;
mod pods;
mod scope;
mod workloads;

use std::sync::Arc;

pub(crate) use self::nodes::Nodes;
pub(crate) use self::pods::{EndedPod, Pods};
use self::scope::Scope;
pub(crate) use self::workloads::{KindCoverage, Workloads};
use crate::facts::interest::Interest;
use crate::facts::interner::Interner;
use crate::facts::states::States;
use crate::facts::store::{Put, Update};
use crate::facts::{
    GroupKind, NamespacedName, NodeFact, PodFact, WatchState, WorkloadFact, WorkloadKey,
};
use crate::names::{Names, NamesDoubt};

/// What a watch reports, or the passing of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Pods(Update<NamespacedName, PodFact>),
    Nodes(Update<Arc<str>, NodeFact>),
    /// A node has existed for so long that a label which it lacks is not on its way.
    NodeSettled(Arc<str>),
    /// The namespaces in scope.
    Namespaces(Update<Arc<str>, ()>),
    /// Ignored if the kind is not watched any longer.
    Workloads(GroupKind, Update<NamespacedName, WorkloadFact>),
    /// Workloads of this kind come from a new watch. Until they are listed, nothing is decided
    /// about the objects that name one.
    KindWatched(GroupKind),
    /// Workloads of this kind are not watched any longer. Their recorded states stay unchanged.
    KindUnwatched(GroupKind),
    KindState(GroupKind, WatchState),
    /// All kinds that can be watched are known: from now on, the condition of a PPS says if the
    /// kind that it names is not one of them.
    KindsKnown,
}

/// What has to be examined after a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dirty {
    /// A Pod was created, changed or deleted: the UIDs of the owners that it had and has.
    Pod {
        pod: NamespacedName,
        owners: [Option<Arc<str>>; 2],
    },
    /// A workload has adopted a Pod, which may be gone before the next decision.
    Adopted {
        pod: NamespacedName,
        owner: Arc<str>,
    },
    /// A Pod with the policy's annotation has been deleted, or there is another one of its name.
    Ended {
        pod: NamespacedName,
        ended: EndedPod,
    },
    /// A Pod has just been bound to a node.
    Bound(NamespacedName),
    /// A Pod with the policy's annotation waits for a node, or no longer does.
    WaitingPod(NamespacedName),
    /// A node that could take a waiting Pod may have come or gone.
    WaitingPods,
    NodeAppeared(Arc<str>),
    /// A node appeared, changed or was deleted.
    Node(Arc<str>),
    /// A node is new no longer.
    NodeSettled(Arc<str>),
    /// A workload was created, changed or deleted.
    Workload {
        workload: WorkloadKey,
        /// Its UIDs before and now, if they differ: its Pods are others.
        uids: Vec<Arc<str>>,
        /// Its annotations may ask for something else.
        has_new_request: bool,
    },
    Kind(GroupKind),
    Namespace(Arc<str>),
    /// A list is complete, or the kinds are known: what could not be decided before may be decided.
    Listed,
}

/// Why the names of its Pods that a workload lists do not say which of them it wants, if so.
/// `recorded` are the states of its PPS.
pub(crate) fn names_doubt(
    workload: &WorkloadFact,
    namespace: &Arc<str>,
    pods: &Pods,
    recorded: &States,
) -> Option<NamesDoubt> {
    let living = pods.living_names(namespace, &workload.uid);
    workload.demand.doubt(living, recorded)
}

#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) interest: Interest,
    pub(crate) interner: Interner,
    pub(crate) pods: Pods,
    pub(crate) nodes: Nodes,
    pub(crate) workloads: Workloads,
    pub(crate) scope: Scope,
}

impl Cluster {
    /// An empty cluster. StatefulSets are watched; other kinds can be added.
    pub(crate) fn new(interest: Interest) -> Self {
        Self {
            interest,
            workloads: Workloads::new(GroupKind::stateful_set()),
            ..Self::default()
        }
    }

    /// Whether complete lists of Pods, Nodes, StatefulSets and namespaces have been seen. Before
    /// that nothing is decided, because an object that is not listed yet looks like one that is
    /// gone. Nor is anything decided about a PPS before the kind of its workload is listed.
    pub(crate) fn is_complete(&self) -> bool {
        self.pods.facts.complete().is_some()
            && self.nodes.facts.complete().is_some()
            && self.scope.is_listed()
            && self.has_stateful_sets()
    }

    pub(crate) fn has_stateful_sets(&self) -> bool {
        self.workloads.is_listed(&GroupKind::stateful_set())
    }

    /// The revision of the interest with which both Pods and Nodes are listed.
    pub(crate) fn listed_revision(&self) -> Option<u64> {
        self.nodes.facts.complete().min(self.pods.facts.complete())
    }

    /// The names of its Pods that a workload lists, if they can be relied upon now. `recorded` are
    /// the states of its PPS.
    pub(crate) fn certain_names_of(&self, key: &WorkloadKey, recorded: &States) -> Option<&Names> {
        let workload = self.workloads.get(key)?;
        let doubt = names_doubt(workload, &key.object.namespace, &self.pods, recorded);
        let is_certain = self.workloads.is_current(&key.kind) && doubt.is_none();
        workload.demand.names().filter(|_| is_certain)
    }

    pub(crate) fn apply(&mut self, fact: Fact) -> Vec<Dirty> {
        match fact {
            Fact::Pods(update) => self.apply_pods(update),
            Fact::Nodes(update) => self.apply_nodes(update),
            Fact::NodeSettled(node) => self.settle_node(node),
            Fact::Namespaces(update) => self.apply_namespaces(update),
            Fact::Workloads(kind, update) => self.apply_workloads(&kind, update),
            Fact::KindWatched(kind) => self.watch_kind(kind),
            Fact::KindUnwatched(kind) => self.unwatch_kind(kind),
            Fact::KindState(kind, state) => self.set_watch_state(kind, state),
            Fact::KindsKnown => self.set_kinds_known(),
        }
    }

    fn apply_pods(&mut self, update: Update<NamespacedName, PodFact>) -> Vec<Dirty> {
        let changes = self.pods.facts.changes(update);
        let mut dirty = Vec::new();
        for (key, fact) in changes.objects {
            dirty.extend(match fact {
                Some(fact) => self.apply_pod(&key, fact),
                None => self.delete_pod(key),
            });
        }
        if changes.ends_list {
            dirty.push(Dirty::Listed);
        }
        dirty
    }

    fn apply_pod(&mut self, key: &NamespacedName, mut fact: PodFact) -> Vec<Dirty> {
        let mut dirty = Vec::new();
        let key = self.interner.intern_name(key);
        fact.annotations.sort_unstable();
        if self.pods.set_waiting(&key, fact.pending.is_some()) {
            dirty.push(Dirty::WaitingPod(key.clone()));
        }
        if self.pods.facts.get(&key) != Some(&fact) {
            for name in [&mut fact.owner, &mut fact.node].into_iter().flatten() {
                *name = self.interner.intern(name);
            }
            self.interner.intern_pairs(&mut fact.annotations);
        }
        let owner = fact.owner.clone();
        let node = fact.node.clone().filter(|_| !fact.terminating);
        let owner_before = match self.pods.apply(&key, fact) {
            Put::Known => return dirty,
            Put::New => None,
            Put::Changed(before) => {
                if let Some(ended) = self.ended_pod(&key, &before) {
                    let pod = key.clone();
                    dirty.push(Dirty::Ended { pod, ended });
                }
                if before.node.is_none() {
                    if self.pods.is_bound(&key) {
                        dirty.push(Dirty::Bound(key.clone()));
                    }
                } else if before.node == node
                    && before.owner != owner
                    && let Some(owner) = owner.clone()
                {
                    let pod = key.clone();
                    dirty.push(Dirty::Adopted { pod, owner });
                }
                before.owner
            }
        };
        dirty.push(Dirty::Pod {
            pod: key,
            owners: [owner_before, owner],
        });
        dirty
    }

    /// The former Pod of this name, if there is another one now.
    fn ended_pod(&self, key: &NamespacedName, before: &PodFact) -> Option<EndedPod> {
        let ended = EndedPod::of(before)?;
        let now = self.pods.facts.get(key)?.incarnation.as_ref();
        now.is_some_and(|now| now.uid != ended.incarnation.uid)
            .then_some(ended)
    }

    fn delete_pod(&mut self, key: NamespacedName) -> Vec<Dirty> {
        let mut dirty = Vec::new();
        let Some(before) = self.pods.remove(&key) else {
            return dirty;
        };
        if self.pods.set_waiting(&key, false) {
            dirty.push(Dirty::WaitingPod(key.clone()));
        }
        if let Some(ended) = EndedPod::of(&before) {
            let pod = key.clone();
            dirty.push(Dirty::Ended { pod, ended });
        }
        dirty.push(Dirty::Pod {
            pod: key,
            owners: [before.owner, None],
        });
        dirty
    }

    fn apply_nodes(&mut self, update: Update<Arc<str>, NodeFact>) -> Vec<Dirty> {
        let changes = self.nodes.facts.changes(update);
        let mut dirty = Vec::new();
        for (name, fact) in changes.objects {
            match fact {
                Some(fact) => dirty.extend(self.apply_node(&name, fact)),
                None if self.nodes.remove(&name) => dirty.push(Dirty::Node(name)),
                None => {}
            }
        }
        // The end of a list has everything examined that waits.
        if changes.ends_list {
            dirty.push(Dirty::Listed);
        } else if !dirty.is_empty() {
            dirty.push(Dirty::WaitingPods);
        }
        dirty
    }

    fn apply_node(&mut self, name: &Arc<str>, mut fact: NodeFact) -> Vec<Dirty> {
        let name = self.interner.intern(name);
        fact.labels.sort_unstable();
        self.interner.intern_pairs(&mut fact.labels);
        match self.nodes.apply(&name, fact) {
            Put::Known => Vec::new(),
            Put::New => vec![Dirty::NodeAppeared(name.clone()), Dirty::Node(name)],
            Put::Changed(_) => vec![Dirty::Node(name)],
        }
    }

    fn settle_node(&mut self, node: Arc<str>) -> Vec<Dirty> {
        if self.nodes.settle(&node) {
            vec![Dirty::NodeSettled(node)]
        } else {
            Vec::new()
        }
    }

    fn apply_namespaces(&mut self, update: Update<Arc<str>, ()>) -> Vec<Dirty> {
        let (changed, ends_list) = self.scope.namespaces.apply(update);
        let mut dirty: Vec<Dirty> = changed.into_iter().map(Dirty::Namespace).collect();
        if ends_list {
            dirty.push(Dirty::Listed);
        }
        dirty
    }

    fn watch_kind(&mut self, kind: GroupKind) -> Vec<Dirty> {
        // A kind that was watched before may have been refused.
        let dirty = self.set_watch_state(kind.clone(), WatchState::Up);
        self.workloads.watch(kind);
        dirty
    }

    fn unwatch_kind(&mut self, kind: GroupKind) -> Vec<Dirty> {
        if self.workloads.unwatch(&kind) {
            vec![Dirty::Kind(kind)]
        } else {
            Vec::new()
        }
    }

    fn set_watch_state(&mut self, kind: GroupKind, state: WatchState) -> Vec<Dirty> {
        let before = self.workloads.coverage(&kind);
        self.workloads.set_watch_state(&kind, state);
        if self.workloads.coverage(&kind) == before {
            Vec::new()
        } else {
            vec![Dirty::Kind(kind)]
        }
    }

    fn set_kinds_known(&mut self) -> Vec<Dirty> {
        if self.workloads.set_kinds_known() {
            vec![Dirty::Listed]
        } else {
            Vec::new()
        }
    }

    fn apply_workloads(
        &mut self,
        kind: &GroupKind,
        update: Update<NamespacedName, WorkloadFact>,
    ) -> Vec<Dirty> {
        let was_listed = self.workloads.is_listed(kind);
        let Some(changes) = self.workloads.changes(kind, update) else {
            return Vec::new();
        };
        let mut dirty = Vec::new();
        for (object, fact) in changes.objects {
            let kind = kind.clone();
            let key = WorkloadKey { object, kind };
            dirty.extend(match fact {
                Some(fact) => self.apply_workload(&key, fact),
                None => self.delete_workload(key),
            });
        }
        if changes.ends_list {
            if !was_listed {
                dirty.push(Dirty::Kind(kind.clone()));
            }
            dirty.push(Dirty::Listed);
        }
        dirty
    }

    fn apply_workload(&mut self, key: &WorkloadKey, mut fact: WorkloadFact) -> Option<Dirty> {
        let key = self.interner.intern_workload_key(key);
        fact.uid = self.interner.intern(&fact.uid);
        fact.demand.intern(&mut self.interner);
        let uid = fact.uid.clone();
        let before = self.workloads.get(&key);
        let uid_before = before.map(|before| before.uid.clone());
        let has_new_request = before.is_none_or(|before| before.annotations != fact.annotations);
        if !self.workloads.apply(&key, fact) {
            return None;
        }
        let uids = if uid_before.as_ref() == Some(&uid) {
            Vec::new()
        } else {
            uid_before.into_iter().chain([uid]).collect()
        };
        Some(Dirty::Workload {
            workload: key,
            uids,
            has_new_request,
        })
    }

    fn delete_workload(&mut self, key: WorkloadKey) -> Option<Dirty> {
        let before = self.workloads.remove(&key)?;
        Some(Dirty::Workload {
            workload: key,
            uids: vec![before.uid],
            has_new_request: true,
        })
    }
}
