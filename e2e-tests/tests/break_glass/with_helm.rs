//! The way back of a release: Helm must be able to upgrade what the document has installed again.

use std::process::Command;

use kube::{Api, ResourceExt, api::DynamicObject};
use pps_e2e::{cluster::Cluster, kubewarden::Controller, report};
use serde_json::json;

use super::{Reader, commands, policy_kind};
use crate::chart::release::Release;

/// What `helm get manifest` prints of the first revision; the program of the tests does not have
/// that command.
const GET_MANIFEST: &str = "kubectl get secret sh.helm.release.v1.states.v1 \
                            --namespace=persistent-pod-state --output=jsonpath='{.data.release}' \
                            | base64 -d | base64 -d | gunzip | jq -r .manifest";

/// The command of the document. Helm names itself `helm` in the fields that it manages; the program
/// of the tests, by its own name.
fn command(manager: &str) -> String {
    let [command] = &commands("install with Helm")[..] else {
        panic!("one command is expected")
    };
    let (first, rest) = command.split_once('|').unwrap();
    assert_eq!(
        first.trim(),
        "helm get manifest persistent-pod-state --namespace=persistent-pod-state"
    );
    assert!(rest.contains(" --field-manager=helm "), "{rest}");
    format!(
        "{GET_MANIFEST} |{}",
        rest.replace(
            "--field-manager=helm",
            &format!("--field-manager={manager}")
        )
    )
}

#[tokio::test]
async fn helm_upgrades_the_policies_that_the_document_has_installed_again() {
    if !Command::new("jq")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        let test = "helm_upgrades_the_policies_that_the_document_has_installed_again";
        return report::skipped(test, "install jq to run it");
    }
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let release = Release::new(&cluster);
    let reader = Reader::new(&cluster);
    release.run("install", json!({}));
    let policies: Api<DynamicObject> = Api::all_with(cluster.client(), &policy_kind());
    let policy = policies.get("persistent-pod-state").await.unwrap();
    let fields = policy.managed_fields()[0].clone();
    let manager = fields.manager.unwrap();
    let install_again = async |command: String| {
        let delete = ["delete", "clusteradmissionpolicy", "persistent-pod-state"];
        cluster.control_plane.kubectl(&delete).await.unwrap();
        let (printed, succeeded) = reader.run_commands(&[command]).await;
        assert!(
            succeeded && printed.contains("clusteradmissionpolicy"),
            "{printed}"
        );
    };
    let tag = |tag: &str| json!({"policy": {"module": {"tag": tag}}});

    install_again(command(&manager)).await;
    release.run("upgrade", tag("v0.2.0"));
    for policy in ["persistent-pod-state", "persistent-pod-state-validation"] {
        let module = policies.get(policy).await.unwrap().data["spec"]["module"].clone();
        assert!(
            module.as_str().unwrap().ends_with(":v0.2.0"),
            "{policy}: {module}"
        );
    }

    // Why it is not the shorter command. Helm 3 does not apply on the server, and nothing
    // conflicts.
    if fields.operation.as_deref() != Some("Apply") {
        return;
    }
    install_again(format!(
        "{GET_MANIFEST} | kubectl apply -f - --selector=app.kubernetes.io/component=policy"
    ))
    .await;
    let error = format!(
        "{:#}",
        release.try_run("upgrade", tag("v0.3.0")).unwrap_err()
    );
    assert!(
        error.contains("conflict with \"kubectl-client-side-apply\""),
        "{error}"
    );
}
