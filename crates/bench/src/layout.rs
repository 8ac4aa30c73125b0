//! The measured cluster: StatefulSets, each with a PPS of its name, and their Pods on a hundred
//! Nodes.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pps_core::PodState;
use pps_core::packed::{Bucket, COMPACT_FROM, Row, VERSION, write_bucket};
use serde_json::{Map, Value, json};

use crate::etcd::{OBJECTS, StoredObject};
use crate::recorder::Product;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The annotation that is recorded.
pub(crate) const ADDRESS: &str = "ovn.kubernetes.io/ip_address";
const NODES: usize = 100;

/// StatefulSets of one namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) namespace: &'static str,
    pub(crate) workloads: usize,
    /// Pods per StatefulSet.
    pub(crate) pods: usize,
    ready: bool,
    has_pps: bool,
    /// Part of the UIDs: objects of two layouts are never the same.
    series: usize,
}

impl Layout {
    pub(crate) fn new(namespace: &'static str, workloads: usize, pods: usize) -> Self {
        static SERIES: AtomicUsize = AtomicUsize::new(0);
        Self {
            namespace,
            workloads,
            pods,
            ready: true,
            has_pps: true,
            series: SERIES.fetch_add(1, Relaxed),
        }
    }

    pub(crate) fn not_ready(self) -> Self {
        Self {
            ready: false,
            ..self
        }
    }

    pub(crate) fn without_pps(self) -> Self {
        Self {
            has_pps: false,
            ..self
        }
    }

    /// The number of its PersistentPodStates.
    pub(crate) fn all_pps(self) -> usize {
        if self.has_pps { self.workloads } else { 0 }
    }

    pub(crate) fn all_pods(self) -> usize {
        self.workloads * self.pods
    }

    pub(crate) fn pod_name(self, index: usize) -> String {
        format!("db-{}-{}", index / self.pods, index % self.pods)
    }

    pub(crate) fn stored(self, product: Product) -> impl Iterator<Item = StoredObject> {
        let workloads = (0..self.workloads).map(move |index| self.workload(index));
        let pps = (0..self.all_pps()).map(move |index| self.pps(index, product));
        let owners = workloads.chain(pps);
        owners.chain((0..self.all_pods()).map(move |index| self.stored_pod(index)))
    }

