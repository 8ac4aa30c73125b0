//! What values do to all objects of the chart.

use pps_e2e::manifests::render::{files_below, render_chart};
use pps_e2e::repository::repository_file;
use pps_e2e::{manifests::render::CHART, sidecar::NAMESPACE};
use serde_json::{Value, json};

use super::{find, render_with, values_file};

/// The values of every file in `ci` with others on top.
fn render_each(values: &Value) -> Vec<(String, Vec<Value>)> {
    let files = files_below(&repository_file(&format!("{CHART}/ci"))).unwrap();
    let rendered = files.into_iter().map(|file| {
        let mut merged = pps_e2e::manifests::read(&file).unwrap().pop().unwrap_or_else(|| json!({}));
        json_patch::merge(&mut merged, values);
        let merged = values_file("merged", &merged);
        (file.display().to_string(), render_chart("any", "released", Some(merged.path())).unwrap())
    });
    rendered.collect()
}

/// The templates of the Pods that the objects make: their labels and the whole.
fn pods(object: &Value) -> Option<(&Value, &Value)> {
    match object["kind"].as_str()? {
        "Deployment" | "Job" => {
            let template = &object["spec"]["template"];
            Some((&template["metadata"]["labels"], template))
        }
        "Pod" => Some((&object["metadata"]["labels"], object)),
        "PolicyServer" => Some((&object["spec"]["labels"], &object["spec"])),
        _ => None,
    }
}

#[test]
fn every_object_and_pod_has_the_common_labels_and_keeps_its_own() {
    let ours = "app.kubernetes.io/component";
    // A PolicyServer has labels for its Pods only since Kubewarden 1.36.
    let values = json!({"commonLabels": {"team": "storage", ours: "theirs"}, "policyServer": {"labels": {"team": "storage"}}});
    for (file, objects) in render_each(&values) {
        for object in objects {
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels["team"], "storage", "{file}: {object}");
            assert_eq!(labels["app.kubernetes.io/part-of"], "persistent-pod-state", "{file}: {object}");
            assert!(labels[ours] != "theirs", "{file}: {object}");
            if let Some((labels, _)) = pods(&object) {
                assert_eq!(labels["team"], "storage", "{file}: {object}");
            }
        }
    }
}

#[test]
fn every_object_has_the_common_annotations_and_keeps_its_own() {
    let values = json!({"commonAnnotations": {"team": "storage", "helm.sh/resource-policy": "none"},
        "check": {"enabled": true}, "service": {"annotations": {"team": "network"}}});
    for (file, objects) in render_each(&values) {
        for object in objects {
            let (kind, annotations) = (&object["kind"], &object["metadata"]["annotations"]);
            let team = if kind == "Service" { "network" } else { "storage" };
            assert_eq!(annotations["team"], team, "{file}: {object}");
            let policy = if kind == "CustomResourceDefinition" { "keep" } else { "none" };
            assert_eq!(annotations["helm.sh/resource-policy"], policy, "{file}: {object}");
        }
    }
}

/// Argo CD runs such hooks at each sync, and ignores those of `helm test`.
#[test]
fn no_hook_runs_at_an_upgrade_unless_the_check_is_enabled() {
    for (file, objects) in render_each(&json!({})) {
        for object in objects {
            let hook = &object["metadata"]["annotations"]["helm.sh/hook"];
            assert!(hook.is_null() || hook == "test", "{file}: {object}");
        }
    }
}

#[test]
fn the_rollout_of_the_sidecar_is_a_value_and_its_pods_alone_get_the_token() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let token = json!({"automountServiceAccountToken": true});
    let alone = json!({"sidecar": {"leaderElection": false}, "replicaCount": 1});
    for (values, expected, for_all) in [
        (json!({}), Value::Null, false),
        (json!({"strategy": strategy, "serviceAccount": token}), strategy.clone(), true),
        (alone, json!({"type": "Recreate"}), false),
    ] {
        let objects = render_with("strategy", &values).unwrap();
        let deployment = &find(&objects, "Deployment", "pps-sidecar")["spec"];
        assert_eq!(deployment["strategy"], expected);
        assert_eq!(deployment["template"]["spec"]["automountServiceAccountToken"], true);
        let account = find(&objects, "ServiceAccount", "pps-sidecar");
        assert_eq!(account["automountServiceAccountToken"], for_all);
    }
}

