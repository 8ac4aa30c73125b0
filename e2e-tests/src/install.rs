//! The product as users install it: pushed to a registry, applied from its manifests, pulled and
//! run.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    cluster::{Cluster, RealNodes, kubelet::Programs},
    control_plane::ADMIN,
    kubewarden::{
        self, Policy,
        policy_server::{self, PolicyServer},
        probe::wait_until_called,
        stand_in::{PolicyModule, Webhook},
    },
    manifests::render::render_kustomize,
    registry::{Content, Publisher, Registry, RegistryOptions, publish::static_sidecar_path},
    repository::repository_file,
    sidecar::NAMESPACE,
    supervisor::Supervisor,
    wait::{Progress, wait_for},
};

/// The sidecar's Deployment, ServiceAccount and Lease.
pub const SIDECAR: &str = "pps-sidecar";
/// Long enough to pull, start and elect a leader on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// References of the pushed parts, each with a digest.
#[derive(Clone, Debug)]
pub struct Published {
    /// The policy.
    pub policy: String,
    /// The sidecar's image.
    pub sidecar: String,
}

/// An installation on a cluster.
pub struct Installation {
    /// Where the parts are.
    pub registry: Registry,
    /// Run the Pods, if the cluster has no real nodes.
    programs: Option<Arc<Programs>>,
    /// The pushed parts.
    pub published: Published,
    /// Kubewarden's PolicyServer, if it serves the policy.
    pub policy_server: Option<PolicyServer>,
}

impl Installation {
    /// Starts a registry and pushes both parts to it as `make publish` does. From now on, Pods in
    /// the product's namespace run: on real nodes if there are any, else as processes of this
    /// machine.
    pub async fn publish(cluster: &Cluster) -> Result<Self> {
        let address = cluster
            .real_nodes()
            .map_or(Ipv4Addr::LOCALHOST, RealNodes::address);
        let options = RegistryOptions {
            address,
            ..RegistryOptions::default()
        };
        let registry = Registry::start(cluster.control_plane.supervisor(), options).await?;
        let published = pushed().await?.restore(&registry)?;
        Self::of(cluster, registry, published)
    }

    /// The same, of what that registry has.
    pub fn of(cluster: &Cluster, registry: Registry, published: Published) -> Result<Self> {
        if let Ok(nodes) = cluster.real_nodes() {
            nodes.mirror(registry.host(), &registry)?;
            return Ok(Self {
                registry,
                programs: None,
                published,
                policy_server: None,
            });
        }
        let control_plane = &cluster.control_plane;
        let kubeconfig = fs::read_to_string(control_plane.kubeconfig_for(ADMIN)?)?;
        let programs = Arc::new(Programs {
            namespace: NAMESPACE,
            program: static_sidecar_path()?,
            supervisor: control_plane.supervisor().clone(),
            client: cluster.background_client()?,
            kubeconfig: serde_json::from_str(&kubeconfig)?,
            problems: Mutex::default(),
        });
        cluster.kubelet.run_programs(programs.clone());
        Ok(Self {
            registry,
            programs: Some(programs),
            published,
            policy_server: None,
        })
    }

