//! What values do to all objects of the chart.

use pps_e2e::manifests::render::{files_below, render_chart};
use pps_e2e::repository::repository_file;
use pps_e2e::{manifests::render::CHART, sidecar::NAMESPACE};
use serde_json::{Value, json};

use super::{defaults, find, is_refused, render_with, values_file};

/// The templates of the Pods that the objects make: their labels and the whole.
pub(super) fn pods(object: &Value) -> Option<(&Value, &Value)> {
    match object["kind"].as_str()? {
        "Deployment" | "Job" => {
            let template = &object["spec"]["template"];
            Some((&template["metadata"]["labels"], template))
        }
        "CronJob" => {
            let template = &object["spec"]["jobTemplate"]["spec"]["template"];
            Some((&template["metadata"]["labels"], template))
        }
        "Pod" => Some((&object["metadata"]["labels"], object)),
        "PolicyServer" => Some((&object["spec"]["labels"], &object["spec"])),
        _ => None,
    }
}

/// What a value says of all objects holds whatever the other values are: the files in `ci`,
/// rendered once, since each rendering starts Helm.
#[test]
fn values_for_all_objects_reach_each_of_them() {
    let ours = "app.kubernetes.io/component";
    let values = json!({
        // A PolicyServer has labels for its Pods only since Kubewarden 1.36.
        "commonLabels": {"team": "storage", ours: "theirs"}, "policyServer": {"labels": {"team": "storage"}},
        "commonAnnotations": {"team": "storage", "helm.sh/resource-policy": "none"},
        "check": {"beforeChanges": true}, "service": {"annotations": {"team": "network"}},
        "namespaceOverride": NAMESPACE, "global": {"imageRegistry": "mirror.example:5000"},
    });
    for file in files_below(&repository_file(&format!("{CHART}/ci"))).unwrap() {
        let mut merged = pps_e2e::manifests::read(&file)
            .unwrap()
            .pop()
            .unwrap_or_else(|| json!({}));
        json_patch::merge(&mut merged, &values);
        let merged = values_file("merged", &merged);
        let objects = render_chart("any", "released", Some(merged.path())).unwrap();
        let file = file.display();
        for object in &objects {
            let (kind, labels) = (&object["kind"], &object["metadata"]["labels"]);
            assert_eq!(labels["team"], "storage", "{file}: {object}");
            assert_eq!(
                labels["app.kubernetes.io/part-of"], "persistent-pod-state",
                "{file}: {object}"
            );
            assert!(labels[ours] != "theirs", "{file}: {object}");

            let annotations = &object["metadata"]["annotations"];
            let team = if kind == "Service" {
                "network"
            } else {
                "storage"
            };
            assert_eq!(annotations["team"], team, "{file}: {object}");
            let policy = if kind == "CustomResourceDefinition" {
                "keep"
            } else {
                "none"
            };
            assert_eq!(
                annotations["helm.sh/resource-policy"], policy,
                "{file}: {object}"
            );

            // Helm's own label names the release.
            assert!(!object.to_string().contains("released"), "{file}: {object}");

            let Some((labels, template)) = pods(object) else {
                continue;
            };
            assert_eq!(labels["team"], "storage", "{file}: {object}");
            let terms = &template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let by_affinity = terms["nodeSelectorTerms"][0]["matchExpressions"][0]
                == json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]});
            assert!(
                by_affinity || template["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux",
                "{file}: {object}"
            );
        }
        images_are_of(&objects, &file.to_string());
    }
    let rancher = json!({"global": {"cattle": {"systemDefaultRegistry": "mirror.example:5000"}}});
    images_are_of(
        &render_with("rancher", &rancher).unwrap(),
        "Rancher's value",
    );
}

/// Every image is of the registry `mirror.example:5000`.
fn images_are_of(objects: &[Value], file: &str) {
    let mut images = Vec::new();
    for object in objects {
        images.extend(
            object["spec"]["module"]
                .as_str()
                .map(|url| url.replace("registry://", "")),
        );
        images.extend(object["spec"]["image"].as_str().map(str::to_owned));
        let containers = pods(object).map(|(_, template)| &template["spec"]["containers"]);
        let containers = containers.and_then(Value::as_array).into_iter().flatten();
        images.extend(containers.map(|container| container["image"].as_str().unwrap().to_owned()));
    }
    assert!(images.len() > 1, "{file}: {images:?}");
    for image in images {
        let path = image.strip_prefix("mirror.example:5000/");
        let path = path.unwrap_or_else(|| panic!("{file}: {image}"));
        assert!(
            path.starts_with("pps/") || path.starts_with("kubewarden/"),
            "{file}: {image}"
        );
    }
}

#[test]
fn the_rollout_of_the_sidecar_is_a_value_and_its_pods_alone_get_the_token() {
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let token = json!({"automountServiceAccountToken": true});
    let alone = json!({"sidecar": {"leaderElection": false}, "replicaCount": 1});
    for (values, expected, for_all) in [
        (None, Value::Null, false),
        (
            Some(json!({"strategy": strategy, "serviceAccount": token})),
            strategy.clone(),
            true,
        ),
        (Some(alone), json!({"type": "Recreate"}), false),
    ] {
        let rendered = values.map(|values| render_with("strategy", &values).unwrap());
        let objects = rendered.unwrap_or_else(|| defaults().to_vec());
        let deployment = &find(&objects, "Deployment", "pps-sidecar")["spec"];
        assert_eq!(deployment["strategy"], expected);
        assert_eq!(
            deployment["template"]["spec"]["automountServiceAccountToken"],
            true
        );
        let account = find(&objects, "ServiceAccount", "pps-sidecar");
        assert_eq!(account["automountServiceAccountToken"], for_all);
    }
}

