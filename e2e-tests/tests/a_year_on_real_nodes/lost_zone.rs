//! Nodes that are lost for good, and Pods that require their places until an end.

use std::collections::BTreeMap;

use pps_e2e::wait::{Progress, wait_for};
use serde_json::{Value, json};

use super::{RECOVERY, Stage};
use crate::support::{HOSTNAME, Pool, ZONE, places, serving, spec_for};

/// How long Pods wait: the shortest time that the API allows.
const WAIT_SECONDS: u64 = 30;
/// Tells Kubernetes that nothing runs on a node.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";

/// All nodes of a zone lose power, and an administrator says that they are out of service. One Pod
/// falls back, then the next one, whether the Pods of a workload start in order or in parallel. A
/// budget that allows no disruption holds up no Pod that does not run.
pub(super) async fn pods_fall_back_one_after_the_other(stage: &Stage<'_>) {
    install(stage).await;
    let pool = Pool::on_real_nodes(stage.cluster, "queue").await;
    let before = stage.places().await;
    let home = Home::choose(stage).await;
    home.cordon_others().await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "queue", "name": "parallel"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "parallel"}}}});
    stage.cluster.apply_objects(&[budget]).await.unwrap();
    let (ordered, parallel) = tokio::join!(
        run(&pool, "ordered", "OrderedReady", 2, &[ZONE]),
        run(&pool, "parallel", "Parallel", 2, &[ZONE])
    );
    home.uncordon_others().await;

    home.lose().await;
    tokio::join!(
        falls_back_in_turn(&pool, "ordered", &home, &ordered),
        falls_back_in_turn(&pool, "parallel", &home, &parallel)
    );
    home.come_back().await;
    stage.are_back(&before).await;
}

/// The Pod requires its zone and its node. The node is lost, and another one of the zone takes it.
pub(super) async fn the_zone_stays_while_one_of_its_nodes_takes_pods(stage: &Stage<'_>) {
    install(stage).await;
    let pool = Pool::on_real_nodes(stage.cluster, "pair").await;
    let before = stage.places().await;
    let home = Home::choose(stage).await;
    let neighbor = home.others().next().unwrap();
    let zone = pool.zone(&home.node).await;
    let own_zone = pool.zone(neighbor).await;
    let nodes = &stage.cluster.nodes;
    nodes.label(neighbor, ZONE, Some(&zone)).await.unwrap();
    home.cordon_others().await;
    run(&pool, "pair", "Parallel", 1, &[ZONE, HOSTNAME]).await;
    home.uncordon_others().await;

    home.lose().await;
    let message = pool.event_with("pair", "FellBack", "pair-0").await;
    assert!(
        message.contains(&format!("gave up node {} after", home.node)),
        "{message}"
    );
    let pods = pool.cluster.wait_ready("pair", "pair", 1, RECOVERY).await;
    assert_eq!(pods.unwrap()["pair-0"].node.as_deref(), Some(neighbor));
    let states = pool.recorded("pair", "pair").await;
    assert_eq!(states["pair-0"]["nodeTopologyLabels"][ZONE], zone.as_str());
    home.come_back().await;
    nodes.label(neighbor, ZONE, Some(&own_zone)).await.unwrap();
    stage.are_back(&before).await;
}

/// Lets the sidecars do what fallbacks need.
async fn install(stage: &Stage<'_>) {
    let installation = stage.installation;
    installation
        .apply(stage.cluster, "deploy/overlays/fall-back")
        .await
        .unwrap();
    installation.wait_available(stage.cluster).await.unwrap();
}

/// A StatefulSet whose Pods require these keys until an end, and what is recorded of them.
async fn run(
    pool: &Pool<'_>,
    name: &str,
    management: &str,
    replicas: u32,
    keys: &[&str],
) -> BTreeMap<String, Value> {
    let topology = json!({"nodeTopologyKeys": keys, "fallbackAfterSeconds": WAIT_SECONDS});
    let spec = spec_for(name, &json!({"requiredPersistentTopology": topology}));
    pool.object(name, &spec).await;
    let workload = serving(pool.namespace, name, replicas)
        .overrides(&json!({"spec": {"podManagementPolicy": management}}));
    pool.cluster.run_stateful_set(&workload).await.unwrap();
    pool.recorded(name, name).await
}

/// Waits until the first of two Pods has fallen back, and the second one after it; both then run
/// elsewhere, and are recorded there.
async fn falls_back_in_turn(
    pool: &Pool<'_>,
    name: &str,
    home: &Home<'_>,
    recorded: &BTreeMap<String, Value>,
) {
    let [first, second] = [0, 1].map(|ordinal| format!("{name}-{ordinal}"));
    pool.event_with(name, "FellBack", &first).await;
    let states = pool.states(name).await;
    assert_eq!(
        states[&second], recorded[&second],
        "it waits for the first one"
    );
    pool.event_with(name, "FellBack", &second).await;
    let pods = pool.cluster.wait_ready(pool.namespace, name, 2, RECOVERY);
    let pods = pods.await.unwrap();
    assert!(
        places(&pods).values().all(|(node, _)| *node != home.node),
        "{pods:?}"
    );
    for (pod, state) in pool.recorded(name, name).await {
        let node = pods[&pod].node.as_deref().unwrap();
        assert_eq!(
            state["nodeTopologyLabels"][ZONE],
            pool.zone(node).await,
            "{pod}"
        );
    }
}

/// The node on which the Pods run, and which is then lost.
struct Home<'a> {
    stage: &'a Stage<'a>,
    node: String,
}

impl<'a> Home<'a> {
    /// A node without a sidecar: a new leader would count the time again.
    async fn choose(stage: &'a Stage<'a>) -> Self {
        let waited = wait_for("a node without a sidecar", RECOVERY, async || {
            let sidecars = stage.installation.sidecars(stage.cluster).await?;
            let taken: Vec<_> = sidecars
                .iter()
                .filter_map(|sidecar| sidecar.spec.as_ref()?.node_name.as_deref())
                .collect();
            let node = stage.nodes().names().find(|node| !taken.contains(node));
            Ok(Progress::when(
                node.is_some() && taken.len() == 2,
                node.unwrap_or_default().to_owned(),
                format!("{taken:?}"),
            ))
        });
        Self {
            stage,
            node: waited.await.unwrap(),
        }
    }

    fn others(&self) -> impl Iterator<Item = &str> {
        self.stage.nodes().names().filter(|node| *node != self.node)
    }

    async fn cordon_others(&self) {
        for node in self.others() {
            self.stage.cluster.nodes.cordon(node).await.unwrap();
        }
    }

    async fn uncordon_others(&self) {
        for node in self.others() {
            self.stage.cluster.nodes.uncordon(node).await.unwrap();
        }
    }

    async fn lose(&self) {
        self.stage.nodes().power_off(&self.node).await.unwrap();
        self.stage
            .nodes()
            .wait_ready(&self.node, false)
            .await
            .unwrap();
        self.taint(OUT_OF_SERVICE).await;
    }

    async fn come_back(&self) {
        self.taint(&format!("{OUT_OF_SERVICE}-")).await;
        self.stage.nodes().power_on(&self.node).unwrap();
        self.stage
            .nodes()
            .wait_ready(&self.node, true)
            .await
            .unwrap();
    }

    /// Adds a taint, or removes one that ends in a minus sign.
    async fn taint(&self, taint: &str) {
        let kubectl = ["taint", "node", &self.node, taint];
        let control_plane = &self.stage.cluster.control_plane;
        control_plane.kubectl(&kubectl).await.unwrap();
    }
}
