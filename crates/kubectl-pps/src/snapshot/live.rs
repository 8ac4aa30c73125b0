//! A snapshot that follows what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::{Node, Pod, Pps, Snapshot, Workload};

/// The versions in which StatefulSets are read.
const KUBERNETES: &str = "apps/v1";
const KRUISE: &str = "apps.kruise.io/v1beta1";

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Pods.
    Pods,
    /// Nodes.
    Nodes,
    /// StatefulSets of Kubernetes.
    Workloads,
    /// StatefulSets of OpenKruise.
    KruiseWorkloads,
    /// PersistentPodStates.
    Pps,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "Pods",
            Self::Nodes => "nodes",
            Self::Workloads => "StatefulSets",
            Self::KruiseWorkloads => "OpenKruise's StatefulSets",
            Self::Pps => "PersistentPodStates",
        })
    }
}

/// What a watch reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A list begins: what it does not have is gone when it is complete.
    Begin,
    /// An object as it is now.
    Put(Box<Value>),
    /// An object is gone.
    Gone(Box<Value>),
    /// The list is complete.
    Done,
}

/// Namespace and name.
type Key = (String, String);

/// A snapshot that follows what changes.
#[derive(Clone, Debug)]
pub struct Live {
    /// Everything that is not watched.
    rest: Snapshot,
    pods: BTreeMap<Key, Pod>,
    workloads: BTreeMap<Key, Workload>,
    kruise_workloads: BTreeMap<Key, Workload>,
    pps: BTreeMap<Key, Pps>,
    /// The objects of lists that are not complete yet.
    listed: BTreeMap<Watched, BTreeSet<Key>>,
}

impl Live {
    /// Begins with what was read.
    pub fn new(mut snapshot: Snapshot) -> Self {
        let key = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        let pods = std::mem::take(&mut snapshot.pods);
        let pps = std::mem::take(&mut snapshot.pps);
        let (kubernetes, others): (Vec<_>, Vec<_>) = std::mem::take(&mut snapshot.workloads)
            .into_iter()
            .partition(|workload| workload.object()["apiVersion"] == KUBERNETES);
        let by_key = |workloads: Vec<Workload>| -> BTreeMap<Key, Workload> {
            workloads.into_iter().map(|one| (key(one.namespace(), one.name()), one)).collect()
        };
        Self {
            rest: snapshot,
            pods: pods.into_iter().map(|pod| (key(pod.namespace(), pod.name()), pod)).collect(),
            workloads: by_key(kubernetes),
            kruise_workloads: by_key(others),
            pps: pps.into_iter().map(|pps| (key(pps.namespace(), pps.name()), pps)).collect(),
            listed: BTreeMap::new(),
        }
    }

    /// Takes over what a watch reports. Whether something may be different now.
    pub fn apply(&mut self, watched: Watched, report: Report) -> bool {
        match report {
            Report::Begin => {
                self.listed.insert(watched, BTreeSet::new());
                false
            }
            Report::Put(object) => {
                let Some(key) = key_of(&object) else { return false };
                if let Some(listed) = self.listed.get_mut(&watched) {
                    listed.insert(key.clone());
                }
                self.put(watched, key, *object)
            }
            Report::Gone(object) => key_of(&object).is_some_and(|key| self.remove(watched, &key)),
            Report::Done => {
                let Some(listed) = self.listed.remove(&watched) else { return false };
                let gone: Vec<Key> =
                    self.keys(watched).into_iter().filter(|key| !listed.contains(key)).collect();
                let removed = gone.iter().filter(|key| self.remove(watched, key)).count();
                removed > 0
            }
        }
    }

    fn put(&mut self, watched: Watched, key: Key, object: Value) -> bool {
        fn insert<T: PartialEq>(objects: &mut BTreeMap<Key, T>, key: Key, object: Option<T>) -> bool {
            let Some(object) = object else { return false };
            let is_same = objects.get(&key) == Some(&object);
            objects.insert(key, object);
            !is_same
        }
        match watched {
            Watched::Pods => insert(&mut self.pods, key, Pod::read(object)),
            Watched::Workloads => insert(&mut self.workloads, key, Workload::read(object, KUBERNETES)),
            Watched::KruiseWorkloads => {
                insert(&mut self.kruise_workloads, key, Workload::read(object, KRUISE))
            }
            Watched::Pps => insert(&mut self.pps, key, Pps::read(object)),
            Watched::Nodes => {
                let (Some(node), Some(nodes)) = (Node::read(object), self.rest.nodes.as_mut()) else {
                    return false;
                };
                // A kubelet reports the node's condition each few minutes, and nothing else changes.
                let is_same = nodes.get(&key.1) == Some(&node);
                nodes.insert(key.1, node);
                !is_same
            }
        }
    }

