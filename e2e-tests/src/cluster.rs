//! All parts together, and what scenarios do with them.

mod workload;

use std::{
    collections::BTreeMap,
    env,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

pub use workload::{PodInfo, StatefulSetSpec};

use crate::{
    control_plane::{self, ControlPlane, User},
    kubelet::{Behaviour, Ipam, Kubelet},
    kubewarden::Policy,
    manifests,
    nodes::{NodeSpec, Nodes},
    sidecar::{Sidecar, SidecarOptions},
    supervisor::Supervisor,
    wasm_host::PolicyModule,
    webhook::{Webhook, WebhookOptions},
};

/// The user that the webhook asks the API server as.
pub const POLICY_SERVER: &str = "policy-server";
/// The user that the sidecar runs as.
pub const SIDECAR: &str = "pps-sidecar";

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

/// A file of the repository, by its path from the root.
pub fn repository_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The compiled policy: `PPS_POLICY_WASM`, else `policy.wasm` at the root of the repository.
pub fn policy_path() -> PathBuf {
    env::var_os("PPS_POLICY_WASM").map_or_else(|| repository_file("policy.wasm"), PathBuf::from)
}

/// What a cluster is to have.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    control_plane: control_plane::Options,
    crd: Option<PathBuf>,
    nodes: Vec<NodeSpec>,
    behaviour: Behaviour,
    dual_stack: bool,
    rbac: Vec<(PathBuf, String, Vec<String>)>,
    manifests: Vec<PathBuf>,
    policy: Option<(PathBuf, WebhookOptions)>,
    sidecar: Option<SidecarOptions>,
}

impl ClusterBuilder {
    /// `count` Nodes `node-0`… spread over `zones` zones `zone-0`….
    #[must_use]
    pub fn nodes(mut self, count: usize, zones: usize) -> Self {
        let zone = |index: usize| format!("zone-{}", index % zones.max(1));
        self.nodes.extend((0..count).map(|index| NodeSpec::new(format!("node-{index}")).zone(zone(index))));
        self
    }

    /// One more Node.
    #[must_use]
    pub fn node(mut self, node: NodeSpec) -> Self {
        self.nodes.push(node);
        self
    }