    /// Applies a kustomization of the repository, such as `deploy`, with the pushed images in place
    /// of the released ones.
    pub async fn apply(
        &self,
        cluster: &Cluster,
        kustomization: &str,
    ) -> Result<Vec<DynamicObject>> {
        let folder = cluster.control_plane.folder().join("installation");
        fs::create_dir_all(&folder)?;
        let base = relative(&folder, &repository_file(kustomization))?;
        let (image, digest) = self
            .published
            .sidecar
            .split_once('@')
            .context("no digest")?;
        let module = json!([{"op": "replace", "path": "/spec/module",
            "value": format!("registry://{}", self.published.policy)}]);
        let kustomization = json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [base],
            "images": [{"name": "registry.example.com/pps/persistent-pod-state-sidecar", "newName": image, "digest": digest}],
            "patches": [{"target": {"kind": "ClusterAdmissionPolicy"}, "patch": module.to_string()}],
        });
        fs::write(folder.join("kustomization.yaml"), kustomization.to_string())?;
        let objects = render_kustomize(&folder.display().to_string())?;
        cluster.apply_objects(&objects).await
    }

    /// Waits until all replicas of the Deployment are available. Returns the name of the leader's
    /// Pod.
    pub async fn wait_available(&self, cluster: &Cluster) -> Result<String> {
        let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
        let available = wait_for(
            "the sidecar's Deployment to be available",
            TIMEOUT,
            async || {
                let deployment = deployments.get(SIDECAR).await?;
                let wanted = deployment.spec.replicas;
                let status = deployment.status.unwrap_or_default();
                let seen = format!("{status:?}; {:?}", self.problems());
                let current = status.observed_generation == deployment.metadata.generation;
                let all =
                    current && status.available_replicas == wanted && status.replicas == wanted;
                Ok(Progress::when(all, (), seen))
            },
        );
        available.await?;
        wait_for("a sidecar to lead", TIMEOUT, async || {
            let leader = self.leader(cluster).await?;
            Ok(Progress::when(
                leader.is_some(),
                leader.unwrap_or_default(),
                "no leader",
            ))
        })
        .await
    }

    /// The name of the Pod that holds the Lease, if any.
    pub async fn leader(&self, cluster: &Cluster) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
        let lease = leases.get_opt(SIDECAR).await?;
        let Some(holder) = lease
            .and_then(|lease| lease.spec)
            .and_then(|spec| spec.holder_identity)
        else {
            return Ok(None);
        };
        // The identity is `<name of the Pod>_<suffix of the process>`.
        let name = holder
            .split_once('_')
            .map_or(holder.as_str(), |(name, _)| name);
        Ok(self
            .sidecars(cluster)
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .find(|pod| pod == name))
    }

    /// The sidecar's Pods.
    pub async fn sidecars(&self, cluster: &Cluster) -> Result<Vec<Pod>> {
        let ours = ListParams::default().labels("app.kubernetes.io/component=sidecar");
        Ok(cluster.pods_api(NAMESPACE).list(&ours).await?.items)
    }

    /// The values of the chart that name the pushed images.
    pub fn chart_values(&self) -> Value {
        json!({"image": image_value(&self.published.sidecar),
            "policy": {"module": image_value(&self.published.policy)}})
    }

    /// Serves the applied `ClusterAdmissionPolicy` objects as Kubewarden does: pulls their module,
    /// evaluates it with the permissions of the PolicyServer's ServiceAccount, and registers the
    /// webhooks. With `real`, the PolicyServer that `POLICY_SERVER` names does this, else the
    /// stand-in.
    pub async fn serve_policy(
        &mut self,
        cluster: &mut Cluster,
        account: &str,
        real: bool,
    ) -> Result<()> {
        let Some(program) = policy_server::executable().filter(|_| real) else {
            cluster.webhook = Some(self.start_webhook(cluster, account).await?);
            return Ok(());
        };
        let policies = installed_policies(cluster).await?;
        let (kubeconfig, host) = (kubeconfig_of(cluster, account).await?, self.registry.host());
        let server = PolicyServer::start(
            &cluster.control_plane,
            program,
            &policies,
            &kubeconfig,
            Some(host),
        )?;
        server.wait_ready(TIMEOUT).await?;
        for policy in &policies {
            server.register(policy, &cluster.client()).await?;
        }
        self.policy_server = Some(server);
        wait_until_called(&policies, &cluster.client(), TIMEOUT).await
    }

    /// Has the stand-in serve them, in place of a former one, which goes on until it is dropped.
    pub async fn start_webhook(&self, cluster: &Cluster, account: &str) -> Result<Webhook> {
        let policies = installed_policies(cluster).await?;
        let module = policies
            .first()
            .context("no policy is installed")?
            .module()?;
        ensure!(
            policies
                .iter()
                .all(|policy| policy.module().is_ok_and(|other| other == module)),
            "the policies name several modules"
        );
        // Whatever they call the registry, there is only this one.
        let path = module
            .strip_prefix("registry://")
            .and_then(|reference| reference.split_once('/'));
        let (_, path) = path.context("not a registry:// module")?;
        let reference = format!("{}/{path}", self.registry.host());
        let module = PolicyModule::load(&self.registry.reader()?.pull_policy(&reference).await?)?;
        let kubeconfig = kubeconfig_of(cluster, account).await?;
        cluster
            .start_installed_webhook(&module, policies, &kubeconfig)
            .await
    }

    /// What went wrong with the sidecars that run on simulated nodes.
    pub fn problems(&self) -> Vec<String> {
        self.programs
            .as_ref()
            .map(|programs| programs.problems())
            .unwrap_or_default()
    }
}

