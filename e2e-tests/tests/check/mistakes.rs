//! One mistake after the other, each with the codes that the check names, and its correction.

use std::time::Duration;

use pps_e2e::{
    install::SIDECAR,
    kubewarden::NAMESPACE as KUBEWARDEN,
    manifests,
    repository::repository_file,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::world::{World, role};
use crate::behaviour::openkruise;

const ACCOUNT: &str = "policy-server-persistent-pod-state";
const BINDING: &str = "pps-policy-persistent-pod-state";

pub(super) async fn of_the_policies(world: &World) {
    // `default` may not use the test's registry.
    let before = [
        "--phase=before",
        "--policy-server=default",
        "--skip-registry",
    ];
    // The values, or an overlay that is added later, name another PolicyServer.
    let server = json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
        "metadata": {"name": "default"}, "spec": {"image": "i", "replicas": 2, "serviceAccountName": "policy-server"}});
    world.cluster.apply_objects(&[server]).await.unwrap();
    world
        .kubectl(&[
            "create",
            "serviceaccount",
            "-n",
            KUBEWARDEN,
            "policy-server",
        ])
        .await;
    world
        .expect_error(&before, &["PolicyServerImmutable"])
        .await;
    world
        .kubectl(&["delete", "policyservers.policies.kubewarden.io", "default"])
        .await;
}

/// Kubewarden was updated, and the PolicyServer of this installation was not.
pub(super) async fn of_kubewardens_versions(world: &World) {
    let webhook = "kubewarden-controller-validating-webhook-configuration";
    let controller = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": webhook,
            "labels": {"app.kubernetes.io/version": "v1.99.0"}}});
    world.cluster.apply_objects(&[controller]).await.unwrap();
    let report = world.check(&[]).await;
    let skewed = report.of("KubewardenSkewed");
    assert_eq!(skewed.len(), 1, "{report:#?}");
    let seen = &skewed[0].seen;
    assert!(seen.ends_with(", but the controller is 1.99"), "{seen}");
    world
        .kubectl(&["delete", "validatingwebhookconfigurations", webhook])
        .await;
    assert!(world.check(&[]).await.of("KubewardenSkewed").is_empty());
}

pub(super) async fn of_the_module(world: &World) {
    let host = world.module.split('/').next().unwrap();
    let right = format!("registry://{}", world.module);
    let wrong = format!("registry://{host}/policies/persistent-pod-state:v9.9.9");

    // The policy runs, but the module was deleted from the registry: the next start will fail.
    world.policies(&json!({"spec": {"module": wrong}})).await;
    let report = world.check(&[]).await;
    assert_eq!(
        (report.exit_code, report.has("ModuleNotFound", "warning")),
        (0, true),
        "{report:#?}"
    );
    // The PolicyServer has started again.
    world.fail_server().await;
    world
        .expect_error(
            &[],
            &["ModuleNotFound", "PolicyServerNotReady", "PolicyNotActive"],
        )
        .await;
    world.policies(&json!({"spec": {"module": right}})).await;
    world.restart_server().await;
}

pub(super) async fn of_the_account(world: &World) {
    // An overlay that was added later moved the binding to another account.
    let subject = |name: &str| {
        json!({"subjects": [{"kind": "ServiceAccount", "namespace": KUBEWARDEN, "name": name}]})
            .to_string()
    };
    world
        .kubectl(&[
            "patch",
            "clusterrolebinding",
            BINDING,
            "-p",
            &subject("policy-server"),
        ])
        .await;
    world.expect_error(&[], &["LookupForbidden"]).await;
    world
        .kubectl(&[
            "patch",
            "clusterrolebinding",
            BINDING,
            "-p",
            &subject(ACCOUNT),
        ])
        .await;
}

