//! What a cluster consists of, and how it is started.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};

use super::{
    background::Background,
    kubelet::Kubelet,
    nodes::{NodeSpec, Nodes},
    real_nodes::{Network, RealNodes},
    running::{Cluster, POLICY_SERVER, SIDECAR, pps_resource},
};
use crate::{
    control_plane::{self, ControlPlane, User},
    kubewarden::stand_in::{PolicyModule, WebhookOptions},
    manifests,
    repository::{policy_path, repository_file},
    sidecar::SidecarOptions,
    supervisor::Supervisor,
};

/// Describes a cluster.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    control_plane: control_plane::Options,
    crd: Option<PathBuf>,
    nodes: Vec<NodeSpec>,
    real_nodes: u8,
    rbac: Vec<(PathBuf, String, Vec<String>)>,
    policy: Option<WebhookOptions>,
    sidecar: Option<SidecarOptions>,
}

impl ClusterBuilder {
    /// `count` Nodes `node-0`… spread over `zones` zones `zone-0`….
    #[must_use]
    pub fn nodes(mut self, count: usize, zones: usize) -> Self {
        let zone = |index: usize| format!("zone-{}", index % zones.max(1));
        self.nodes.extend(
            (0..count).map(|index| NodeSpec::new(format!("node-{index}")).zone(zone(index))),
        );
        self
    }

    /// Real nodes besides simulated ones, where they are
    /// [`available`](super::real_nodes::available).
    #[must_use]
    pub fn real_nodes(mut self, count: u8) -> Self {
        self.real_nodes = count;
        self
    }

    /// Adds a Node.
    #[must_use]
    pub fn node(mut self, node: NodeSpec) -> Self {
        self.nodes.push(node);
        self
    }

    /// Adds a user of the API server.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.control_plane.users.push(user);
        self
    }

    /// Applies this CRD file instead of `deploy/base/crd.yaml`.
    #[must_use]
    pub fn crd(mut self, path: impl Into<PathBuf>) -> Self {
        self.crd = Some(path.into());
        self
    }

    /// Applies no CRD.
    #[must_use]
    pub fn without_crd(mut self) -> Self {
        self.crd = None;
        self
    }

    /// Binds the roles of a YAML file to the named user; see [`manifests::apply_rbac_from`].
    #[must_use]
    pub fn rbac(mut self, path: impl Into<PathBuf>, user: &str, only: &[&str]) -> Self {
        self.rbac.push((
            path.into(),
            user.to_owned(),
            only.iter().map(|&name| name.to_owned()).collect(),
        ));
        self
    }

    /// Grants the sidecar and the policy exactly the permissions of `deploy/base/rbac.yaml`.
    #[must_use]
    pub fn deployed_rights(self) -> Self {
        let roles = repository_file("deploy/base/rbac.yaml");
        self.rbac(
            &roles,
            SIDECAR,
            &["pps-sidecar", "pps-sidecar-custom-kinds"],
        )
        .rbac(&roles, POLICY_SERVER, &["pps-policy"])
    }

    /// Runs the whole product with default options: permissions, policy and sidecar.
    #[must_use]
    pub fn product(self) -> Self {
        self.deployed_rights()
            .policy(WebhookOptions::default())
            .sidecar(SidecarOptions::default())
    }

    /// Runs the webhook around the built policy, see [`policy_path`].
    #[must_use]
    pub fn policy(mut self, options: WebhookOptions) -> Self {
        self.policy = Some(options);
        self
    }

    /// Runs a sidecar.
    #[must_use]
    pub fn sidecar(mut self, options: SidecarOptions) -> Self {
        self.sidecar = Some(options);
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
            if self
                .control_plane
                .users
                .iter()
                .all(|known| known.name != user)
            {
                self.control_plane.users.push(User::new(user));
            }
        }
        // Compiling the policy takes as long as starting the programs, so do both at once.
        let policy = self.policy.take();
        let compile = tokio::task::spawn_blocking(move || {
            policy
                .map(|options| {
                    let module = PolicyModule::load_file(&policy_path());
                    let module = module
                        .context("the policy (`make policy.wasm`, or set PPS_POLICY_WASM)")?;
                    anyhow::Ok((module.with_shipped_time_limit(), options))
                })
                .transpose()
        });
        let supervisor = Arc::new(Supervisor::start()?);
        let network = (self.real_nodes > 0)
            .then(|| Network::create(&supervisor))
            .transpose()?;
        if let Some(network) = &network {
            self.control_plane.address = network.address();
        }
        let control_plane = ControlPlane::start(supervisor, self.control_plane).await?;
        let background = Background::start()?;
        let client = control_plane.client();
        let nodes = Nodes::new(client.clone());
        let made = self.nodes.into_iter().map(|node| nodes.create(node));
        let (made, applied) = tokio::join!(futures::future::try_join_all(made), async {
            if let Some(path) = &self.crd {
                manifests::apply_file(&client, path).await?;
                wait_out_creation_delay(&client).await;
            }
            for (path, user, only) in &self.rbac {
                let only: Vec<&str> = only.iter().map(String::as_str).collect();
                manifests::apply_rbac_from(&client, path, user, &only).await?;
            }
            anyhow::Ok(())
        });
        made?;
        applied?;

        let background_client = background.client_for(&control_plane, control_plane::ADMIN)?;
        let kubelet = Kubelet::start(background.handle(), background_client);
        let mut real_nodes = None;
        if let Some(network) = network {
            let started = RealNodes::start(&control_plane, network, self.real_nodes).await?;
            // Their Pods are none of its business.
            started.names().for_each(|name| kubelet.stop_node(name));
            real_nodes = Some(started);
        }
        let mut cluster = Cluster {
            webhook: None,
            sidecar: None,
            kubelet,
            nodes,
            real_nodes,
            client,
            background,
            control_plane,
        };
        if let Some((module, options)) = compile.await.context("compiling the policy")?? {
            cluster.start_webhook(module, options).await?;
        }
        if let Some(options) = self.sidecar {
            cluster.start_sidecar(options).await?;
        }
        Ok(cluster)
    }
}

/// Newer API servers delay each creation of a custom resource during the first two seconds of its
/// definition. Without this, that would delay what the sidecar creates, and no test expects it.
async fn wait_out_creation_delay(client: &Client) {
    let probe = DynamicObject::new("probe", &pps_resource());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let objects: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &pps_resource());
    // The answer does not matter.
    let _ = objects.create(&dry, &probe).await;
}

impl Cluster {
    /// A cluster with the CRD of this repository, but without Nodes, policy and sidecar.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            control_plane: control_plane::Options::default(),
            crd: Some(repository_file("deploy/base/crd.yaml")),
            nodes: Vec::new(),
            real_nodes: 0,
            rbac: Vec::new(),
            policy: None,
            sidecar: None,
        }
    }
}
