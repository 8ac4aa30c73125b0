//! Manifests and values for what was pushed, as `make manifests` and `make chart-values` print
//! them.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Output},
};

use pps_e2e::{
    manifests::{
        parse,
        render::{render_chart, render_kustomize},
    },
    registry::{
        Publisher, Registry, RegistryOptions,
        foreign::{NATIVE, stand_in},
    },
    repository::repository_file,
    supervisor::Supervisor,
};
use serde_json::{Value, json};

use super::{VERSION, start};

fn script(registry: &Registry, args: &[&str], overlay: &str) -> Output {
    let publisher = Publisher::to(registry);
    let mut command = Command::new(repository_file("hack/manifests.sh"));
    command
        .args(args)
        .args(&publisher.access)
        .env("DOCKER_CONFIG", &publisher.docker_config);
    command.env("OVERLAY", overlay).output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn assert_refused(output: &Output, sentence: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(sentence),
        "{said}"
    );
    assert!(output.stdout.is_empty());
}

/// Pushes both parts; returns their references.
async fn push(supervisor: &Supervisor, registry: &Registry) -> (String, String) {
    let program = stand_in(supervisor.folder(), NATIVE).unwrap();
    let publisher = Publisher::to(registry).with("PPS_STATIC_SIDECAR", program);
    let path = format!("{}/a", registry.host());
    let policy = publisher.policy(&path).await.unwrap();
    (policy, publisher.image(&path).await.unwrap())
}

/// Replaces the module of each policy and the image of each of the sidecar's containers; returns
/// how many.
fn replace(objects: &mut [Value], policy: &str, image: &str) -> (usize, usize) {
    let (mut policies, mut containers) = (0, 0);
    for object in objects {
        if object["kind"] == "ClusterAdmissionPolicy" {
            object["spec"]["module"] = json!(format!("registry://{policy}"));
            policies += 1;
        }
        let list = object
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut);
        for container in list.into_iter().flatten() {
            container["image"] = json!(image);
            containers += 1;
        }
    }
    (policies, containers)
}

#[tokio::test]
async fn manifests_name_what_was_pushed_and_are_otherwise_those_of_deploy() {
    let (supervisor, registry) = start(RegistryOptions::default()).await;
    let (policy, image) = push(&supervisor, &registry).await;
    let source = format!("{}/a", registry.host());
    let overlays = fs::read_dir(repository_file("deploy/overlays")).unwrap();
    let mut overlays: BTreeSet<String> = overlays
        .map(|overlay| overlay.unwrap().file_name().into_string().unwrap())
        .collect();
    overlays.insert(String::new());
    for overlay in &overlays {
        let rendered = parse(&printed(&script(&registry, &[&source], overlay))).unwrap();
        let folder = if overlay.is_empty() {
            "deploy".to_owned()
        } else {
            format!("deploy/overlays/{overlay}")
        };
        let mut expected = render_kustomize(&folder).unwrap();
        let (policies, containers) = replace(&mut expected, &policy, &image);
        assert!(policies >= 1 && containers >= 1, "{folder}");
        for server in expected
            .iter_mut()
            .filter(|object| object["kind"] == "PolicyServer")
        {
            server["spec"]["insecureSources"] = json!([registry.host()]);
        }
        assert_eq!(rendered, expected, "{folder}");
    }
    assert!(overlays.len() > 3, "{overlays:?}");

    assert_refused(
        &script(&registry, &[&source], "none"),
        "OVERLAY is none: use one of ",
    );
    assert_refused(
        &script(&registry, &[], ""),
        "no registry given: add REGISTRY=",
    );
    let elsewhere = format!("{}/b", registry.host());
    let sentence = format!(
        "{elsewhere}/policies/persistent-pod-state:v{VERSION}: it is not there: push it first"
    );
    assert_refused(&script(&registry, &[&elsewhere], ""), &sentence);
}

#[tokio::test]
async fn chart_values_name_what_was_pushed() {
    let (supervisor, registry) = start(super::with_password()).await;
    let (policy, image) = push(&supervisor, &registry).await;
    let source = format!("{}/a", registry.host());
    let values = supervisor.folder().join("values.yaml");
    fs::write(
        &values,
        printed(&script(&registry, &["--values", &source], "")),
    )
    .unwrap();
    let template = || render_chart("pps", "persistent-pod-state", Some(&values)).unwrap();
    let rendered = template();
    let mut expected = rendered.clone();
    let (policies, containers) = replace(&mut expected, &policy, &image);
    assert!(policies >= 1 && containers >= 1);
    assert_eq!(rendered, expected);
    let server = rendered
        .iter()
        .find(|object| object["kind"] == "PolicyServer")
        .unwrap();
    let authority = fs::read_to_string(registry.ca().unwrap()).unwrap();
    assert_eq!(
        server["spec"]["sourceAuthorities"],
        json!({registry.host(): [authority]})
    );

    // Where only the repositories are set, the version is the tag.
    let repositories = json!({
        "image": {"repository": format!("{source}/persistent-pod-state-sidecar")},
        "policy": {"module": {"repository": format!("{source}/policies/persistent-pod-state")}},
    });
    fs::write(&values, repositories.to_string()).unwrap();
    let mut rendered = template();
    let before = rendered.clone();
    replace(
        &mut rendered,
        &format!("{source}/policies/persistent-pod-state:v{VERSION}"),
        &format!("{source}/persistent-pod-state-sidecar:v{VERSION}"),
    );
    assert_eq!(rendered, before);
}
