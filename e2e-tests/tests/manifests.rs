//! kustomize renders all of `deploy/`. That a real API server takes the result unchanged is in
//! `gitops.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use pps_e2e::{
    cluster::Cluster,
    kubewarden::install_definitions,
    manifests::render::{files_below, kustomizations, render_kustomize},
    repository::repository_file,
    scratch::Scratch,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support;

/// The bindings of the role that reads PersistentPodStates: the PolicyServer's name and its
/// ServiceAccount.
fn policy_server_accounts(objects: &[Value]) -> BTreeMap<String, Value> {
    let bindings = objects.iter().filter(|object| {
        object["kind"] == "ClusterRoleBinding" && object["roleRef"]["name"] == "pps-policy"
    });
    let server = |binding: &Value| {
        let name = binding["metadata"]["name"].as_str().unwrap();
        (
            name.strip_prefix("pps-policy-").unwrap().to_owned(),
            binding["subjects"].clone(),
        )
    };
    bindings.map(server).collect()
}

#[test]
fn exactly_the_policy_server_of_the_policies_has_the_role() {
    for folder in kustomizations().unwrap() {
        let objects = render_kustomize(&folder).unwrap();
        let of_kind =
            |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let used: BTreeSet<&str> = of_kind("ClusterAdmissionPolicy")
            .map(|policy| policy["spec"]["policyServer"].as_str().unwrap())
            .collect();
        let shared = folder.ends_with("/shared-policy-server");
        let (server, account) = if shared {
            ("default", "policy-server")
        } else {
            ("persistent-pod-state", "policy-server-persistent-pod-state")
        };
        assert_eq!(used, BTreeSet::from([server]), "{folder}");
        let subjects =
            json!([{"kind": "ServiceAccount", "name": account, "namespace": "kubewarden"}]);
        let bound = policy_server_accounts(&objects);
        assert_eq!(
            bound,
            BTreeMap::from([(server.to_owned(), subjects)]),
            "{folder}"
        );
        let created: Vec<_> = of_kind("PolicyServer")
            .map(|one| &one["spec"]["serviceAccountName"])
            .collect();
        assert_eq!(
            created,
            if shared { vec![] } else { vec![account] },
            "{folder}"
        );
    }
}

/// A copy of `deploy`, to edit.
fn copy_of_deploy() -> Scratch {
    let scratch = Scratch::path_for("deploy");
    let deploy = repository_file("deploy");
    for file in files_below(&deploy).unwrap() {
        let target = scratch.path().join(file.strip_prefix(&deploy).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
    scratch
}

#[test]
fn one_file_names_kubewardens_namespace_and_image() {
    let copy = copy_of_deploy();
    let file = copy.path().join("base/kubewarden.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("namespace: kubewarden", "namespace: elsewhere")
            .replace("ghcr.io/kubewarden", "mirror.example"),
    )
    .unwrap();
    for folder in kustomizations().unwrap() {
        let below = folder
            .strip_prefix("deploy")
            .unwrap()
            .trim_start_matches('/');
        let objects = render_kustomize(copy.path().join(below).to_str().unwrap()).unwrap();
        let mut namespaces = BTreeSet::new();
        for object in &objects {
            if object["kind"] == "PolicyServer" {
                let image = object["spec"]["image"].as_str().unwrap();
                assert!(image.starts_with("mirror.example/"), "{folder}: {image}");
            }
            let subjects = object["subjects"].as_array().into_iter().flatten();
            let named = subjects.map(|subject| &subject["namespace"]);
            namespaces.extend(
                named
                    .chain([&object["metadata"]["namespace"]])
                    .filter_map(Value::as_str),
            );
        }
        assert_eq!(
            namespaces,
            BTreeSet::from(["elsewhere", NAMESPACE]),
            "{folder}"
        );
    }
}

/// `gitops.rs` asks an API server that enforces the profile. It does not look at the root file
/// system.
#[test]
fn the_namespace_asks_for_the_restricted_profile_and_the_root_file_system_is_read_only() {
    for folder in kustomizations().unwrap() {
        let objects = render_kustomize(&folder).unwrap();
        let of_kind = |kind: &str| {
            objects
                .iter()
                .find(|object| object["kind"] == kind)
                .unwrap()
        };
        let namespace = &of_kind("Namespace")["metadata"];
        assert_eq!(
            namespace["labels"]["pod-security.kubernetes.io/enforce"],
            "restricted"
        );
        let deployment = of_kind("Deployment");
        assert_eq!(deployment["metadata"]["namespace"], namespace["name"]);
        let pod = &deployment["spec"]["template"]["spec"];
        for container in pod["containers"].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["readOnlyRootFilesystem"], true, "{folder}");
        }
    }
}