    fn workload(self, index: usize) -> StoredObject {
        let name = format!("db-{index}");
        let labels = json!({"app": name});
        let value = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": self.metadata(&name, &self.uid(1, index)),
            "spec": {"replicas": self.pods, "serviceName": name, "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "example.invalid/db:1"}]}}},
        });
        StoredObject {
            key: format!("statefulsets/{}/{name}", self.namespace),
            value,
        }
    }

    fn pps(self, index: usize, product: Product) -> StoredObject {
        let name = format!("db-{index}");
        let keys = product.keys_field();
        let value = json!({
            "apiVersion": product.resource().api_version, "kind": "PersistentPodState",
            "metadata": self.metadata(&name, &self.uid(2, index)),
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                "requiredPersistentTopology": {keys: [ZONE]},
                "preferredPersistentTopology": [{"weight": 100, "preference": {keys: [HOSTNAME]}}],
                "persistentPodAnnotations": [{"key": ADDRESS}],
            },
        });
        StoredObject {
            key: format!("{OBJECTS}{}/{name}", self.namespace),
            value,
        }
    }

    /// The first PPS with the states of all its Pods, in the form in which the sidecar writes so
    /// many.
    pub(crate) fn recorded_pps(self) -> Value {
        let mut pps = self.pps(0, Product::Ours).value;
        let states: BTreeMap<String, PodState> = (0..self.pods)
            .map(|index| (self.pod_name(index), state(index)))
            .collect();
        let mut status =
            json!({"observedGeneration": 1, "recorded": self.pods, "desired": self.pods});
        if self.pods >= COMPACT_FROM {
            let mut buckets = BTreeMap::<Bucket, Vec<Row<'_>>>::new();
            for (pod, state) in &states {
                buckets
                    .entry(Bucket::of(pod))
                    .or_default()
                    .push(Row::of(pod, state));
            }
            let buckets: Map<String, Value> = buckets
                .iter()
                .map(|(bucket, rows)| (bucket.to_string(), write_bucket(rows).into()))
                .collect();
            status["packed"] = json!({"version": VERSION, "buckets": buckets});
        } else {
            status["podStates"] = json!(states);
        }
        pps["status"] = status;
        pps
    }

    fn stored_pod(self, index: usize) -> StoredObject {
        let mut pod = self.created_pod(index);
        let ip = address(index);
        pod["metadata"]["uid"] = self.pod_uid(index).into();
        pod["metadata"]["annotations"] = json!({ADDRESS: ip});
        pod["spec"]["nodeName"] = node_name(index).into();
        pod["status"] = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "startTime": "2026-01-07T09:10:12Z",
            "conditions": [{"type": "Ready", "status": if self.ready { "True" } else { "False" },
                "lastTransitionTime": "2026-01-07T09:10:13Z"}]});
        StoredObject {
            key: format!("pods/{}/{}", self.namespace, self.pod_name(index)),
            value: pod,
        }
    }

    /// A Pod as its controller creates it.
    pub(crate) fn created_pod(self, index: usize) -> Value {
        static POD: LazyLock<Value> =
            LazyLock::new(|| yaml_serde::from_str(include_str!("pod.yaml")).unwrap_or_default());
        let name = self.pod_name(index);
        let workload = format!("db-{}", index / self.pods);
        let mut pod = POD.clone();
        let metadata = &mut pod["metadata"];
        metadata["name"] = name.as_str().into();
        metadata["namespace"] = self.namespace.into();
        metadata["labels"] = json!({"app": workload, "statefulset.kubernetes.io/pod-name": name});
        metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload,
            "uid": self.uid(1, index / self.pods), "controller": true, "blockOwnerDeletion": true}]);
        pod["spec"]["hostname"] = name.into();
        pod
    }

    /// The request of an admission review: the creation of a Pod by its controller.
    pub(crate) fn request(self, index: usize) -> Value {
        let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
        let resource = json!({"group": "", "version": "v1", "resource": "pods"});
        json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": self.pod_name(index),
            "namespace": self.namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:statefulset-controller",
                "uid": "8d1ddc2d-f0a7-4d1c-a5ef-4a4e1d9c7dc9",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]},
            "object": self.created_pod(index),
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        })
    }

    pub(crate) fn pod_uid(self, index: usize) -> String {
        self.uid(3, index)
    }

    fn metadata(self, name: &str, uid: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "uid": uid, "generation": 1,
            "creationTimestamp": "2026-01-07T09:10:11Z"})
    }

    fn uid(self, kind: usize, index: usize) -> String {
        format!("{kind:08x}-{:04x}-4000-8000-{index:012x}", self.series)
    }
}

pub(crate) fn nodes() -> impl Iterator<Item = StoredObject> {
    (0..NODES).map(|index| {
        let name = node_name(index);
        let value = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("{index:08x}-0000-4000-8000-000000000000"),
                "creationTimestamp": "2026-01-07T09:10:11Z", "labels": labels(index)}});
        StoredObject {
            key: format!("minions/{name}"),
            value,
        }
    })
}

/// The Node of the Pod with this number.
pub(crate) fn node_name(index: usize) -> String {
    format!("worker-{}", index % NODES)
}

fn labels(index: usize) -> Value {
    json!({HOSTNAME: node_name(index), ZONE: format!("zone-{}", index % NODES % 3)})
}

fn address(index: usize) -> String {
    format!(
        "10.{}.{}.{}",
        16 + index / 62_500,
        index / 250 % 250,
        index % 250 + 1
    )
}

fn state(index: usize) -> PodState {
    let state = json!({"nodeName": node_name(index), "nodeTopologyLabels": labels(index),
        "annotations": {ADDRESS: address(index)}});
    serde_json::from_value(state).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pps_core::packed::recorded_state;

    use super::*;

    #[test]
    fn both_forms_hold_the_states_of_all_pods() {
        for pods in [10, 250] {
            let layout = Layout::new("bench", 1, pods);
            let status = &layout.recorded_pps()["status"];
            assert_eq!(status["packed"].is_object(), pods == 250);
            for index in 0..pods {
                let found = recorded_state(status, &layout.pod_name(index)).unwrap();
                assert_eq!(found.as_ref(), Some(&state(index)), "{index}");
            }
        }
        assert_eq!(state(0).node_name, "worker-0");
    }

    #[test]
    fn a_created_pod_has_the_size_that_the_tables_name() {
        let length = Layout::new("bench", 1, 1).created_pod(0).to_string().len();
        assert!((3_500..4_500).contains(&length), "{length}");
    }
}