/// Kubewarden has these fields from 1.36 on, and API servers refuse fields that a definition does
/// not have.
#[test]
fn newer_fields_of_a_policy_server_are_rendered_only_if_they_are_set() {
    let fields = ["labels", "webhookPort", "readinessProbePort", "metricsPort"];
    let rendered = |values: Value| {
        let objects = render_with("server", &values).unwrap();
        fields.map(|field| {
            find(&objects, "PolicyServer", "persistent-pod-state")["spec"][field].clone()
        })
    };
    assert_eq!(
        rendered(json!({"commonLabels": {"team": "storage"}})),
        [const { Value::Null }; 4]
    );
    let set = json!({"labels": {"a": "b"}, "webhookPort": 9443, "readinessProbePort": 9081, "metricsPort": 9080});
    assert_eq!(
        rendered(json!({"policyServer": set})),
        fields.map(|field| set[field].clone())
    );
}

/// Null for each list and each map with free keys.
fn lists_and_maps_as_null(values: &Value) -> Option<Value> {
    let free = [
        "nodeSelector",
        "labels",
        "requests",
        "limits",
        "namespaceSelector",
    ];
    let below = values.as_object()?.iter().filter_map(|(name, value)| {
        let is_empty_map = value.as_object().is_some_and(serde_json::Map::is_empty);
        let is_open = value.is_array() || is_empty_map || free.contains(&name.as_str());
        let value = if is_open {
            Value::Null
        } else {
            lists_and_maps_as_null(value)?
        };
        Some((name.clone(), value))
    });
    Some(Value::Object(below.collect()))
}

/// Helm removes a default value that is set to null.
#[test]
fn lists_and_maps_may_be_null() {
    let file = repository_file(&format!("{CHART}/values.yaml"));
    let defaults = pps_e2e::manifests::read(&file).unwrap().remove(0);
    // All at once, since each rendering starts Helm: an error names the line that cannot take null.
    let mut values = lists_and_maps_as_null(&defaults).unwrap();
    // A NetworkPolicy without ports allows all.
    let ports = values["networkPolicy"]
        .as_object_mut()
        .unwrap()
        .remove("apiServerPorts")
        .unwrap();
    let refused = render_with(
        "ports",
        &json!({"networkPolicy": {"apiServerPorts": ports}}),
    )
    .unwrap_err();
    assert!(
        format!("{refused:#}").contains("apiServerPorts is empty"),
        "{refused:#}"
    );
    assert!(values.to_string().matches("null").count() > 30, "{values}");
    render_with("null", &values).unwrap();
}

/// `helm test --logs` reads the log after the Pod's deletion policy was applied, and warnings are
/// in the log of a success.
#[test]
fn the_logs_of_the_check_outlive_its_success() {
    let objects = render_with("check", &json!({"check": {"beforeChanges": true}})).unwrap();
    let policy =
        |object: &Value| object["metadata"]["annotations"]["helm.sh/hook-delete-policy"].clone();
    let job = find(&objects, "Job", "pps-check-before");
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 86400);
    for object in [job, find(&objects, "Pod", "pps-check-after")] {
        assert_eq!(policy(object), "before-hook-creation");
    }
    // Their accounts, which may read the cluster, do not stay.
    for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
        for name in ["pps-check-before", "pps-check-after"] {
            assert_eq!(
                policy(find(&objects, kind, name)),
                "before-hook-creation,hook-succeeded"
            );
        }
    }
}

#[test]
fn extra_objects_are_templates() {
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text-{{ .Release.Name }}\n";
    let objects = render_with(
        "extra",
        &json!({"extraObjects": [map("{{ .Release.Namespace }}-object"), text]}),
    )
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
            let Some((_, template)) = pods(&object) else {
                continue;
            };
            assert!(
                !template.to_string().contains("runAsUser\":")
                    && !template.to_string().contains("runAsGroup")
            );
            assert!(
                template.to_string().contains("\"runAsNonRoot\":true"),
                "{template}"
            );
        }
    }
    // The default is `auto`, and helm template knows of no OpenShift.
    let deployment = find(defaults(), "Deployment", "pps-sidecar");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"],
        65532
    );
}

#[test]
fn combinations_that_cannot_work_are_refused() {
    let first = json!({
        "sidecar": {"recorder": "openkruise", "extraArgs": ["--lease-name=other", "--namespace-selector=a"],
            "adminAddress": "::8080"},
        "crds": {"enabled": false}, "serviceAccount": {"create": false}, "policyServer": {"minAvailable": 1},
        "podDisruptionBudget": {"minAvailable": 1}, "podSecurityContext": {"runAsUser": 0, "runAsNonRoot": false},
        "commonLabels": {"team": 1}, "openShift": true, "global": {"imageRegistry": "https://mirror.example"},
    });
    let fields = "/replicaCount /serviceAccount/name /policyServer/maxUnavailable \
                  /podDisruptionBudget/maxUnavailable /sidecar/extraArgs/0 /sidecar/extraArgs/1 \
                  /sidecar/adminAddress /podSecurityContext/runAsUser \
                  /podSecurityContext/runAsNonRoot /commonLabels/team /openShift \
                  /global/imageRegistry";
    is_refused(&first, fields);
    let second = json!({"sidecar": {"recorder": "openkruise", "adminAddress": "[::]:80"}, "replicaCount": 1});
    is_refused(&second, "/crds/enabled /sidecar/adminAddress");
    let alone = json!({"leaderElection": false});
    let third = json!({"sidecar": alone, "replicaCount": 1, "strategy": {"type": "RollingUpdate"}});
    is_refused(&third, "/strategy");
}
