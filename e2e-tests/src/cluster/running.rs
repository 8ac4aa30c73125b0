//! A running cluster.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use serde_json::Value;

use super::{background::Background, kubelet::Kubelet, nodes::Nodes, real_nodes::RealNodes};
use crate::{
    control_plane::{self, ControlPlane},
    kubewarden::{
        Policy,
        stand_in::{PolicyModule, Webhook, WebhookOptions},
    },
    manifests,
    recorded::recorded_states,
    sidecar::{Sidecar, SidecarOptions},
};

/// The user as which the webhook calls the API server.
pub const POLICY_SERVER: &str = "policy-server";
/// The user as which the sidecar calls the API server.
pub const SIDECAR: &str = "pps-sidecar";

/// Whether a PersistentPodState is an alias, in which the sidecar records nothing.
pub fn is_alias(object: &DynamicObject) -> bool {
    object.data["spec"]["targetRef"]["kind"] == "PersistentPodState"
}

/// The PersistentPodState resource.
pub fn pps_resource() -> ApiResource {
    ApiResource {
        group: "apps.kruise.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "apps.kruise.io/v1alpha1".to_owned(),
        kind: "PersistentPodState".to_owned(),
        plural: "persistentpodstates".to_owned(),
    }
}

/// A running cluster. Dropping it stops everything; [`Cluster::shutdown`] does the same and returns
/// errors.
///
/// Fields are dropped in this order, so that clients stop before their servers.
pub struct Cluster {
    /// The webhook, if one runs.
    pub webhook: Option<Webhook>,
    /// The sidecar, if one runs.
    pub sidecar: Option<Sidecar>,
    /// The simulated kubelet.
    pub kubelet: Kubelet,
    /// The Nodes.
    pub nodes: Nodes,
    pub(super) real_nodes: Option<RealNodes>,
    pub(super) client: Client,
    pub(super) background: Background,
    /// The control plane.
    pub control_plane: ControlPlane,
}

impl Cluster {
    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Starts a webhook around a policy and registers it, in place of the previous one.
    pub async fn start_webhook(
        &mut self,
        module: PolicyModule,
        options: WebhookOptions,
    ) -> Result<()> {
        let client = self
            .background
            .client_for(&self.control_plane, POLICY_SERVER)?;
        let webhook = Webhook::start(self.background.handle(), client, module, options)?;
        webhook.register(&self.client).await?;
        self.webhook = Some(webhook);
        Ok(())
    }

    /// Serves installed policies with the permissions of that kubeconfig and registers them as
    /// Kubewarden does, in place of the previous webhook, which goes on until it is dropped.
    pub async fn start_installed_webhook(
        &self,
        module: &PolicyModule,
        policies: Vec<Policy>,
        kubeconfig: &Path,
    ) -> Result<Webhook> {
        let client = {
            let _context = self.background.enter();
            ControlPlane::client_of(kubeconfig)?
        };
        let webhook = Webhook::start_installed(self.background.handle(), client, module, policies)?;
        webhook.register(&self.client).await?;
        Ok(webhook)
    }

    /// An administrator's client for tasks that outlive a test's own runtime.
    pub fn background_client(&self) -> Result<Client> {
        self.background
            .client_for(&self.control_plane, control_plane::ADMIN)
    }

    /// Starts a sidecar and waits until it is ready. It becomes [`Cluster::sidecar`].
    pub async fn start_sidecar(&mut self, options: SidecarOptions) -> Result<()> {
        let sidecar = self.run_sidecar(options)?;
        sidecar.wait_ready(Duration::from_secs(20)).await?;
        self.sidecar = Some(sidecar);
        Ok(())
    }

    /// Starts another sidecar, under a unique name. It may not be ready yet.
    pub fn run_sidecar(&self, options: SidecarOptions) -> Result<Sidecar> {
        Sidecar::start(&self.control_plane, options)
    }

    /// The real nodes.
    pub fn real_nodes(&self) -> Result<&RealNodes> {
        self.real_nodes
            .as_ref()
            .context("the cluster has no real nodes")
    }

    /// The webhook.
    pub fn webhook(&self) -> Result<&Webhook> {
        self.webhook.as_ref().context("the cluster has no webhook")
    }

    /// The sidecar.
    pub fn sidecar(&self) -> Result<&Sidecar> {
        self.sidecar.as_ref().context("the cluster has no sidecar")
    }

    /// Applies YAML as the administrator.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        manifests::apply_yaml(&self.client, yaml).await
    }

    /// Applies objects as the administrator.
    pub async fn apply_objects(&self, objects: &[Value]) -> Result<Vec<DynamicObject>> {
        manifests::apply(&self.client, objects).await
    }

    /// Binds the roles of a YAML file to a user, see [`manifests::apply_rbac_from`].
    pub async fn apply_rbac_from(&self, path: &Path, user: &str, only: &[&str]) -> Result<()> {
        manifests::apply_rbac_from(&self.client, path, user, only).await
    }

    /// Makes a namespace unless it exists.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        manifests::ensure_namespace(&self.client, name).await
    }

    /// The PersistentPodStates of a namespace.
    pub fn pps_api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), namespace, &pps_resource())
    }

    /// The recorded states of a PersistentPodState by Pod name. Empty if the object does not exist.
    pub async fn pod_states(&self, namespace: &str, name: &str) -> Result<BTreeMap<String, Value>> {
        let found = self.pps_api(namespace).get_opt(name).await?;
        found.map_or_else(
            || Ok(BTreeMap::new()),
            |pps| recorded_states(&pps.data["status"]),
        )
    }

    /// Stops everything and returns what went wrong.
    pub async fn shutdown(self) -> Result<()> {
        let supervisor = self.control_plane.supervisor().clone();
        drop(self);
        tokio::task::spawn_blocking(move || supervisor.close()).await?
    }
}
