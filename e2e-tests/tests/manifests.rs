//! What kustomize makes of `deploy/`: all of it, and a real API server takes it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

use std::{collections::BTreeSet, path::PathBuf};

use pps_e2e::{
    cluster::{Cluster, repository_file},
    kubewarden::{install_definitions, permissive_definition},
    manifest_tools::{as_served, files_below, kustomizations, name_of, render_kustomize},
    manifests,
};
use serde_json::Value;

#[test]
fn every_kustomization_builds() {
    let folders = kustomizations().unwrap();
    assert!(folders.contains(&"deploy".to_owned()) && folders.len() > 5, "{folders:?}");
    for folder in folders {
        let objects = render_kustomize(&folder).unwrap();
        let names: BTreeSet<String> = objects.iter().map(name_of).collect();
        assert!(names.len() == objects.len() && names.len() > 10, "{folder}: {names:?}");
    }
}

#[test]
fn every_file_is_part_of_a_kustomization() {
    let mut named = BTreeSet::new();
    let files: BTreeSet<PathBuf> = files_below(&repository_file("deploy")).unwrap().into_iter().collect();
    for file in files.iter().filter(|file| file.ends_with("kustomization.yaml")) {
        let folder = file.parent().unwrap();
        let kustomization = manifests::read(file).unwrap().remove(0);
        let resources = ["resources", "components"].map(|field| &kustomization[field]);
        let generated = kustomization["configMapGenerator"].as_array().into_iter().flatten();
        let generated = generated.map(|generator| &generator["files"]);
        for path in
            resources.into_iter().chain(generated).flat_map(|list| list.as_array().into_iter().flatten())
        {
            let path = path.as_str().unwrap();
            let path = folder.join(path.split_once('=').map_or(path, |(_, file)| file));
            let path = if path.is_dir() { path.join("kustomization.yaml") } else { path };
            named.insert(path.canonicalize().unwrap());
        }
    }
    let root = repository_file("deploy");
    for file in files {
        let file = file.canonicalize().unwrap();
        let name = file.strip_prefix(root.canonicalize().unwrap()).unwrap().to_str().unwrap();
        // What is applied itself.
        let applied = name == "kustomization.yaml" || name.starts_with("overlays/");
        assert!(applied || name == "README.md" || named.contains(&file), "nothing uses deploy/{name}");
    }
}

#[tokio::test]
async fn a_real_api_server_takes_every_kustomization() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    install_definitions(&cluster).await.unwrap();
    let group = "monitoring.coreos.com";
    let definitions = [("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")]
        .map(|(kind, plural)| permissive_definition(group, "v1", kind, plural, "Namespaced"));
    manifests::apply(&cluster.client(), &definitions).await.unwrap();
    for folder in kustomizations().unwrap() {
        let objects = as_served(render_kustomize(&folder).unwrap(), cluster.control_plane.version());
        let applied = cluster.apply_objects(&objects).await;
        let applied = applied.unwrap_or_else(|error| panic!("{folder}: {error:#}"));
        for (object, applied) in objects.iter().zip(applied) {
            // Nothing was dropped: what is unknown would be.
            for (field, value) in object.as_object().unwrap() {
                if !["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
                    let path = format!("{folder}: {}: {field}", name_of(object));
                    assert_contains(&applied.data[field], value, &path);
                }
            }
        }
    }
}

/// Whether everything that was sent is stored; the API server adds defaults.
fn assert_contains(stored: &Value, sent: &Value, path: &str) {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => {
            for (field, value) in sent {
                let path = format!("{path}.{field}");
                assert_contains(stored.get(field).unwrap_or_else(|| panic!("{path} is gone")), value, &path);
            }
        }
        (Value::Array(stored), Value::Array(sent)) => {
            assert_eq!(stored.len(), sent.len(), "{path}");
            for (index, (stored, sent)) in stored.iter().zip(sent).enumerate() {
                assert_contains(stored, sent, &format!("{path}[{index}]"));
            }
        }
        (stored, sent) => assert_eq!(stored, sent, "{path}"),
    }
}
