//! Upgrades that would harm change nothing: Helm asks the cluster first.

use std::collections::BTreeSet;

use pps_e2e::{cluster::Cluster, kubewarden::Controller, sidecar::NAMESPACE};
use serde_json::{Value, json};

use super::{release::Release, workloads};

/// Fails the test if the upgrade succeeds; returns why it was refused.
fn refusal(release: &Release<'_>, values: Value) -> String {
    let text = values.to_string();
    let error = release.try_run("upgrade", values).expect_err(&format!("{text} is accepted"));
    format!("{error:#}")
}

#[tokio::test]
async fn an_upgrade_refuses_to_leave_out_namespaces_that_have_states() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let release = Release::new(&cluster);
    release.run("install", json!({"scope": "All"}));
    let names: Vec<String> = (1..=7).map(|index| format!("shop-{index}")).collect();
    let mut objects: Vec<Value> = Vec::new();
    for name in &names {
        // API servers before 1.21 do not set this label.
        let mut labels = json!({"kubernetes.io/metadata.name": name});
        if name == "shop-7" {
            labels["persistent-pod-state/injection"] = "disabled".into();
        }
        objects.push(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        );
    }
    for name in &names {
        objects.push(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"name": "web", "namespace": name},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}}));
    }
    cluster.apply_objects(&objects).await.unwrap();

    let opt_in = json!({"scope": "OptIn"});
    let refused = refusal(&release, opt_in.clone());
    // The seventh was never in scope.
    assert!(refused.contains("(shop-1, shop-2, shop-3, shop-4, shop-5 and 1 more)"), "{refused}");
    assert!(
        refused.contains("nothing was changed") && refused.contains("policy.acceptUncovered"),
        "{refused}"
    );
    let excluded = ["shop-6", "shop-7"];
    let refused = refusal(&release, json!({"scope": "All", "policy": {"excludedNamespaces": excluded}}));
    assert!(refused.contains("(shop-6)"), "{refused}");
    // What leaves out no states, is accepted.
    release.run("upgrade", json!({"scope": "All", "policy": {"excludedNamespaces": ["shop-7"]}}));

    let mut label = vec!["label", "namespace"];
    label.extend(names.iter().take(6).map(String::as_str));
    label.push("persistent-pod-state/injection=enabled");
    cluster.control_plane.kubectl(&label).await.unwrap();
    let said = release.run("upgrade", opt_in.clone());
    assert!(
        said.contains("kubectl label namespace NAMESPACE persistent-pod-state/injection=enabled"),
        "{said}"
    );

    release.run("upgrade", json!({"scope": "All"}));
    cluster
        .control_plane
        .kubectl(&["label", "namespace", "shop-1", "persistent-pod-state/injection-"])
        .await
        .unwrap();
    assert!(refusal(&release, opt_in).contains("(shop-1)"));
    release.run("upgrade", json!({"policy": {"acceptUncovered": true}}));
}

#[tokio::test]
async fn an_upgrade_refuses_another_name_and_takes_further_kinds() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let release = Release::new(&cluster);
    release.run("install", json!({}));
    let policies = async || -> BTreeSet<String> {
        let names =
            cluster.control_plane.kubectl(&["get", "clusteradmissionpolicies", "--output=name"]).await;
        names.unwrap().lines().map(str::to_owned).collect()
    };
    let before = policies().await;
    let refused = refusal(&release, json!({"nameOverride": "other"}));
    assert!(refused.contains("nothing was changed; set nameOverride to persistent-pod-state"), "{refused}");
    assert_eq!(policies().await, before);

    release.run("upgrade", workloads(&[json!({})]));
    let map = ["get", "configmap", "kruise-configuration", "--namespace", NAMESPACE, "--output=name"];
    assert!(cluster.control_plane.kubectl(&map).await.unwrap().contains("kruise-configuration"));
}