    fn remove(&mut self, watched: Watched, key: &Key) -> bool {
        match watched {
            Watched::Pods => self.pods.remove(key).is_some(),
            Watched::Workloads => self.workloads.remove(key).is_some(),
            Watched::KruiseWorkloads => self.kruise_workloads.remove(key).is_some(),
            Watched::Pps => self.pps.remove(key).is_some(),
            Watched::Nodes => self.rest.nodes.as_mut().is_some_and(|nodes| nodes.remove(&key.1).is_some()),
        }
    }

    fn keys(&self, watched: Watched) -> Vec<Key> {
        match watched {
            Watched::Pods => self.pods.keys().cloned().collect(),
            Watched::Workloads => self.workloads.keys().cloned().collect(),
            Watched::KruiseWorkloads => self.kruise_workloads.keys().cloned().collect(),
            Watched::Pps => self.pps.keys().cloned().collect(),
            Watched::Nodes => {
                self.rest.nodes.iter().flatten().map(|(name, _)| (String::new(), name.clone())).collect()
            }
        }
    }

    /// The cluster as it is now.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.rest.clone();
        snapshot.pods.extend(self.pods.values().cloned());
        snapshot.workloads.extend(self.workloads.values().chain(self.kruise_workloads.values()).cloned());
        snapshot.pps.extend(self.pps.values().cloned());
        snapshot.sort();
        snapshot
    }
}

fn key_of(object: &Value) -> Option<Key> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some((namespace.to_owned(), metadata["name"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::snapshot::Scope;

    fn pod(name: &str, node: &str) -> Value {
        json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": node}})
    }

    #[test]
    fn what_a_complete_list_does_not_have_is_gone_and_nothing_before() {
        let mut live = Live::new(Snapshot::empty(Scope::All));
        let pods =
            |live: &Live| live.snapshot().pods.iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>();
        for name in ["a-0", "a-1"] {
            assert!(live.apply(Watched::Pods, Report::Put(Box::new(pod(name, "n")))));
        }
        assert!(!live.apply(Watched::Pods, Report::Put(Box::new(pod("a-1", "n")))), "nothing is different");
        assert!(!live.apply(Watched::Pods, Report::Begin));
        assert!(live.apply(Watched::Pods, Report::Put(Box::new(pod("a-2", "n")))));
        assert!(!live.apply(Watched::Pods, Report::Put(Box::new(pod("a-0", "n")))));
        assert_eq!(pods(&live), ["a-0", "a-1", "a-2"]);
        assert!(live.apply(Watched::Pods, Report::Done));
        assert_eq!(pods(&live), ["a-0", "a-2"]);
        assert!(live.apply(Watched::Pods, Report::Gone(Box::new(pod("a-0", "n")))));
        assert_eq!(pods(&live), ["a-2"]);
        assert!(
            !live.apply(Watched::Nodes, Report::Put(Box::new(json!({"metadata": {"name": "n"}})))),
            "no right"
        );
    }

    #[test]
    fn openkruises_statefulsets_are_followed_beside_those_of_kubernetes() {
        let object = |replicas: u64| json!({"metadata": {"namespace": "shop", "name": "db"}, "spec": {"replicas": replicas}});
        let mut first = Snapshot::empty(Scope::All);
        first.workloads.extend(Workload::read(object(1), KUBERNETES));
        first.workloads.extend(Workload::read(object(2), KRUISE));
        let mut live = Live::new(first);
        let replicas = |live: &Live| {
            let mut all: Vec<u64> = live.snapshot().workloads.iter().map(Workload::replicas).collect();
            all.sort_unstable();
            all
        };
        assert!(live.apply(Watched::KruiseWorkloads, Report::Put(Box::new(object(5)))));
        assert_eq!(replicas(&live), [1, 5]);
        assert!(live.apply(Watched::KruiseWorkloads, Report::Gone(Box::new(object(5)))));
        assert_eq!(replicas(&live), [1]);
    }
}