/// Kubewarden has these fields from 1.36 on, and API servers refuse fields that a definition does not have.
#[test]
fn newer_fields_of_a_policy_server_are_rendered_only_if_they_are_set() {
    let fields = ["labels", "webhookPort", "readinessProbePort", "metricsPort"];
    let rendered = |values: Value| {
        let objects = render_with("server", &values).unwrap();
        fields.map(|field| find(&objects, "PolicyServer", "persistent-pod-state")["spec"][field].clone())
    };
    assert_eq!(rendered(json!({"commonLabels": {"team": "storage"}})), [const { Value::Null }; 4]);
    let set =
        json!({"labels": {"a": "b"}, "webhookPort": 9443, "readinessProbePort": 9081, "metricsPort": 9080});
    assert_eq!(rendered(json!({"policyServer": set})), fields.map(|field| set[field].clone()));
}

/// Helm removes a default value that is set to null.
#[test]
fn lists_and_maps_may_be_null() {
    fn collect(values: &Value, path: &str, paths: &mut Vec<String>) {
        let Some(fields) = values.as_object() else { return };
        for (name, value) in fields {
            let path = format!("{path}/{name}");
            let free = ["nodeSelector", "labels", "requests", "limits", "namespaceSelector"];
            let is_empty_map = value.as_object().is_some_and(serde_json::Map::is_empty);
            if value.is_array() || is_empty_map || free.contains(&name.as_str()) {
                paths.push(path);
            } else {
                collect(value, &path, paths);
            }
        }
    }
    let file = repository_file(&format!("{CHART}/values.yaml"));
    let defaults = pps_e2e::manifests::read(&file).unwrap().remove(0);
    let mut paths = Vec::new();
    collect(&defaults, "", &mut paths);
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        let nested = path.split('/').skip(1).collect::<Vec<_>>();
        let values = nested.iter().rev().fold(Value::Null, |value, field| json!({*field: value}));
        let error = render_with("null", &values).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert_eq!(error, "", "{path}");
    }
}

/// `helm test --logs` reads the log after the Pod's deletion policy was applied, and warnings are in the log
/// of a success.
#[test]
fn the_logs_of_the_check_outlive_its_success() {
    let objects = render_with("check", &json!({"check": {"enabled": true}})).unwrap();
    let policy = |object: &Value| object["metadata"]["annotations"]["helm.sh/hook-delete-policy"].clone();
    let job = find(&objects, "Job", "pps-check-before");
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 86400);
    for object in [job, find(&objects, "Pod", "pps-check-after")] {
        assert_eq!(policy(object), "before-hook-creation");
    }
    // No account that may read the cluster stays.
    for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
        for name in ["pps-check-before", "pps-check-after"] {
            assert_eq!(policy(find(&objects, kind, name)), "before-hook-creation,hook-succeeded");
        }
    }
}

#[test]
fn the_namespace_of_the_release_is_nowhere_if_another_one_is_set() {
    for (file, objects) in render_each(&json!({"namespaceOverride": NAMESPACE})) {
        for object in objects {
            // Helm's own label names the release.
            assert!(!object.to_string().contains("released"), "{file}: {object}");
        }
    }
}

#[test]
fn a_global_registry_replaces_that_of_every_image() {
    for global in [
        json!({"imageRegistry": "mirror.example:5000"}),
        json!({"cattle": {"systemDefaultRegistry": "mirror.example:5000"}}),
    ] {
        for (file, objects) in render_each(&json!({"global": global})) {
            let mut images = Vec::new();
            for object in &objects {
                images.extend(object["spec"]["module"].as_str().map(|url| url.replace("registry://", "")));
                images.extend(object["spec"]["image"].as_str().map(str::to_owned));
                let containers = pods(object).map(|(_, template)| &template["spec"]["containers"]);
                let containers = containers.and_then(Value::as_array).into_iter().flatten();
                images.extend(containers.map(|container| container["image"].as_str().unwrap().to_owned()));
            }
            assert!(images.len() > 1, "{file}: {images:?}");
            for image in images {
                let path = image.strip_prefix("mirror.example:5000/");
                let path = path.unwrap_or_else(|| panic!("{file}: {image}"));
                assert!(path.starts_with("pps/") || path.starts_with("kubewarden/"), "{file}: {image}");
            }
        }
    }
}

