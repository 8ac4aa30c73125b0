//! `explain`: why a Pod is where it is, and what the user can do. The commands that it names are carried out.

use kube::api::{Patch, PatchParams};
use pps_e2e::{
    cluster::Cluster,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::answers::{VIEWER, ask, ask_as, assert_exit, assert_says, let_view, make_pending, plugin, until};
use crate::support::{HOSTNAME, Pool, TIMEOUT, ZONE, homes, required};

/// A workload of one Pod that is recorded. Returns the Pod's node.
async fn recorded(pool: &Pool<'_>, keys: [&str; 2], template: &Value) -> String {
    let web = pool.stateful_set("web", 1).template(template).persistent(keys[0], keys[1], "");
    let pods = pool.cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    homes(&pods)["web-0"].clone()
}

/// The command of a remedy, as a user copies it.
async fn carry_out(pool: &Pool<'_>, command: &str) {
    let args: Vec<&str> = command.strip_prefix("kubectl ").unwrap().split(' ').collect();
    pool.cluster.control_plane.kubectl(&args).await.unwrap();
}

pub(super) async fn says_why_a_running_pod_is_where_it_is(cluster: &Cluster) {
    let pool = Pool::new(cluster, "running", 2, 2).await;
    let node = recorded(&pool, [HOSTNAME, ""], &json!({})).await;
    let answer = until(&pool, &["explain", "web-0"], 0, |_| true).await;
    assert_says(
        &answer,
        &[
            &format!("web-0 runs on {node}, where it is recorded."),
            "Nothing was injected when the Pod was created",
            &format!("it would come back to {node}"),
            "PersistentPodState web governs StatefulSet web.",
            "Recorded in status.podStates",
        ],
    );
    pool.recreate("web", &["web-0"]).await;
    let answer = until(&pool, &["explain", "web-0"], 0, |text| text.contains("where it is recorded")).await;
    assert_says(&answer, &[&format!("requires {HOSTNAME}={node}")]);

    cluster.run_stateful_set(&pool.stateful_set("free", 1)).await.unwrap();
    let answer = ask(&pool, &["explain", "free-0"]).await;
    assert_exit(&answer, 0);
    assert_says(&answer, &["No PersistentPodState governs StatefulSet free"]);
    let json = ask(&pool, &["explain", "web-0", "-o", "json"]).await.json().unwrap();
    assert_eq!((&json["kind"], &json["verdict"]), (&"Explanation".into(), &"Running".into()));
}

pub(super) async fn a_cordoned_node_is_named_and_uncordoned(cluster: &Cluster) {
    let pool = Pool::new(cluster, "explain-cordon", 3, 3).await;
    let node = recorded(&pool, [HOSTNAME, ""], &json!({})).await;
    cluster.nodes.cordon(&node).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = ask(&pool, &["explain", "web-0"]).await;
    assert_exit(&answer, 1);
    assert!(answer.stdout.starts_with("web-0 is Pending: its recorded state requires"), "{}", answer.stdout);
    assert_says(
        &answer,
        &[
            &format!("Only {node} has that: cordoned."),
            &format!("kubectl uncordon {node}"),
            "kubectl pps move web-0 --anywhere -n explain-cordon",
        ],
    );
    let narrow = plugin(cluster, "admin")
        .run_on_terminal(&["explain", "web-0", "-n", "explain-cordon"], 80, "")
        .await
        .unwrap();
    assert_exit(&narrow, 1);
    assert!(narrow.stdout.starts_with("\u{1b}[31mweb-0 is Pending"), "{:?}", narrow.stdout);
    carry_out(&pool, &format!("kubectl uncordon {node}")).await;
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], node);
}

pub(super) async fn a_full_node_is_named(cluster: &Cluster) {
    let pool = Pool::new(cluster, "explain-full", 2, 2).await;
    let large = json!({"spec": {"containers": [{"name": "main", "image": "example.invalid/main:1",
        "resources": {"requests": {"cpu": "700"}}}]}});
    let node = recorded(&pool, [HOSTNAME, ""], &large).await;
    cluster.nodes.cordon(&node).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    pool.load(&node).await;
    cluster.nodes.uncordon(&node).await.unwrap();
    let answer = until(&pool, &["explain", "web-0"], 1, |text| text.contains("Free capacity")).await;
    let command = "kubectl pps move web-0 --anywhere -n explain-full";
    assert_says(&answer, &["650 of 1000 cpu is free, the Pod requests 700", command]);

    // The second of two commands.
    let answer = ask(&pool, &["move", "web-0", "--anywhere", "--yes"]).await;
    assert_exit(&answer, 0);
    assert_ne!(homes(&pool.ready("web", 1).await)["web-0"], node);
}

