//! A tool that applies the product again and again has to pause, or it undoes what the document
//! says.

use pps_e2e::{
    manifests,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::Reader;
use crate::support::{TIMEOUT, installed::Installed};

/// The Application and the `HelmRelease` of docs/examples, on a cluster that stores them and does
/// nothing with them.
pub(super) async fn argo_cd_and_flux_pause(installed: &Installed, reader: &Reader) {
    let cluster = &installed.cluster;
    let mut objects = vec![
        definition_of("argoproj.io", "v1alpha1", "Application", "applications"),
        definition_of(
            "helm.toolkit.fluxcd.io",
            "v2",
            "HelmRelease",
            "helmreleases",
        ),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}),
    ];
    cluster.apply_objects(&objects).await.unwrap();
    for (kind, file) in [
        ("Application", "argo-cd.yaml"),
        ("HelmRelease", "flux.yaml"),
    ] {
        let examples = manifests::read(&repository_file(&format!("docs/examples/{file}"))).unwrap();
        objects = examples
            .into_iter()
            .filter(|object| object["kind"] == kind)
            .collect();
        wait_for("the definition to be served", TIMEOUT, async || {
            let applied = cluster.apply_objects(&objects).await;
            Ok(Progress::when(applied.is_ok(), (), format!("{applied:?}")))
        })
        .await
        .unwrap();
    }
    let spec = async |resource: &str, namespace: &str| {
        let get = [
            "get",
            resource,
            "persistent-pod-state",
            "--namespace",
            namespace,
            "--output=json",
        ];
        let text = cluster.control_plane.kubectl(&get).await.unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["spec"].take()
    };
    let application = spec("applications", "argocd").await;
    assert_eq!(application["syncPolicy"]["automated"]["selfHeal"], true);
    reader.play("pause Argo CD").await;
    assert!(
        spec("applications", "argocd").await["syncPolicy"]
            .get("automated")
            .is_none()
    );
    reader.play("resume Argo CD").await;
    assert_eq!(spec("applications", "argocd").await, application);

    reader.play("pause Flux").await;
    assert_eq!(
        spec("helmreleases", "persistent-pod-state").await["suspend"],
        true
    );
    reader.play("resume Flux").await;
    assert_eq!(
        spec("helmreleases", "persistent-pod-state").await["suspend"],
        false
    );
}

/// A definition that accepts every object.
fn definition_of(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
        },
    })
}
