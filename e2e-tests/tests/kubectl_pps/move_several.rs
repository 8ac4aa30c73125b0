//! `move` of several Pods: one plan, and then one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pps_core::RECORD_ANNOTATION;
use pps_e2e::{
    cluster::{Cluster, PodInfo},
    control_plane::{ADMIN, Version},
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::move_pod::{plugin, run};
use crate::support::{self, HOSTNAME, Pool, Scenario, TIMEOUT, homes, required};

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        the_pods_of_a_lost_node_move,
        what_was_recorded_on_a_lost_node_is_forgotten,
        nothing_is_given_up_on_a_node_that_comes_back_before_the_answer,
        ready_pods_of_one_workload_move_one_after_the_other,
        a_pod_that_does_not_become_ready_ends_the_command,
        what_cannot_be_moved_is_said_before_anything_is_changed,
        a_pod_that_no_node_can_take_holds_up_no_other_of_its_node,
        a_pod_that_its_controller_creates_after_another_one_comes_after_it,
    ]
}

/// Two workloads, whose Pods are pinned to the first Node of a pool of three.
async fn crowded<'a>(
    cluster: &'a Cluster,
    namespace: &'static str,
    web: u32,
    db: u32,
) -> (Pool<'a>, BTreeMap<String, PodInfo>) {
    let pool = Pool::new(cluster, namespace, 3, 1).await;
    for index in 1..3 {
        cluster.nodes.cordon(&format!("{namespace}-{index}")).await.unwrap();
    }
    let mut pods = BTreeMap::new();
    for (name, replicas) in [("web", web), ("db", db)].into_iter().filter(|(_, replicas)| *replicas > 0) {
        pool.object(name, &required(name, &[HOSTNAME])).await;
        pods.extend(cluster.run_stateful_set(&pool.stateful_set(name, replicas)).await.unwrap());
        pool.recorded(name, name).await;
    }
    for index in 1..3 {
        cluster.nodes.uncordon(&format!("{namespace}-{index}")).await.unwrap();
    }
    assert!(homes(&pods).values().all(|node| *node == format!("{namespace}-0")), "{pods:?}");
    (pool, pods)
}

/// The Node and what runs on it are lost, and the Pods are not deleted yet. Returns the Node that comes back
/// when it is created.
async fn lose(pool: &Pool<'_>, name: &str) -> Node {
    let mut node = pool.cluster.nodes.api().get(name).await.unwrap();
    node.metadata.uid = None;
    node.metadata.resource_version = None;
    node.metadata.managed_fields = None;
    pool.cluster.kubelet.stop_node(name);
    pool.cluster.nodes.delete(name).await.unwrap();
    node
}

async fn the_pods_of_a_lost_node_move(cluster: &Cluster) {
    let (pool, _) = crowded(cluster, "mv-lost", 2, 1).await;
    lose(&pool, "mv-lost-0").await;
    let shown = run(&pool, &["move", "--node", "mv-lost-0", "--anywhere", "--dry-run"]).await;
    assert_eq!(shown.exit_code, 0, "{shown:?}");
    assert_eq!(shown.stdout.matches("mv-lost-0, which does not exist any more").count(), 3, "{shown:?}");
    let unasked = run(&pool, &["move", "--node", "mv-lost-0", "--anywhere"]).await;
    assert_eq!((unasked.exit_code, unasked.stderr.contains("add --yes")), (2, true), "{unasked:?}");

    let args =
        ["move", "--node", "mv-lost-0", "--anywhere", "--all-namespaces", "--timeout", "150s", "--yes"];
    let moved = plugin(cluster, ADMIN).run(&args).await.unwrap();
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(moved.stdout.ends_with("Moved 3 Pods\n"), "{moved:?}");
    for (workload, replicas) in [("web", 2), ("db", 1)] {
        let pods = pool.ready(workload, replicas).await;
        for (name, pod) in &pods {
            assert_ne!(pod.node.as_deref(), Some("mv-lost-0"), "{name}");
            assert!(!pod.annotations.contains_key(RECORD_ANNOTATION), "{name}");
        }
        pool.recorded(workload, workload).await;
    }
    let again = run(&pool, &["move", "--node", "mv-lost-0", "--anywhere", "--yes"]).await;
    let expected = "there is no node mv-lost-0";
    assert_eq!((again.exit_code, again.stderr.contains(expected)), (2, true), "{again:?}");
}