#[tokio::test]
async fn a_cluster_takes_the_manifests_and_keeps_states_without_them() {
    let fair = "--enable-priority-and-fairness=true".to_owned();
    let cluster = Cluster::builder().control_plane(|options| options.api_server_flags.push(fair));
    let cluster = cluster.start().await.unwrap();
    support::run_in_turn(scenarios![&cluster;
        leases_writes_and_lookups_are_kept_apart_from_other_requests,
        removing_the_product_keeps_the_recorded_states,
    ])
    .await
    .unwrap();
}

/// Follows requests of the sidecar and of the policies through API priority and fairness. A flood
/// of other accounts, or a large list, must not delay Leases, writes and lookups.
async fn leases_writes_and_lookups_are_kept_apart_from_other_requests(cluster: &Cluster) {
    let objects = render_kustomize("deploy").unwrap();
    let schemas: Vec<Value> = objects
        .into_iter()
        .filter(|object| object["kind"] == "FlowSchema")
        .collect();
    let applied = cluster.apply_objects(&schemas).await.unwrap();
    let schema = |name: &str| {
        let found = applied
            .iter()
            .find(|schema| schema.metadata.name.as_deref() == Some(name));
        found
            .unwrap_or_else(|| panic!("no FlowSchema {name}"))
            .metadata
            .uid
            .clone()
    };
    let (leases, states) = (schema("pps-sidecar-leader-election"), schema("pps-states"));
    let schema_of =
        async |method: &str, namespace: &str, account: &str, path: &str| -> Option<String> {
            let request = hyper::Request::builder()
                .method(method)
                .uri(path)
                .header(
                    "Impersonate-User",
                    format!("system:serviceaccount:{namespace}:{account}"),
                )
                .header("Impersonate-Group", "system:serviceaccounts")
                .header(
                    "Impersonate-Group",
                    format!("system:serviceaccounts:{namespace}"),
                )
                .header("Impersonate-Group", "system:authenticated")
                .body(kube::client::Body::empty())
                .unwrap();
            let answer = cluster.client().send(request).await.unwrap();
            Some(
                answer
                    .headers()
                    .get("X-Kubernetes-PF-FlowSchema-UID")?
                    .to_str()
                    .unwrap()
                    .to_owned(),
            )
        };
    let sidecar = (NAMESPACE, "pps-sidecar");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/pps-sidecar");
    let object = "/apis/apps.kruise.io/v1alpha1/namespaces/shop/persistentpodstates/web";
    let status = format!("{object}/status");
    let policy_servers = [
        ("kubewarden", "policy-server-persistent-pod-state"),
        ("kubewarden", "policy-server"),
    ];
    let expected = [
        ("GET", sidecar, &*lease, Some(&leases)),
        ("PATCH", sidecar, &*status, Some(&states)),
        (
            "POST",
            sidecar,
            "/api/v1/namespaces/shop/pods/web-0/eviction",
            Some(&states),
        ),
        ("GET", sidecar, "/api/v1/nodes/node-1", Some(&states)),
        ("GET", policy_servers[0], object, Some(&states)),
        ("GET", policy_servers[1], object, Some(&states)),
        (
            "GET",
            policy_servers[0],
            "/apis/apps.kruise.io/v1alpha1",
            Some(&states),
        ),
        ("GET", sidecar, "/api/v1/pods", None),
        ("GET", policy_servers[0], "/api/v1/pods", None),
        ("GET", ("shop", "default"), object, None),
    ];
    for (method, (namespace, account), path, expected) in expected {
        wait_for(
            &format!("the schema of {method} {path} by {account}"),
            Duration::from_mins(2),
            async || {
                let found = schema_of(method, namespace, account, path).await;
                let is_right = match expected {
                    Some(expected) => found == *expected,
                    None => found != leases && found != states,
                };
                Ok(Progress::when(is_right, (), format!("{found:?}")))
            },
        )
        .await
        .unwrap();
    }
}

