//! The commands that only read: `status` and `explain`, on one cluster.

use pps_e2e::{
    cluster::Cluster,
    plugin::{Answer, Plugin},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{explain, status};
use crate::support::{Pool, Scenario, TIMEOUT, list, wait_for_review};

/// A user who may read the objects of one namespace, and nothing else.
pub(super) const VIEWER: &str = "viewer";

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        status::shows_where_pods_are_and_what_is_wrong,
        status::a_namespace_that_does_not_exist_is_not_called_empty,
        status::a_namespace_users_rights_are_enough_but_for_nodes,
        explain::says_why_a_running_pod_is_where_it_is,
        explain::what_a_node_needs_is_named_and_done,
    ]
}

pub(super) async fn nothing_is_known_without_a_definition(cluster: &Cluster) {
    let args = [
        "delete",
        "crd",
        "persistentpodstates.apps.kruise.io",
        "--wait",
    ];
    cluster.control_plane.kubectl(&args).await.unwrap();
    for args in [
        &["status"][..],
        &["status", "-A"],
        &["explain", "db-0"],
        &["forget", "web-0", "--yes"],
        &["move", "web-0", "--anywhere", "--yes"],
    ] {
        let answer = plugin(cluster, "admin").run(args).await.unwrap();
        assert_eq!(answer.exit_code, 2, "{args:?}: {answer:?}");
        assert!(
            answer
                .stderr
                .contains("no definition of PersistentPodState"),
            "{args:?}: {answer:?}"
        );
        assert!(
            answer.stderr.contains("kubectl pps check"),
            "{args:?}: {answer:?}"
        );
    }
}

pub(super) fn plugin(cluster: &Cluster, user: &str) -> Plugin {
    Plugin::new(cluster.control_plane.kubeconfig_for(user).unwrap())
}

/// Runs a command in the namespace of a scenario.
pub(super) async fn ask(pool: &Pool<'_>, args: &[&str]) -> Answer {
    ask_as(pool, "admin", args).await
}

pub(super) async fn ask_as(pool: &Pool<'_>, user: &str, args: &[&str]) -> Answer {
    let args = [args, &["-n", pool.namespace]].concat();
    plugin(pool.cluster, user).run(&args).await.unwrap()
}

/// Waits until a command answers with this exit code, and that `holds`.
pub(super) async fn until(
    pool: &Pool<'_>,
    args: &[&str],
    code: i32,
    holds: impl Fn(&str) -> bool,
) -> Answer {
    wait_for(
        &format!("kubectl pps {args:?} to end with {code}"),
        TIMEOUT,
        async || {
            let answer = ask(pool, args).await;
            let is_meant = answer.exit_code == code && holds(&answer.stdout);
            Ok(Progress::when(
                is_meant,
                answer.clone(),
                format!("{}\n{}", answer.stdout, answer.stderr),
            ))
        },
    )
    .await
    .unwrap()
}

pub(super) fn assert_exit(answer: &Answer, code: i32) {
    assert_eq!(
        answer.exit_code, code,
        "{}\n{}",
        answer.stdout, answer.stderr
    );
}

pub(super) fn assert_says(answer: &Answer, words: &[&str]) {
    // Lines are broken anywhere.
    let text = answer
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for word in words {
        assert!(
            text.contains(word),
            "{word:?} is not in\n{}\n{}",
            answer.stdout,
            answer.stderr
        );
    }
}

/// Deletes a Pod and waits until the scheduler finds no node for the next one.
pub(super) async fn make_pending(pool: &Pool<'_>, workload: &str, pod: &str) {
    let before = pool
        .cluster
        .delete_pods(pool.namespace, workload, &[pod])
        .await
        .unwrap();
    wait_for(&format!("{pod} to be Pending"), TIMEOUT, async || {
        let Some(now) = pool.cluster.pods_api(pool.namespace).get_opt(pod).await? else {
            return Ok(Progress::when(false, (), "it does not exist"));
        };
        let status = serde_json::to_value(&now.status)?;
        let is_left = list(&status["conditions"]).any(|one| one["reason"] == "Unschedulable");
        let is_new = now.metadata.uid.as_ref() != Some(&before[pod].uid);
        Ok(Progress::when(is_new && is_left, (), status))
    })
    .await
    .unwrap();
}

/// Lets the viewer read the objects of a namespace.
pub(super) async fn let_view(pool: &Pool<'_>) {
    let namespace = pool.namespace;
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list"]},
        // The cluster has no StatefulSets of OpenKruise.
        {"apiGroups": ["apps.kruise.io"], "resources": ["persistentpodstates"], "verbs": ["get", "list"]},
    ]);
    let objects: [Value; 2] = [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": VIEWER, "namespace": namespace}, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": VIEWER, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": VIEWER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER}]}),
    ];
    pool.cluster.apply_objects(&objects).await.unwrap();
    let attributes = json!({"resource": "pods", "verb": "list", "namespace": namespace});
    wait_for_review(pool.cluster, VIEWER, &attributes, true).await;
}
