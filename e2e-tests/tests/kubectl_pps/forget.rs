//! `forget`: recorded states are dropped.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams};
use pps_core::{
    PodState,
    packed::{Row, write_bucket},
};
use pps_e2e::{
    cluster::Cluster,
    control_plane::ADMIN,
    manifests,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::move_pod::{pinned, plugin, run};
use crate::scenarios::openkruise;
use crate::support::{HOSTNAME, Pool, SOON, Scenario, TIMEOUT, homes, required};

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        states_of_pods_that_are_gone_are_dropped,
        the_state_of_a_pod_that_becomes_ready_before_the_answer_is_kept,
        states_that_were_recorded_on_a_node_are_dropped_in_all_namespaces,
    ]
}

pub(super) async fn states_that_a_definition_hides_are_not_lost(cluster: &Cluster) {
    cluster.namespace("hidden").await.unwrap();
    let pool = Pool { cluster, namespace: "hidden" };
    pool.object("db", &required("db", &[HOSTNAME])).await;
    let states: BTreeMap<String, PodState> = (0..30)
        .map(|ordinal| {
            (format!("db-{ordinal}"), PodState { node_name: "node-1".into(), ..PodState::default() })
        })
        .collect();
    let rows: Vec<Row<'_>> = states.iter().map(|(pod, state)| Row::of(pod, state)).collect();
    let packed = json!({"version": 1, "buckets": {"ordinals-0": write_bucket(&rows)}});
    let write = async |status: Value| {
        let patch = Patch::Merge(json!({"status": status}));
        cluster.pps_api("hidden").patch_status("db", &PatchParams::default(), &patch).await.unwrap();
    };
    write(json!({"packed": packed})).await;
    // Another client has recorded a Pod beside the compact form.
    write(json!({"podStates": {"db-40": {"nodeName": "node-2"}}})).await;

    // The API server goes on with the old definition for a moment.
    let replace = async |definition: Value, shown: usize| {
        manifests::apply(&cluster.client(), &[definition]).await.unwrap();
        wait_for(&format!("the definition to show {shown} states"), TIMEOUT, async || {
            let now = cluster.pod_states("hidden", "db").await?.len();
            Ok(Progress::when(now == shown, (), now))
        })
        .await
        .unwrap();
    };
    let theirs = openkruise::definition();
    // It hides those in the compact form.
    replace(manifests::read(theirs.path()).unwrap().remove(0), 1).await;
    let refused = run(&pool, &["forget", "db-40", "--yes"]).await;
    assert_eq!(refused.exit_code, 1, "{refused:?}");
    assert!(refused.stderr.contains("hides status.packed"), "{refused:?}");
    assert!(refused.stderr.contains("apply this product's definition first"), "{refused:?}");

    // Nothing is lost.
    replace(manifests::read(&repository_file("deploy/base/crd.yaml")).unwrap().remove(0), 31).await;
    // Under a definition that shows the compact form, what the managed fields say of it does no harm.
    let dropped = run(&pool, &["forget", "db-40", "--yes"]).await;
    assert_eq!(dropped.exit_code, 0, "{dropped:?}");
    assert_eq!(pool.states("db").await.len(), 30);
    write(json!({"packed": null, "podStates": {"db-0": {"nodeName": "node-1"}}})).await;
    let dropped = run(&pool, &["forget", "db-0", "--yes"]).await;
    assert_eq!(dropped.exit_code, 0, "{dropped:?}");
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
    assert!(answer.stderr.contains("recorded again within seconds; move them: web-0"), "{answer:?}");
    assert!(answer.stderr.contains("there is no recorded state of Pod web-9"), "{answer:?}");
    assert!(!answer.stderr.contains("Event"), "{answer:?}");
    pool.wait_for_entries("web", &["web-0"]).await;
    pool.wait_for_object("web", "the number to be right", SOON, |pps| pps.data["status"]["recorded"] == 1)
        .await;
    assert!(pool.event("web", "StatesForgotten").await.contains("web-1, web-2"));
    let again = run(&pool, &["forget", "web-1", "--yes"]).await;
    assert_eq!(again.exit_code, 1, "{again:?}");
    assert!(again.stderr.contains("there is no recorded state of Pod web-1"), "{again:?}");
}

async fn the_state_of_a_pod_that_becomes_ready_before_the_answer_is_kept(cluster: &Cluster) {
    let (pool, _) = pinned(cluster, "fg-ready", 3).await;
    pool.scale("web", 1).await;
    pool.ready("web", 1).await;
    pool.wait_for_entries("web", &["web-0", "web-1", "web-2"]).await;
    let before = pool.states("web").await;
    let args = ["forget", "web-1", "web-2", "-n", "fg-ready"];
    let meanwhile = async {
        pool.scale("web", 2).await;
        pool.ready("web", 2).await;
    };
    let answer = plugin(cluster, ADMIN).run_while(&args, meanwhile).await.unwrap();
    assert_eq!(answer.exit_code, 1, "{answer:?}");
    assert!(answer.stdout.contains("Dropped 1 recorded state."), "{answer:?}");
    assert!(answer.stdout.contains("1 recorded state kept"), "{answer:?}");
    pool.wait_for_entries("web", &["web-0", "web-1"]).await;
    assert_eq!(pool.states("web").await["web-1"], before["web-1"]);
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
    assert_eq!(again.stdout, format!("No recorded state on node {node} is dropped\n"), "{again:?}");
    assert_eq!(one.pps("web").await.unwrap().data["status"]["recorded"], json!(0));
    let wrong = plugin(cluster, ADMIN).run(&["forget", "--node", "fg-none", "-A"]).await.unwrap();
    assert_eq!((wrong.exit_code, wrong.stderr.contains("there is no node fg-none")), (2, true), "{wrong:?}");
}
