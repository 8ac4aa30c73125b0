//! The wall clock jumps.

use std::{collections::BTreeSet, fs, time::Duration};

use pps_e2e::{
    cluster::{Cluster, PodInfo, nodes::NodeSpec},
    programs::Group,
    sidecar::SidecarOptions,
};
use serde_json::json;

use super::end_state::end_state;
use super::fleet::Fleet;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, Random, TIMEOUT, ZONE, homes, spec_for,
    spread_over_nodes,
};

/// The grace period of the sidecar.
const GRACE: Duration = Duration::from_secs(6);
const RACK: &str = "example.io/rack";

/// The options of the sidecar in the test of the clock.
pub(crate) fn sidecar() -> SidecarOptions {
    let args = vec![
        "--node-grace-period".to_owned(),
        format!("{}s", GRACE.as_secs()),
        "--evict-pending-pods".to_owned(),
    ];
    SidecarOptions {
        args,
        ..SidecarOptions::default()
    }
}

/// Three Pods on three of four nodes, each pinned to its node, whose states are forgotten with it.
struct Trio<'a> {
    pool: Pool<'a>,
    random: Random,
}

impl<'a> Trio<'a> {
    async fn new(cluster: &'a Cluster, namespace: &'static str) -> Self {
        let pool = Pool::new(cluster, namespace, 4, 2).await;
        for index in 0..4 {
            cluster
                .nodes
                .label(&format!("{namespace}-{index}"), RACK, Some("first"))
                .await
                .unwrap();
        }
        let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": [ZONE, RACK]}}],
            "persistentPodAnnotations": [{"key": IP_ANNOTATION}], "nodeDeletionPolicy": "Forget"});
        pool.object("web", &spec_for("web", &spec)).await;
        let apart = spread_over_nodes(&json!({"matchLabels": {"app": "web"}}));
        cluster
            .run_stateful_set(&pool.stateful_set("web", 3).template(&apart))
            .await
            .unwrap();
        end_state(cluster, namespace, 3).await;
        Self {
            pool,
            random: Random::of(namespace),
        }
    }

    /// A random Pod and its node.
    async fn any(&mut self) -> (String, String) {
        let homes = homes(&self.pool.ready("web", 3).await);
        let all: Vec<(String, String)> = homes.into_iter().collect();
        self.random.one(&all).clone()
    }

    async fn delete_node(&self, node: &str) {
        self.pool.cluster.nodes.delete(node).await.unwrap();
    }

    /// Makes the node again with other labels.
    async fn make_node(&mut self, node: &str) {
        let namespace = self.pool.namespace;
        let labels = self.pool.selector().as_object().unwrap().clone();
        let mut spec =
            NodeSpec::new(node).zone(format!("{namespace}-zone-{}", self.random.below(1000)));
        for (key, value) in labels {
            spec = spec.label(key, value.as_str().unwrap());
        }
        let spec = spec.label(RACK, format!("rack-{}", self.random.below(1000)));
        self.pool.cluster.nodes.create(spec).await.unwrap();
    }

    /// Deletes a Pod and waits until its replacement is pending because the node is missing.
    async fn delete_pod(&self, pod: &str) {
        let cluster = self.pool.cluster;
        let before = cluster
            .delete_pods(self.pool.namespace, "web", &[pod])
            .await
            .unwrap();
        let is_pending = |now: &PodInfo| now.uid != before[pod].uid && now.node.is_none();
        let what = format!("{pod} to be pending without its node");
        let pods = cluster.wait_for_pods(self.pool.namespace, "web", &what, TIMEOUT, |pods| {
            pods.get(pod).is_some_and(is_pending)
        });
        assert!(pods.await.unwrap()[pod].annotations.contains_key(MARKER));
    }

    async fn home(&self, pod: &str) -> String {
        homes(&self.pool.ready("web", 3).await)[pod].clone()
    }
}

/// It jumps by hours and days, forward and back, while the sidecar leads, batches changes and waits
/// for a node.
pub(crate) async fn ignores_jumps_of_the_wall_clock(cluster: &Cluster) {
    // This library fakes the wall clock of a program.
    let library = Group::System.program("libfaketime.so.1").unwrap();
    let mut random = Random::of("clock");
    let time = cluster.control_plane.folder().join("time");
    let set = |offset: &str| fs::write(&time, format!("{offset}\n")).unwrap();
    set("+0");
    let mut options = SidecarOptions {
        name: "jumping".to_owned(),
        ..sidecar()
    };
    for (key, value) in [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", time.display().to_string()),
        // Read the file at each call, and leave the monotonic clock alone.
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ] {
        options.env.push((key.to_owned(), value));
    }
    cluster.sidecar().unwrap().terminate(TIMEOUT).await.unwrap();
    let jumping = cluster.run_sidecar(options).unwrap();
    jumping.wait_ready(TIMEOUT).await.unwrap();
    jumping.wait_leading(TIMEOUT).await.unwrap();
    let fleet = Fleet::new(cluster, "clock", 2, 3).await;
    let mut trio = Trio::new(cluster, "clock-nodes").await;

    let hours = 2 + random.below(20);
    for offset in [
        format!("+{hours}h"),
        "+400d".to_owned(),
        "-300d".to_owned(),
        format!("-{hours}h"),
    ] {
        // The clock jumps while changes are batched and a node is missing. The absence must not
        // seem longer.
        let (pod, node) = trio.any().await;
        trio.delete_node(&node).await;
        trio.delete_pod(&pod).await;
        fleet.delete_some(&mut random, 2).await;
        tokio::time::sleep(Duration::from_millis(random.below(500))).await;
        set(&offset);
        fleet.ready().await;
        for set in fleet.sets() {
            fleet.pool.recorded(&set, &set).await;
        }
        trio.make_node(&node).await;
        assert_eq!(
            trio.home(&pod).await,
            node,
            "the state was forgotten too early, at {offset}"
        );
        assert!(jumping.leads().await.unwrap());
    }
    fleet.end_state().await;
    end_state(cluster, "clock-nodes", 3).await;
    let log = jumping.log();
    assert!(
        !log.contains("no longer leading"),
        "the Lease must not depend on the wall clock"
    );
    // Check that the clock did jump for the sidecar.
    let days: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.split("\"timestamp\":\"").nth(1)?.get(..10))
        .collect();
    assert!(days.len() >= 3, "the clock did not jump: {days:?}");
    assert_eq!(jumping.terminate(TIMEOUT).await.unwrap().code, Some(0));
    cluster.sidecar().unwrap().start_again().unwrap();
    cluster
        .sidecar()
        .unwrap()
        .wait_ready(TIMEOUT)
        .await
        .unwrap();
}
