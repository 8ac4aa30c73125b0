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
    let values = json!({"commonLabels": {"team": "storage", ours: "theirs"}});
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
        (json!({"sidecar": {"recorder": "openkruise"}, "crds": {"install": false}}), "/replicaCount"),
        (json!({"sidecar": {"recorder": "openkruise"}, "replicaCount": 1}), "/crds/install"),
        (json!({"serviceAccount": {"create": false}}), "/serviceAccount/name"),
        (json!({"policyServer": {"minAvailable": 1}}), "/policyServer/maxUnavailable"),
        (json!({"podDisruptionBudget": {"minAvailable": 1}}), "/podDisruptionBudget/maxUnavailable"),
        (json!({"sidecar": {"extraArgs": ["--lease-name=other"]}}), "/sidecar/extraArgs/0"),
        (json!({"sidecar": {"adminAddress": "::8080"}}), "/sidecar/adminAddress"),
        (json!({"sidecar": {"adminAddress": "[::]:80"}}), "/sidecar/adminAddress"),
        (json!({"podSecurityContext": {"runAsUser": 0}}), "/podSecurityContext/runAsUser"),
        (json!({"podSecurityContext": {"runAsNonRoot": false}}), "/podSecurityContext/runAsNonRoot"),
        (json!({"networkPolicy": {"dnsPorts": []}}), "/networkPolicy/dnsPorts"),
        (json!({"commonLabels": {"team": 1}}), "/commonLabels/team"),
        (json!({"openShift": true}), "/openShift"),
        (json!({"global": {"imageRegistry": "https://mirror.example"}}), "/global/imageRegistry"),
    ];
    for (values, field) in cases {
        let error = render_with("combination", &values).expect_err(&format!("{values} is accepted"));
        assert!(format!("{error:#}").contains(field), "{values}: {error:#}");
    }
}
