//! `move` of several Pods: one plan, and then one after the other; and what becomes of a lost node.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use pps_core::RECORD_ANNOTATION;
use pps_e2e::{
    cluster::{Cluster, PodInfo},
    control_plane::ADMIN,
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::move_pod::{at_once, budget, plugin, run};
use crate::support::{self, HOSTNAME, Pool, Scenario, TIMEOUT, homes, required};

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        the_pods_of_a_lost_node_move,
        what_was_recorded_on_a_lost_node_is_forgotten,
        nothing_is_given_up_on_a_node_that_comes_back_before_the_answer,
        ready_pods_of_one_workload_move_one_after_the_other,
    ]
}

/// A workload whose Pods are pinned to the first Node of a pool of three.
async fn crowded<'a>(
    cluster: &'a Cluster,
    namespace: &'static str,
    replicas: u32,
) -> (Pool<'a>, BTreeMap<String, PodInfo>) {
    let pool = Pool::new(cluster, namespace, 3, 1).await;
    for index in 1..3 {
        cluster
            .nodes
            .cordon(&format!("{namespace}-{index}"))
            .await
            .unwrap();
    }
    pool.object("web", &required("web", &[HOSTNAME])).await;
    let pods = cluster
        .run_stateful_set(&pool.stateful_set("web", replicas))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    for index in 1..3 {
        cluster
            .nodes
            .uncordon(&format!("{namespace}-{index}"))
            .await
            .unwrap();
    }
    assert!(
        homes(&pods)
            .values()
            .all(|node| *node == format!("{namespace}-0")),
        "{pods:?}"
    );
    (pool, pods)
}

/// The Node and what runs on it are lost, and the Pods are not deleted yet. Returns the Node that
/// comes back when it is created.
async fn lose(pool: &Pool<'_>, name: &str) -> Node {
    let mut node = pool.cluster.nodes.api().get(name).await.unwrap();
    node.metadata.uid = None;
    node.metadata.resource_version = None;
    node.metadata.managed_fields = None;
    pool.cluster.kubelet.stop_node(name);
    pool.cluster.nodes.delete(name).await.unwrap();
    node
}

/// Deletes these Pods as soon as each terminates, as Kubernetes does a minute after the loss of
/// their Node.
async fn collect(pool: &Pool<'_>, lost: &BTreeMap<String, PodInfo>) -> Result<()> {
    let api = pool.cluster.pods_api(pool.namespace);
    wait_for(
        "the Pods of the lost Node to be gone",
        TIMEOUT,
        async || {
            let mut left = pool.cluster.pods(pool.namespace, "web").await?;
            left.retain(|name, pod| lost.get(name).is_some_and(|lost| lost.uid == pod.uid));
            for pod in left.values().filter(|pod| pod.terminating) {
                let only = Preconditions {
                    uid: Some(pod.uid.clone()),
                    resource_version: None,
                };
                api.delete(
                    &pod.name,
                    &DeleteParams {
                        preconditions: Some(only),
                        ..at_once()
                    },
                )
                .await?;
            }
            Ok(Progress::when(left.is_empty(), (), format!("{left:?}")))
        },
    )
    .await
}

