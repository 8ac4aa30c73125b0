//! The control plane of a measurement, without controllers, so that nothing else changes the
//! objects.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, GetParams, ListParams, PostParams};
use kube::{Api, Client};
use pps_e2e::cluster::{POLICY_SERVER, SIDECAR};
use pps_e2e::control_plane::{self, ControlPlane, User, program};
use pps_e2e::kubewarden::policy_server;
use pps_e2e::manifests;
use pps_e2e::repository::repository_file;
use pps_e2e::supervisor::Supervisor;
use pps_e2e::wait::{Progress, wait_for};
use procfs::process::Process;
use serde_json::Value;
use tokio::time::sleep;

use crate::etcd::{Etcd, OBJECTS, Records};
use crate::layout::{Layout, nodes};
use crate::meter::cpu;
use crate::openkruise::{self, OpenKruise};
use crate::recorder::{Product, Recorder};
use crate::report::today;

const DEFINITION: &str = "persistentpodstates.apps.kruise.io";
/// The namespace of one recorded Pod, which shows that a recorder works.
pub(crate) const CANARY: &str = "canary";

pub(crate) struct Bed {
    pub(crate) control_plane: ControlPlane,
    etcd: Etcd,
    openkruise: Option<OpenKruise>,
    api_server: Process,
    recorders: usize,
}

impl Bed {
    pub(crate) async fn start(openkruise: Option<OpenKruise>) -> Result<Self> {
        let options = control_plane::Options {
            users: [SIDECAR, openkruise::USER, POLICY_SERVER]
                .map(User::new)
                .to_vec(),
            api_server_flags: vec![
                "--max-requests-inflight=2000".to_owned(),
                "--max-mutating-requests-inflight=1000".to_owned(),
            ],
            ..control_plane::Options::default()
        };
        let control_plane = ControlPlane::start(Arc::new(Supervisor::start()?), options).await?;
        for name in [program::CONTROLLER_MANAGER, program::SCHEDULER] {
            control_plane.stop(name).await?;
        }
        let client = control_plane.client();
        if let Some(openkruise) = &openkruise {
            manifests::apply(&client, &openkruise.definitions)
                .await
                .context("OpenKruise's definitions")?;
            manifests::apply_yaml(&client, openkruise::NEEDS).await?;
        } else {
            manifests::apply_file(&client, &repository_file("deploy/base/crd.yaml")).await?;
        }
        for (user, role) in [(SIDECAR, "pps-sidecar"), (POLICY_SERVER, "pps-policy")] {
            let roles = repository_file("deploy/base/rbac.yaml");
            manifests::apply_rbac_from(&client, &roles, user, &[role]).await?;
        }
        let etcd = Etcd::new(control_plane.etcd_url())?;
        etcd.put_all(nodes()).await?;
        let pid = control_plane.supervisor().status(program::API_SERVER)?.pid;
        let api_server = Process::new(i32::try_from(
            pid.context("the API server is not running")?,
        )?)?;
        Ok(Self {
            control_plane,
            etcd,
            openkruise,
            api_server,
            recorders: 0,
        })
    }

