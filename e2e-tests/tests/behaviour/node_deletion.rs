//! What happens to recorded states when a node is deleted.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pps_e2e::{
    cluster::{Cluster, PodInfo},
    sidecar::SidecarOptions,
};
use serde_json::{Value, json};

use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, TIMEOUT, WHILE, ZONE, homes, spec_for, spread_over_nodes,
};

/// The grace period of the sidecar.
const GRACE: Duration = Duration::from_secs(6);

pub(crate) fn sidecar() -> SidecarOptions {
    let args = vec![
        "--node-grace-period".to_owned(),
        format!("{}s", GRACE.as_secs()),
        "--evict-pending-pods".to_owned(),
        // A killed sidecar would hold the Lease for a while.
        "--leader-election=false".to_owned(),
    ];
    SidecarOptions {
        args,
        ..SidecarOptions::default()
    }
}

/// Two recorded Pods on two of three nodes, each pinned to its node.
struct Pair<'a> {
    pool: Pool<'a>,
    pods: BTreeMap<String, PodInfo>,
    states: BTreeMap<String, Value>,
    /// The node of web-0.
    node: String,
}

impl<'a> Pair<'a> {
    async fn new(cluster: &'a Cluster, namespace: &'static str, more: &Value) -> Self {
        let pool = Pool::new(cluster, namespace, 3, 3).await;
        let mut spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": [ZONE]}}],
            "persistentPodAnnotations": [{"key": IP_ANNOTATION}]});
        json_patch::merge(&mut spec, more);
        pool.object("mine", &spec_for("web", &spec)).await;
        let apart = spread_over_nodes(&json!({"matchLabels": {"app": "web"}}));
        let pods = cluster
            .run_stateful_set(&pool.stateful_set("web", 2).template(&apart))
            .await
            .unwrap();
        let states = pool.recorded("mine", "web").await;
        let node = homes(&pods)["web-0"].clone();
        Self {
            pool,
            pods,
            states,
            node,
        }
    }

    /// Deletes the node of web-0.
    async fn delete_node(&self) {
        self.pool.cluster.nodes.delete(&self.node).await.unwrap();
    }

    async fn delete_pod(&self) {
        self.pool
            .cluster
            .delete_pods(self.pool.namespace, "web", &["web-0"])
            .await
            .unwrap();
    }

    /// Waits until web-0 is replaced by a Pod that is pending because its node is missing.
    async fn wait_until_pending(&self) -> PodInfo {
        let old = &self.pods["web-0"].uid;
        let what = "web-0 to be made again and to have no node";
        let waits = |pod: &PodInfo| pod.uid != *old && pod.node.is_none();
        let pods =
            self.pool
                .cluster
                .wait_for_pods(self.pool.namespace, "web", what, TIMEOUT, |pods| {
                    pods.get("web-0").is_some_and(waits)
                });
        let pod = pods.await.unwrap()["web-0"].clone();
        assert_eq!(pod.annotations[MARKER], "mine");
        pod
    }

    async fn pods_now(&self) -> BTreeMap<String, PodInfo> {
        self.pool
            .cluster
            .pods(self.pool.namespace, "web")
            .await
            .unwrap()
    }

    /// Waits until web-0 runs on another node and is recorded there. Asserts that web-1 and its
    /// state did not change.
    async fn wait_until_moved(&self) {
        let cluster = self.pool.cluster;
        let moved =
            |pod: &PodInfo| pod.ready && pod.node.as_ref().is_some_and(|node| *node != self.node);
        let what = "web-0 to run elsewhere";
        let pods = cluster
            .wait_for_pods(self.pool.namespace, "web", what, TIMEOUT, |pods| {
                pods.get("web-0").is_some_and(moved)
            })
            .await
            .unwrap();
        assert!(
            !pods["web-0"].annotations.contains_key(MARKER),
            "{:?}",
            pods["web-0"]
        );
        assert_eq!(pods["web-1"].uid, self.pods["web-1"].uid);
        let states = self.pool.recorded("mine", "web").await;
        assert_eq!(states["web-1"], self.states["web-1"]);
        assert_eq!(states["web-0"]["nodeName"], json!(pods["web-0"].node));
        let message = self.pool.event("web", "StatesForgotten").await;
        assert!(
            message.contains("web-0") && message.contains(&self.node),
            "{message}"
        );
    }
}