pub(super) async fn of_the_sidecar(world: &World) {
    let installation = world.installation();
    // A right is missing.
    let roles = manifests::parse(
        &world
            .kubectl(&["get", "clusterrole", "pps-sidecar", "-o", "json"])
            .await,
    )
    .unwrap();
    let mut less: Value = roles[0].clone();
    less["metadata"] = json!({"name": "pps-sidecar"});
    let complete = less["rules"].clone();
    less["rules"]
        .as_array_mut()
        .unwrap()
        .retain(|rule| rule["resources"] != json!(["persistentpodstates/status"]));
    world.cluster.apply_objects(&[less.clone()]).await.unwrap();
    world.expect_error(&[], &["SidecarForbidden"]).await;
    less["rules"] = complete;
    world.cluster.apply_objects(&[less]).await.unwrap();

    // For an installation in another namespace, this one is the second.
    let elsewhere = ["--namespace=default"];
    assert!(
        world
            .check(&elsewhere)
            .await
            .has("SecondInstallation", "warning")
    );

    // Nobody leads.
    let deployment = format!("deployment/{SIDECAR}");
    world
        .kubectl(&["scale", "-n", NAMESPACE, &deployment, "--replicas=0"])
        .await;
    wait_for_pods(world, NAMESPACE, 0).await;
    world
        .expect_error(&[], &["SidecarNotAvailable", "LeaderMissing"])
        .await;
    world
        .kubectl(&["scale", "-n", NAMESPACE, &deployment, "--replicas=2"])
        .await;
    installation.wait_available(&world.cluster).await.unwrap();
}

pub(super) async fn of_the_definition(world: &World) {
    let name = "persistentpodstates.apps.kruise.io";
    world.kubectl(&["delete", "crd", name]).await;
    let report = world.check(&[]).await;
    assert_eq!(
        (report.exit_code, report.has("DefinitionMissing", "error")),
        (1, true),
        "{report:#?}"
    );
    let theirs = openkruise::definition();
    manifests::apply_file(&world.cluster.client(), theirs.path())
        .await
        .unwrap();
    for phase in ["--phase=before", "--phase=after"] {
        let report = world.check(&[phase]).await;
        assert_eq!(
            (
                report.exit_code,
                report.has("DefinitionOfOpenKruise", "error")
            ),
            (1, true),
            "{report:#?}"
        );
    }
    let ours = repository_file("deploy/base/crd.yaml");
    world
        .kubectl(&["replace", "-f", ours.to_str().unwrap()])
        .await;
    world
        .installation()
        .wait_available(&world.cluster)
        .await
        .unwrap();
    world.expect_no_error().await;
}

pub(super) async fn of_the_checks_own_rights(world: &World) {
    // Without any right: nothing is wrong as far as the check can see, and each right is named.
    let report = world.check_with_rules("nobody", &[]).await;
    assert_eq!(
        (report.exit_code, report.codes("error").len()),
        (2, 0),
        "{report:#?}"
    );
    let missing: Vec<&str> = report
        .of("PermissionMissing")
        .into_iter()
        .map(|finding| finding.seen.as_str())
        .collect();
    for right in [
        "may not get customresourcedefinitions.apiextensions.k8s.io \
         persistentpodstates.apps.kruise.io",
        "may not list clusteradmissionpolicies.policies.kubewarden.io",
        "may not list policyservers.policies.kubewarden.io",
        "may not list deployments.apps",
        "may not list namespaces",
        "may not get leases.coordination.k8s.io pps-sidecar in namespace persistent-pod-state",
    ] {
        assert!(missing.contains(&right), "{right}: {missing:#?}");
    }
    // Without one right, everything else is checked.
    let mut rules = role()["rules"].as_array().unwrap().clone();
    rules.retain(|rule| rule["resources"] != json!(["subjectaccessreviews"]));
    // The sidecars may just have noticed that the definition was replaced, and not be ready for a
    // moment.
    let report = wait_for(
        "the check to name only the missing right",
        Duration::from_mins(1),
        async || {
            let report = world.check_with_rules("almost", &rules).await;
            Ok(Progress::when(
                report.exit_code == 2,
                report.clone(),
                format!("{report:#?}"),
            ))
        },
    );
    let report = report.await.unwrap();
    assert_eq!(
        report.codes("unknown"),
        ["PermissionMissing"],
        "{report:#?}"
    );
    assert_eq!(
        report.of("PermissionMissing")[0].seen,
        "may not create subjectaccessreviews.authorization.k8s.io"
    );
    assert!(
        report.has("PolicyActive", "ok") && report.has("LeaderActive", "ok"),
        "{report:#?}"
    );
}

async fn wait_for_pods(world: &World, namespace: &str, wanted: usize) {
    let controller = "kubewarden-controller";
    wait_for(
        &format!("{wanted} Pods in {namespace}"),
        Duration::from_mins(1),
        async || {
            let pods = world
                .cluster
                .pods_api(namespace)
                .list(&kube::api::ListParams::default())
                .await?;
            let count = pods
                .iter()
                .filter(|pod| !kube::ResourceExt::name_any(*pod).starts_with(controller))
                .count();
            Ok(Progress::when(count == wanted, (), count))
        },
    )
    .await
    .unwrap();
}