async fn the_pods_of_a_lost_node_move(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-lost", 2).await;
    pool.object("db", &required("db", &[HOSTNAME])).await;
    let only = json!({"spec": {"nodeSelector": {HOSTNAME: "mv-lost-0"}}});
    cluster
        .run_stateful_set(&pool.stateful_set("db", 1).template(&only))
        .await
        .unwrap();
    pool.recorded("db", "db").await;
    lose(&pool, "mv-lost-0").await;
    let args = ["move", "--node", "mv-lost-0", "--anywhere"];
    // A Pod that no node can take holds up no other.
    let stays = "note: not moved: no node can take Pod db-0:\n- ";
    let shown = run(&pool, &[&args[..], &["--dry-run"]].concat()).await;
    assert_eq!(
        (shown.exit_code, shown.stderr.contains(stays)),
        (1, true),
        "{shown:?}"
    );
    assert_eq!(
        shown
            .stdout
            .matches("mv-lost-0, which does not exist any more")
            .count(),
        2,
        "{shown:?}"
    );

    let everywhere = [&args[..], &["--all-namespaces", "--yes"]].concat();
    let admin = plugin(cluster, ADMIN);
    let (moved, collected) = tokio::join!(admin.run(&everywhere), collect(&pool, &before));
    let moved = moved.unwrap();
    assert_eq!(
        (moved.exit_code, moved.stderr.contains(stays)),
        (1, true),
        "{moved:?}"
    );
    assert!(moved.stdout.ends_with("Moved 2 Pods\n"), "{moved:?}");
    collected.unwrap();
    for (name, pod) in pool.ready("web", 2).await {
        assert_ne!(pod.node.as_deref(), Some("mv-lost-0"), "{name}");
        assert!(!pod.annotations.contains_key(RECORD_ANNOTATION), "{name}");
    }
    pool.recorded("web", "web").await;
    assert_eq!(pool.states("db").await["db-0"]["nodeName"], "mv-lost-0");
    // Now nothing can be done.
    let again = run(&pool, &[&args[..], &["--yes"]].concat()).await;
    assert_eq!(again.exit_code, 1, "{again:?}");
    let said = |text: &str| again.stderr.contains(text);
    assert!(
        said("no node can take Pod db-0") && said("nothing was changed"),
        "{again:?}"
    );
}

/// Without a sidecar, the Pod that has moved is not recorded again: the next one keeps its place.
pub(super) async fn no_place_is_given_up_while_nobody_records(cluster: &Cluster) {
    let pool = Pool::new(cluster, "mv-alone", 2, 1).await;
    let pods = cluster
        .run_stateful_set(&pool.stateful_set("web", 2))
        .await
        .unwrap();
    pool.object("web", &required("web", &[HOSTNAME])).await;
    let state = |pod: &str| {
        let node = pods[pod].node.as_deref().unwrap();
        json!({"nodeName": node, "nodeTopologyLabels": {HOSTNAME: node}})
    };
    let states =
        json!({"status": {"podStates": {"web-0": state("web-0"), "web-1": state("web-1")}}});
    let objects = cluster.pps_api(pool.namespace);
    objects
        .patch_status("web", &PatchParams::default(), &Patch::Merge(&states))
        .await
        .unwrap();

    let args = [
        "move",
        "web-0",
        "web-1",
        "--anywhere",
        "--timeout",
        "6s",
        "--yes",
    ];
    let moved = run(&pool, &args).await;
    assert_eq!(moved.exit_code, 1, "{moved:?}");
    let said = moved
        .stderr
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let expected = "waited 6 s in vain until Pod web-0 is created again, Ready and recorded; to \
                    find out why: kubectl pps explain web-0 -n mv-alone";
    assert!(
        said.contains(expected) && said.contains("not moved: web-1"),
        "{said}"
    );
    assert_eq!(pool.ready("web", 2).await["web-1"].uid, pods["web-1"].uid);
    assert_eq!(pool.states("web").await["web-1"], state("web-1"));
}