pub(super) async fn a_tainted_node_is_named_and_untainted(cluster: &Cluster) {
    let pool = Pool::new(cluster, "explain-taint", 2, 2).await;
    let node = recorded(&pool, [HOSTNAME, ""], &json!({})).await;
    let taint =
        Patch::Merge(json!({"spec": {"taints": [{"key": "disk", "value": "bad", "effect": "NoSchedule"}]}}));
    cluster.nodes.api().patch(&node, &PatchParams::default(), &taint).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = ask(&pool, &["explain", "web-0"]).await;
    assert_exit(&answer, 1);
    let command = format!("kubectl taint nodes {node} disk:NoSchedule-");
    assert_says(&answer, &["the Pod does not tolerate the taint disk=bad:NoSchedule", &command]);
    carry_out(&pool, &command).await;
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], node);
}

pub(super) async fn a_volume_elsewhere_is_named(cluster: &Cluster) {
    let pool = Pool::new(cluster, "explain-volume", 2, 2).await;
    let selector =
        json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["explain-volume-1"]}]});
    let storage = json!({"storage": "1Gi"});
    cluster
        .apply_objects(&[
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "explain-volume"}, "spec": {
                "capacity": storage, "accessModes": ["ReadWriteOnce"], "local": {"path": "/data"}, "storageClassName": "",
                "claimRef": {"namespace": "explain-volume", "name": "data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [selector]}}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "explain-volume"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "explain-volume",
                    "resources": {"requests": storage}}}),
        ])
        .await
        .unwrap();
    let volume =
        json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let node = recorded(&pool, ["", HOSTNAME], &volume).await;
    assert_eq!(node, "explain-volume-1");
    cluster.nodes.cordon(&node).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = until(&pool, &["explain", "web-0"], 1, |text| text.contains("uncordon")).await;
    assert_says(
        &answer,
        &[
            "the volume of the Pod's claim data requires kubernetes.io/hostname explain-volume-1",
            "kubectl uncordon explain-volume-1",
        ],
    );
    assert!(!answer.stdout.contains("kubectl pps move"), "it would not help: {}", answer.stdout);
}

pub(super) async fn a_namespace_users_rights_tell_the_pin(cluster: &Cluster) {
    let pool = Pool::new(cluster, "explain-viewer", 2, 2).await;
    let node = recorded(&pool, [HOSTNAME, ""], &json!({})).await;
    let_view(&pool).await;
    let answer = ask_as(&pool, VIEWER, &["explain", "web-0"]).await;
    assert_exit(&answer, 0);
    assert_says(
        &answer,
        &[&format!("web-0 runs on {node}, where it is recorded"), "you have no permission to list nodes"],
    );
    let answer = ask_as(&pool, VIEWER, &["explain", "wbe-0"]).await;
    assert_exit(&answer, 2);
    let refused = "there is no Pod wbe-0 in namespace explain-viewer, and no workload wants one";
    assert!(answer.stderr.contains(refused), "{}", answer.stderr);
    assert!(answer.stderr.contains("similar names: web-0"), "{}", answer.stderr);

    cluster.nodes.cordon(&node).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = ask_as(&pool, VIEWER, &["explain", "web-0"]).await;
    assert_exit(&answer, 1);
    assert_says(
        &answer,
        &[
            &format!("web-0 is Pending: its recorded state requires {HOSTNAME}={node}."),
            "The scheduler says: ",
            "you have no permission to list nodes, so it is not known which nodes there are",
        ],
    );
}

/// A webhook that nobody answers refuses each Pod of the namespace.
pub(super) async fn a_refused_pod_is_explained(cluster: &Cluster) {
    let pool = Pool::new(cluster, "refused", 1, 1).await;
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "refused"}, "webhooks": [{"name": "clusterwide-persistent-pod-state.kubewarden.admission", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 1,
            "namespaceSelector": {"matchLabels": {"refuses": "pods"}, "matchExpressions":
                [{"key": "persistent-pod-state/injection", "operator": "NotIn", "values": ["disabled"]}]},
            "clientConfig": {"url": "https://127.0.0.1:9/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]});
    let labelled = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "refused", "labels": {"refuses": "pods"}}});
    cluster.apply_objects(&[labelled, webhook]).await.unwrap();
    pool.object("web", &required("web", &[ZONE])).await;
    wait_for("the webhook to refuse a Pod", TIMEOUT, async || {
        let pod =
            serde_json::from_value(json!({"metadata": {"generateName": "probe-"}, "spec": {"containers":
            [{"name": "main", "image": "i"}]}}))?;
        let params = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
        let refused = cluster.pods_api("refused").create(&params, &pod).await.is_err();
        Ok(Progress::when(refused, (), "it is accepted"))
    })
    .await
    .unwrap();
    cluster.create_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    let answer = until(&pool, &["explain", "web-0"], 1, |text| text.contains("is refused")).await;
    assert_says(
        &answer,
        &["web-0 does not exist: its creation is refused.", "kubewarden.admission", "kubectl pps check"],
    );
    let answer = ask(&pool, &["status"]).await;
    assert_exit(&answer, 1);
    assert_says(&answer, &["web-0 Missing", "kubectl pps explain web-0"]);
    carry_out(&pool, "kubectl label namespace refused persistent-pod-state/injection=disabled --overwrite")
        .await;
    pool.ready("web", 1).await;
}