    /// The products that are measured, in turns.
    pub(crate) fn products(&self) -> &'static [Product] {
        if self.openkruise.is_some() {
            &Product::ALL
        } else {
            &[Product::Ours]
        }
    }

    /// The table, and below it the day and the versions of what was measured with it.
    pub(crate) async fn with_caption(&self, table: &str) -> Result<String> {
        let kubernetes = self.client().apiserver_version().await?.git_version;
        let policy_server = policy_server::executable()
            .map(|program| Command::new(program).arg("--version").output())
            .transpose()?
            .map_or(
                "the tests' stand-in for a PolicyServer".to_owned(),
                |output| {
                    // Further lines tell what is built in.
                    let answer = String::from_utf8_lossy(&output.stdout);
                    answer.lines().next().unwrap_or_default().trim().to_owned()
                },
            );
        Ok(format!(
            "{table}\n\n*{}, Kubernetes {kubernetes}, {policy_server}*",
            today()
        ))
    }

    /// CPU time of the API server so far.
    pub(crate) fn api_server_cpu(&self) -> Result<f64> {
        cpu(&self.api_server)
    }

    pub(crate) fn client(&self) -> Client {
        self.control_plane.client()
    }

    /// Removes the objects of the former turn, serves the product's definition and writes new
    /// objects. The canary is always among them.
    pub(crate) async fn prepare(&self, product: Product, layouts: &[Layout]) -> Result<Records> {
        for prefix in ["pods/", "statefulsets/", OBJECTS, "events/"] {
            self.etcd.delete_all(prefix).await?;
        }
        if let Some(openkruise) = &self.openkruise {
            self.define(product, &openkruise.definitions).await?;
        }
        let records = self.etcd.follow().await?;
        // The API server reads etcd's changes in order, so it knows all objects when it knows the
        // canary, the last one.
        let canary = Layout::new(CANARY, 1, 1);
        for layout in layouts.iter().chain([&canary]) {
            manifests::ensure_namespace(&self.client(), layout.namespace).await?;
            self.etcd.put_all(layout.stored(product)).await?;
        }
        self.wait_until_served(product, layouts, canary).await?;
        self.settle().await?;
        Ok(records)
    }

    pub(crate) async fn start_recorder(&mut self, product: Product) -> Result<Recorder> {
        self.recorders += 1;
        Recorder::start(
            &self.control_plane,
            self.openkruise.as_ref(),
            product,
            self.recorders,
        )
        .await
    }

    /// Replaces the definition. Both name the same two versions, so the API server accepts either
    /// over the other.
    async fn define(&self, product: Product, theirs: &[Value]) -> Result<()> {
        let ours = manifests::read(&repository_file("deploy/base/crd.yaml"))?;
        let all = if product == Product::Ours {
            &ours[..]
        } else {
            theirs
        };
        let definition = all
            .iter()
            .find(|object| object["metadata"]["name"] == DEFINITION);
        let mut definition = definition
            .with_context(|| format!("no definition of {DEFINITION}"))?
            .clone();
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let current = api.get(DEFINITION).await?;
        definition["metadata"]["resourceVersion"] = current.metadata.resource_version.into();
        api.replace(
            DEFINITION,
            &PostParams::default(),
            &serde_json::from_value(definition)?,
        )
        .await?;
        Ok(())
    }

    /// Waits until the API server shows the objects as the product reads them. That also fills its
    /// caches.
    async fn wait_until_served(
        &self,
        product: Product,
        layouts: &[Layout],
        canary: Layout,
    ) -> Result<()> {
        let resource = product.resource();
        let key = product.keys_field();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(), CANARY, &resource);
        wait_for(
            "the definition to be served",
            Duration::from_secs(30),
            async || {
                let object = api.get("db-0").await?;
                let found = &object.data["spec"]["requiredPersistentTopology"][key];
                Ok(Progress::when(found.is_array(), (), &object.data["spec"]))
            },
        )
        .await?;
        let expected = layouts.iter().map(|layout| layout.all_pps()).sum::<usize>() + 1;
        let all: Api<DynamicObject> = Api::all_with(self.client(), &resource);
        let listed = all.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(listed == expected, "listed {listed} PPS, not {expected}");
        let pods: Api<Pod> = Api::namespaced(self.client(), CANARY);
        let uid = canary.pod_uid(0);
        wait_for(
            "the API server to know the Pods",
            Duration::from_mins(5),
            async || {
                // From its cache, not from etcd.
                let pod = pods.get_with("db-0-0", &GetParams::any()).await?;
                Ok(Progress::when(
                    pod.metadata.uid.as_ref() == Some(&uid),
                    (),
                    format!("{:?}", pod.metadata.uid),
                ))
            },
        )
        .await
    }

    /// Waits until the API server is idle.
    pub(crate) async fn settle(&self) -> Result<()> {
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
