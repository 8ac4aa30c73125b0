//! One control plane for both, with the definition of the one whose turn it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GetParams, ListParams, PostParams};
use kube::{Api, Client};
use pps_e2e::cluster::{POLICY_SERVER, SIDECAR};
use pps_e2e::control_plane::{self, ControlPlane, User, Version, program};
use pps_e2e::manifests;
use pps_e2e::repository::repository_file;
use pps_e2e::supervisor::Supervisor;
use pps_e2e::wait::{Progress, wait_for};
use procfs::process::Process;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Settings;
use super::recorder::{MANAGER_USER, Product, Recorder};
use super::records::{self, Records};
use crate::meter::cpu;
use crate::sidecar::layout::{ClusterLayout, NODES, node, put_all};

const DEFINITION: &str = "persistentpodstates.apps.kruise.io";
/// `ordinals.start` is one of the cases, and OpenKruise's manager is built for 1.32.
const OLDEST: Version = Version::minor(27);
/// What OpenKruise's manager needs besides its definitions. It writes into the two configurations.
const MANAGER_NEEDS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: kruise-system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kruise-mutating-webhook-configuration}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kruise-validating-webhook-configuration}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kruise-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kruise-manager}]
";
/// One recorded Pod, which shows that a recorder works.
pub(super) const CANARY: ClusterLayout =
    ClusterLayout { namespace: "canary", workloads: 1, pods: 1, ready: true };

/// The control plane, without controllers, so that nothing else changes the objects.
pub(super) struct Bed {
    pub(super) control_plane: ControlPlane,
    pub(super) etcd: Client,
    manager: PathBuf,
    /// The two definitions of the PPS: OpenKruise's, and ours.
    definitions: [Value; 2],
    api_server: Process,
    turns: usize,
}

impl Bed {
    pub(super) async fn start(settings: &Settings) -> Result<Self> {
        let options = control_plane::Options {
            users: vec![User::new(SIDECAR), User::new(MANAGER_USER), User::new(POLICY_SERVER)],
            api_server_flags: vec![
                "--max-requests-inflight=2000".to_owned(),
                "--max-mutating-requests-inflight=1000".to_owned(),
            ],
            ..control_plane::Options::default()
        };
        let control_plane = ControlPlane::start(Arc::new(Supervisor::start()?), options).await?;
        let version = control_plane.version();
        ensure!(
            version >= OLDEST,
            "Kubernetes 1.{} is too old for OpenKruise's manager: set KUBEBUILDER_ASSETS to a folder with the \
             programs of 1.{} or newer",
            version.minor,
            OLDEST.minor
        );
        for name in [program::CONTROLLER_MANAGER, program::SCHEDULER] {
            control_plane.stop(name).await?;
        }
        let client = control_plane.client();
        let theirs = read_definitions(&settings.definitions)?;
        let ours = manifests::read(&repository_file("deploy/base/crd.yaml"))?;
        let find = |all: &[Value]| all.iter().find(|one| one["metadata"]["name"] == DEFINITION).cloned();
        let missing = || format!("{} has no definition of {DEFINITION}", settings.definitions.display());
        let definitions = [find(&theirs).with_context(missing)?, find(&ours).context("no definition")?];
        manifests::apply(&client, &theirs).await.context("OpenKruise's definitions")?;
        manifests::apply_yaml(&client, MANAGER_NEEDS).await?;
        for (user, role) in [(SIDECAR, "pps-sidecar"), (POLICY_SERVER, "pps-policy")] {
            let roles = repository_file("deploy/base/rbac.yaml");
            manifests::apply_rbac_from(&client, &roles, user, &[role]).await?;
        }
        let etcd = records::etcd_client(control_plane.etcd_url())?;
        put_all(&etcd, (0..NODES).map(node)).await?;
        let pid = control_plane.supervisor().status(program::API_SERVER)?.pid;
        let api_server = Process::new(i32::try_from(pid.context("the API server is not running")?)?)?;
        Ok(Self { control_plane, etcd, manager: settings.manager.clone(), definitions, api_server, turns: 0 })
    }

    /// CPU time of the API server so far.
    pub(super) fn api_server_cpu(&self) -> Result<f64> {
        cpu(&self.api_server)
    }

    pub(super) fn client(&self) -> Client {
        self.control_plane.client()
    }

    /// Removes the objects of the former turn, serves the product's definition and writes new objects. The canary is
    /// always among them.
    pub(super) async fn prepare(&mut self, product: Product, layouts: &[ClusterLayout]) -> Result<Records> {
        for prefix in ["pods", "statefulsets", "apps.kruise.io/persistentpodstates", "events"] {
            records::delete_all(&self.etcd, &format!("/registry/{prefix}/")).await?;
        }
        self.define(product).await?;
        let records = Records::follow(&self.etcd).await?;
        // The canary comes last: the API server reads etcd's changes in order, so it knows all when it knows the canary.
        for (number, layout) in layouts.iter().chain([&CANARY]).enumerate() {
            manifests::ensure_namespace(&self.client(), layout.namespace).await?;
            let objects = (0..layout.workloads).flat_map(|index| {
                let (key, object) = layout.object(index);
                [layout.workload(index), (key, in_its_form(product, object))]
            });
            let all = objects.chain((0..layout.all_pods()).map(|index| layout.pod(index)));
            let series = self.turns * 16 + number;
            put_all(&self.etcd, all.map(|object| with_other_uids(series, object))).await?;
        }
        self.wait_until_served(product, layouts).await?;
        self.settle().await?;
        Ok(records)
    }

