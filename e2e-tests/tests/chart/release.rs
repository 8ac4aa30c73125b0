//! A release of the chart on a real API server.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use pps_e2e::{
    cluster::Cluster,
    kubewarden::Controller,
    manifests::render::{CHART, REQUIRED, helm},
    repository::repository_file,
    scratch::Scratch,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

/// A release, installed or not.
pub(crate) struct Release<'a> {
    cluster: &'a Cluster,
}

impl<'a> Release<'a> {
    /// Of this repository's chart.
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// Runs `helm install`, `upgrade` or `uninstall` and returns what it prints.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "all callers build the values in place"
    )]
    pub(crate) fn try_run(&self, command: &str, values: Value) -> Result<String> {
        let values = Scratch::file(&format!("{command}.yaml"), values.to_string())?;
        let (chart, path) = (
            repository_file(CHART).display().to_string(),
            values.argument(),
        );
        let required = repository_file(REQUIRED).display().to_string();
        let kubeconfig = self
            .cluster
            .control_plane
            .kubeconfig_for("admin")?
            .display()
            .to_string();
        let mut arguments = vec![
            command,
            "states",
            "--namespace",
            NAMESPACE,
            "--kubeconfig",
            kubeconfig.as_str(),
        ];
        if command != "uninstall" {
            arguments.extend([chart.as_str(), "--values", &required, "--values", &path]);
        }
        if command == "install" {
            arguments.push("--create-namespace");
        }
        helm(&arguments)
    }

    /// The same; fails the test if Helm fails.
    pub(crate) fn run(&self, command: &str, values: Value) -> String {
        self.try_run(command, values)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }
}

#[tokio::test]
async fn chart_can_be_installed_upgraded_removed_and_installed_again() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let release = Release::new(&cluster);
    let said = release.run("install", json!({}));
    for words in [
        "is installed in the namespace",
        "kubectl get pps",
        "pod-security",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let replicas_of = async |name: &str| {
        let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
        deployments
            .get_opt(name)
            .await
            .unwrap()
            .map(|one| one.spec.replicas.unwrap())
    };
    let replicas = async || replicas_of("pps-sidecar").await;
    assert_eq!(replicas().await, Some(2));
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "web"}, "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "persistentPodAnnotations": [{"key": "example.io/ip"}]}});
    cluster.apply_objects(&[object]).await.unwrap();

    let said = release.run(
        "upgrade",
        json!({"replicaCount": 3, "policy": {"enabled": false, "failurePolicy": "Ignore"}, "rbac": {"create": false}}),
    );
    for words in [
        "policy.enabled=false",
        "policy.failurePolicy=Ignore",
        "rbac.create=false",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(replicas().await, Some(3));

    // The recorded states outlive the release, and the next release keeps them.
    release.run("uninstall", json!({}));
    assert_eq!(replicas().await, None);
    let kept = async || {
        cluster
            .control_plane
            .kubectl(&["get", "pps", "web", "--output=name"])
            .await
            .unwrap()
    };
    assert!(kept().await.contains("web"));
    release.run("install", json!({}));
    assert_eq!(replicas().await, Some(2));
    assert!(kept().await.contains("web"));

    // With crds.keep=false the CRD is deleted. Each namespace may have a sidecar of its own.
    let said = release.run(
        "upgrade",
        json!({"crds": {"keep": false}, "namespaces": ["default"]}),
    );
    assert_eq!(
        (replicas().await, replicas_of("pps-sidecar-default").await),
        (None, Some(2))
    );
    assert!(said.contains("deployment/pps-sidecar-default"), "{said}");
    assert!(said.contains("crds.keep=false"), "{said}");
    release.run("uninstall", json!({}));
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    wait_for(
        "the CRD to be deleted",
        Duration::from_mins(2),
        async || {
            let definition = definitions
                .get_opt("persistentpodstates.apps.kruise.io")
                .await?;
            Ok(Progress::when(definition.is_none(), (), "it still exists"))
        },
    )
    .await
    .unwrap();
}
