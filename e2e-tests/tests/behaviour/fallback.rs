//! Requirements with an end.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pps_e2e::{
    cluster::{Cluster, PodInfo, SIDECAR},
    repository::repository_file,
    sidecar::SidecarOptions,
};
use serde_json::{Value, json};

use super::permissions;
use crate::support::{HOSTNAME, MARKER, Pool, TIMEOUT, ZONE, spec_for};

/// The role with which the sidecar reads claims and volumes.
const VOLUMES: &str = "deploy/components/read-volumes/rbac.yaml";
/// How long Pods wait: the shortest time that the API allows.
const WAIT: Duration = Duration::from_secs(30);

pub(crate) fn sidecar() -> SidecarOptions {
    // A killed sidecar would hold the Lease for a while.
    let args = ["--evict-pending-pods", "--leader-election=false"];
    SidecarOptions {
        args: args.map(str::to_owned).into(),
        ..SidecarOptions::default()
    }
}

/// Pods of the StatefulSet `web` that require these keys for half a minute, and their pool.
struct Bounded<'a> {
    pool: Pool<'a>,
    states: BTreeMap<String, Value>,
}

impl<'a> Bounded<'a> {
    /// The Pods are recorded on the first of these nodes, which are spread over two zones.
    async fn new(
        cluster: &'a Cluster,
        namespace: &'static str,
        nodes: usize,
        keys: &[&str],
        template: &Value,
    ) -> Self {
        let pool = Pool::new(cluster, namespace, nodes, 2).await;
        let others: Vec<String> = (1..nodes)
            .map(|node| format!("{namespace}-{node}"))
            .collect();
        for node in &others {
            cluster.nodes.cordon(node).await.unwrap();
        }
        let topology = json!({"nodeTopologyKeys": keys, "fallbackAfterSeconds": WAIT.as_secs()});
        let spec = spec_for("web", &json!({"requiredPersistentTopology": topology}));
        pool.object("mine", &spec).await;
        let parallel = json!({"spec": {"podManagementPolicy": "Parallel"}});
        let workload = pool
            .stateful_set("web", 2)
            .template(template)
            .overrides(&parallel);
        cluster.run_stateful_set(&workload).await.unwrap();
        let states = pool.recorded("mine", "web").await;
        for node in &others {
            cluster.nodes.uncordon(node).await.unwrap();
        }
        Self { pool, states }
    }

    fn first_node(&self) -> String {
        format!("{}-0", self.pool.namespace)
    }

    async fn delete_pods(&self) {
        let pods = ["web-0", "web-1"];
        let deleted = self
            .pool
            .cluster
            .delete_pods(self.pool.namespace, "web", &pods)
            .await;
        let before = deleted.unwrap();
        let waits = |pods: &BTreeMap<String, PodInfo>| {
            pods.len() == before.len()
                && pods.iter().all(|(name, pod)| {
                    pod.uid != before[name].uid
                        && pod.node.is_none()
                        && pod.annotations[MARKER] == "mine"
                })
        };
        self.wait_for("both Pods to wait", waits).await;
    }

    async fn wait_for(
        &self,
        what: &str,
        done: impl Fn(&BTreeMap<String, PodInfo>) -> bool,
    ) -> BTreeMap<String, PodInfo> {
        let cluster = self.pool.cluster;
        let pods = cluster.wait_for_pods(self.pool.namespace, "web", what, 2 * TIMEOUT, done);
        pods.await.unwrap()
    }

    /// Waits until all Pods are Ready on this node.
    async fn wait_until_on(&self, node: &str) -> BTreeMap<String, Value> {
        self.wait_for("the Pods to run elsewhere", |pods| {
            let are_there = |pod: &PodInfo| pod.ready && pod.node.as_deref() == Some(node);
            pods.len() == 2 && pods.values().all(are_there)
        })
        .await;
        self.pool.recorded("mine", "web").await
    }
}

pub(crate) async fn gives_up_a_lost_zone_one_pod_at_a_time(cluster: &Cluster) {
    let bounded = Bounded::new(cluster, "lost", 2, &[ZONE], &json!({})).await;
    let pool = &bounded.pool;
    cluster.nodes.delete("lost-0").await.unwrap();
    bounded.delete_pods().await;
    let start = Instant::now();
    let message = pool.event_with("web", "FellBack", "web-0").await;
    assert!(
        start.elapsed() + Duration::from_secs(2) >= WAIT,
        "after {:?}",
        start.elapsed()
    );
    assert!(
        message.contains("zone=lost-zone-0 and node lost-0"),
        "{message}"
    );
    let states = pool.states("mine").await;
    assert_eq!(
        states["web-1"], bounded.states["web-1"],
        "it waits for web-0"
    );
    pool.event_with("web", "FellBack", "web-1").await;
    let states = bounded.wait_until_on("lost-1").await;
    for state in states.values() {
        assert_eq!(state["nodeTopologyLabels"][ZONE], "lost-zone-1");
    }
    let sidecar = cluster.sidecar().unwrap();
    let metric = sidecar
        .metric("persistentpodstate_fallbacks_total{result=\"gave_up\"}")
        .await;
    assert!(metric.unwrap().is_some_and(|pods| pods >= 2.0));
}

