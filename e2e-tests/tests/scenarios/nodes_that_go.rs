//! Nodes that are deleted, and what is recorded on them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pps_e2e::{
    cluster::{Cluster, PodInfo, nodes::NodeSpec},
    manifests,
    repository::repository_file,
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::{HOSTNAME, IP_ANNOTATION, MARKER, Pool, TIMEOUT, WHILE, ZONE, homes, spec_for};

/// How long a node has to be gone.
const GRACE: Duration = Duration::from_secs(6);

pub(crate) fn sidecar() -> SidecarOptions {
    let args = vec!["--node-grace-period".to_owned(), format!("{}s", GRACE.as_secs())];
    SidecarOptions { args, ..SidecarOptions::default() }
}

/// Two Pods on two of three nodes, each pinned to its node, and recorded.
struct Pair<'a> {
    pool: Pool<'a>,
    pods: BTreeMap<String, PodInfo>,
    states: BTreeMap<String, Value>,
    /// Where web-0 is.
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
        let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}]}}}});
        let pods = cluster.run_stateful_set(&pool.stateful_set("web", 2).template(&apart)).await.unwrap();
        let states = pool.recorded("mine", "web").await;
        let node = homes(&pods)["web-0"].clone();
        Self { pool, pods, states, node }
    }

    /// Deletes the node of web-0; it can be made again from this.
    async fn delete_node(&self) -> NodeSpec {
        let nodes = &self.pool.cluster.nodes;
        let labels = nodes.api().get(&self.node).await.unwrap().metadata.labels.unwrap();
        nodes.delete(&self.node).await.unwrap();
        NodeSpec { labels, ..NodeSpec::new(self.node.clone()) }
    }

    async fn delete_pod(&self) {
        self.pool.cluster.delete_pods(self.pool.namespace, "web", &["web-0"]).await.unwrap();
    }

    /// Waits until the successor of web-0 waits for its node.
    async fn waiting(&self) -> PodInfo {
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

    async fn now(&self) -> BTreeMap<String, PodInfo> {
        self.pool.cluster.pods(self.pool.namespace, "web").await.unwrap()
    }

    /// For longer than the grace period nothing is dropped, and no Pod deleted.
    async fn stays(&self, pods: &BTreeMap<String, PodInfo>) {
        let uids = |pods: &BTreeMap<String, PodInfo>| -> Vec<String> {
            pods.values().map(|pod| pod.uid.clone()).collect()
        };
        let started = Instant::now();
        while started.elapsed() < GRACE + WHILE {
            assert_eq!(self.pool.states("mine").await, self.states);
            assert_eq!(uids(&self.now().await), uids(pods));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until web-0 runs on another node and is recorded there. What was recorded of web-1 is as it
    /// was, and so is web-1.
    async fn starts_anew_elsewhere(&self) {
        let cluster = self.pool.cluster;
        let there = |pod: &PodInfo| pod.ready && pod.node.as_ref().is_some_and(|node| *node != self.node);
        let what = "web-0 to run elsewhere";
        let pods = cluster
            .wait_for_pods(self.pool.namespace, "web", what, TIMEOUT, |pods| {
                pods.get("web-0").is_some_and(there)
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

pub(crate) async fn a_pod_whose_node_is_gone_starts_anew_elsewhere(cluster: &Cluster) {
    for (namespace, retention) in [("gone-scaled", "WhenScaled"), ("gone-retain", "Retain")] {
        let more = json!({"nodeDeletionPolicy": "Forget", "persistentPodStateRetentionPolicy": retention});
        let pair = Pair::new(cluster, namespace, &more).await;
        let deleted = Instant::now();
        pair.delete_node().await;
        pair.delete_pod().await;
        let waiting = pair.waiting().await;
        assert_eq!(pair.pool.states("mine").await, pair.states);
        pair.starts_anew_elsewhere().await;
        assert!(deleted.elapsed() >= GRACE, "after {:?}", deleted.elapsed());
        assert_ne!(pair.now().await["web-0"].uid, waiting.uid);
        let message = pair.pool.event("web", "PodEvicted").await;
        assert!(message.contains("web-0"), "{message}");
    }
    let metric =
        cluster.sidecar().unwrap().metric("persistentpodstate_states_forgotten_total").await.unwrap();
    assert!(metric.is_some_and(|states| states >= 2.0), "{metric:?}");
}

pub(crate) async fn a_pod_that_may_still_get_a_node_is_not_deleted(cluster: &Cluster) {
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
    let waiting = pair.waiting().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    // There are nodes in its rack, if only cordoned ones.
    tokio::time::sleep(GRACE).await;
    assert_eq!(pair.now().await["web-0"].uid, waiting.uid);
    for index in (0..3).map(|index| format!("rack-{index}")).filter(|node| *node != pair.node) {
        cluster.nodes.uncordon(&index).await.unwrap();
    }
    let pods = pair.pool.ready("web", 2).await;
    assert_eq!(pods["web-0"].uid, waiting.uid);
    pair.pool.recorded("mine", "web").await;
}

pub(crate) async fn a_pod_whose_last_node_goes_later_is_excused_anew(cluster: &Cluster) {
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
    let waiting = pair.waiting().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(pair.now().await["web-0"].uid, waiting.uid);
    let last = Instant::now();
    row(&free, "new").await;
    cluster.nodes.uncordon(&free).await.unwrap();
    pair.starts_anew_elsewhere().await;
    assert!(last.elapsed() >= GRACE, "after {:?}", last.elapsed());
}

pub(crate) async fn what_is_to_be_kept_waits_for_its_node(cluster: &Cluster) {
    let pair = Pair::new(cluster, "kept", &json!({})).await;
    let node = pair.delete_node().await;
    pair.delete_pod().await;
    pair.waiting().await;
    pair.stays(&pair.now().await).await;
    cluster.nodes.create(node).await.unwrap();
    assert_eq!(homes(&pair.pool.ready("web", 2).await), homes(&pair.pods));
}

pub(crate) async fn a_node_that_comes_back_in_time_costs_nothing(cluster: &Cluster) {
    let pair = Pair::new(cluster, "back", &json!({"nodeDeletionPolicy": "Forget"})).await;
    let node = pair.delete_node().await;
    pair.delete_pod().await;
    pair.waiting().await;
    cluster.nodes.create(node).await.unwrap();
    let pods = pair.pool.ready("web", 2).await;
    assert_eq!(homes(&pods), homes(&pair.pods));
    pair.stays(&pods).await;
}

pub(crate) async fn a_node_that_is_only_not_ready_or_cordoned_is_not_gone(cluster: &Cluster) {
    let pair = Pair::new(cluster, "notready", &json!({"nodeDeletionPolicy": "Forget"})).await;
    cluster.nodes.set_ready(&pair.node, false).await.unwrap();
    cluster.nodes.cordon(&pair.node).await.unwrap();
    pair.delete_pod().await;
    pair.waiting().await;
    pair.stays(&pair.now().await).await;
    cluster.nodes.set_ready(&pair.node, true).await.unwrap();
    cluster.nodes.uncordon(&pair.node).await.unwrap();
    assert_eq!(homes(&pair.pool.ready("web", 2).await), homes(&pair.pods));
}

pub(crate) async fn a_state_that_a_ready_pod_backs_stays(cluster: &Cluster) {
    let pair = Pair::new(cluster, "backed", &json!({"nodeDeletionPolicy": "Forget"})).await;
    pair.delete_node().await;
    pair.stays(&pair.pods).await;
    pair.delete_pod().await;
    pair.starts_anew_elsewhere().await;
}

pub(crate) async fn a_restart_begins_the_grace_period_anew(cluster: &Cluster) {
    let pair = Pair::new(cluster, "restart", &json!({"nodeDeletionPolicy": "Forget"})).await;
    let sidecar = cluster.sidecar().unwrap();
    pair.delete_node().await;
    pair.delete_pod().await;
    pair.waiting().await;
    sidecar.kill().await.unwrap();
    tokio::time::sleep(GRACE).await;
    let started = Instant::now();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    assert_eq!(pair.pool.states("mine").await, pair.states);
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    assert!(started.elapsed() >= GRACE, "after {:?}", started.elapsed());
    pair.starts_anew_elsewhere().await;
}

/// Gives the sidecar all its rights but the one to read a node or to delete a Pod.
async fn rights_without(cluster: &Cluster, verb: Option<&str>) {
    let mut objects = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
    objects.retain(|one| one["kind"] == "ClusterRole" && one["metadata"]["name"] == "pps-sidecar");
    let rules = objects[0]["rules"].as_array_mut().unwrap();
    let before = rules.len();
    let is_core = |rule: &Value| rule["apiGroups"] == json!([""]);
    rules.retain(|rule| !is_core(rule) || verb.is_none_or(|verb| rule["verbs"] != json!([verb])));
    assert_eq!(rules.len(), before - verb.iter().len());
    cluster.apply_objects(&objects).await.unwrap();
}

/// Not before the rights have been looked at: what is refused here would count.
pub(crate) async fn what_cannot_be_confirmed_is_not_dropped(cluster: &Cluster) {
    let pair = Pair::new(cluster, "unread", &json!({"nodeDeletionPolicy": "Forget"})).await;
    rights_without(cluster, Some("get")).await;
    pair.delete_node().await;
    pair.delete_pod().await;
    pair.waiting().await;
    let sidecar = cluster.sidecar().unwrap();
    wait_for("the sidecar to ask for the node in vain, and again", TIMEOUT, async || {
        let asked = sidecar
            .metric("persistentpodstate_node_lookups_total{result=\"unknown\"}")
            .await?
            .unwrap_or_default();
        Ok(Progress::when(asked >= 3.0, (), format!("{asked} times")))
    })
    .await
    .unwrap();
    let told = sidecar.log();
    let told = told.lines().find(|line| line.contains("cannot confirm that a node does not exist")).unwrap();
    assert!(told.contains(&pair.node) && told.contains("403"), "{told}");
    pair.stays(&pair.now().await).await;
    rights_without(cluster, None).await;
    pair.starts_anew_elsewhere().await;
}

/// Nor this. A sidecar that ends between the two leaves them like this, too.
pub(crate) async fn a_pod_is_deleted_late_if_it_could_not_be_at_once(cluster: &Cluster) {
    let pair = Pair::new(cluster, "late", &json!({"nodeDeletionPolicy": "Forget"})).await;
    rights_without(cluster, Some("delete")).await;
    pair.delete_node().await;
    pair.delete_pod().await;
    let waiting = pair.waiting().await;
    pair.pool.wait_for_entries("mine", &["web-1"]).await;
    let sidecar = cluster.sidecar().unwrap();
    wait_for("the sidecar to say that it may not", TIMEOUT, async || {
        let refused =
            sidecar.metric("persistentpodstate_writes_total{resource=\"pods\",result=\"error\"}").await?;
        Ok(Progress::when(refused.is_some_and(|refused| refused > 0.0), (), "not yet"))
    })
    .await
    .unwrap();
    assert!(sidecar.log().contains("cannot delete a Pod that waits for a node that does not exist"));
    sidecar.kill().await.unwrap();
    assert_eq!(pair.now().await["web-0"].uid, waiting.uid);
    rights_without(cluster, None).await;
    sidecar.start_again().unwrap();
    pair.starts_anew_elsewhere().await;
}
