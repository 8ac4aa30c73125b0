//! `explain`: why a Pod is where it is, and what the user can do. The commands that it names are
//! carried out.

use kube::api::{Patch, PatchParams};
use pps_e2e::{
    cluster::Cluster,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::answers::{ask, assert_exit, assert_says, make_pending, plugin, until};
use crate::support::{HOSTNAME, Pool, TIMEOUT, ZONE, homes, required};

/// A workload of one Pod that is recorded. Returns the Pod's node.
async fn recorded(pool: &Pool<'_>) -> String {
    let web = pool.stateful_set("web", 1).persistent(HOSTNAME, "", "");
    let pods = pool.cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    homes(&pods)["web-0"].clone()
}

/// The command of a remedy, as a user copies it.
async fn carry_out(pool: &Pool<'_>, command: &str) {
    let args: Vec<&str> = command
        .strip_prefix("kubectl ")
        .unwrap()
        .split(' ')
        .collect();
    pool.cluster.control_plane.kubectl(&args).await.unwrap();
}

pub(super) async fn says_why_a_running_pod_is_where_it_is(cluster: &Cluster) {
    let pool = Pool::new(cluster, "running", 2, 2).await;
    let node = recorded(&pool).await;
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
    let answer = until(&pool, &["explain", "web-0"], 0, |text| {
        text.contains("where it is recorded")
    })
    .await;
    assert_says(&answer, &[&format!("requires {HOSTNAME}={node}")]);

    // Only its volume keeps this one.
    cluster
        .apply_objects(&volume_on("running-1"))
        .await
        .unwrap();
    let data = json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    cluster
        .run_stateful_set(&pool.stateful_set("free", 1).template(&data))
        .await
        .unwrap();
    let answer = until(&pool, &["explain", "free-0"], 0, |text| {
        text.contains("the only")
    })
    .await;
    assert_says(
        &answer,
        &[
            "it would come back to running-1, the only node that could take it",
            "No PersistentPodState governs StatefulSet free",
        ],
    );
    let json = ask(&pool, &["explain", "web-0", "-o", "json"])
        .await
        .json()
        .unwrap();
    assert_eq!(
        (&json["kind"], &json["verdict"]),
        (&"Explanation".into(), &"Running".into())
    );
}

/// A volume on a node, and the claim `data` that is bound to it: nothing waits until a controller
/// binds them.
fn volume_on(node: &str) -> [Value; 2] {
    let selector =
        json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]});
    let storage = json!({"storage": "1Gi"});
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "running"},
            "spec": {"capacity": storage, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [selector]}}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "running",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "running",
                "resources": {"requests": storage}}}),
    ]
}

pub(super) async fn what_a_node_needs_is_named_and_done(cluster: &Cluster) {
    let pool = Pool::new(cluster, "explain-cordon", 3, 3).await;
    let node = recorded(&pool).await;
    cluster.nodes.cordon(&node).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = ask(&pool, &["explain", "web-0"]).await;
    assert_exit(&answer, 1);
    assert!(
        answer
            .stdout
            .starts_with("web-0 is Pending: its recorded state requires"),
        "{}",
        answer.stdout
    );
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
    assert!(
        narrow.stdout.starts_with("\u{1b}[31mweb-0 is Pending"),
        "{:?}",
        narrow.stdout
    );
    // It is uncordoned, and still cannot take the Pod.
    let taints = json!([{"key": "disk", "value": "bad", "effect": "NoSchedule"}]);
    let taint = Patch::Merge(json!({"spec": {"taints": taints}}));
    cluster
        .nodes
        .api()
        .patch(&node, &PatchParams::default(), &taint)
        .await
        .unwrap();
    carry_out(&pool, &format!("kubectl uncordon {node}")).await;
    let answer = ask(&pool, &["explain", "web-0"]).await;
    assert_exit(&answer, 1);
    let command = format!("kubectl taint nodes {node} disk:NoSchedule-");
    assert_says(
        &answer,
        &[
            "the Pod does not tolerate the taint disk=bad:NoSchedule",
            &command,
        ],
    );
    carry_out(&pool, &command).await;
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], node);
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
        let pod = serde_json::from_value(
            json!({"metadata": {"generateName": "probe-"}, "spec": {"containers":
            [{"name": "main", "image": "i"}]}}),
        )?;
        let params = kube::api::PostParams {
            dry_run: true,
            ..kube::api::PostParams::default()
        };
        let refused = cluster
            .pods_api("refused")
            .create(&params, &pod)
            .await
            .is_err();
        Ok(Progress::when(refused, (), "it is accepted"))
    })
    .await
    .unwrap();
    cluster
        .create_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    let answer = until(&pool, &["explain", "web-0"], 1, |text| {
        text.contains("is refused")
    })
    .await;
    assert_says(
        &answer,
        &[
            "web-0 does not exist: its creation is refused.",
            "kubewarden.admission",
            "kubectl pps check",
        ],
    );
    let answer = ask(&pool, &["status"]).await;
    assert_exit(&answer, 1);
    assert_says(&answer, &["web-0 Missing", "kubectl pps explain web-0"]);
    carry_out(
        &pool,
        "kubectl label namespace refused persistent-pod-state/injection=disabled --overwrite",
    )
    .await;
    pool.ready("web", 1).await;
}