#[test]
fn extra_objects_are_templates() {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text-{{ .Release.Name }}\n";
    let objects =
        render_with("extra", &json!({"extraObjects": [map("{{ .Release.Namespace }}-object"), text]}))
            .unwrap();
    find(&objects, "ConfigMap", "elsewhere-object");
    find(&objects, "ConfigMap", "text-pps");
}

/// `OpenShift` refuses a Pod with a user outside the namespace's range.
#[test]
fn no_user_is_fixed_on_openshift_and_root_stays_forbidden() {
    for values in [
        json!({"openShift": "enabled"}),
        json!({"podSecurityContext": {"runAsUser": null, "runAsGroup": null}}),
    ] {
        for object in render_with("openshift", &values).unwrap() {
            let Some((_, template)) = pods(&object) else { continue };
            assert!(
                !template.to_string().contains("runAsUser\":")
                    && !template.to_string().contains("runAsGroup")
            );
            assert!(template.to_string().contains("\"runAsNonRoot\":true"), "{template}");
        }
    }
    let fixed = render_with("fixed", &json!({"openShift": "auto"})).unwrap();
    let deployment = find(&fixed, "Deployment", "pps-sidecar");
    assert_eq!(deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"], 65532);
}

#[test]
fn every_pod_runs_on_linux_nodes() {
    for (file, objects) in render_each(&json!({})) {
        for object in &objects {
            let Some((_, template)) = pods(object) else { continue };
            let terms =
                &template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let by_affinity = terms["nodeSelectorTerms"][0]["matchExpressions"][0]
                == json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]});
            assert!(
                by_affinity || template["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux",
                "{file}: {object}"
            );
        }
    }
}

#[test]
fn combinations_that_cannot_work_are_refused() {
    let cases = [
        (json!({"sidecar": {"recorder": "openkruise"}, "crds": {"enabled": false}}), "/replicaCount"),
        (json!({"sidecar": {"recorder": "openkruise"}, "replicaCount": 1}), "/crds/enabled"),
        (json!({"serviceAccount": {"create": false}}), "/serviceAccount/name"),
        (json!({"policyServer": {"minAvailable": 1}}), "/policyServer/maxUnavailable"),
        (json!({"podDisruptionBudget": {"minAvailable": 1}}), "/podDisruptionBudget/maxUnavailable"),
        (json!({"sidecar": {"extraArgs": ["--lease-name=other"]}}), "/sidecar/extraArgs/0"),
        (json!({"sidecar": {"adminAddress": "::8080"}}), "/sidecar/adminAddress"),
        (json!({"sidecar": {"adminAddress": "[::]:80"}}), "/sidecar/adminAddress"),
        (json!({"podSecurityContext": {"runAsUser": 0}}), "/podSecurityContext/runAsUser"),
        (json!({"podSecurityContext": {"runAsNonRoot": false}}), "/podSecurityContext/runAsNonRoot"),
        (
            json!({"sidecar": {"leaderElection": false}, "replicaCount": 1, "strategy": {"type": "RollingUpdate"}}),
            "/strategy",
        ),
        (json!({"commonLabels": {"team": 1}}), "/commonLabels/team"),
        (json!({"openShift": true}), "/openShift"),
        (json!({"global": {"imageRegistry": "https://mirror.example"}}), "/global/imageRegistry"),
    ];
    for (values, field) in cases {
        let error = render_with("combination", &values).expect_err(&format!("{values} is accepted"));
        assert!(format!("{error:#}").contains(field), "{values}: {error:#}");
    }
}