pub(crate) async fn keeps_the_zone_while_one_of_its_nodes_takes_pods(cluster: &Cluster) {
    let bounded = Bounded::new(cluster, "stays", 3, &[ZONE, HOSTNAME], &json!({})).await;
    cluster.nodes.cordon("stays-0").await.unwrap();
    bounded.delete_pods().await;
    bounded.wait_until_on("stays-2").await;
    let message = bounded.pool.event_with("web", "FellBack", "web-1").await;
    assert!(message.contains("gave up node stays-0 after"), "{message}");
}

/// A volume in the zone of a node, and the claim that it is bound to.
fn volume(namespace: &str) -> [Value; 2] {
    let zone = json!({"matchExpressions": [
        {"key": ZONE, "operator": "In", "values": [format!("{namespace}-zone-0")]}]});
    let storage = json!({"storage": "1Gi"});
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace},
            "spec": {"capacity": storage, "accessModes": ["ReadWriteMany"], "storageClassName": "",
                "local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [zone]}}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": namespace,
                "resources": {"requests": storage}}}),
    ]
}

/// First without the right to read claims, then with it.
pub(crate) async fn keeps_the_place_of_a_pod_that_its_volume_pins(cluster: &Cluster) {
    cluster.namespace("pinned").await.unwrap();
    cluster.apply_objects(&volume("pinned")).await.unwrap();
    let template = json!({"spec": {"volumes":
        [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let bounded = Bounded::new(cluster, "pinned", 2, &[ZONE], &template).await;
    let pool = &bounded.pool;
    cluster.nodes.cordon(&bounded.first_node()).await.unwrap();
    bounded.delete_pods().await;
    let right = "grant the sidecar get on persistentvolumeclaims";
    pool.event_with("web", "FallbackBlocked", right).await;
    let role = repository_file(VOLUMES);
    cluster.apply_rbac_from(&role, SIDECAR, &[]).await.unwrap();
    let pinned = "PersistentVolumeClaim data";
    pool.event_with("web", "FallbackBlocked", pinned).await;
    let what = "the condition to say so";
    pool.wait_for_object("mine", what, TIMEOUT, |object| {
        let condition = &object.data["status"]["conditions"][0];
        condition["reason"] == "FallbackBlocked" && condition["status"] == "False"
    })
    .await;
    assert_eq!(pool.states("mine").await, bounded.states);
    for resource in ["persistentvolumeclaims", "persistentvolumes"] {
        let verbs = permissions::verbs_of(cluster, SIDECAR, resource);
        assert_eq!(verbs, ["get".to_owned()].into(), "{resource}");
    }
    // Its home takes Pods again.
    cluster.nodes.uncordon(&bounded.first_node()).await.unwrap();
    bounded.wait_until_on(&bounded.first_node()).await;
    assert_eq!(pool.states("mine").await, bounded.states);
    assert_eq!(
        pool.events("web", "FellBack").await.unwrap(),
        Vec::<String>::new()
    );
}

/// As if the sidecar had been killed between the write and the eviction.
pub(crate) async fn evicts_a_pod_whose_place_an_earlier_process_has_given_up(cluster: &Cluster) {
    let bounded = Bounded::new(cluster, "killed", 2, &[ZONE], &json!({})).await;
    let sidecar = cluster.sidecar().unwrap();
    cluster.nodes.cordon(&bounded.first_node()).await.unwrap();
    bounded.delete_pods().await;
    sidecar.kill().await.unwrap();
    let given_up = json!({"status": {"podStates": {"web-1": null}}});
    let empty = json!({"status": {"podStates": {"web-1": {}}}});
    let api = cluster.pps_api("killed");
    for patch in [given_up, empty] {
        let patch = kube::api::Patch::Merge(patch);
        let params = kube::api::PatchParams::default();
        api.patch_status("mine", &params, &patch).await.unwrap();
    }
    let restarted = Instant::now();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    let pods = bounded
        .wait_for("web-1 to run elsewhere", |pods| {
            pods.get("web-1").is_some_and(|pod| pod.ready)
        })
        .await;
    assert!(
        restarted.elapsed() < WAIT,
        "after {:?}",
        restarted.elapsed()
    );
    assert_eq!(pods["web-1"].node.as_deref(), Some("killed-1"));
    assert!(pods["web-0"].node.is_none(), "its time has begun again");
    let message = bounded.pool.event("web", "PodEvicted").await;
    assert!(message.contains("web-1"), "{message}");
}
