//! The CRD of PersistentPodState is deleted with all objects. OpenKruise's takes its place, and then ours
//! again.

use std::time::Duration;

use kube::ResourceExt;
use pps_e2e::{
    cluster::Cluster,
    manifests::{self, render::definition_file},
    wait::{Progress, wait_for},
};

use super::end_state::end_state;
use super::fleet::Fleet;
use crate::scenarios::openkruise;
use crate::support::{HOSTNAME, Random, TIMEOUT, WHILE, required};

pub(crate) async fn recovers_when_the_crd_is_deleted_and_replaced(cluster: &Cluster) {
    let mut random = Random::of("definition");
    let sidecar = cluster.sidecar().unwrap();
    let mut fleet = Fleet::new(cluster, "undefined", 4, 1).await;
    let pool = fleet.pool;
    let apply_mine = async || {
        pool.object("mine", &required("plain", &[HOSTNAME])).await;
    };
    let recorded = async |fleet: &Fleet<'_>| {
        for set in fleet.sets() {
            fleet.pool.recorded(&set, &set).await;
        }
        pool.recorded("mine", "plain").await;
    };
    apply_mine().await;
    cluster.run_stateful_set(&pool.stateful_set("plain", 2)).await.unwrap();
    end_state(cluster, "undefined", fleet.pods() + 2).await;
    let process = sidecar.status().unwrap().pid;
    let uid = pool.pps("web-a").await.unwrap().uid();

    let definition = "persistentpodstates.apps.kruise.io";
    cluster.control_plane.kubectl(&["delete", "crd", definition]).await.unwrap();
    wait_for("the sidecar to report what it cannot watch", TIMEOUT, async || {
        let (code, body) = sidecar.get("/readyz").await?;
        Ok(Progress::when(code == 503 && body.contains("persistentpodstates"), (), format!("{code} {body}")))
    })
    .await
    .unwrap();
    assert_eq!(sidecar.get("/healthz").await.unwrap().0, 200, "a restart of the sidecar would not help");
    // Pods are replaced meanwhile.
    fleet.replace_some(&mut random, 2).await;
    fleet.scale("web-b", 3).await;
    fleet.ready().await;
    tokio::time::sleep(WHILE + Duration::from_millis(random.below(3000))).await;

    manifests::apply_file(&cluster.client(), openkruise::definition().path()).await.unwrap();
    fleet.delete_some(&mut random, 2).await;
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    fleet.ready().await;
    // The sidecar generates its objects again. Users have to apply theirs again.
    apply_mine().await;
    recorded(&fleet).await;
    assert_ne!(pool.pps("web-a").await.unwrap().uid(), uid, "the object must be a new one");

    let ours = definition_file(cluster.control_plane.version()).unwrap();
    cluster.control_plane.kubectl(&["replace", "-f", &ours.argument()]).await.unwrap();
    fleet.replace_some(&mut random, 2).await;
    end_state(cluster, "undefined", fleet.pods() + 2).await;
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    let status = sidecar.status().unwrap();
    assert_eq!((status.running, status.pid), (true, process), "the sidecar must recover without a restart");
}
