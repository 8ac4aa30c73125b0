//! Node objects. No kubelet registers them, so tests make them.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The label with the name of the node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with the zone of the node.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Describes a Node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name, which is also its hostname label.
    pub name: String,
    /// Its labels besides the hostname.
    pub labels: BTreeMap<String, String>,
    /// The number of Pods that fit.
    pub pods: u32,
}

impl NodeSpec {
    /// A Node without a zone that takes up to 2,000 Pods.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            pods: 2000,
        }
    }

    /// Sets the zone.
    #[must_use]
    pub fn zone(self, zone: impl Into<String>) -> Self {
        self.label(ZONE, zone)
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

/// The cluster's Nodes.
#[derive(Clone)]
pub struct Nodes {
    api: Api<Node>,
}

impl Nodes {
    /// Uses that client.
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
        }
    }

    /// The API itself.
    pub fn api(&self) -> &Api<Node> {
        &self.api
    }

    /// Makes a Node and marks it Ready.
    pub async fn create(&self, spec: NodeSpec) -> Result<Node> {
        let mut labels = spec.labels;
        labels
            .entry(HOSTNAME.to_owned())
            .or_insert_with(|| spec.name.clone());
        // As the kubelet does.
        labels
            .entry("kubernetes.io/os".to_owned())
            .or_insert_with(|| "linux".to_owned());
        let node =
            serde_json::from_value(json!({"metadata": {"name": spec.name, "labels": labels}}))?;
        self.api.create(&PostParams::default(), &node).await?;
        let resources = json!({"cpu": "1000", "memory": "1000Gi", "pods": spec.pods.to_string()});
        self.patch_status(
            &spec.name,
            json!({"capacity": resources, "allocatable": resources, "conditions": [ready_condition()],
                "addresses": [{"type": "Hostname", "address": spec.name}]}),
        )
        .await
    }

    /// Keeps new Pods off this Node.
    pub async fn cordon(&self, name: &str) -> Result<Node> {
        self.patch(name, json!({"spec": {"unschedulable": true}}))
            .await
    }

    /// Allows new Pods again.
    pub async fn uncordon(&self, name: &str) -> Result<Node> {
        self.patch(name, json!({"spec": {"unschedulable": null}}))
            .await
    }

    /// Sets a label, or removes it.
    pub async fn label(&self, name: &str, key: &str, value: Option<&str>) -> Result<Node> {
        self.patch(name, json!({"metadata": {"labels": {key: value}}}))
            .await
    }

    /// Adds a resource that only containers with a request for it use.
    pub async fn add_resource(&self, name: &str, resource: &str, count: u32) -> Result<Node> {
        let resources = json!({resource: count.to_string()});
        let status = json!({"capacity": resources, "allocatable": resources});
        self.patch_status(name, status).await
    }

    /// Deletes the Node. Its Pods stay until they are deleted.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<Node> {
        Ok(self
            .api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }

    async fn patch_status(&self, name: &str, status: Value) -> Result<Node> {
        let patch = Patch::Merge(json!({"status": status}));
        Ok(self
            .api
            .patch_status(name, &PatchParams::default(), &patch)
            .await?)
    }
}

fn ready_condition() -> Value {
    json!({"type": "Ready", "status": "True", "reason": "KubeletReady"})
}
