//! A rehearsal on real nodes: the product as users install it, and what happens to a cluster in a
//! year. All scenarios share one cluster and two StatefulSets, and after each the records match the
//! cluster.

mod long_run;
mod lost_zone;
mod operated;
mod outages;
mod replacement;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use kube::ResourceExt;
use pps_e2e::{
    cluster::{
        Cluster, PodInfo, RealNodes,
        real_nodes::{self, ip_annotation},
    },
    http,
    install::Installation,
    wait::{Progress, wait_for},
};
use serde_json::json;

use crate::{
    install::{self, deployment},
    support::{
        HOSTNAME, IP_ANNOTATION, Place, Pool, Scenario, TIMEOUT, note, places, run_in_turn,
        serving, spread_over_nodes,
    },
};

/// How long a cluster may take to see what happened to a node, and to start Pods there again.
const RECOVERY: Duration = Duration::from_mins(3);

#[tokio::test]
async fn pods_return_whatever_happens_to_nodes() {
    if !real_nodes::available("pods_return_whatever_happens_to_nodes") {
        return;
    }
    let mut cluster = install::cluster().await;
    let installation = install::install(&mut cluster, false).await;
    deployment::both_replicas_match_the_deployment(&cluster, &installation).await;
    let stage = &Stage {
        cluster: &cluster,
        installation: &installation,
    };
    stage.first_start().await;
    run_in_turn(faults(stage)).await.unwrap();
    tokio::join!(
        replacement::a_rolling_update(stage),
        replacement::a_local_volume(stage),
        deployment::keeps_states_during_a_rollout(&cluster, &installation)
    );
    installation
        .apply(&cluster, "deploy/overlays/high-availability")
        .await
        .unwrap();
    installation.wait_available(&cluster).await.unwrap();
    deployment::replicas_run_on_different_nodes_and_zones(&cluster, &installation).await;
    install::assert_used_as_granted(&cluster);
    lost_zone::pods_fall_back_one_after_the_other(stage).await;
    run_in_turn(scenarios![stage; operated::only_an_operator_that_deletes_its_pods_loops])
        .await
        .unwrap();
}

/// What can happen again and again.
fn faults<'a>(stage: &'a Stage<'_>) -> Vec<Scenario<'a>> {
    scenarios![stage;
        replacement::a_drain_with_a_disruption_budget,
        replacement::an_eviction_under_memory_pressure,
        outages::a_reboot_while_the_registry_is_gone,
        outages::a_cut_network_and_a_loss_of_power,
        outages::the_loss_of_the_leaders_and_a_policy_servers_node,
        outages::a_deleted_node_that_comes_back,
    ]
}

/// The cluster with `db`, whose Pods need their nodes, and `cache`, whose Pods prefer them.
struct Stage<'a> {
    cluster: &'a Cluster,
    installation: &'a Installation,
}

