//! What a `GitOps` tool sees: what it applies, it reads back, and the examples for Argo CD and Flux
//! work.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, ResourceExt, api::PostParams};
use pps_e2e::{
    cluster::Cluster,
    kubewarden::{install_definitions, permissive_definition},
    manifests::{
        self,
        render::{
            CHART, files_below, kustomizations, name_of, render_chart, render_chart_with,
            render_kustomize,
        },
    },
    repository::repository_file,
    scratch::Scratch,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::{
    chart::render_ci,
    support::{self, TIMEOUT},
};

#[tokio::test]
async fn the_manifests_fit_a_cluster_that_a_git_ops_tool_manages() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    support::run_in_turn(scenarios![&cluster;
        users_of_a_namespace_read_and_write_objects_but_not_what_is_recorded,
        namespaces_that_enforce_the_profile_restricted_take_all_pods,
        what_is_applied_is_read_back_and_applying_it_again_changes_nothing,
    ])
    .await
    .unwrap();
}

/// Fields that are sent and cannot be read back, as `kind: path`. Each must be in the examples'
/// ignoreDifferences.
fn differences(stored: &Value, sent: &Value, path: &str, found: &mut BTreeSet<String>) {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => {
            for (field, value) in sent {
                let below = format!("{path}/{field}");
                match stored.get(field) {
                    Some(stored) => differences(stored, value, &below, found),
                    None => drop(found.insert(below)),
                }
            }
        }
        (Value::Array(stored), Value::Array(sent)) if stored.len() == sent.len() => {
            for (index, (stored, sent)) in stored.iter().zip(sent).enumerate() {
                differences(stored, sent, &format!("{path}/{index}"), found);
            }
        }
        (stored, sent) if stored == sent => {}
        _ => drop(found.insert(path.to_owned())),
    }
}

fn ignored_by_the_example() -> BTreeSet<String> {
    let example = manifests::read(&repository_file("docs/examples/argo-cd.yaml"))
        .unwrap()
        .remove(0);
    let ignored = example["spec"]["ignoreDifferences"].as_array().unwrap();
    let pointers = ignored.iter().flat_map(|one| {
        let kind = one["kind"].as_str().unwrap();
        one["jsonPointers"]
            .as_array()
            .unwrap()
            .iter()
            .map(move |path| format!("{kind}: {}", path.as_str().unwrap()))
    });
    pointers.collect()
}

async fn what_is_applied_is_read_back_and_applying_it_again_changes_nothing(cluster: &Cluster) {
    install_definitions(&cluster.client()).await.unwrap();
    manifests::ensure_namespace(&cluster.client(), NAMESPACE)
        .await
        .unwrap();
    let group = "monitoring.coreos.com";
    let definitions = [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ]
    .map(|(kind, plural)| permissive_definition(group, "v1", kind, plural, "Namespaced"));
    manifests::apply(&cluster.client(), &definitions)
        .await
        .unwrap();

    let mut sets: Vec<(String, Vec<Value>)> = kustomizations()
        .unwrap()
        .into_iter()
        .map(|folder| (folder.clone(), render_kustomize(&folder).unwrap()))
        .collect();
    for values in files_below(&repository_file(&format!("{CHART}/ci"))).unwrap() {
        let mut objects = render_ci(&values);
        // GitOps tools create hooks again each time and do not compare them.
        objects.retain(|object| {
            object["metadata"]["annotations"]
                .get("helm.sh/hook")
                .is_none()
        });
        sets.push((
            values.file_name().unwrap().to_str().unwrap().to_owned(),
            objects,
        ));
    }
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (set, mut objects) in sets {
        // Most objects are the same in many sets.
        objects.retain(|object| seen.insert(object.to_string()));
        if objects.is_empty() {
            continue;
        }
        cluster.apply_objects(&objects).await.unwrap();
        // Controllers have changed what they change: they have filled the aggregated roles, and
        // seen the Deployment.
        wait_for("the Deployment to be observed", TIMEOUT, async || {
            let path = "-o=jsonpath={.metadata.generation} {.status.observedGeneration}";
            let seen = [
                "get",
                "deployment",
                "pps-sidecar",
                "--namespace",
                NAMESPACE,
                path,
            ];
            let seen = cluster.control_plane.kubectl(&seen).await?;
            let same = seen
                .split_once(' ')
                .is_some_and(|(wanted, observed)| wanted == observed);
            Ok(Progress::when(same, (), seen))
        })
        .await
        .unwrap();
        let again = cluster.apply_objects(&objects).await.unwrap();
        for (sent, stored) in objects.iter().zip(&again) {
            let mut here = BTreeSet::new();
            differences(&serde_json::to_value(stored).unwrap(), sent, "", &mut here);
            let kind = sent["kind"].as_str().unwrap();
            found.extend(here.into_iter().map(|path| format!("{kind}: {path}")));
        }
        let third = cluster.apply_objects(&objects).await.unwrap();
        for ((before, after), sent) in again.iter().zip(&third).zip(&objects) {
            let versions = (before.metadata.generation, after.metadata.generation);
            assert_eq!(versions.0, versions.1, "{set}: {}", name_of(sent));
            // Controllers write the status of these meanwhile.
            let with_status = [
                "CronJob",
                "CustomResourceDefinition",
                "Deployment",
                "Job",
                "Pod",
                "PodDisruptionBudget",
                "ResourceQuota",
            ];
            if !with_status.contains(&sent["kind"].as_str().unwrap_or_default()) {
                assert_eq!(
                    before.resource_version(),
                    after.resource_version(),
                    "{set}: {}",
                    name_of(sent)
                );
            }
        }
    }
    assert!(seen.len() > 50, "only {} objects differ", seen.len());
    assert_eq!(found, ignored_by_the_example());
}

