//! Nodes are deleted, and made again under their names with other labels.

use std::{collections::BTreeMap, time::Duration};

use pps_e2e::{
    cluster::{Cluster, PodInfo},
    nodes::NodeSpec,
    sidecar::SidecarOptions,
};
use serde_json::{Value, json};

use super::end_state::{Retained, end_state, end_state_with};
use crate::support::{HOSTNAME, IP_ANNOTATION, MARKER, Pool, Random, TIMEOUT, ZONE, homes, spec_for};

/// How long a node has to be gone.
const GRACE: Duration = Duration::from_secs(6);
const RACK: &str = "example.io/rack";

pub(crate) fn sidecar() -> SidecarOptions {
    let args = vec!["--node-grace-period".to_owned(), format!("{}s", GRACE.as_secs())];
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
        let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}]}}}});
        cluster.run_stateful_set(&pool.stateful_set("web", 3).template(&apart)).await.unwrap();
        end_state(cluster, namespace, 3).await;
        Self { pool, random: Random::of(namespace) }
    }

    /// One of the Pods, with its node.
    pub(crate) async fn any(&mut self) -> (String, String) {
        let homes = homes(&self.pool.ready("web", 3).await);
        let all: Vec<(String, String)> = homes.into_iter().collect();
        self.random.one(&all).clone()
    }

    pub(crate) async fn delete_node(&self, node: &str) {
        self.pool.cluster.nodes.delete(node).await.unwrap();
    }

    /// Makes the node again, as another one.
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

    /// Deletes a Pod, and waits until its successor waits for the node.
    pub(crate) async fn delete_pod(&self, pod: &str) {
        let cluster = self.pool.cluster;
        let before = cluster.delete_pods(self.pool.namespace, "web", &[pod]).await.unwrap();
        let waits = |now: &PodInfo| now.uid != before[pod].uid && now.node.is_none();
        let what = format!("{pod} to wait for its node");
        let pods = cluster.wait_for_pods(self.pool.namespace, "web", &what, TIMEOUT, |pods| {
            pods.get(pod).is_some_and(waits)
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

    /// What happens within the grace period is the same under both policies.
    async fn soon_back(&mut self) {
        // Under a Pod that goes on.
        let (pod, node) = self.any().await;
        self.delete_node(&node).await;
        tokio::time::sleep(Duration::from_millis(self.random.below(1000))).await;
        self.make_node(&node).await;
        self.end_state().await;
        assert_eq!(self.home(&pod).await, node);

        // Under one that waits for it.
        let (pod, node) = self.any().await;
        self.delete_node(&node).await;
        self.delete_pod(&pod).await;
        tokio::time::sleep(Duration::from_millis(self.random.below(1000))).await;
        self.make_node(&node).await;
        assert_eq!(self.home(&pod).await, node);
        self.end_state().await;
    }
}

pub(crate) async fn a_node_that_is_made_again_is_kept(cluster: &Cluster) {
    let mut trio = Trio::new(cluster, "again-kept", "Keep").await;
    trio.soon_back().await;

    // However late it is back.
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
    assert_ne!(trio.states().await[&pod], states[&pod], "it has other labels");
}

pub(crate) async fn a_node_that_is_made_again_late_was_forgotten(cluster: &Cluster) {
    let mut trio = Trio::new(cluster, "again-forgotten", "Forget").await;
    trio.soon_back().await;

    let (pod, node) = trio.any().await;
    trio.delete_node(&node).await;
    trio.delete_pod(&pod).await;
    let now = trio.home(&pod).await;
    assert_ne!(now, node, "it has started anew elsewhere");
    trio.end_state().await;
    trio.make_node(&node).await;
    trio.end_state().await;
    // It is at home where it is now.
    trio.pool.recreate("web", &[&pod]).await;
    assert_eq!(trio.home(&pod).await, now);
    trio.end_state().await;
}