pub(crate) async fn forgets_states_after_the_grace_period(cluster: &Cluster) {
    let more =
        json!({"nodeDeletionPolicy": "Forget", "persistentPodStateRetentionPolicy": "Retain"});
    let pair = Pair::new(cluster, "gone", &more).await;
    let deleted = Instant::now();
    pair.delete_node().await;
    pair.delete_pod().await;
    let pending = pair.wait_until_pending().await;
    assert_eq!(pair.pool.states("mine").await, pair.states);
    pair.wait_until_moved().await;
    assert!(deleted.elapsed() >= GRACE, "after {:?}", deleted.elapsed());
    assert_ne!(pair.pods_now().await["web-0"].uid, pending.uid);
    let message = pair.pool.event("web", "PodEvicted").await;
    assert!(message.contains("web-0"), "{message}");
    let metric = cluster
        .sidecar()
        .unwrap()
        .metric("persistentpodstate_states_forgotten_total")
        .await
        .unwrap();
    assert!(metric.is_some_and(|states| states >= 1.0), "{metric:?}");
}

pub(crate) async fn evicts_a_pod_once_no_node_matches_for_the_grace_period(cluster: &Cluster) {
    let more = json!({"nodeDeletionPolicy": "Forget",
        "requiredPersistentTopology": {"nodeTopologyKeys": ["example.io/row"]}});
    let pair = Pair::new(cluster, "row", &more).await;
    let row = async |node: &str, row: &str| {
        cluster
            .nodes
            .label(node, "example.io/row", Some(row))
            .await
            .unwrap()
    };
    let used = homes(&pair.pods);
    let free = (0..3)
        .map(|index| format!("row-{index}"))
        .find(|node| !used.values().any(|one| one == node));
    let free = free.unwrap();
    cluster.nodes.cordon(&free).await.unwrap();
    for (node, value) in [
        (&used["web-0"], "mine"),
        (&free, "mine"),
        (&used["web-1"], "other"),
    ] {
        row(node, value).await;
    }
    let states = pair.pool.recorded("mine", "web").await;
    let pair = Pair { states, ..pair };
    pair.delete_node().await;
    pair.delete_pod().await;
    let pending = pair.wait_until_pending().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(pair.pods_now().await["web-0"].uid, pending.uid);
    let last = Instant::now();
    row(&free, "new").await;
    cluster.nodes.uncordon(&free).await.unwrap();
    pair.wait_until_moved().await;
    assert!(last.elapsed() >= GRACE, "after {:?}", last.elapsed());
}

pub(crate) async fn starts_the_grace_period_again_after_a_restart(cluster: &Cluster) {
    let pair = Pair::new(cluster, "restart", &json!({"nodeDeletionPolicy": "Forget"})).await;
    let sidecar = cluster.sidecar().unwrap();
    pair.delete_node().await;
    pair.delete_pod().await;
    pair.wait_until_pending().await;
    sidecar.kill().await.unwrap();
    tokio::time::sleep(GRACE).await;
    let started = Instant::now();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    assert_eq!(pair.pool.states("mine").await, pair.states);
    // No state is recorded for a moment only: the Pod is evicted at once, and recorded elsewhere.
    pair.wait_until_moved().await;
    assert!(started.elapsed() >= GRACE, "after {:?}", started.elapsed());
}

/// Restarts the sidecar without the flag, and with it: then it evicts a Pod whose state an earlier
/// process has dropped.
pub(crate) async fn reports_a_pod_that_it_may_not_evict(cluster: &Cluster) {
    let pair = Pair::new(cluster, "told", &json!({"nodeDeletionPolicy": "Forget"})).await;
    cluster.sidecar().unwrap().kill().await.unwrap();
    let mut options = SidecarOptions {
        name: "without-evictions".to_owned(),
        ..sidecar()
    };
    options.args.retain(|arg| arg != "--evict-pending-pods");
    let without = cluster.run_sidecar(options).unwrap();
    pair.delete_node().await;
    pair.delete_pod().await;
    let pending = pair.wait_until_pending().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    let message = pair.pool.event("web", "PodNotEvicted").await;
    assert!(
        message.contains("web-0") && message.contains("--evict-pending-pods"),
        "{message}"
    );
    tokio::time::sleep(WHILE).await;
    assert_eq!(pair.pods_now().await["web-0"].uid, pending.uid);
    assert_eq!(
        pair.pool
            .events("web", "PodNotEvicted")
            .await
            .unwrap()
            .len(),
        1
    );
    without.terminate(TIMEOUT).await.unwrap();
    cluster.sidecar().unwrap().start_again().unwrap();
    pair.wait_until_moved().await;
}
