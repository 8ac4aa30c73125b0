//! `status`: where Pods are, and what is wrong.

use pps_e2e::cluster::Cluster;
use serde_json::json;

use super::answers::{
    VIEWER, ask, ask_as, assert_exit, assert_says, let_view, make_pending, plugin, until,
};
use crate::support::{HOSTNAME, IP_ANNOTATION, Pool, ZONE, homes, required};

pub(super) async fn shows_where_pods_are_and_what_is_wrong(cluster: &Cluster) {
    let pool = Pool::new(cluster, "status", 2, 2).await;
    let web = pool
        .stateful_set("web", 2)
        .persistent(HOSTNAME, "", IP_ANNOTATION);
    let pods = cluster.run_stateful_set(&web).await.unwrap();
    let node = homes(&pods)["web-0"].clone();
    pool.recorded("web", "web").await;
    let answer = until(&pool, &["status"], 0, |text| text.contains("web-1")).await;
    assert_says(
        &answer,
        &[
            "POD PHASE NODE RECORDED REQUIRES",
            &format!("web-0 Ready {node} {node} hostname"),
        ],
    );

    let wide = plugin(cluster, "admin")
        .run(&["status", "-o", "wide", "-A"])
        .await
        .unwrap();
    assert_says(
        &wide,
        &[
            "NAMESPACE",
            "INJECTED",
            pods["web-0"].ip.as_deref().unwrap(),
        ],
    );
    let json = ask(&pool, &["status", "statefulset/web", "-o", "json"])
        .await
        .json()
        .unwrap();
    assert_eq!(
        (&json["apiVersion"], &json["kind"]),
        (&"kubectl-pps/v1".into(), &"Status".into())
    );
    let first = &json["pods"][0];
    assert_eq!(
        (&first["phase"], &first["node"]),
        (&"Ready".into(), &node.as_str().into())
    );
    assert_eq!(first["required"][HOSTNAME], node.as_str());

    cluster.nodes.cordon(&node).await.unwrap();
    make_pending(&pool, "web", "web-0").await;
    let answer = ask(&pool, &["status", "web"]).await;
    assert_exit(&answer, 1);
    assert_says(
        &answer,
        &[
            "web-0 Pending",
            "web-0 is Pending: kubectl pps explain web-0 -n status",
        ],
    );
    let narrow = plugin(cluster, "admin")
        .run_on_terminal(&["status", "-n", "status"], 80, "")
        .await
        .unwrap();
    assert_exit(&narrow, 1);
    assert!(
        narrow.stdout.contains("\u{1b}[38;5;1mPending"),
        "{}",
        narrow.stdout
    );
    for line in narrow
        .stdout
        .lines()
        .filter(|line| !line.contains("kubectl"))
    {
        let plain: String = line
            .split('\u{1b}')
            .map(|part| part.split_once('m').map_or(part, |(_, rest)| rest))
            .collect();
        assert!(plain.trim_end().chars().count() <= 80, "{line:?}");
    }

    // A state without a Pod, and a Pod that is wanted and does not exist.
    pool.scale("web", 1).await;
    cluster.nodes.uncordon(&node).await.unwrap();
    pool.ready("web", 1).await;
    until(&pool, &["status"], 0, |text| !text.contains("web-1")).await;
}

pub(super) async fn a_namespace_that_does_not_exist_is_not_called_empty(cluster: &Cluster) {
    for args in [
        &["status"][..],
        &["status", "web"],
        &["explain", "web-0"],
        &["export"],
        &["simulate", "--without-node", "node-0"],
        &["forget", "web-0"],
        &["move", "web-0", "--anywhere"],
    ] {
        let args = [args, &["-n", "defualt"]].concat();
        let answer = plugin(cluster, "admin").run(&args).await.unwrap();
        assert_exit(&answer, 2);
        let expected = "there is no namespace defualt; similar names: default";
        assert!(answer.stderr.contains(expected), "{args:?}: {answer:?}");
        assert_eq!(answer.stdout, "", "{args:?}");
    }
    // A user who may not read namespaces does not learn which there are.
    let answer = plugin(cluster, VIEWER)
        .run(&["status", "-n", "defualt"])
        .await
        .unwrap();
    assert_exit(&answer, 2);
    assert!(
        !answer.stderr.contains("there is no namespace"),
        "{answer:?}"
    );
}

pub(super) async fn a_namespace_users_rights_are_enough_but_for_nodes(cluster: &Cluster) {
    let pool = Pool::new(cluster, "status-viewer", 2, 2).await;
    let web = pool.stateful_set("web", 1).persistent(ZONE, "", "");
    let node = homes(&cluster.run_stateful_set(&web).await.unwrap())["web-0"].clone();
    pool.recorded("web", "web").await;
    let answer = ask_as(&pool, VIEWER, &["status"]).await;
    assert_exit(&answer, 2);
    assert!(
        answer
            .stderr
            .contains("you have no permission to list persistentpodstates"),
        "{}",
        answer.stderr
    );

    let_view(&pool).await;
    let answer = ask_as(&pool, VIEWER, &["status"]).await;
    assert_exit(&answer, 0);
    let zone = pool.zone(&node).await;
    assert_says(
        &answer,
        &[&format!("web-0 Ready {node} {node} zone={zone}")],
    );
    assert!(
        answer
            .stderr
            .contains("you have no permission to list nodes"),
        "{}",
        answer.stderr
    );
    assert_eq!(
        answer.stderr.lines().count(),
        1,
        "only nodes are missing: {}",
        answer.stderr
    );
    let answer = ask_as(&pool, VIEWER, &["explain", "web-0"]).await;
    assert_exit(&answer, 0);
    let runs = format!("web-0 runs on {node}, where it is recorded");
    assert_says(&answer, &[&runs, "you have no permission to list nodes"]);
}

/// The policy and the sidecar are missing, and the definition is there.
pub(super) async fn nothing_is_recorded_without_a_sidecar(cluster: &Cluster) {
    let pool = Pool::new(cluster, "half", 1, 1).await;
    cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    pool.object("web", &required("web", &[ZONE])).await;
    let answer = ask(&pool, &["status"]).await;
    assert_exit(&answer, 1);
    assert_says(
        &answer,
        &["no sidecar has looked at it yet", "kubectl pps check"],
    );
    let lease = "Lease persistent-pod-state/pps-sidecar:";
    // The sidecar that has ended left it without a holder.
    let args = [
        "delete",
        "lease",
        "pps-sidecar",
        "--namespace",
        "persistent-pod-state",
    ];
    cluster.control_plane.kubectl(&args).await.unwrap();
    let answer = ask(&pool, &["status"]).await;
    assert_says(
        &answer,
        &[&format!("{lease} does not exist, so nothing is recorded")],
    );
    // One that has ended: its Lease is as it left it.
    let spec =
        json!({"holderIdentity": "pps-sidecar-1_x", "renewTime": "2026-11-22T00:00:00.000000Z"});
    let metadata = json!({"name": "pps-sidecar", "namespace": "persistent-pod-state"});
    let stale = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
    cluster.apply_objects(&[stale]).await.unwrap();
    let answer = ask(&pool, &["status"]).await;
    assert_exit(&answer, 1);
    assert_says(
        &answer,
        &[&format!(
            "{lease} pps-sidecar-1_x holds it, but did not renew it for 15 s"
        )],
    );
}