/// Without a sidecar, the Pod that has moved is not recorded again: the next one keeps its place.
pub(super) async fn no_place_is_given_up_while_nobody_records(cluster: &Cluster) {
    let pool = Pool::new(cluster, "mv-alone", 2, 1).await;
    let pods = cluster.run_stateful_set(&pool.stateful_set("web", 2)).await.unwrap();
    pool.object("web", &required("web", &[HOSTNAME])).await;
    let state = |pod: &str| {
        let node = pods[pod].node.as_deref().unwrap();
        json!({"nodeName": node, "nodeTopologyLabels": {HOSTNAME: node}})
    };
    let states = json!({"status": {"podStates": {"web-0": state("web-0"), "web-1": state("web-1")}}});
    let objects = cluster.pps_api(pool.namespace);
    objects.patch_status("web", &PatchParams::default(), &Patch::Merge(&states)).await.unwrap();

    let args = ["move", "web-0", "web-1", "--anywhere", "--timeout", "6s", "--yes"];
    let moved = run(&pool, &args).await;
    assert_eq!(moved.exit_code, 1, "{moved:?}");
    let said = moved.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "waited 6 s in vain until Pod web-0 is created again, Ready and recorded; to find out why: kubectl pps \
                    explain web-0 -n mv-alone";
    assert!(said.contains(expected) && said.contains("not moved: web-1"), "{said}");
    assert_eq!(pool.ready("web", 2).await["web-1"].uid, pods["web-1"].uid);
    assert_eq!(pool.states("web").await["web-1"], state("web-1"));
}

async fn what_was_recorded_on_a_lost_node_is_forgotten(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "fg-lost", 1, 0).await;
    lose(&pool, "fg-lost-0").await;
    let dropped = run(&pool, &["forget", "--node", "fg-lost-0", "--yes"]).await;
    assert_eq!(dropped.exit_code, 0, "{dropped:?}");
    assert!(dropped.stdout.ends_with("Dropped 1 recorded state.\n"), "{dropped:?}");
    // The sidecar does not record it again there.
    tokio::time::sleep(support::WHILE).await;
    assert!(pool.states("web").await.is_empty());
    let what = "web-0 to be created elsewhere";
    let uid = before["web-0"].uid.clone();
    cluster
        .wait_for_pods("fg-lost", "web", what, Duration::from_secs(150), |pods| {
            pods.get("web-0").is_some_and(|pod| pod.uid != uid && pod.ready)
        })
        .await
        .unwrap();
    let states = pool.recorded("web", "web").await;
    assert_ne!(states["web-0"]["nodeName"], "fg-lost-0");
}

async fn nothing_is_given_up_on_a_node_that_comes_back_before_the_answer(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-back", 1, 0).await;
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
        assert_eq!(pool.states("web").await["web-0"]["nodeName"], "mv-back-0", "{args:?}");
        let now = cluster.pods("mv-back", "web").await.unwrap().remove("web-0").unwrap();
        assert_eq!((&now.uid, now.terminating), (&before["web-0"].uid, false), "{args:?}");
        assert!(!now.annotations.contains_key(RECORD_ANNOTATION), "{args:?}");
    }
}

