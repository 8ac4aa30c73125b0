//! The definition of PersistentPodState itself goes, with all objects, and comes back.

use std::time::Duration;

use kube::ResourceExt;
use pps_e2e::{
    cluster::{Cluster, repository_file},
    manifests,
    wait::{Progress, wait_for},
};

use super::end_state::end_state;
use super::fleet::Fleet;
use crate::support::{HOSTNAME, Random, TIMEOUT, WHILE, required};

pub(crate) async fn the_definition_goes_and_comes_back(cluster: &Cluster) {
    let mut random = Random::of("definition");
    let sidecar = cluster.sidecar().unwrap();
    let mut fleet = Fleet::new(cluster, "undefined", 20, 1).await;
    let pool = fleet.pool;
    let mine = async || {
        pool.object("mine", &required("plain", &[HOSTNAME])).await;
    };
    mine().await;
    cluster.run_stateful_set(&pool.stateful_set("plain", 2)).await.unwrap();
    end_state(cluster, "undefined", fleet.pods() + 2).await;
    let process = sidecar.status().unwrap().pid;
    let uid = pool.pps("web-a").await.unwrap().uid();

    let definition = "persistentpodstates.apps.kruise.io";
    cluster.control_plane.kubectl(&["delete", "crd", definition]).await.unwrap();
    wait_for("the sidecar to say what it cannot watch", TIMEOUT, async || {
        let (code, body) = sidecar.get("/readyz").await?;
        Ok(Progress::when(code == 503 && body.contains("persistentpodstates"), (), format!("{code} {body}")))
    })
    .await
    .unwrap();
    assert_eq!(sidecar.get("/healthz").await.unwrap().0, 200, "to restart it would help nobody");
    // Pods go on.
    fleet.replace_some(&mut random, 3).await;
    fleet.scale("web-b", 3).await;
    fleet.ready().await;
    tokio::time::sleep(WHILE + Duration::from_millis(random.below(3000))).await;

    manifests::apply_file(&cluster.client(), &repository_file("deploy/base/crd.yaml")).await.unwrap();
    fleet.delete_some(&mut random, 2).await;
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    fleet.ready().await;
    // What was generated is generated again; what somebody made has to be made by somebody.
    fleet.end_state().await;
    mine().await;
    end_state(cluster, "undefined", fleet.pods() + 2).await;
    assert_ne!(pool.pps("web-a").await.unwrap().uid(), uid, "it is another one");
    let status = sidecar.status().unwrap();
    assert_eq!((status.running, status.pid), (true, process), "by itself");
}
