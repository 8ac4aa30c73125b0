//! What Kubewarden's controller derives from a `ClusterAdmissionPolicy`.
//!
//! The controller is a container image that cannot run here. This derives the same, field by field:
//! a webhook configuration for the API server and an entry of `policies.yml` for the PolicyServer.

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Map, Value, json};

use super::definitions::NAMESPACE;

/// A `ClusterAdmissionPolicy`.
#[derive(Clone, Debug)]
pub struct Policy {
    object: Value,
}

impl Policy {
    /// Wraps the object, as read from a cluster or a file.
    pub fn new(object: Value) -> Self {
        Self { object }
    }

    /// Its id in Kubewarden: `clusterwide-<name>`.
    pub fn id(&self) -> String {
        format!(
            "clusterwide-{}",
            self.object["metadata"]["name"].as_str().unwrap_or_default()
        )
    }

    /// The URL of the module: `registry://…`.
    pub fn module(&self) -> Result<&str> {
        self.spec("module")
            .as_str()
            .context("the ClusterAdmissionPolicy names no module")
    }

    /// Its settings.
    pub fn settings(&self) -> Value {
        match self.spec("settings") {
            Value::Null => json!({}),
            settings => settings.clone(),
        }
    }

    /// A field of the spec, or null.
    pub fn spec(&self, field: &str) -> &Value {
        &self.object["spec"][field]
    }

    /// Whether it may change what it is sent. Decides the kind of its webhook configuration.
    pub fn is_mutating(&self) -> bool {
        self.spec("mutating") == &json!(true)
    }

    /// Whether its rules name this resource, or all.
    pub fn is_asked_about(&self, resource: &str) -> bool {
        let rules = self.spec("rules").as_array().into_iter().flatten();
        let mut resources = rules
            .filter_map(|rule| rule["resources"].as_array())
            .flatten();
        resources.any(|name| name == resource || name == "*")
    }

    /// The name of its webhook.
    pub fn webhook_name(&self) -> String {
        format!("{}.kubewarden.admission", self.id())
    }

    /// Registers its webhook with the API server, as
    /// [`webhook_configuration`](Self::webhook_configuration) says.
    pub async fn register(&self, admin: &Client, server: &str, authority: &str) -> Result<()> {
        let configuration = self.webhook_configuration(server, authority);
        let configuration: DynamicObject = serde_json::from_value(configuration)?;
        let params = PatchParams::apply("pps-e2e").force();
        self.configurations(admin)
            .patch(&self.id(), &params, &Patch::Apply(&configuration))
            .await?;
        Ok(())
    }

    /// Removes its webhook.
    pub async fn unregister(&self, admin: &Client) -> Result<()> {
        self.configurations(admin)
            .delete(&self.id(), &DeleteParams::default())
            .await?;
        Ok(())
    }

    fn configurations(&self, admin: &Client) -> Api<DynamicObject> {
        let (kind, plural) = if self.is_mutating() {
            (
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            )
        } else {
            (
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            )
        };
        let resource = ApiResource {
            group: "admissionregistration.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "admissionregistration.k8s.io/v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::all_with(admin.clone(), &resource)
    }

    /// The webhook configuration, mutating or validating. `server` is the URL of the PolicyServer
    /// and `authority` signed its certificate; in a real cluster these are a Service and
    /// Kubewarden's own authority.
    pub fn webhook_configuration(&self, server: &str, authority: &str) -> Value {
        let id = self.id();
        let mut excluded = vec![
            json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn",
            "values": [NAMESPACE]}),
        ];
        // The controller uses only the expressions of the selector.
        excluded.extend(
            self.spec("namespaceSelector")["matchExpressions"]
                .as_array()
                .into_iter()
                .flatten()
                .cloned(),
        );
        let mut webhook = json!({
            "name": self.webhook_name(),
            "clientConfig": {"url": format!("{server}/validate/{id}"), "caBundle": base64(authority)},
            "rules": self.spec("rules"),
            "namespaceSelector": {"matchExpressions": excluded},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        for field in [
            "failurePolicy",
            "matchPolicy",
            "objectSelector",
            "sideEffects",
            "timeoutSeconds",
        ] {
            if !self.spec(field).is_null() {
                webhook[field] = self.spec(field).clone();
            }
        }
        if !self.spec("matchConditions").is_null() {
            webhook["matchConditions"] = self.spec("matchConditions").clone();
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": if self.is_mutating() { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" },
            "metadata": {"name": id, "labels": {"app.kubernetes.io/part-of": "kubewarden"},
                "annotations": {"kubewardenPolicyName": self.object["metadata"]["name"],
                    "kubewardenPolicyNamespace": ""}},
            "webhooks": [webhook],
        })
    }

    /// Its entry in the PolicyServer's `policies.yml`. A cluster-wide policy gets all host
    /// capabilities.
    pub fn policies(&self) -> Map<String, Value> {
        let mut entry = json!({
            "namespacedName": {"Namespace": "", "Name": self.object["metadata"]["name"]},
            "module": self.spec("module"),
            "policyMode": match self.spec("mode") {
                Value::Null => json!("protect"),
                mode => mode.clone(),
            },
            "allowedToMutate": self.is_mutating(),
            "hostCapabilities": ["*"],
        });
        for field in [
            "settings",
            "contextAwareResources",
            "message",
            "timeoutEvalSeconds",
        ] {
            if !self.spec(field).is_null() {
                entry[field] = self.spec(field).clone();
            }
        }
        Map::from_iter([(self.id(), entry)])
    }
}

fn base64(text: &str) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    BASE64_STANDARD.encode(text)
}
