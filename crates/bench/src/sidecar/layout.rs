//! The objects of the cluster in which the sidecar is measured. They are written directly into etcd: creating
//! a hundred thousand Pods through the API server would take longer than all measurements.

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::fixture::{Case, HOSTNAME, Owner, ZONE, spec};

pub(crate) const NODES: usize = 100;
/// How many objects one etcd transaction writes; etcd accepts at most 128.
const BATCH_SIZE: usize = 100;

/// StatefulSets, each with a PPS of its name and its Pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterLayout {
    pub(crate) namespace: &'static str,
    pub(crate) workloads: usize,
    /// Pods per StatefulSet.
    pub(crate) pods: usize,
    /// Whether the Pods are Ready.
    pub(crate) ready: bool,
}

impl ClusterLayout {
    pub(crate) fn all_pods(self) -> usize {
        self.workloads * self.pods
    }

    pub(crate) fn pod_name(self, index: usize) -> String {
        format!("db-{}-{}", index / self.pods, index % self.pods)
    }

    /// Writes all objects into etcd.
    pub(crate) async fn seed(self, etcd: &str) -> Result<()> {
        let client = Client::try_from(Config::new(etcd.parse()?))?;
        let nodes = (0..NODES).map(node);
        let workloads = (0..self.workloads).flat_map(|index| [self.workload(index), self.object(index)]);
        let pods = (0..self.all_pods()).map(|index| self.pod(index));
        put_all(&client, nodes.chain(workloads).chain(pods)).await
    }

    pub(crate) fn workload(self, index: usize) -> (String, Value) {
        let name = format!("db-{index}");
        let labels = json!({"app": name});
        let value = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": self.metadata(&name, &uid(1, index), &json!([])),
            "spec": {"replicas": self.pods, "serviceName": name, "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "example.invalid/db:1"}]}}},
        });
        (format!("statefulsets/{}/{name}", self.namespace), value)
    }

    pub(crate) fn object(self, index: usize) -> (String, Value) {
        let name = format!("db-{index}");
        let value = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": self.metadata(&name, &uid(2, index), &json!([])),
            "spec": spec(&name),
        });
        (format!("apps.kruise.io/persistentpodstates/{}/{name}", self.namespace), value)
    }

    pub(crate) fn pod(self, index: usize) -> (String, Value) {
        let name = self.pod_name(index);
        let workload = format!("db-{}", index / self.pods);
        let owners = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload,
            "uid": uid(1, index / self.pods), "controller": true, "blockOwnerDeletion": true}]);
        let mut pod = Case { owner: Owner::StatefulSet, ..Case::default() }.pod();
        let managed = pod["metadata"]["managedFields"].take();
        pod["metadata"] = self.metadata(&name, &uid(3, index), &owners);
        pod["metadata"]["managedFields"] = managed;
        pod["metadata"]["labels"] = json!({"app": workload});
        let ip = format!("10.{}.{}.{}", index / 62_500, index / 250 % 250, index % 250 + 1);
        pod["metadata"]["annotations"] = json!({"ovn.kubernetes.io/ip_address": ip});
        pod["spec"]["nodeName"] = node_name(index).into();
        pod["status"] = pod_status(self.ready, &ip);
        (format!("pods/{}/{name}", self.namespace), pod)
    }

    fn metadata(self, name: &str, uid: &str, owners: &Value) -> Value {
        json!({"name": name, "namespace": self.namespace, "uid": uid, "generation": 1,
            "creationTimestamp": "2026-01-07T09:10:11Z", "ownerReferences": owners})
    }
}

fn pod_status(ready: bool, ip: &str) -> Value {
    json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "startTime": "2026-01-07T09:10:12Z",
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
            "lastTransitionTime": "2026-01-07T09:10:13Z"}]})
}

fn node_name(index: usize) -> String {
    format!("worker-{}", index % NODES)
}

pub(crate) fn node(index: usize) -> (String, Value) {
    let name = node_name(index);
    let value = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid(0, index),
        "creationTimestamp": "2026-01-07T09:10:11Z",
        "labels": {HOSTNAME: name, ZONE: format!("zone-{}", index % 3)}}});
    (format!("minions/{name}"), value)
}

fn uid(kind: usize, index: usize) -> String {
    format!("{kind:08x}-0000-4000-8000-{index:012x}")
}

/// Writes objects into etcd.
pub(crate) async fn put_all(etcd: &Client, mut objects: impl Iterator<Item = (String, Value)>) -> Result<()> {
    let batches = std::iter::from_fn(|| {
        let batch: Vec<_> = objects.by_ref().take(BATCH_SIZE).collect();
        (!batch.is_empty()).then_some(batch)
    });
    let puts = batches.map(|batch| put(etcd, batch));
    stream::iter(puts).buffer_unordered(4).try_collect::<Vec<()>>().await?;
    Ok(())
}

async fn put(etcd: &Client, batch: Vec<(String, Value)>) -> Result<()> {
    let put = |(key, value): (String, Value)| {
        let key = BASE64_STANDARD.encode(format!("/registry/{key}"));
        json!({"requestPut": {"key": key, "value": BASE64_STANDARD.encode(value.to_string())}})
    };
    let body = json!({"success": batch.into_iter().map(put).collect::<Vec<_>>()});
    let request = http::Request::post("/v3/kv/txn").body(serde_json::to_vec(&body)?)?;
    let response: Value = etcd.request(request).await.context("cannot write into etcd")?;
    ensure!(response["succeeded"] == true, "etcd refused a transaction: {response}");
    Ok(())
}
