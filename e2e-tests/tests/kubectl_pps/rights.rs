//! The Role in docs/kubectl-pps.md is enough for every command, and has nothing that none of them
//! uses.

use std::collections::BTreeSet;

use kube::api::DeleteParams;
use pps_e2e::{
    cluster::Cluster,
    plugin::{Answer, Plugin},
    repository::repository_file,
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::answers::make_pending;
use crate::behaviour::permissions::{of_role, requests_of};
use crate::support::{Pool, TIMEOUT, ZONE, required, wait_for_review};

pub(super) const USER: &str = "plugin-user";
const NAMESPACE: &str = "rights";

/// The Role of the document.
fn role() -> Value {
    let text = std::fs::read_to_string(repository_file("docs/kubectl-pps.md")).unwrap();
    let block = text
        .split("```yaml\n")
        .skip(1)
        .find(|block| block.contains("kind: Role\n"))
        .unwrap();
    let mut role: Value = yaml_serde::from_str(block.split("```").next().unwrap()).unwrap();
    role["metadata"]["namespace"] = json!(NAMESPACE);
    role
}

/// Nodes are of the cluster: a Role cannot let anybody read them, and without them a simulation has
/// no answer.
const NODES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: plugin-nodes}
rules: [{apiGroups: [''], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plugin-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plugin-nodes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: plugin-user}]
";

pub(super) async fn the_documented_role_is_what_the_commands_use(cluster: &Cluster) {
    let pool = Pool::new(cluster, NAMESPACE, 2, 1).await;
    pool.object("web", &required("web", &[ZONE])).await;
    cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    cluster
        .run_stateful_set(&pool.stateful_set("free", 1))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "plugin", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kubectl-pps"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]});
    cluster.apply_objects(&[role(), binding]).await.unwrap();
    cluster.apply(NODES).await.unwrap();
    wait_for_review(
        cluster,
        USER,
        &json!({"verb": "list", "resource": "pods", "namespace": NAMESPACE}),
        true,
    )
    .await;
    wait_for_review(
        cluster,
        USER,
        &json!({"verb": "list", "resource": "nodes"}),
        true,
    )
    .await;

    let folder = Scratch::folder("rights").unwrap();
    let backup = folder.path().join("backup.yaml");
    let backup = backup.to_str().unwrap();
    let plugin = Plugin::new(cluster.control_plane.kubeconfig_for(USER).unwrap());
    let run = async |args: &[&str], codes: &[i32]| {
        let answer = plugin
            .run(&[args, &["-n", NAMESPACE]].concat())
            .await
            .unwrap();
        assert!(codes.contains(&answer.exit_code), "{args:?}: {answer:?}");
        assert_no_right_is_missing(args, &answer);
    };
    run(&["status"], &[0]).await;
    run(&["explain", "web-0"], &[0]).await;
    run(&["simulate", "--drain", "rights-0"], &[0, 1]).await;
    run(&["export", "-f", backup], &[0]).await;
    run(&["move", "web-0", "--anywhere", "--yes"], &[0]).await;
    // No node can take a Pod: one that has none is moved.
    for node in ["rights-0", "rights-1"] {
        cluster.nodes.cordon(node).await.unwrap();
    }
    make_pending(&pool, "web", "web-0").await;
    let args = [
        "move",
        "web-0",
        "--anywhere",
        "--any",
        "zone",
        "--yes",
        "--force",
        "--timeout",
        "5s",
    ];
    run(&args, &[0, 1]).await;
    run(&["import", backup, "--overwrite", "--yes"], &[0]).await;
    run(&["forget", "web-0", "--yes"], &[0]).await;
    cluster
        .pps_api(NAMESPACE)
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    run(&["import", backup, "--yes"], &[0, 1]).await;
    run(&["explain", "free-7"], &[0, 1, 2]).await;
    cluster.nodes.uncordon("rights-0").await.unwrap();
    cluster.nodes.uncordon("rights-1").await.unwrap();
    assert_used_as_granted(cluster).await;
}

/// Nothing of the namespace may be missing. What is of the cluster is said, and left out.
fn assert_no_right_is_missing(args: &[&str], answer: &Answer) {
    for text in [&answer.stdout, &answer.stderr] {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for missing in words.split("no permission to ").skip(1) {
            let is_of_cluster = !missing
                .split([':', ','])
                .next()
                .unwrap_or_default()
                .contains("in namespace");
            assert!(is_of_cluster, "{args:?}: {answer:?}");
        }
    }
}

async fn assert_used_as_granted(cluster: &Cluster) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let granted: BTreeSet<_> = of_role(&role())
        .into_iter()
        .map(|(permission, _)| permission)
        .collect();
    // The audit log is written with a delay.
    wait_for(
        "the audit log to have all rights of the Role",
        TIMEOUT,
        async || {
            let events = requests_of(cluster, USER).into_iter();
            let used: BTreeSet<_> = events
                .filter(|event| event["objectRef"]["namespace"] == NAMESPACE)
                .filter(|event| event["annotations"]["authorization.k8s.io/decision"] == "allow")
                .map(|event| {
                    let object = &event["objectRef"];
                    let resource = match object["subresource"].as_str() {
                        Some(subresource) => format!("{}/{subresource}", text(&object["resource"])),
                        None => text(&object["resource"]),
                    };
                    (text(&object["apiGroup"]), resource, text(&event["verb"]))
                })
                .collect();
            // OpenKruise's StatefulSets are not installed here; they need the same as those of
            // Kubernetes.
            let is_here = |permission: &&(String, String, String)| {
                !(permission.0 == "apps.kruise.io" && permission.1 == "statefulsets")
            };
            let idle: Vec<_> = granted.difference(&used).filter(is_here).cloned().collect();
            Ok(Progress::when(
                idle.is_empty(),
                (),
                format!("granted, but not used: {idle:?}"),
            ))
        },
    )
    .await
    .unwrap();
}