    /// One more user, with whatever groups.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.control_plane.users.push(user);
        self
    }

    /// Another CRD file than `deploy/base/crd.yaml`.
    #[must_use]
    pub fn crd(mut self, path: impl Into<PathBuf>) -> Self {
        self.crd = Some(path.into());
        self
    }

    /// No CRD at all.
    #[must_use]
    pub fn without_crd(mut self) -> Self {
        self.crd = None;
        self
    }

    /// Applies a YAML file after the CRD.
    #[must_use]
    pub fn manifest(mut self, path: impl Into<PathBuf>) -> Self {
        self.manifests.push(path.into());
        self
    }

    /// Gives the named user the roles of a YAML file; see [`manifests::apply_rbac_from`].
    #[must_use]
    pub fn rbac(mut self, path: impl Into<PathBuf>, user: &str, only: &[&str]) -> Self {
        self.rbac.push((path.into(), user.to_owned(), only.iter().map(|&name| name.to_owned()).collect()));
        self
    }

    /// Gives the sidecar and the policy the rights that `deploy/base/rbac.yaml` gives them, and no others.
    #[must_use]
    pub fn deployed_rights(self) -> Self {
        let rights = repository_file("deploy/base/rbac.yaml");
        self.rbac(&rights, SIDECAR, &["pps-sidecar", "pps-sidecar-custom-kinds"]).rbac(
            &rights,
            POLICY_SERVER,
            &["pps-policy"],
        )
    }

    /// The whole product as it is deployed: rights, policy and sidecar, with default options.
    #[must_use]
    pub fn product(self) -> Self {
        self.deployed_rights().policy(WebhookOptions::default()).sidecar(SidecarOptions::default())
    }

    /// With the webhook and the built policy, see [`policy_path`].
    #[must_use]
    pub fn policy(self, options: WebhookOptions) -> Self {
        let path = policy_path();
        self.policy_file(path, options)
    }

    /// With the webhook and that policy.
    #[must_use]
    pub fn policy_file(mut self, path: impl Into<PathBuf>, options: WebhookOptions) -> Self {
        self.policy = Some((path.into(), options));
        self
    }

    /// With a sidecar.
    #[must_use]
    pub fn sidecar(mut self, options: SidecarOptions) -> Self {
        self.sidecar = Some(options);
        self
    }

    /// How the kubelet behaves.
    #[must_use]
    pub fn kubelet(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }

    /// Pods get an IPv6 address too. Kubernetes before 1.21 needs
    /// `--feature-gates=IPv6DualStack=true`.
    #[must_use]
    pub fn dual_stack(mut self) -> Self {
        self.dual_stack = true;
        self
    }

    /// Changes the control plane's options.
    #[must_use]
    pub fn control_plane(mut self, change: impl FnOnce(&mut control_plane::Options)) -> Self {
        change(&mut self.control_plane);
        self
    }

    /// Starts everything; each part is ready when this returns.
    pub async fn start(mut self) -> Result<Cluster> {
        for user in [POLICY_SERVER, SIDECAR] {
            if self.control_plane.users.iter().all(|known| known.name != user) {
                self.control_plane.users.push(User::new(user));
            }
        }
        // Compiling the policy takes as long as starting the programs: both at once.
        let policy = self.policy.take();
        let compile = tokio::task::spawn_blocking(move || {
            policy
                .map(|(path, options)| {
                    let module = PolicyModule::load_file(&path);
                    anyhow::Ok((
                        module.context("the policy (`make policy.wasm`, or set PPS_POLICY_WASM)")?,
                        options,
                    ))
                })
                .transpose()
        });
        let supervisor = Arc::new(Supervisor::start()?);
        let control_plane = ControlPlane::start(supervisor, self.control_plane).await?;
        let background = Background::start()?;
        let client = control_plane.client();
        let nodes = Nodes::new(client.clone());
        let made = self.nodes.into_iter().map(|node| nodes.create(node));
        let (made, applied) = tokio::join!(futures::future::try_join_all(made), async {
            for path in self.crd.iter().chain(&self.manifests) {
                manifests::apply_file(&client, path).await?;
            }
            for (path, user, only) in &self.rbac {
                let only: Vec<&str> = only.iter().map(String::as_str).collect();
                manifests::apply_rbac_from(&client, path, user, &only).await?;
            }
            anyhow::Ok(())
        });
        made?;
        applied?;

        let plugin = control_plane.binaries().path("host-local")?;
        let ipam = Ipam::new(plugin, control_plane.folder(), self.dual_stack);
        let background_client = background.client_for(&control_plane, control_plane::ADMIN)?;
        let kubelet = Kubelet::start(background.handle(), background_client, ipam, self.behaviour);
        let mut cluster =
            Cluster { webhook: None, sidecar: None, kubelet, nodes, client, background, control_plane };
        if let Some((module, options)) = compile.await.context("compiling the policy")?? {
            cluster.start_webhook(module, options).await?;
        }
        if let Some(options) = self.sidecar {
            cluster.start_sidecar(options).await?;
        }
        Ok(cluster)
    }
}

/// A running cluster. Dropping it ends everything; [`Cluster::shutdown`] does so and tells of errors.
///
/// Fields are dropped in this order: who asks goes before who answers.
pub struct Cluster {
    /// The webhook, if there is one.
    pub webhook: Option<Webhook>,
    /// The sidecar, if there is one.
    pub sidecar: Option<Sidecar>,
    /// The simulated kubelet.
    pub kubelet: Kubelet,
    /// The Nodes.
    pub nodes: Nodes,
    client: Client,
    background: Background,
    /// The API server, and what belongs to it.
    pub control_plane: ControlPlane,
}