/// The kubelet may always connect; nobody else may unless it is named.
#[test]
fn only_the_monitoring_overlay_opens_the_admin_port() {
    let ingress = |folder: &str| {
        let objects = render_kustomize(folder).unwrap();
        let policy = objects
            .into_iter()
            .find(|object| object["kind"] == "NetworkPolicy")
            .unwrap();
        policy["spec"]["ingress"].clone()
    };
    for folder in kustomizations().unwrap() {
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}});
        let rule = json!({"from": [{"namespaceSelector": selector}], "ports": [{"port": "admin", "protocol": "TCP"}]});
        let expected = if folder.ends_with("/monitoring") {
            json!([rule])
        } else {
            Value::Null
        };
        assert_eq!(ingress(&folder), expected, "{folder}");
    }
}

/// The example in deploy/README.md, with the folders of this checkout instead of remote ones.
#[test]
fn example_kustomization_of_the_readme_works() {
    let text = fs::read_to_string(repository_file("deploy/README.md")).unwrap();
    let example = text
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let example = example.replace(
        "https://git.example.com/pps/persistent-pod-state-policy//deploy",
        "..",
    );
    let example: Vec<&str> = example
        .lines()
        .map(|line| line.split("?ref=").next().unwrap())
        .collect();
    let scratch = copy_of_deploy();
    let copy = scratch.path();
    fs::create_dir_all(copy.join("mine")).unwrap();
    fs::write(copy.join("mine/kustomization.yaml"), example.join("\n")).unwrap();
    let objects = render_kustomize(copy.join("mine").to_str().unwrap()).unwrap();
    let spec = |kind: &str| {
        &objects
            .iter()
            .find(|object| object["kind"] == kind)
            .unwrap()["spec"]
    };
    let container = &spec("Deployment")["template"]["spec"]["containers"][0];
    assert!(
        container["image"]
            .as_str()
            .unwrap()
            .starts_with("registry.example/persistent-pod-state-sidecar:v")
    );
    assert_eq!(container["args"][1], "--node-grace-period=15m");
    let policy = spec("ClusterAdmissionPolicy");
    assert!(
        policy["module"]
            .as_str()
            .unwrap()
            .starts_with("registry://registry.example/")
    );
    assert_eq!(policy["settings"]["onLookupFailure"], "reject");
    assert_eq!(policy["policyServer"], "persistent-pod-state");
    assert!(spec("ServiceMonitor").is_object() && spec("PolicyServer").is_object());
}

/// Follows deploy/README.md.
async fn removing_the_product_keeps_the_recorded_states(cluster: &Cluster) {
    install_definitions(&cluster.client()).await.unwrap();
    let objects = render_kustomize("deploy").unwrap();
    cluster.apply_objects(&objects).await.unwrap();
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "web"}, "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "persistentPodAnnotations": [{"key": "example.io/ip"}]}});
    cluster.apply_objects(&[object]).await.unwrap();

    let manifests = cluster.control_plane.folder().join("manifests.json");
    fs::write(
        &manifests,
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )
    .unwrap();
    let selector = "app.kubernetes.io/name=persistent-pod-state";
    let file = manifests.to_str().unwrap();
    let kubectl =
        async |arguments: &[&str]| cluster.control_plane.kubectl(arguments).await.unwrap();
    let said = kubectl(&["delete", "-f", file, "--selector", selector, "--wait=false"]).await;
    assert_eq!(said.lines().count(), objects.len() - 1, "{said}");
    assert!(
        said.contains("clusteradmissionpolicy") && !said.contains("customresourcedefinition"),
        "{said}"
    );
    assert!(
        kubectl(&["get", "pps", "web", "--output=name"])
            .await
            .contains("web")
    );
}