impl Stage<'_> {
    fn pool(&self) -> Pool<'_> {
        Pool {
            cluster: self.cluster,
            namespace: "shop",
        }
    }

    fn nodes(&self) -> &RealNodes {
        self.cluster.real_nodes().unwrap()
    }

    async fn first_start(&self) {
        let pool = Pool::on_real_nodes(self.cluster, "shop").await;
        let apart = spread_over_nodes(&json!({"matchLabels": {"app": "db"}}));
        let mut db =
            serving("shop", "db", 3)
                .template(&apart)
                .persistent(HOSTNAME, "", ip_annotation());
        let spread = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "cache"}}}]}});
        // Only Calico's daemons, which do not run, free the address of a Pod whose node is lost.
        let movable = if ip_annotation() == IP_ANNOTATION {
            IP_ANNOTATION
        } else {
            ""
        };
        let mut cache = serving("shop", "cache", 3)
            .template(&spread)
            .persistent("", HOSTNAME, movable);
        // A kubelet short of memory starts no Pod that requests none, and first evicts those that
        // use more than they request. Until it has measured them, it takes those that request
        // least.
        for (set, memory) in [(&mut db, "16Mi"), (&mut cache, "32Mi")] {
            set.template["spec"]["containers"][0]["resources"] =
                json!({"requests": {"memory": memory}});
        }
        self.cluster.create_stateful_set(&db).await.unwrap();
        self.cluster.create_stateful_set(&cache).await.unwrap();
        pool.ready("cache", 3).await;
        self.answers(&places(&pool.ready("db", 3).await)).await;
        self.records_match().await;
    }

    /// The usual end of a scenario: all nodes and all Pods of both StatefulSets are Ready, the
    /// recorded states are what the cluster shows, and both sidecars are available.
    async fn records_match(&self) {
        for node in self.nodes().names() {
            self.nodes().wait_ready(node, true).await.unwrap();
        }
        self.installation
            .wait_available(self.cluster)
            .await
            .unwrap();
        for name in ["db", "cache"] {
            self.cluster
                .wait_ready("shop", name, 3, RECOVERY)
                .await
                .unwrap();
            self.pool().recorded(name, name).await;
        }
    }

    async fn pods(&self) -> BTreeMap<String, PodInfo> {
        self.cluster.pods("shop", "db").await.unwrap()
    }

    async fn places(&self) -> BTreeMap<String, Place> {
        places(&self.pool().ready("db", 3).await)
    }

    /// Each Pod is back where it was and answers at its address.
    async fn are_back(&self, before: &BTreeMap<String, Place>) {
        let now = self
            .cluster
            .wait_ready("shop", "db", 3, RECOVERY)
            .await
            .unwrap();
        assert_eq!(places(&now), *before);
        self.answers(before).await;
        self.records_match().await;
    }

    /// A client that knows only addresses finds the same Pods there.
    async fn answers(&self, places: &BTreeMap<String, Place>) {
        for (pod, (_, address)) in places {
            wait_for(
                &format!("{pod} to answer at {address}"),
                TIMEOUT,
                async || {
                    let (_, body) = http::get(&format!("{address}:8080"), "/").await?;
                    Ok(Progress::when(body.trim() == pod, (), body))
                },
            )
            .await
            .unwrap();
        }
    }

    /// A Pod of `db` and its node, which is not that one.
    async fn node_without(&self, node: &str) -> (String, String) {
        let pod = self
            .pods()
            .await
            .into_values()
            .find(|pod| pod.node.as_deref() != Some(node))
            .unwrap();
        (pod.name, pod.node.unwrap())
    }

    async fn leaders_node(&self) -> String {
        let [(_, node), _] = self.sidecars().await;
        node
    }

    /// The Pods of leader and standby, with their nodes.
    async fn sidecars(&self) -> [(String, String); 2] {
        let leader = self
            .installation
            .leader(self.cluster)
            .await
            .unwrap()
            .expect("a sidecar leads");
        let pods = self.installation.sidecars(self.cluster).await.unwrap();
        let pods = pods
            .into_iter()
            .map(|pod| (pod.name_any(), pod.spec.unwrap().node_name.unwrap()));
        let (leaders, standbys): (Vec<_>, Vec<_>) = pods.partition(|(name, _)| *name == leader);
        [leaders, standbys].map(|mut pods| pods.pop().unwrap())
    }

    /// Waits until another Pod of that name exists. Returns it.
    async fn replaced(&self, old: &PodInfo) -> PodInfo {
        let started = Instant::now();
        let what = format!("another {}", old.name);
        let pods = self
            .cluster
            .wait_for_pods("shop", "db", &what, RECOVERY, |pods| {
                pods.get(&old.name).is_some_and(|now| now.uid != old.uid)
            });
        let new = pods.await.unwrap().remove(&old.name).unwrap();
        note(&format!(
            "{} was replaced after {:.1?}",
            old.name,
            started.elapsed()
        ));
        new
    }
}