/// A reference with a digest, and perhaps a tag, as the chart takes it.
fn image_value(reference: &str) -> Value {
    let (name, digest) = reference.split_once('@').unwrap_or((reference, ""));
    let tagged = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
    let repository = tagged.map_or(name, |(repository, _)| repository);
    json!({"repository": repository, "digest": digest})
}

async fn kubeconfig_of(cluster: &Cluster, account: &str) -> Result<PathBuf> {
    let token = cluster
        .control_plane
        .service_account_token(kubewarden::NAMESPACE, account)
        .await?;
    cluster.control_plane.kubeconfig_with_token(account, &token)
}

/// The product's `ClusterAdmissionPolicy` objects, read from the API server.
pub async fn installed_policies(cluster: &Cluster) -> Result<Vec<Policy>> {
    let kind = kube::api::ApiResource {
        group: "policies.kubewarden.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "policies.kubewarden.io/v1".to_owned(),
        kind: "ClusterAdmissionPolicy".to_owned(),
        plural: "clusteradmissionpolicies".to_owned(),
    };
    let policies: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let ours = ListParams::default().labels("app.kubernetes.io/component=policy");
    let policies = policies.list(&ours).await?;
    policies
        .into_iter()
        .map(|policy| Ok(Policy::new(serde_json::to_value(policy)?)))
        .collect()
}

/// What a registry has stored, and the references without its address.
struct Pushed {
    content: Content,
    references: Published,
}

impl Pushed {
    /// Stores the same in another registry.
    fn restore(&self, registry: &Registry) -> Result<Published> {
        registry.restore(&self.content)?;
        let Published { policy, sidecar } = &self.references;
        let host = registry.host();
        Ok(Published {
            policy: format!("{host}{policy}"),
            sidecar: format!("{host}{sidecar}"),
        })
    }
}

/// Pushes both parts as `make publish` does, once per process: to compress the sidecar takes
/// seconds.
async fn pushed() -> Result<&'static Pushed> {
    static PUSHED: OnceCell<Pushed> = OnceCell::const_new();
    let push = async || {
        let supervisor = Supervisor::start()?;
        let registry = Registry::start(&supervisor, RegistryOptions::default()).await?;
        let publisher = Publisher::to(&registry);
        let host = registry.host();
        let policy = publisher.policy(host).await?;
        let sidecar = publisher.image(host).await?;
        let references = Published {
            policy: policy.replace(host, ""),
            sidecar: sidecar.replace(host, ""),
        };
        Ok(Pushed {
            content: registry.content()?,
            references,
        })
    };
    PUSHED.get_or_try_init(push).await
}

/// The relative path from one folder to another: kustomize takes no absolute paths.
fn relative(from: &Path, to: &Path) -> Result<PathBuf> {
    let (from, to) = (
        from.canonicalize()?,
        to.canonicalize()
            .with_context(|| to.display().to_string())?,
    );
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(common)).collect())
}
