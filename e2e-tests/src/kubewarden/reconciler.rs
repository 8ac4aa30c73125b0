//! What Kubewarden's controller makes in a cluster: Deployments for `PolicyServers`, and for
//! policies webhooks and status.
//!
//! It follows `internal/controller/policy_subreconciler.go` and
//! `policyserver_controller_deployment.go` of kubewarden-controller 1.36. The Pods of the
//! Deployments are simulated, so nothing answers the webhooks.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Policy, definitions::NAMESPACE};
use crate::{
    manifests,
    wait::{Progress, wait_for},
};

const TIMEOUT: Duration = Duration::from_mins(1);

/// The reconciling half of Kubewarden's controller, as far as checks can see it.
pub struct Reconciler {
    client: Client,
}

/// The API of a cluster-wide kind of Kubewarden's.
pub fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let mut resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("policies.kubewarden.io", "v1", kind));
    if kind == "ClusterAdmissionPolicy" {
        "clusteradmissionpolicies".clone_into(&mut resource.plural);
    }
    Api::all_with(client.clone(), &resource)
}

impl Reconciler {
    /// One without a Deployment of its own.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Installs a Deployment with the labels of Kubewarden's chart.
    pub async fn install(client: Client) -> Result<Self> {
        let labels = json!({"app.kubernetes.io/name": "kubewarden-controller",
            "app.kubernetes.io/component": "controller", "app.kubernetes.io/part-of": "kubewarden",
            "app.kubernetes.io/version": "v1.36.0"});
        let deployment = deployment(
            "kubewarden-controller",
            1,
            &labels,
            "kubewarden/controller",
            "default",
        );
        manifests::apply(&client, &[deployment]).await?;
        let controller = Self { client };
        controller.wait_available("kubewarden-controller").await?;
        Ok(controller)
    }

    /// Makes the Deployments of all `PolicyServers`, and waits until their Pods are ready unless
    /// they cannot be.
    pub async fn run_servers(&self) -> Result<()> {
        for server in api(&self.client, "PolicyServer")
            .list(&ListParams::default())
            .await?
        {
            let name = format!("policy-server-{}", server.name_any());
            let labels = json!({"kubewarden/policy-server": server.name_any(), "app.kubernetes.io/part-of": "kubewarden"});
            let spec = &server.data["spec"];
            let account = spec["serviceAccountName"].as_str().unwrap_or("default");
            let image = spec["image"]
                .as_str()
                .context("the PolicyServer names no image")?;
            let replicas = spec["replicas"]
                .as_u64()
                .context("the PolicyServer has no number of replicas")?;
            manifests::apply(
                &self.client,
                &[deployment(&name, replicas, &labels, image, account)],
            )
            .await?;
            self.wait_available(&name).await?;
        }
        Ok(())
    }

    /// Updates the status of all policies, and makes or removes their webhooks, as one
    /// reconciliation does.
    pub async fn reconcile_policies(&self) -> Result<()> {
        for policy in api(&self.client, "ClusterAdmissionPolicy")
            .list(&ListParams::default())
            .await?
        {
            self.reconcile(&policy).await?;
        }
        Ok(())
    }

    async fn reconcile(&self, object: &DynamicObject) -> Result<()> {
        let policy = Policy::new(serde_json::to_value(object)?);
        let server = policy
            .spec("policyServer")
            .as_str()
            .unwrap_or("default")
            .to_owned();
        // reconcilePolicy begins with PolicyActive=False, whatever the status was.
        let inactive = condition(
            "PolicyActive",
            "False",
            "PolicyActive",
            "The policy webhook has not been created",
        );
        if api(&self.client, "PolicyServer")
            .get_opt(&server)
            .await?
            .is_none()
        {
            // reconcilePolicyServerUnavailable: the webhook is removed, so that it refuses nothing.
            let _ = policy.unregister(&self.client).await;
            return self
                .set_status(
                    object,
                    &json!({"policyStatus": "scheduled", "conditions": [inactive]}),
                )
                .await;
        }
        if !self.is_uniquely_reachable(&server).await? {
            let reachable = condition(
                "PolicyUniquelyReachable",
                "False",
                "LatestReplicaSetIsNotUniquelyReachable",
                "The latest replica set is not uniquely reachable",
            );
            let status = match object.data["status"]["policyStatus"].as_str() {
                // SetStatus(pending) only if the policy was not active.
                Some("active") => "active",
                _ => "pending",
            };
            return self
                .set_status(
                    object,
                    &json!({"policyStatus": status, "conditions": [inactive, reachable]}),
                )
                .await;
        }
        let id = policy.id();
        let mut webhook = policy.webhook_configuration("https://unused", "unused");
        webhook["webhooks"][0]["clientConfig"] = json!({"service": {"namespace": NAMESPACE,
            "name": format!("policy-server-{server}"), "path": format!("/validate/{id}"), "port": 443}});
        manifests::apply(&self.client, &[webhook]).await?;
        let mode = match policy.spec("mode") {
            Value::Null => json!("protect"),
            mode => mode.clone(),
        };
        let status = json!({"policyStatus": "active", "mode": mode, "conditions": [
            condition("PolicyActive", "True", "PolicyActive", "The policy webhook has been created"),
            condition("PolicyUniquelyReachable", "True", "LatestReplicaSetIsUniquelyReachable",
                "The latest replica set is uniquely reachable"),
            condition("PolicyServerConfigurationUpToDate", "True", "ConfigurationVersionMatch",
                "Configuration for this policy is up to date"),
        ]});
        self.set_status(object, &status).await
    }

    /// isPolicyUniquelyReachable: there are Pods, and all are ready.
    async fn is_uniquely_reachable(&self, server: &str) -> Result<bool> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let labels = ListParams::default().labels(&format!("kubewarden/policy-server={server}"));
        let pods = pods.list(&labels).await?.items;
        let is_ready = |pod: &Pod| {
            let conditions = pod
                .status
                .iter()
                .flat_map(|status| status.conditions.iter().flatten());
            conditions
                .into_iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        Ok(!pods.is_empty() && pods.iter().all(is_ready))
    }

    async fn set_status(&self, object: &DynamicObject, status: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        let policies = api(&self.client, "ClusterAdmissionPolicy");
        policies
            .patch_status(&object.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn wait_available(&self, name: &str) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        wait_for(&format!("{name} to be available"), TIMEOUT, async || {
            let deployment = deployments.get(name).await?;
            let wanted = deployment.spec.replicas.unwrap_or(1);
            let status = deployment.status.unwrap_or_default();
            let current = status.observed_generation == deployment.metadata.generation;
            let all = current
                && status.available_replicas.unwrap_or(0) == wanted
                && status.replicas.unwrap_or(0) == wanted;
            Ok(Progress::when(all, (), format!("{status:?}")))
        })
        .await
    }
}

fn deployment(name: &str, replicas: u64, labels: &Value, image: &str, account: &str) -> Value {
    let mut all = labels.clone();
    all["app"] = format!("kubewarden-{name}").into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": all},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": all["app"]}},
            "template": {"metadata": {"labels": all}, "spec": {
                "serviceAccountName": account,
                // What only sleeps does not end by itself.
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": image}],
            }},
        },
    })
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}