    pub(super) async fn start_recorder(&mut self, product: Product) -> Result<Recorder> {
        self.turns += 1;
        Recorder::start(&self.control_plane, &self.manager, product, self.turns).await
    }

    /// Replaces the definition. Both name the same two versions, so the API server accepts either over the other.
    async fn define(&self, product: Product) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let mut definition = self.definitions[usize::from(product.is_ours())].clone();
        let current = api.get(DEFINITION).await?;
        definition["metadata"]["resourceVersion"] = current.metadata.resource_version.into();
        api.replace(DEFINITION, &PostParams::default(), &serde_json::from_value(definition)?).await?;
        Ok(())
    }

    /// Waits until the API server shows the objects as the product reads them. That also fills its caches.
    async fn wait_until_served(&self, product: Product, layouts: &[ClusterLayout]) -> Result<()> {
        let (resource, key) = (resource(product), keys_field(product));
        let canary: Api<DynamicObject> = Api::namespaced_with(self.client(), CANARY.namespace, &resource);
        wait_for("the definition to be served", Duration::from_secs(30), async || {
            let object = canary.get("db-0").await?;
            let found = &object.data["spec"]["requiredPersistentTopology"][key];
            Ok(Progress::when(found.is_array(), (), &object.data["spec"]))
        })
        .await?;
        let expected: usize = layouts.iter().map(|layout| layout.workloads).sum();
        let all: Api<DynamicObject> = Api::all_with(self.client(), &resource);
        let listed = all.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(listed == expected + 1, "listed {listed} PPS, not {}", expected + 1);
        let pods: Api<Pod> = Api::namespaced(self.client(), CANARY.namespace);
        let (_, pod) = with_other_uids(self.turns * 16 + layouts.len(), CANARY.pod(0));
        let uid = pod["metadata"]["uid"].as_str();
        wait_for("the API server to know the Pods", Duration::from_mins(5), async || {
            // From its cache, not from etcd.
            let pod = pods.get_with("db-0-0", &GetParams::any()).await?;
            Ok(Progress::when(pod.metadata.uid.as_deref() == uid, (), format!("{:?}", pod.metadata.uid)))
        })
        .await
    }

    /// Waits until the API server is idle.
    pub(super) async fn settle(&self) -> Result<()> {
        let mut before = self.api_server_cpu()?;
        for _ in 0..20 {
            sleep(Duration::from_secs(1)).await;
            let now = self.api_server_cpu()?;
            if now - before < 0.10 {
                break;
            }
            before = now;
        }
        Ok(())
    }
}

/// OpenKruise's definitions, without the webhook that converts between versions: it would need certificates, and each
/// version is only read as it was written.
fn read_definitions(folder: &Path) -> Result<Vec<Value>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut definitions = Vec::new();
    for file in files {
        definitions.extend(manifests::read(&file)?);
    }
    definitions.retain(|object| object["kind"] == "CustomResourceDefinition");
    for definition in &mut definitions {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    if definitions.is_empty() {
        bail!("{} has no CustomResourceDefinition", folder.display());
    }
    Ok(definitions)
}

/// The PPS resource in the version that the product stores.
pub(super) fn resource(product: Product) -> ApiResource {
    let version = if product.is_ours() { "v1alpha1" } else { "v1beta1" };
    ApiResource {
        group: "apps.kruise.io".to_owned(),
        version: version.to_owned(),
        api_version: format!("apps.kruise.io/{version}"),
        kind: "PersistentPodState".to_owned(),
        plural: "persistentpodstates".to_owned(),
    }
}

fn keys_field(product: Product) -> &'static str {
    if product.is_ours() { "nodeTopologyKeys" } else { "keys" }
}

/// A PPS of ours in the version and with the field names that the product reads.
pub(super) fn in_its_form(product: Product, mut object: Value) -> Value {
    let key = keys_field(product);
    object["apiVersion"] = resource(product).api_version.into();
    let rename = |topology: &mut Value| {
        if let Some(fields) = topology.as_object_mut()
            && let Some(keys) = fields.remove("nodeTopologyKeys")
        {
            fields.insert(key.to_owned(), keys);
        }
    };
    let spec = &mut object["spec"];
    rename(&mut spec["requiredPersistentTopology"]);
    for preferred in spec["preferredPersistentTopology"].as_array_mut().into_iter().flatten() {
        rename(&mut preferred["preference"]);
    }
    object
}

/// Layouts number their objects alike, so each gets UIDs of its own in each turn.
fn with_other_uids(series: usize, (key, object): (String, Value)) -> (String, Value) {
    let other = object.to_string().replace("-0000-4000-8000-", &format!("-{series:04x}-4000-8000-"));
    (key, serde_json::from_str(&other).unwrap_or(object))
}