/// They are complete: no other values are needed.
#[test]
fn the_examples_for_argo_cd_and_flux_render_without_a_cluster() {
    let expected = render_chart("persistent-pod-state", NAMESPACE, None).unwrap();
    let argo = manifests::read(&repository_file("docs/examples/argo-cd.yaml"))
        .unwrap()
        .remove(0);
    let flux = manifests::read(&repository_file("docs/examples/flux.yaml")).unwrap();
    let release = flux
        .iter()
        .find(|object| object["kind"] == "HelmRelease")
        .unwrap();
    let source = flux
        .iter()
        .find(|object| object["kind"] == "OCIRepository")
        .unwrap();
    let version = json!(env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (
            &argo["spec"]["source"]["targetRevision"],
            &source["spec"]["ref"]["tag"]
        ),
        (&version, &version)
    );
    // Else what policies still need is removed first, and only then Kubewarden refuses to change
    // them.
    assert!(
        argo["spec"]["syncPolicy"]["syncOptions"]
            .as_array()
            .unwrap()
            .contains(&json!("PruneLast=true"))
    );
    for values in [
        &argo["spec"]["source"]["helm"]["valuesObject"],
        &release["spec"]["values"],
    ] {
        let file = Scratch::file("values.yaml", values.to_string()).unwrap();
        assert_eq!(
            render_chart_with("persistent-pod-state", NAMESPACE, &[file.path()]).unwrap(),
            expected
        );
    }
}

async fn may(cluster: &Cluster, user: &str, verb: &str, subresource: &str) -> anyhow::Result<bool> {
    let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": {"namespace": "default",
        "group": "apps.kruise.io", "resource": "persistentpodstates", "verb": verb, "subresource": subresource}}});
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client());
    let review = reviews
        .create(&PostParams::default(), &serde_json::from_value(review)?)
        .await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

async fn users_of_a_namespace_read_and_write_objects_but_not_what_is_recorded(cluster: &Cluster) {
    let objects = render_kustomize("deploy")
        .unwrap()
        .into_iter()
        .filter(|object| {
            object["metadata"]["labels"]["app.kubernetes.io/component"] == "aggregated-role"
        });
    let mut objects: Vec<Value> = objects.collect();
    let group = "rbac.authorization.k8s.io";
    for role in ["view", "edit", "admin"] {
        objects.push(
            json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": "default"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": role}]}),
        );
    }
    cluster.apply_objects(&objects).await.unwrap();
    for role in ["view", "edit", "admin"] {
        let writes = role != "view";
        wait_for("the roles to be aggregated", TIMEOUT, async || {
            let allowed = may(cluster, role, "watch", "").await?
                && may(cluster, role, "delete", "").await? == writes;
            Ok(Progress::when(allowed, (), format!("{role} may not")))
        })
        .await
        .unwrap();
        for verb in ["get", "list", "watch"] {
            assert!(may(cluster, role, verb, "").await.unwrap(), "{role} {verb}");
        }
        for verb in ["create", "update", "patch", "delete"] {
            assert_eq!(
                may(cluster, role, verb, "").await.unwrap(),
                writes,
                "{role} {verb}"
            );
            assert!(
                !may(cluster, role, verb, "status").await.unwrap(),
                "{role} {verb} status"
            );
        }
    }
}

/// As Kubewarden's controller makes the Pods of a PolicyServer, and as the Deployment makes the
/// sidecar's.
async fn namespaces_that_enforce_the_profile_restricted_take_all_pods(cluster: &Cluster) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    cluster.apply_objects(&[namespace]).await.unwrap();
    let pods: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(cluster.client(), "restricted");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "any", "namespace": "restricted"}});
    cluster.apply_objects(&[account]).await.unwrap();
    let mut tried = 0;
    for folder in kustomizations().unwrap() {
        for object in render_kustomize(&folder).unwrap() {
            let mut spec = match object["kind"].as_str() {
                Some("Deployment") => object["spec"]["template"]["spec"].clone(),
                Some("PolicyServer") => {
                    let contexts = &object["spec"]["securityContexts"];
                    json!({"securityContext": contexts["pod"], "containers": [{"name": "policy-server",
                        "image": object["spec"]["image"], "securityContext": contexts["container"]}]})
                }
                _ => continue,
            };
            spec["serviceAccountName"] = json!("any");
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("priorityClassName");
            }
            let pod =
                serde_json::from_value(json!({"metadata": {"name": "any"}, "spec": spec})).unwrap();
            let answer = pods.create(&dry, &pod).await;
            assert!(answer.is_ok(), "{folder}: {}: {answer:?}", name_of(&object));
            tried += 1;
        }
    }
    assert!(tried > 10);
    let pod = json!({"metadata": {"name": "any"}, "spec": {"serviceAccountName": "any",
            "containers": [{"name": "any", "image": "any", "securityContext": {"privileged": true}}]}});
    assert!(
        pods.create(&dry, &serde_json::from_value(pod).unwrap())
            .await
            .is_err()
    );
}
