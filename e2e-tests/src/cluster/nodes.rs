//! Node objects: there is no kubelet to register them.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The label that names the node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label that names its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// A Node to be made.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name, also its hostname label.
    pub name: String,
    /// Its labels, on top of the hostname.
    pub labels: BTreeMap<String, String>,
    /// How many Pods it takes.
    pub pods: u32,
}

impl NodeSpec {
    /// A Node without a zone, for up to 2,000 Pods.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), labels: BTreeMap::new(), pods: 2000 }
    }

    /// In that zone.
    #[must_use]
    pub fn zone(self, zone: impl Into<String>) -> Self {
        self.label(ZONE, zone)
    }

    /// With that label.
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
    /// Through that client.
    pub fn new(client: Client) -> Self {
        Self { api: Api::all(client) }
    }

    /// The API itself.
    pub fn api(&self) -> &Api<Node> {
        &self.api
    }

    /// `count` Nodes `node-0`, `node-1`, … over the zones `zone-0`, `zone-1`, … in turn.
    pub async fn create_many(&self, count: usize, zones: usize) -> Result<()> {
        let all = (0..count).map(|index| {
            NodeSpec::new(format!("node-{index}")).zone(format!("zone-{}", index % zones.max(1)))
        });
        futures::future::try_join_all(all.map(|spec| self.create(spec))).await?;
        Ok(())
    }

    /// Makes a Node and declares it Ready.
    pub async fn create(&self, spec: NodeSpec) -> Result<Node> {
        let mut labels = spec.labels;
        labels.entry(HOSTNAME.to_owned()).or_insert_with(|| spec.name.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": spec.name, "labels": labels}}))?;
        self.api.create(&PostParams::default(), &node).await?;
        let resources = json!({"cpu": "1000", "memory": "1000Gi", "pods": spec.pods.to_string()});
        self.patch_status(
            &spec.name,
            json!({"capacity": resources, "allocatable": resources, "conditions": [ready_condition(true)],
                "addresses": [{"type": "Hostname", "address": spec.name}]}),
        )
        .await
    }

    /// Declares it Ready or not. Nobody taints it for that: the lifecycle controller is off.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Result<Node> {
        self.patch_status(name, json!({"conditions": [ready_condition(ready)]})).await
    }

    /// No new Pods on this Node.
    pub async fn cordon(&self, name: &str) -> Result<Node> {
        self.patch(name, json!({"spec": {"unschedulable": true}})).await
    }

    /// New Pods again.
    pub async fn uncordon(&self, name: &str) -> Result<Node> {
        self.patch(name, json!({"spec": {"unschedulable": null}})).await
    }

    /// Sets a label, or removes it.
    pub async fn label(&self, name: &str, key: &str, value: Option<&str>) -> Result<Node> {
        self.patch(name, json!({"metadata": {"labels": {key: value}}})).await
    }

    /// Removes the Node. Its Pods stay until somebody deletes them.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<Node> {
        Ok(self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    async fn patch_status(&self, name: &str, status: Value) -> Result<Node> {
        let patch = Patch::Merge(json!({"status": status}));
        Ok(self.api.patch_status(name, &PatchParams::default(), &patch).await?)
    }
}

fn ready_condition(ready: bool) -> Value {
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
    json!({"type": "Ready", "status": status, "reason": reason})
}