async fn what_was_recorded_on_a_lost_node_is_forgotten(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "fg-lost", 1).await;
    lose(&pool, "fg-lost-0").await;
    let admin = plugin(cluster, ADMIN);
    let args = ["forget", "--node", "fg-lost-0", "--all-namespaces", "--yes"];
    let dropped = admin.run(&args).await.unwrap();
    assert_eq!(dropped.exit_code, 0, "{dropped:?}");
    assert!(
        dropped.stdout.ends_with("Dropped 1 recorded state.\n"),
        "{dropped:?}"
    );
    assert!(!dropped.stderr.contains("Event"), "{dropped:?}");
    assert!(pool.event("web", "StatesForgotten").await.contains("web-0"));
    // The sidecar does not record it again there.
    tokio::time::sleep(support::WHILE).await;
    assert!(pool.states("web").await.is_empty());
    assert_eq!(pool.pps("web").await.unwrap().data["status"]["recorded"], 0);
    cluster
        .pods_api("fg-lost")
        .delete("web-0", &at_once())
        .await
        .unwrap();
    let uid = before["web-0"].uid.clone();
    cluster
        .wait_for_pods(
            "fg-lost",
            "web",
            "web-0 to be created elsewhere",
            TIMEOUT,
            |pods| {
                pods.get("web-0")
                    .is_some_and(|pod| pod.uid != uid && pod.ready)
            },
        )
        .await
        .unwrap();
    let states = pool.recorded("web", "web").await;
    assert_ne!(states["web-0"]["nodeName"], "fg-lost-0");
    let again = admin.run(&args).await.unwrap();
    let expected = "there is no node fg-lost-0";
    assert_eq!(
        (again.exit_code, again.stderr.contains(expected)),
        (2, true),
        "{again:?}"
    );
}

async fn nothing_is_given_up_on_a_node_that_comes_back_before_the_answer(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-back", 1).await;
    let api = cluster.nodes.api();
    for args in [
        &["move", "web-0", "--anywhere"][..],
        &["move", "--node", "mv-back-0", "--anywhere"],
        &["forget", "--node", "mv-back-0"],
    ] {
        let node = lose(&pool, "mv-back-0").await;
        let args = [args, &["--namespace", "mv-back"]].concat();
        let back = async {
            api.create(&PostParams::default(), &node).await.unwrap();
        };
        let answer = plugin(cluster, ADMIN).run_while(&args, back).await.unwrap();
        assert_eq!(answer.exit_code, 1, "{args:?}: {answer:?}");
        assert_eq!(
            pool.states("web").await["web-0"]["nodeName"],
            "mv-back-0",
            "{args:?}"
        );
        let now = cluster
            .pods("mv-back", "web")
            .await
            .unwrap()
            .remove("web-0")
            .unwrap();
        assert_eq!(
            (&now.uid, now.terminating),
            (&before["web-0"].uid, false),
            "{args:?}"
        );
        assert!(!now.annotations.contains_key(RECORD_ANNOTATION), "{args:?}");
    }
}

async fn ready_pods_of_one_workload_move_one_after_the_other(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-budget", 3).await;
    let budget = budget(&pool, "all", "maxUnavailable");
    cluster
        .apply_objects(std::slice::from_ref(&budget))
        .await
        .unwrap();
    wait_for(
        "the controller of disruptions to allow one",
        TIMEOUT,
        async || {
            let now = cluster
                .apply_objects(std::slice::from_ref(&budget))
                .await?
                .remove(0);
            let allowed = now.data["status"]["disruptionsAllowed"] == 1;
            Ok(Progress::when(allowed, (), now.data["status"].to_string()))
        },
    )
    .await
    .unwrap();
    let moved = run(
        &pool,
        &[
            "move",
            "web-0",
            "web-2",
            "web-0",
            "--to",
            "mv-budget-1",
            "--yes",
        ],
    )
    .await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(moved.stdout.ends_with("Moved 2 Pods\n"), "{moved:?}");
    let pods = pool.ready("web", 3).await;
    let nodes = homes(&pods);
    assert_eq!(
        (nodes["web-0"].as_str(), nodes["web-2"].as_str()),
        ("mv-budget-1", "mv-budget-1")
    );
    assert_eq!(pods["web-1"].uid, before["web-1"].uid);
    let again = run(
        &pool,
        &["move", "web-0", "web-2", "--to", "mv-budget-1", "--yes"],
    )
    .await;
    assert_eq!(again.exit_code, 0, "{again:?}");
    assert_eq!(
        again.stdout,
        "Pod web-0 is on mv-budget-1 already\nPod web-2 is on mv-budget-1 already\n"
    );
}
