//! Nodes are deleted and made again under the same names with other labels.

use std::{collections::BTreeMap, time::Duration};

use pps_e2e::{
    cluster::{Cluster, PodInfo, nodes::NodeSpec},
    sidecar::SidecarOptions,
};
use serde_json::{Value, json};

use super::end_state::{Retained, end_state, end_state_with};
use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, Random, TIMEOUT, ZONE, homes, spec_for, spread_over_nodes,
};

/// The grace period of the sidecar.
const GRACE: Duration = Duration::from_secs(6);
const RACK: &str = "example.io/rack";

pub(crate) fn sidecar() -> SidecarOptions {
    let args = vec![
        "--node-grace-period".to_owned(),
        format!("{}s", GRACE.as_secs()),
        "--evict-pending-pods".to_owned(),
    ];
    SidecarOptions { args, ..SidecarOptions::default() }
}

/// Three Pods on three of four nodes, each pinned to its node.
pub(crate) struct Trio<'a> {
    pool: Pool<'a>,
    random: Random,
}

impl<'a> Trio<'a> {
    pub(crate) async fn new(cluster: &'a Cluster, namespace: &'static str, policy: &str) -> Self {
        let pool = Pool::new(cluster, namespace, 4, 2).await;
        for index in 0..4 {
            cluster.nodes.label(&format!("{namespace}-{index}"), RACK, Some("first")).await.unwrap();
        }
        let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": [ZONE, RACK]}}],
            "persistentPodAnnotations": [{"key": IP_ANNOTATION}], "nodeDeletionPolicy": policy});
        pool.object("web", &spec_for("web", &spec)).await;
        let apart = spread_over_nodes(&json!({"matchLabels": {"app": "web"}}));
        cluster.run_stateful_set(&pool.stateful_set("web", 3).template(&apart)).await.unwrap();
        end_state(cluster, namespace, 3).await;
        Self { pool, random: Random::of(namespace) }
    }

    /// A random Pod and its node.
    pub(crate) async fn any(&mut self) -> (String, String) {
        let homes = homes(&self.pool.ready("web", 3).await);
        let all: Vec<(String, String)> = homes.into_iter().collect();
        self.random.one(&all).clone()
    }

    pub(crate) async fn delete_node(&self, node: &str) {
        self.pool.cluster.nodes.delete(node).await.unwrap();
    }

    /// Makes the node again with other labels.
    pub(crate) async fn make_node(&mut self, node: &str) {
        let namespace = self.pool.namespace;
        let labels = self.pool.selector().as_object().unwrap().clone();
        let mut spec = NodeSpec::new(node).zone(format!("{namespace}-zone-{}", self.random.below(1000)));
        for (key, value) in labels {
            spec = spec.label(key, value.as_str().unwrap());
        }
        let spec = spec.label(RACK, format!("rack-{}", self.random.below(1000)));
        self.pool.cluster.nodes.create(spec).await.unwrap();
    }

    /// Deletes a Pod and waits until its replacement is pending because the node is missing.
    pub(crate) async fn delete_pod(&self, pod: &str) {
        let cluster = self.pool.cluster;
        let before = cluster.delete_pods(self.pool.namespace, "web", &[pod]).await.unwrap();
        let is_pending = |now: &PodInfo| now.uid != before[pod].uid && now.node.is_none();
        let what = format!("{pod} to be pending without its node");
        let pods = cluster.wait_for_pods(self.pool.namespace, "web", &what, TIMEOUT, |pods| {
            pods.get(pod).is_some_and(is_pending)
        });
        assert!(pods.await.unwrap()[pod].annotations.contains_key(MARKER));
    }

    pub(crate) async fn home(&self, pod: &str) -> String {
        homes(&self.pool.ready("web", 3).await)[pod].clone()
    }

    async fn states(&self) -> BTreeMap<String, Value> {
        self.pool.states("web").await
    }

    async fn end_state(&self) {
        end_state(self.pool.cluster, self.pool.namespace, 3).await;
    }

    /// Recreates a node within the grace period, which has the same effect under both policies.
    async fn recreate_node_in_time(&mut self) {
        // The Pod keeps running.
        let (pod, node) = self.any().await;
        self.delete_node(&node).await;
        tokio::time::sleep(Duration::from_millis(self.random.below(1000))).await;
        self.make_node(&node).await;
        self.end_state().await;
        assert_eq!(self.home(&pod).await, node);

        // The Pod is pending meanwhile.
        let (pod, node) = self.any().await;
        self.delete_node(&node).await;
        self.delete_pod(&pod).await;
        tokio::time::sleep(Duration::from_millis(self.random.below(1000))).await;
        self.make_node(&node).await;
        assert_eq!(self.home(&pod).await, node);
        self.end_state().await;
    }
}

pub(crate) async fn keep_policy_survives_the_recreation_of_a_node(cluster: &Cluster) {
    let mut trio = Trio::new(cluster, "again-kept", "Keep").await;
    trio.recreate_node_in_time().await;

    // The grace period does not matter.
    let (pod, node) = trio.any().await;
    let states = trio.states().await;
    trio.delete_node(&node).await;
    trio.delete_pod(&pod).await;
    tokio::time::sleep(GRACE + Duration::from_secs(2)).await;
    let retained = Retained::from([(("web".to_owned(), pod.clone()), states[&pod].clone())]);
    end_state_with(cluster, "again-kept", 3, &retained).await;
    trio.make_node(&node).await;
    assert_eq!(trio.home(&pod).await, node);
    trio.end_state().await;
    assert_ne!(trio.states().await[&pod], states[&pod], "the new labels must be recorded");
}

pub(crate) async fn forget_policy_drops_states_of_a_node_recreated_late(cluster: &Cluster) {
    let mut trio = Trio::new(cluster, "again-forgotten", "Forget").await;
    trio.recreate_node_in_time().await;

    let (pod, node) = trio.any().await;
    trio.delete_node(&node).await;
    trio.delete_pod(&pod).await;
    let now = trio.home(&pod).await;
    assert_ne!(now, node, "the Pod must start on another node");
    trio.end_state().await;
    trio.make_node(&node).await;
    trio.end_state().await;
    // The Pod stays on its new node.
    trio.pool.recreate("web", &[&pod]).await;
    assert_eq!(trio.home(&pod).await, now);
    trio.end_state().await;
}
