//! What stands for Kubewarden where its own parts are not there.

use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use pps_e2e::{
    cluster::{Cluster, real_nodes},
    install::{Installation, installed_policies},
    kubewarden::{
        Controller,
        reconciler::{Reconciler, api},
    },
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::script::{NAME, WORKLOADS};

const TIMEOUT: Duration = Duration::from_mins(10);
/// The ServiceAccount of the PolicyServer that the script installs.
const ACCOUNT: &str = "policy-server-pps-conformance";

/// Kubewarden's controller and PolicyServer as far as the script notices them.
pub(super) struct StandIn<'a> {
    cluster: &'a Cluster,
    installation: &'a Installation,
    _controller: Controller,
}

impl<'a> StandIn<'a> {
    /// Installs it on a cluster with real nodes.
    pub(super) async fn install(cluster: &'a Cluster, installation: &'a Installation) -> Self {
        let controller = Controller::install(cluster).await.unwrap();
        // The Pods of PolicyServers only sleep: the policies are served on this machine.
        let image = Patch::Merge(json!({"spec": {"image": real_nodes::IMAGE}}));
        let servers = api(&cluster.client(), "PolicyServer");
        servers
            .patch("default", &PatchParams::default(), &image)
            .await
            .unwrap();
        Self {
            cluster,
            installation,
            _controller: controller,
        }
    }

    /// Acts until the other future ends.
    pub(super) async fn act_while<T>(&self, what: impl Future<Output = T>) -> T {
        tokio::select! {
            ended = what => ended,
            () = self.act() => unreachable!("it acts forever"),
        }
    }

    /// Serves each pair of policies until both are deleted.
    async fn act(&self) {
        let client = self.cluster.client();
        loop {
            self.policies(2).await;
            // Helm creates it after the policies.
            self.policy_server().await;
            Reconciler::new(client.clone()).run_servers().await.unwrap();
            let webhook = self.installation.start_webhook(self.cluster, ACCOUNT).await;
            let served = installed_policies(self.cluster).await.unwrap();
            // They may be deleted at any time.
            if webhook.is_ok() {
                self.activate().await;
                self.policies(0).await;
            }
            for policy in served {
                let _ = policy.unregister(&client).await;
            }
        }
    }

    async fn policies(&self, count: usize) {
        wait_for(&format!("{count} policies"), TIMEOUT, async || {
            let found = installed_policies(self.cluster).await?.len();
            Ok(Progress::when(found == count, (), found))
        })
        .await
        .unwrap();
    }

    /// Waits until the script's PolicyServer exists.
    async fn policy_server(&self) {
        let servers = api(&self.cluster.client(), "PolicyServer");
        wait_for("the PolicyServer", TIMEOUT, async || {
            let found = servers.get_opt(NAME).await?.is_some();
            Ok(Progress::when(found, (), "none"))
        })
        .await
        .unwrap();
    }

    async fn activate(&self) {
        let active = json!({"status": {"policyStatus": "active", "conditions": [{
            "type": "PolicyActive", "status": "True", "reason": "PolicyActive",
            "message": "The policy webhook has been created", "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]}});
        let policies = api(&self.cluster.client(), "ClusterAdmissionPolicy");
        for policy in policies.list(&ListParams::default()).await.unwrap() {
            let name = policy.metadata.name.unwrap_or_default();
            let _ = policies
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(&active))
                .await;
        }
    }
}

/// Asserts that nothing of a run is left but the definition, and that all nodes are open.
pub(super) async fn only_the_definition_is_left(cluster: &Cluster) {
    let all = "namespaces,clusterroles,clusterrolebindings,clusteradmissionpolicies,policyservers,\
               flowschemas,mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let kubectl = async |args: &[&str]| cluster.control_plane.kubectl(args).await.unwrap();
    let left = kubectl(&["get", all, "--output", "name"]).await;
    let left: Vec<&str> = left.lines().filter(|line| line.contains(NAME)).collect();
    assert!(left.is_empty(), "{left:?}");
    let accounts = kubectl(&[
        "get",
        "serviceaccounts",
        "--all-namespaces",
        "--output",
        "name",
    ])
    .await;
    assert!(!accounts.contains(NAME), "{accounts}");
    let definition = kubectl(&[
        "get",
        "crd",
        "persistentpodstates.apps.kruise.io",
        "--output",
        "name",
    ])
    .await;
    assert!(!definition.is_empty());
    let closed = kubectl(&[
        "get",
        "nodes",
        "--field-selector",
        "spec.unschedulable=true",
        "--output",
        "name",
    ])
    .await;
    assert_eq!(closed, "", "closed nodes");
    let pods = kubectl(&["get", "pods", "--namespace", WORKLOADS, "--output", "name"]).await;
    assert_eq!(pods, "");
}
