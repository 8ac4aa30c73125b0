//! The Pods of workloads, and what is often asked about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::{PodState, Spec};
use pps_scheduler::{Exclusion, Selection};
use serde_json::Value;

use crate::result::Pending;

#[derive(Debug, Default)]
pub(crate) struct Pod {
    pub(crate) object: Arc<Value>,
    /// As the controller created it; null if it ran already.
    pub(crate) before: Value,
    /// As the API server stored it; null if it ran already.
    pub(crate) after: Value,
    pub(crate) workload: String,
    pub(crate) revision: usize,
    pub(crate) is_adopted: bool,
    pub(crate) standing: Standing,
    pub(crate) recorded: Option<RecordedPlace>,
    pub(crate) injected: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) selection: Option<Selection>,
    /// The [`scheduler_revision`](super::Cluster::scheduler_revision) of the selection.
    pub(crate) scheduler_revision: u64,
    pub(crate) came_home: bool,
    pub(crate) kept_away_by: Vec<Exclusion>,
    pub(crate) pending: Option<Pending>,
}

/// Where a Pod runs. Changed by [`Pods`] only, which finds Pods by it.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    node: Option<String>,
    ready: bool,
    ips: Vec<String>,
}

impl Pod {
    pub(crate) fn node(&self) -> Option<&str> {
        self.standing.node.as_deref()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.standing.ready
    }

    pub(crate) fn ips(&self) -> &[String] {
        &self.standing.ips
    }
}

/// A recorded state, and the part of it that the PPS still asks for.
#[derive(Clone, Debug)]
pub(crate) struct RecordedPlace {
    pub(crate) state: PodState,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl RecordedPlace {
    pub(crate) fn of(state: PodState, spec: &Spec) -> Self {
        let mut labels = state.node_topology_labels.clone();
        labels.retain(|key, _| spec.topology_keys().any(|named| named == key));
        let mut annotations = state.annotations.clone();
        annotations.retain(|key, _| {
            let mut named = spec.persistent_pod_annotations.iter();
            named.any(|one| one.key == *key)
        });
        Self {
            state,
            labels,
            annotations,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pods {
    all: BTreeMap<String, Pod>,
    by_workload: BTreeMap<String, BTreeSet<String>>,
    by_node: BTreeMap<String, BTreeSet<String>>,
    by_ip: BTreeMap<String, BTreeSet<String>>,
    waiting: BTreeSet<String>,
}

impl Pods {
    pub(crate) fn get(&self, name: &str) -> Option<&Pod> {
        self.all.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Pod> {
        self.all.get_mut(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.all.keys()
    }

    pub(crate) fn of(&self, workload: &str) -> impl Iterator<Item = (&String, &Pod)> + Clone {
        self.named(self.by_workload.get(workload))
    }

    pub(crate) fn on(&self, node: &str) -> impl Iterator<Item = (&String, &Pod)> + Clone {
        self.named(self.by_node.get(node))
    }

    /// The Pods that do not run yet, and may.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&String, &Pod)> + Clone {
        self.named(Some(&self.waiting))
    }

    fn named<'a>(
        &'a self,
        names: Option<&'a BTreeSet<String>>,
    ) -> impl Iterator<Item = (&'a String, &'a Pod)> + Clone {
        names
            .into_iter()
            .flatten()
            .filter_map(|name| Some((name, self.all.get(name)?)))
    }

    pub(crate) fn has_ip(&self, ip: &str, but: &str) -> bool {
        self.by_ip
            .get(ip)
            .is_some_and(|pods| pods.iter().any(|pod| pod != but))
    }

    pub(super) fn insert(&mut self, name: &str, pod: Pod) {
        self.remove(name);
        self.by_workload
            .entry(pod.workload.clone())
            .or_default()
            .insert(name.to_owned());
        self.waiting.insert(name.to_owned());
        self.all.insert(name.to_owned(), pod);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Pod> {
        let pod = self.all.remove(name)?;
        self.waiting.remove(name);
        leave(&mut self.by_workload, &pod.workload, name);
        if let Some(node) = pod.node() {
            leave(&mut self.by_node, node, name);
        }
        for ip in pod.ips() {
            leave(&mut self.by_ip, ip, name);
        }
        Some(pod)
    }

    /// Binds a Pod to a node. Once it is bound, it stays there.
    pub(super) fn bind(&mut self, name: &str, node: &str) {
        let Some(pod) = self.all.get_mut(name).filter(|pod| pod.node().is_none()) else {
            return;
        };
        pod.standing.node = Some(node.to_owned());
        self.by_node
            .entry(node.to_owned())
            .or_default()
            .insert(name.to_owned());
    }

    /// Gives a Pod that is bound its addresses. It no longer waits, whether it is Ready or not.
    pub(super) fn run(&mut self, name: &str, ips: Vec<String>, ready: bool) {
        let Some(pod) = self.all.get_mut(name) else {
            return;
        };
        self.waiting.remove(name);
        for ip in &ips {
            self.by_ip
                .entry(ip.clone())
                .or_default()
                .insert(name.to_owned());
        }
        pod.standing.ips = ips;
        pod.standing.ready = ready;
    }
}

fn leave(index: &mut BTreeMap<String, BTreeSet<String>>, key: &str, name: &str) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(pods: impl Iterator<Item = (&'a String, &'a Pod)>) -> Vec<&'a str> {
        pods.map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_pod_is_found_by_workload_node_and_address_until_it_is_removed() {
        let mut pods = Pods::default();
        pods.insert(
            "db-0",
            Pod {
                workload: "db".into(),
                ..Pod::default()
            },
        );
        assert_eq!(names(pods.waiting()), ["db-0"]);
        pods.bind("db-0", "n1");
        pods.bind("db-0", "n2");
        assert_eq!(
            (names(pods.on("n1")), names(pods.on("n2"))),
            (vec!["db-0"], vec![])
        );
        pods.run("db-0", vec!["10.0.0.1".into()], true);
        assert_eq!(names(pods.waiting()), [""; 0]);
        assert!(pods.has_ip("10.0.0.1", "db-1") && !pods.has_ip("10.0.0.1", "db-0"));
        assert_eq!(names(pods.of("db")), ["db-0"]);
        pods.remove("db-0");
        assert_eq!(
            (names(pods.of("db")), names(pods.on("n1"))),
            (vec![], vec![])
        );
        assert!(!pods.has_ip("10.0.0.1", "db-1"));
    }
}