async fn ready_pods_of_one_workload_move_one_after_the_other(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-budget", 3, 0).await;
    let version = cluster.control_plane.version();
    let policy = if version >= Version::minor(21) { "policy/v1" } else { "policy/v1beta1" };
    let budget = json!({"apiVersion": policy, "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "mv-budget", "name": "all"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    cluster.apply_objects(std::slice::from_ref(&budget)).await.unwrap();
    wait_for("the controller of disruptions to allow one", TIMEOUT, async || {
        let now = cluster.apply_objects(std::slice::from_ref(&budget)).await?.remove(0);
        let allowed = now.data["status"]["disruptionsAllowed"] == 1;
        Ok(Progress::when(allowed, (), now.data["status"].to_string()))
    })
    .await
    .unwrap();
    let moved = run(&pool, &["move", "web-0", "web-2", "web-0", "--to", "mv-budget-1", "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(moved.stdout.ends_with("Moved 2 Pods\n"), "{moved:?}");
    let pods = pool.ready("web", 3).await;
    let nodes = homes(&pods);
    assert_eq!((nodes["web-0"].as_str(), nodes["web-2"].as_str()), ("mv-budget-1", "mv-budget-1"));
    assert_eq!(pods["web-1"].uid, before["web-1"].uid);
    let again = run(&pool, &["move", "web-0", "web-2", "--to", "mv-budget-1", "--yes"]).await;
    assert_eq!(again.exit_code, 0, "{again:?}");
    assert_eq!(again.stdout, "Pod web-0 is on mv-budget-1 already\nPod web-2 is on mv-budget-1 already\n");
}

async fn a_pod_that_does_not_become_ready_ends_the_command(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-hold", 2, 0).await;
    cluster.kubelet.hold("mv-hold", "web-0");
    let args = ["move", "web-0", "web-1", "--to", "mv-hold-2", "--timeout", "4s", "--yes"];
    let stopped = run(&pool, &args).await;
    assert_eq!(stopped.exit_code, 1, "{stopped:?}");
    let expected = "error: waited 4 s in vain until Pod web-0 is created again, Ready and recorded; to find out why: \
                    kubectl pps explain web-0 -n mv-hold\n";
    assert!(stopped.stderr.ends_with(expected), "{stopped:?}");
    assert!(stopped.stderr.contains("not moved: web-1\n"), "{stopped:?}");
    let now = cluster.pods("mv-hold", "web").await.unwrap();
    assert_eq!((&now["web-1"].uid, now["web-1"].terminating), (&before["web-1"].uid, false));
    cluster.kubelet.release("mv-hold", "web-0");
    let moved = run(&pool, &["move", "web-1", "--to", "mv-hold-2", "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(homes(&pool.ready("web", 2).await).values().all(|node| node == "mv-hold-2"));
}

async fn what_cannot_be_moved_is_said_before_anything_is_changed(cluster: &Cluster) {
    let (pool, before) = crowded(cluster, "mv-some", 1, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("bare", 1)).await.unwrap();
    let refused = run(&pool, &["move", "bare-0", "web-0", "db-0", "--to", "mv-some-1", "--yes"]).await;
    assert_eq!(refused.exit_code, 1, "{refused:?}");
    assert!(refused.stderr.contains("nothing pins Pod bare-0"), "{refused:?}");
    assert!(refused.stderr.ends_with("nothing was changed\n"), "{refused:?}");
    for workload in ["web", "db"] {
        let pod = format!("{workload}-0");
        assert_eq!(cluster.pods("mv-some", workload).await.unwrap()[&pod].uid, before[&pod].uid);
    }
    let wrong = run(&pool, &["move", "web-0", "db-0", "--to", "mv-none"]).await;
    assert_eq!((wrong.exit_code, wrong.stderr.contains("there is no node mv-none")), (2, true), "{wrong:?}");
}

async fn a_pod_that_no_node_can_take_holds_up_no_other_of_its_node(cluster: &Cluster) {
    let (pool, _) = crowded(cluster, "mv-part", 1, 0).await;
    pool.object("db", &required("db", &[HOSTNAME])).await;
    let only = json!({"spec": {"nodeSelector": {HOSTNAME: "mv-part-0"}}});
    let before = cluster.run_stateful_set(&pool.stateful_set("db", 1).template(&only)).await.unwrap();
    pool.recorded("db", "db").await;
    cluster.nodes.cordon("mv-part-0").await.unwrap();
    let args = ["move", "--node", "mv-part-0", "--anywhere"];
    let stays = "note: not moved: no node can take Pod db-0: ";
    let shown = run(&pool, &[&args[..], &["--dry-run"]].concat()).await;
    assert_eq!((shown.exit_code, shown.stderr.contains(stays)), (1, true), "{shown:?}");
    assert!(shown.stdout.starts_with("Move Pod web-0 in namespace mv-part\n"), "{shown:?}");

    let moved = run(&pool, &[&args[..], &["--yes"]].concat()).await;
    assert_eq!((moved.exit_code, moved.stderr.contains(stays)), (1, true), "{moved:?}");
    assert_ne!(homes(&pool.ready("web", 1).await)["web-0"], "mv-part-0");
    let now = cluster.pods("mv-part", "db").await.unwrap().remove("db-0").unwrap();
    assert_eq!((&now.uid, now.terminating), (&before["db-0"].uid, false));
    assert_eq!(pool.states("db").await["db-0"]["nodeName"], "mv-part-0");
    // Now nothing can be done.
    let again = run(&pool, &[&args[..], &["--yes"]].concat()).await;
    assert_eq!(again.exit_code, 1, "{again:?}");
    assert!(
        again.stderr.contains("no node can take Pod db-0") && again.stderr.contains("nothing was changed"),
        "{again:?}"
    );
}

async fn a_pod_that_its_controller_creates_after_another_one_comes_after_it(cluster: &Cluster) {
    let (pool, _) = crowded(cluster, "mv-order", 0, 0).await;
    let ordered = json!({"spec": {"podManagementPolicy": "OrderedReady"}});
    pool.object("ord", &required("ord", &[HOSTNAME])).await;
    for index in 1..3 {
        cluster.nodes.cordon(&format!("mv-order-{index}")).await.unwrap();
    }
    cluster.run_stateful_set(&pool.stateful_set("ord", 2).overrides(&ordered)).await.unwrap();
    pool.recorded("ord", "ord").await;
    cluster.nodes.cordon("mv-order-0").await.unwrap();
    let api: Api<Pod> = Api::namespaced(cluster.client(), "mv-order");
    // The controller creates ord-1 again only while ord-0 is Ready.
    for pod in ["ord-0", "ord-1"] {
        api.delete(pod, &DeleteParams::default()).await.unwrap();
    }
    let what = "ord-0 to wait for its Node, and ord-1 for ord-0";
    cluster
        .wait_for_pods("mv-order", "ord", what, Duration::from_mins(1), |pods| {
            pods.len() == 1 && pods.get("ord-0").is_some_and(|pod| pod.node.is_none() && !pod.terminating)
        })
        .await
        .unwrap();
    for index in 1..3 {
        cluster.nodes.uncordon(&format!("mv-order-{index}")).await.unwrap();
    }
    let moved = run(&pool, &["move", "ord-1", "ord-0", "--anywhere", "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(moved.stdout.ends_with("Moved 2 Pods\n"), "{moved:?}");
    assert!(homes(&pool.ready("ord", 2).await).values().all(|node| node != "mv-order-0"));
}
