//! The table in `testdata/scope.yaml`: which requests the API server sends to the policies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// The label that protects a PersistentPodState from deletion.
const PROTECTION_LABEL: &str = "policy.kruise.io/delete-protection";
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// The table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The labels of the namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Pods that are created.
    pub pods: Vec<PodCase>,
    /// Requests for PersistentPodStates.
    pub objects: Vec<ObjectCase>,
}

/// A Pod that is created.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodCase {
    /// Whose Pod it is.
    pub of: String,
    /// Its namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// `apiVersion kind`, with `not the controller` after it if it is not.
    owners: Vec<String>,
    labels: Vec<String>,
    #[serde(default)]
    node: String,
    #[serde(default)]
    unnamed: bool,
    /// Whether it is sent to the policy for Pods.
    pub sent: bool,
    /// Whether it is sent to the policy for Pods of custom kinds.
    pub custom: bool,
}

impl PodCase {
    /// The Pod, as the API server gets it.
    pub fn pod(&self, name: &str) -> Value {
        let owners = self.owners.iter().enumerate().map(|(index, owner)| {
            let (kind, controller) = match owner.strip_suffix(" not the controller") {
                Some(kind) => (kind, false),
                None => (owner.as_str(), true),
            };
            let (api_version, kind) = kind.split_once(' ').unwrap_or((kind, ""));
            let mut owner =
                json!({"apiVersion": api_version, "kind": kind, "name": "owner", "uid": index.to_string()});
            if controller {
                owner["controller"] = true.into();
            }
            owner
        });
        let labels: BTreeMap<&str, &str> = self
            .labels
            .iter()
            .map(|label| {
                (
                    label.as_str(),
                    if label == POD_NAME_LABEL { name } else { "x" },
                )
            })
            .collect();
        let mut metadata = json!({"namespace": self.namespace});
        if self.unnamed {
            metadata["generateName"] = format!("{name}-").into();
        } else {
            metadata["name"] = name.into();
        }
        // The API server leaves out what is empty.
        if !self.owners.is_empty() {
            metadata["ownerReferences"] = owners.collect();
        }
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        let mut spec = json!({"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false});
        if !self.node.is_empty() {
            spec["nodeName"] = self.node.as_str().into();
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// The admission request for its creation.
    pub fn request(&self, name: &str) -> Value {
        let pod = self.pod(name);
        json!({
            "uid": "1", "operation": "CREATE", "dryRun": false, "name": pod["metadata"]["name"].as_str().unwrap_or_default(),
            "namespace": self.namespace, "userInfo": {"username": "admin"},
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": pod, "oldObject": null,
        })
    }
}

/// A request for a PersistentPodState.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectCase {
    /// What is requested.
    pub request: String,
    /// The object's namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// CREATE, UPDATE or DELETE.
    pub operation: String,
    /// The subresource, if any.
    #[serde(default)]
    pub subresource: String,
    /// The value of the label before the request.
    #[serde(default)]
    protection: Option<String>,
    /// Whether the object is being deleted.
    #[serde(default)]
    pub terminating: bool,
    /// What an update changes.
    #[serde(default)]
    changes: Vec<Change>,
    /// Who sends the request; an administrator if it is empty.
    #[serde(default)]
    pub user: String,
    /// Whether it is sent to the policy for PersistentPodStates.
    pub sent: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Spec,
    Label,
    Protect,
    Unprotect,
    Finalizer,
    Status,
}

impl ObjectCase {
    /// The object before the request, and if it is created, the new object.
    pub fn before(&self, name: &str) -> Value {
        let mut labels = BTreeMap::from([("app", "web")]);
        if let Some(value) = &self.protection {
            labels.insert(PROTECTION_LABEL, value);
        }
        let mut metadata = json!({"name": name, "namespace": self.namespace, "labels": labels});
        if self.terminating {
            metadata["finalizers"] = json!(["example.io/wait", "example.io/stay"]);
        }
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": metadata,
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                "requiredPersistentTopology": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}}})
    }

    /// The merge patch that an update applies.
    pub fn patch(&self) -> Value {
        let mut patch = json!({});
        for change in &self.changes {
            let (pointer, value) = match change {
                Change::Spec => (
                    "spec",
                    json!({"requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]}}),
                ),
                Change::Label => (
                    "metadata",
                    json!({"labels": {"app": "changed"}, "annotations": {"a": "b"}}),
                ),
                Change::Protect => (
                    "metadata",
                    json!({"labels": {PROTECTION_LABEL: "Cascading"}}),
                ),
                Change::Unprotect => ("metadata", json!({"labels": {PROTECTION_LABEL: null}})),
                Change::Finalizer => ("metadata", json!({"finalizers": ["example.io/stay"]})),
                Change::Status => (
                    "status",
                    json!({"podStates": {"web-0": {"nodeName": "node-1"}}}),
                ),
            };
            patch[pointer] = value;
        }
        patch
    }

    /// The admission request.
    pub fn admission_request(&self, name: &str) -> Value {
        let mut before = self.before(name);
        if self.terminating {
            before["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let mut after = before.clone();
        json_patch::merge(&mut after, &self.patch());
        let (object, old_object) = match self.operation.as_str() {
            "CREATE" => (before, Value::Null),
            "DELETE" => (Value::Null, before),
            _ => (after, before),
        };
        let user = if self.user.is_empty() {
            "admin"
        } else {
            &self.user
        };
        let mut request = json!({
            "uid": "1", "operation": self.operation, "dryRun": false, "name": name, "namespace": self.namespace,
            "userInfo": {"username": user},
            "kind": {"group": "apps.kruise.io", "version": "v1alpha1", "kind": "PersistentPodState"},
            "resource": {"group": "apps.kruise.io", "version": "v1alpha1", "resource": "persistentpodstates"},
            "object": object, "oldObject": old_object,
        });
        if !self.subresource.is_empty() {
            request["subResource"] = self.subresource.as_str().into();
        }
        request
    }
}

fn default_namespace() -> String {
    "shop".to_owned()
}

/// Reads the table.
pub fn table() -> Result<Table> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scope.yaml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    yaml_serde::from_str(&text).with_context(|| path.display().to_string())
}