impl Cluster {
    /// A cluster with the CRD of this repository, no Nodes, no policy, no sidecar.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            control_plane: control_plane::Options::default(),
            crd: Some(repository_file("deploy/base/crd.yaml")),
            nodes: Vec::new(),
            behaviour: Behaviour::default(),
            dual_stack: false,
            rbac: Vec::new(),
            manifests: Vec::new(),
            policy: None,
            sidecar: None,
        }
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Starts the webhook around a policy and registers it. One that was there is replaced.
    pub async fn start_webhook(&mut self, module: PolicyModule, options: WebhookOptions) -> Result<()> {
        let client = self.background.client_for(&self.control_plane, POLICY_SERVER)?;
        let webhook = Webhook::start(self.background.handle(), client, module, options)?;
        webhook.register(&self.client, self.control_plane.version()).await?;
        self.webhook = Some(webhook);
        Ok(())
    }

    /// Serves an installed policy with the rights of that token, and registers it as Kubewarden does. What was
    /// there is replaced.
    pub async fn start_installed_webhook(
        &mut self,
        module: &PolicyModule,
        policy: Policy,
        token: &str,
    ) -> Result<()> {
        let client = {
            let _context = self.background.enter();
            self.control_plane.client_with_token(token)?
        };
        let webhook = Webhook::start_installed(self.background.handle(), client, module, policy)?;
        webhook.register(&self.client, self.control_plane.version()).await?;
        self.webhook = Some(webhook);
        Ok(())
    }

    /// The administrator's client for what runs in the background.
    pub fn background_client(&self) -> Result<Client> {
        self.background.client_for(&self.control_plane, control_plane::ADMIN)
    }

    /// Starts a sidecar and waits until it is ready. It becomes [`Cluster::sidecar`].
    pub async fn start_sidecar(&mut self, options: SidecarOptions) -> Result<()> {
        let sidecar = self.run_sidecar(options)?;
        sidecar.wait_ready(Duration::from_secs(20)).await?;
        self.sidecar = Some(sidecar);
        Ok(())
    }

    /// Starts a sidecar beside others; it needs a name of its own. It may not be ready yet.
    pub fn run_sidecar(&self, options: SidecarOptions) -> Result<Sidecar> {
        Sidecar::start(&self.control_plane, options)
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

    /// Gives a user the roles of a YAML file, see [`manifests::apply_rbac_from`].
    pub async fn apply_rbac_from(&self, path: &Path, user: &str, only: &[&str]) -> Result<()> {
        manifests::apply_rbac_from(&self.client, path, user, only).await
    }

    /// Makes a namespace unless it is there.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        manifests::ensure_namespace(&self.client, name).await
    }

    /// The PersistentPodStates of a namespace.
    pub fn pps_api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), namespace, &pps_resource())
    }

    /// The recorded states of a PersistentPodState by Pod name; empty if there is none.
    pub async fn pod_states(&self, namespace: &str, name: &str) -> Result<BTreeMap<String, Value>> {
        let found = self.pps_api(namespace).get_opt(name).await?;
        let states = found.map(|mut pps| pps.data["status"]["podStates"].take()).unwrap_or_default();
        Ok(serde_json::from_value(states).unwrap_or_default())
    }

    /// Ends everything and says what went wrong with that.
    pub async fn shutdown(self) -> Result<()> {
        let supervisor = self.control_plane.supervisor().clone();
        drop(self);
        tokio::task::spawn_blocking(move || supervisor.close()).await?
    }
}

/// A runtime for the kubelet and the webhook, so that a test that blocks its own stops neither.
struct Background(Option<Runtime>);

impl Background {
    fn start() -> Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("harness").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// A client whose connections live in this runtime.
    fn client_for(&self, control_plane: &ControlPlane, user: &str) -> Result<Client> {
        let _context = self.enter();
        control_plane.client_for(user)
    }

    fn handle(&self) -> &tokio::runtime::Handle {
        self.deref().handle()
    }
}

impl Deref for Background {
    type Target = Runtime;

    #[expect(clippy::expect_used, reason = "it is there until the drop")]
    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("the runtime is there until the drop")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A guest that hangs in a host call ends when the tasks are gone.
            runtime.shutdown_background();
        }
    }
}
