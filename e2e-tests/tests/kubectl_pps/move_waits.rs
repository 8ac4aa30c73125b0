//! What happens while `move` waits.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pps_core::RECORD_ANNOTATION;
use pps_e2e::{cluster::Cluster, control_plane::ADMIN};
use serde_json::{Value, json};

use super::move_pod::{forbid_evictions, pinned, plugin, run};
use super::move_several::lose;
use crate::support::{TIMEOUT, homes};

/// What a terminal shows, without its line breaks.
fn words(shown: &str) -> String {
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) async fn a_node_that_comes_back_while_its_pod_is_waited_for_is_named(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-return", 1).await;
    let home = homes(&before)["web-0"].clone();
    forbid_evictions(&pool).await;
    let node = lose(&pool, &home).await;
    let back = async {
        cluster.nodes.api().create(&PostParams::default(), &node).await.unwrap();
    };
    let args = ["move", "web-0", "--anywhere", "--yes", "-n", "mv-return"];
    let waits = "(its node is gone: this takes about a minute)";
    let answer =
        plugin(cluster, ADMIN).run_until(&args, "waiting until Pod web-0 has ended", back).await.unwrap();
    let shown = words(&answer.stdout);
    assert!(shown.contains(waits), "{shown}");
    let call_off = format!("kubectl pps move web-0 --to {home} -n mv-return");
    let expected = format!(
        "node {home} has come back, and Pod web-0 is still on it; to call the move off, so that it is recorded again: {call_off};"
    );
    assert!(shown.contains(&expected), "{shown}");
    assert_eq!(answer.exit_code, 1, "{shown}");
    let off = run(&pool, &["move", "web-0", "--to", &home, "--yes"]).await;
    assert_eq!(off.exit_code, 0, "{off:?}");
    let now = cluster.pods("mv-return", "web").await.unwrap().remove("web-0").unwrap();
    assert_eq!((&now.uid, now.terminating), (&before["web-0"].uid, false));
    assert!(!now.annotations.contains_key(RECORD_ANNOTATION), "{:?}", now.annotations);
    assert_eq!(pool.states("web").await["web-0"]["nodeName"], home);
}

pub(super) async fn an_interrupt_leaves_a_pod_that_was_removed_alone(cluster: &Cluster) {
    let (pool, _) = pinned(cluster, "mv-stop", 2).await;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "mv-stop");
    let finalizers = async |pod: &str, value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": value}}));
        api.patch(pod, &PatchParams::default(), &patch).await.unwrap();
    };
    for pod in ["web-0", "web-1"] {
        finalizers(pod, json!(["example.com/hold"])).await;
    }
    let interrupt = async |pods: &[&str], text: &str| {
        let args = [&["move"], pods, &["--anywhere", "--yes", "-n", "mv-stop"]].concat();
        let answer = plugin(cluster, ADMIN).type_after(&args, text, "\u{3}").await.unwrap();
        assert_eq!(answer.exit_code, 1, "{answer:?}");
        words(&answer.stdout)
    };
    let one = interrupt(&["web-0"], "waiting until Pod web-0 has ended").await;
    let expected = "interrupted: all is written, and the successor of Pod web-0 starts by itself; to see where: \
                    kubectl pps explain web-0 -n mv-stop";
    assert!(one.contains(expected), "{one}");
    finalizers("web-0", Value::Null).await;
    pool.ready("web", 2).await;
    pool.recorded("web", "web").await;

    let several = interrupt(&["web-1", "web-0"], "waiting until Pod web-1 has ended").await;
    for expected in [
        "kubectl pps explain web-1 -n mv-stop",
        "not moved: web-0 to go on: kubectl pps move web-0 --anywhere -n mv-stop",
    ] {
        assert!(several.contains(expected), "{expected}: {several}");
    }
    finalizers("web-1", Value::Null).await;
}

pub(super) async fn one_pod_is_evicted_only_when_the_others_of_its_workload_are_ready(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-peers", 2).await;
    cluster.kubelet.hold("mv-peers", "web-0");
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    cluster.pods_api("mv-peers").delete("web-0", &params).await.unwrap();
    let uid = before["web-0"].uid.clone();
    cluster
        .wait_for_pods("mv-peers", "web", "web-0 to be created again", TIMEOUT, |pods| {
            pods.get("web-0").is_some_and(|pod| pod.uid != uid && pod.node.is_some())
        })
        .await
        .unwrap();
    for flag in ["--dry-run", "--yes"] {
        let refused = run(&pool, &["move", "web-1", "--anywhere", flag]).await;
        assert_eq!(
            (refused.exit_code, refused.stderr.contains("not Ready: web-0")),
            (1, true),
            "{refused:?}"
        );
        assert!(refused.stderr.ends_with("nothing was changed\n"), "{refused:?}");
    }
    let now = cluster.pods("mv-peers", "web").await.unwrap();
    assert_eq!((&now["web-1"].uid, now["web-1"].terminating), (&before["web-1"].uid, false));
    assert!(!now["web-1"].annotations.contains_key(RECORD_ANNOTATION), "{:?}", now["web-1"].annotations);
    let home = &homes(&before)["web-1"];
    assert_eq!(pool.states("web").await["web-1"]["nodeName"], *home);
    let forced = run(&pool, &["move", "web-1", "--anywhere", "--force", "--yes"]).await;
    assert_eq!(forced.exit_code, 0, "{forced:?}");
    let now = cluster.pods("mv-peers", "web").await.unwrap();
    assert_ne!(now["web-1"].uid, before["web-1"].uid);
    cluster.kubelet.release("mv-peers", "web-0");
    pool.ready("web", 2).await;
}
