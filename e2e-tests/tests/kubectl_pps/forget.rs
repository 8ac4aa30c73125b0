//! `forget`: recorded states are dropped.

use pps_e2e::{cluster::Cluster, control_plane::ADMIN};
use serde_json::json;

use super::move_pod::{pinned, plugin, run};
use crate::support::{self, SOON, homes};

#[tokio::test]
async fn recorded_states_are_dropped() {
    let cluster = Cluster::builder().product().start().await.unwrap();
    support::run_in_turn(scenarios![&cluster;
        states_of_pods_that_are_gone_are_dropped,
        states_that_were_recorded_on_a_node_are_dropped_in_all_namespaces,
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn without_a_definition_nothing_is_moved_or_forgotten() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    for args in [&["forget", "web-0", "--yes"][..], &["move", "web-0", "--anywhere", "--yes"]] {
        let answer = plugin(&cluster, ADMIN).run(args).await.unwrap();
        assert_eq!(answer.exit_code, 2, "{answer:?}");
        assert!(answer.stderr.contains("no definition of PersistentPodState"), "{answer:?}");
    }
}

async fn states_of_pods_that_are_gone_are_dropped(cluster: &Cluster) {
    let (pool, _) = pinned(cluster, "fg-pods", 3).await;
    pool.scale("web", 1).await;
    pool.ready("web", 1).await;
    pool.wait_for_entries("web", &["web-0", "web-1", "web-2"]).await;

    let shown = run(&pool, &["forget", "web-1", "web-2", "--dry-run"]).await;
    assert_eq!(shown.exit_code, 0, "{shown:?}");
    assert!(shown.stdout.contains("web-1") && shown.stdout.contains("web-2"), "{shown:?}");
    let unasked = run(&pool, &["forget", "web-1"]).await;
    assert_eq!((unasked.exit_code, unasked.stderr.contains("add --yes")), (2, true), "{unasked:?}");
    pool.wait_for_entries("web", &["web-0", "web-1", "web-2"]).await;

    let answer = run(&pool, &["forget", "web-0", "web-1", "web-2", "web-9", "--yes"]).await;
    assert_eq!(answer.exit_code, 1, "{answer:?}");
    assert!(answer.stdout.contains("Dropped 2 recorded states"), "{answer:?}");
    assert!(answer.stderr.contains("kubectl pps move web-0 --anywhere -n fg-pods"), "{answer:?}");
    assert!(answer.stderr.contains("nothing is recorded of Pod web-9"), "{answer:?}");
    assert!(!answer.stderr.contains("Event"), "{answer:?}");
    pool.wait_for_entries("web", &["web-0"]).await;
    pool.wait_for_object("web", "the number to be right", SOON, |pps| pps.data["status"]["recorded"] == 1)
        .await;
    assert!(pool.event("web", "StatesForgotten").await.contains("web-1, web-2"));
    let again = run(&pool, &["forget", "web-1", "--yes"]).await;
    assert_eq!(again.exit_code, 1, "{again:?}");
}

async fn states_that_were_recorded_on_a_node_are_dropped_in_all_namespaces(cluster: &Cluster) {
    let (one, before) = pinned(cluster, "fg-node", 1).await;
    let node = homes(&before)["web-0"].clone();
    one.scale("web", 0).await;
    one.ready("web", 0).await;
    let args = ["forget", "--node", &node, "--all-namespaces", "--yes"];
    let answer = plugin(cluster, ADMIN).run(&args).await.unwrap();
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    one.wait_for_entries("web", &[]).await;
    let again = plugin(cluster, ADMIN).run(&args).await.unwrap();
    assert_eq!(again.exit_code, 0, "{again:?}");
    assert_eq!(again.stdout, format!("Nothing is recorded on node {node}\n"), "{again:?}");
    let unknown = run(&one, &["forget", "--node", "fg-node-77"]).await;
    assert_eq!(unknown.exit_code, 0, "{unknown:?}");
    assert!(
        unknown.stdout.starts_with("There is no node fg-node-77 (similar names: fg-node-"),
        "{unknown:?}"
    );
    let expected = "and nothing is recorded on it in namespace fg-node; in all namespaces: kubectl pps forget --node fg-node-77 -A";
    assert!(unknown.stdout.contains(expected), "{unknown:?}");
    assert_eq!(one.pps("web").await.unwrap().data["status"]["recorded"], json!(0));
}
