//! What happens to recorded states when a node is deleted.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pps_e2e::{
    cluster::{Cluster, PodInfo, nodes::NodeSpec},
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::permissions;
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
    SidecarOptions { args, ..SidecarOptions::default() }
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
        let pods = cluster.run_stateful_set(&pool.stateful_set("web", 2).template(&apart)).await.unwrap();
        let states = pool.recorded("mine", "web").await;
        let node = homes(&pods)["web-0"].clone();
        Self { pool, pods, states, node }
    }

    /// Deletes the node of web-0. The node can be made again from the result.
    async fn delete_node(&self) -> NodeSpec {
        let nodes = &self.pool.cluster.nodes;
        let labels = nodes.api().get(&self.node).await.unwrap().metadata.labels.unwrap();
        nodes.delete(&self.node).await.unwrap();
        NodeSpec { labels, ..NodeSpec::new(self.node.clone()) }
    }

    async fn delete_pod(&self) {
        self.pool.cluster.delete_pods(self.pool.namespace, "web", &["web-0"]).await.unwrap();
    }

    /// Waits until web-0 is replaced by a Pod that is pending because its node is missing.
    async fn wait_until_pending(&self) -> PodInfo {
        let old = &self.pods["web-0"].uid;
        let what = "web-0 to be made again and to have no node";
        let waits = |pod: &PodInfo| pod.uid != *old && pod.node.is_none();
        let pods = self.pool.cluster.wait_for_pods(self.pool.namespace, "web", what, TIMEOUT, |pods| {
            pods.get("web-0").is_some_and(waits)
        });
        let pod = pods.await.unwrap()["web-0"].clone();
        assert_eq!(pod.annotations[MARKER], "mine");
        pod
    }

    async fn pods_now(&self) -> BTreeMap<String, PodInfo> {
        self.pool.cluster.pods(self.pool.namespace, "web").await.unwrap()
    }

    /// Asserts that for longer than the grace period no state is dropped and no Pod deleted.
    async fn assert_nothing_changes(&self, pods: &BTreeMap<String, PodInfo>) {
        let uids = |pods: &BTreeMap<String, PodInfo>| -> Vec<String> {
            pods.values().map(|pod| pod.uid.clone()).collect()
        };
        let started = Instant::now();
        while started.elapsed() < GRACE + WHILE {
            assert_eq!(self.pool.states("mine").await, self.states);
            assert_eq!(uids(&self.pods_now().await), uids(pods));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until web-0 runs on another node and is recorded there. Asserts that web-1 and its state did not
    /// change.
    async fn wait_until_moved(&self) {
        let cluster = self.pool.cluster;
        let moved = |pod: &PodInfo| pod.ready && pod.node.as_ref().is_some_and(|node| *node != self.node);
        let what = "web-0 to run elsewhere";
        let pods = cluster
            .wait_for_pods(self.pool.namespace, "web", what, TIMEOUT, |pods| {
                pods.get("web-0").is_some_and(moved)
            })
            .await
            .unwrap();
        assert!(!pods["web-0"].annotations.contains_key(MARKER), "{:?}", pods["web-0"]);
        assert_eq!(pods["web-1"].uid, self.pods["web-1"].uid);
        let states = self.pool.recorded("mine", "web").await;
        assert_eq!(states["web-1"], self.states["web-1"]);
        assert_eq!(states["web-0"]["nodeName"], json!(pods["web-0"].node));
        let message = self.pool.event("web", "StatesForgotten").await;
        assert!(message.contains("web-0") && message.contains(&self.node), "{message}");
    }
}

pub(crate) async fn forgets_states_after_the_grace_period(cluster: &Cluster) {
    for (namespace, retention) in [("gone-scaled", "WhenScaled"), ("gone-retain", "Retain")] {
        let more = json!({"nodeDeletionPolicy": "Forget", "persistentPodStateRetentionPolicy": retention});
        let pair = Pair::new(cluster, namespace, &more).await;
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
    }
    let metric =
        cluster.sidecar().unwrap().metric("persistentpodstate_states_forgotten_total").await.unwrap();
    assert!(metric.is_some_and(|states| states >= 2.0), "{metric:?}");
}

pub(crate) async fn does_not_evict_a_pod_that_another_node_could_take(cluster: &Cluster) {
    let more = json!({"nodeDeletionPolicy": "Forget",
        "requiredPersistentTopology": {"nodeTopologyKeys": ["example.io/rack"]}});
    let pair = Pair::new(cluster, "rack", &more).await;
    let rack = async |node: &str| cluster.nodes.label(node, "example.io/rack", Some("r")).await.unwrap();
    for index in 0..3 {
        rack(&format!("rack-{index}")).await;
    }
    pair.pool.recorded("mine", "web").await;
    for index in 0..3 {
        cluster.nodes.cordon(&format!("rack-{index}")).await.unwrap();
    }
    pair.delete_node().await;
    pair.delete_pod().await;
    let pending = pair.wait_until_pending().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    // Its rack still has nodes, although they are cordoned.
    tokio::time::sleep(GRACE).await;
    assert_eq!(pair.pods_now().await["web-0"].uid, pending.uid);
    for index in (0..3).map(|index| format!("rack-{index}")).filter(|node| *node != pair.node) {
        cluster.nodes.uncordon(&index).await.unwrap();
    }
    let pods = pair.pool.ready("web", 2).await;
    assert_eq!(pods["web-0"].uid, pending.uid);
    pair.pool.recorded("mine", "web").await;
}

pub(crate) async fn evicts_a_pod_once_no_node_matches_for_the_grace_period(cluster: &Cluster) {
    let more = json!({"nodeDeletionPolicy": "Forget",
        "requiredPersistentTopology": {"nodeTopologyKeys": ["example.io/row"]}});
    let pair = Pair::new(cluster, "row", &more).await;
    let row =
        async |node: &str, row: &str| cluster.nodes.label(node, "example.io/row", Some(row)).await.unwrap();
    let used = homes(&pair.pods);
    let free = (0..3).map(|index| format!("row-{index}")).find(|node| !used.values().any(|one| one == node));
    let free = free.unwrap();
    cluster.nodes.cordon(&free).await.unwrap();
    for (node, value) in [(&used["web-0"], "mine"), (&free, "mine"), (&used["web-1"], "other")] {
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

pub(crate) async fn keep_policy_waits_for_the_node(cluster: &Cluster) {
    let pair = Pair::new(cluster, "kept", &json!({})).await;
    let node = pair.delete_node().await;
    pair.delete_pod().await;
    pair.wait_until_pending().await;
    pair.assert_nothing_changes(&pair.pods_now().await).await;
    cluster.nodes.create(node).await.unwrap();
    assert_eq!(homes(&pair.pool.ready("web", 2).await), homes(&pair.pods));
}

pub(crate) async fn keeps_states_if_the_node_returns_in_time(cluster: &Cluster) {
    let pair = Pair::new(cluster, "back", &json!({"nodeDeletionPolicy": "Forget"})).await;
    let node = pair.delete_node().await;
    pair.delete_pod().await;
    pair.wait_until_pending().await;
    cluster.nodes.create(node).await.unwrap();
    let pods = pair.pool.ready("web", 2).await;
    assert_eq!(homes(&pods), homes(&pair.pods));
    pair.assert_nothing_changes(&pods).await;
}

pub(crate) async fn keeps_states_while_a_node_is_not_ready_or_cordoned(cluster: &Cluster) {
    let pair = Pair::new(cluster, "notready", &json!({"nodeDeletionPolicy": "Forget"})).await;
    cluster.nodes.set_ready(&pair.node, false).await.unwrap();
    cluster.nodes.cordon(&pair.node).await.unwrap();
    pair.delete_pod().await;
    pair.wait_until_pending().await;
    pair.assert_nothing_changes(&pair.pods_now().await).await;
    cluster.nodes.set_ready(&pair.node, true).await.unwrap();
    cluster.nodes.uncordon(&pair.node).await.unwrap();
    assert_eq!(homes(&pair.pool.ready("web", 2).await), homes(&pair.pods));
}

pub(crate) async fn keeps_the_state_of_a_ready_pod(cluster: &Cluster) {
    let pair = Pair::new(cluster, "backed", &json!({"nodeDeletionPolicy": "Forget"})).await;
    pair.delete_node().await;
    pair.assert_nothing_changes(&pair.pods).await;
    pair.delete_pod().await;
    pair.wait_until_moved().await;
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
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    assert!(started.elapsed() >= GRACE, "after {:?}", started.elapsed());
    pair.wait_until_moved().await;
}

/// Grants the sidecar all its permissions except those for this verb on core resources.
async fn grant_all_except(cluster: &Cluster, verb: Option<&str>) {
    let mut objects = permissions::roles();
    objects.retain(|one| one["kind"] == "ClusterRole");
    let mut removed = 0;
    for role in &mut objects {
        let rules = role["rules"].as_array_mut().unwrap();
        let before = rules.len();
        let is_core = |rule: &Value| rule["apiGroups"] == json!([""]);
        rules.retain(|rule| !is_core(rule) || verb.is_none_or(|verb| rule["verbs"] != json!([verb])));
        removed += before - rules.len();
    }
    assert_eq!(removed, verb.iter().len());
    cluster.apply_objects(&objects).await.unwrap();
}

/// Causes refused requests, so it runs after the check of the audit log.
pub(crate) async fn keeps_states_when_the_deletion_cannot_be_confirmed(cluster: &Cluster) {
    let pair = Pair::new(cluster, "unread", &json!({"nodeDeletionPolicy": "Forget"})).await;
    grant_all_except(cluster, Some("get")).await;
    pair.delete_node().await;
    pair.delete_pod().await;
    pair.wait_until_pending().await;
    let sidecar = cluster.sidecar().unwrap();
    wait_for("the sidecar to look the node up repeatedly, without success", TIMEOUT, async || {
        let lookups = sidecar
            .metric("persistentpodstate_node_lookups_total{result=\"unknown\"}")
            .await?
            .unwrap_or_default();
        Ok(Progress::when(lookups >= 2.0, (), format!("{lookups} lookups")))
    })
    .await
    .unwrap();
    let log = sidecar.log();
    let line = log.lines().find(|line| line.contains("cannot confirm that a node does not exist")).unwrap();
    assert!(line.contains(&pair.node) && line.contains("403"), "{line}");
    pair.assert_nothing_changes(&pair.pods_now().await).await;
    grant_all_except(cluster, None).await;
    pair.wait_until_moved().await;
}

/// Restarts the sidecar without the flag, and with it.
pub(crate) async fn reports_a_pod_that_it_may_not_evict(cluster: &Cluster) {
    let pair = Pair::new(cluster, "told", &json!({"nodeDeletionPolicy": "Forget"})).await;
    cluster.sidecar().unwrap().kill().await.unwrap();
    let mut options = SidecarOptions { name: "without-evictions".to_owned(), ..sidecar() };
    options.args.retain(|arg| arg != "--evict-pending-pods");
    let without = cluster.run_sidecar(options).unwrap();
    pair.delete_node().await;
    pair.delete_pod().await;
    let pending = pair.wait_until_pending().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    let message = pair.pool.event("web", "PodNotEvicted").await;
    assert!(message.contains("web-0") && message.contains("--evict-pending-pods"), "{message}");
    tokio::time::sleep(WHILE).await;
    assert_eq!(pair.pods_now().await["web-0"].uid, pending.uid);
    assert_eq!(pair.pool.events("web", "PodNotEvicted").await.unwrap().len(), 1);
    without.terminate(TIMEOUT).await.unwrap();
    cluster.sidecar().unwrap().start_again().unwrap();
    pair.wait_until_moved().await;
}

/// Causes refused requests, so it runs after the check of the audit log. A sidecar that ends between dropping
/// a state and evicting its Pod leaves the same situation.
pub(crate) async fn evicts_a_pod_later_if_it_could_not_at_once(cluster: &Cluster) {
    let pair = Pair::new(cluster, "late", &json!({"nodeDeletionPolicy": "Forget"})).await;
    grant_all_except(cluster, Some("create")).await;
    pair.delete_node().await;
    pair.delete_pod().await;
    let pending = pair.wait_until_pending().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    let sidecar = cluster.sidecar().unwrap();
    wait_for("the eviction to be refused", TIMEOUT, async || {
        let refused =
            sidecar.metric("persistentpodstate_writes_total{resource=\"pods\",result=\"refused\"}").await?;
        Ok(Progress::when(refused.is_some_and(|refused| refused > 0.0), (), "not yet"))
    })
    .await
    .unwrap();
    assert!(sidecar.log().contains("cannot evict a Pod that waits for a node that does not exist"));
    let message = pair.pool.event("web", "PodNotEvicted").await;
    assert!(message.contains("web-0") && message.contains("403"), "{message}");
    sidecar.kill().await.unwrap();
    assert_eq!(pair.pods_now().await["web-0"].uid, pending.uid);
    grant_all_except(cluster, None).await;
    sidecar.start_again().unwrap();
    pair.wait_until_moved().await;
}
