//! The API server is down for a while.

use std::{
    env,
    time::{Duration, Instant},
};

use pps_e2e::{
    cluster::Cluster,
    control_plane::program,
    sidecar::{Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};

use super::fleet::Fleet;
use crate::support::{Random, TIMEOUT, note};

async fn wait_until_unready(sidecar: &Sidecar) {
    wait_for("the sidecar to be unready", TIMEOUT, async || {
        let (code, body) = sidecar.get("/readyz").await?;
        Ok(Progress::when(code == 503, (), body))
    })
    .await
    .unwrap();
    assert_eq!(
        sidecar.get("/healthz").await.unwrap().0,
        200,
        "a restart of the sidecar would not help"
    );
}

/// The outage lasts `PPS_E2E_OUTAGE` seconds, by default ten. Pods are being replaced when it
/// begins and ends. Another sidecar is started meanwhile.
pub(crate) async fn recovers_from_an_api_server_outage(cluster: &Cluster) {
    let outage =
        Duration::from_secs(env::var("PPS_E2E_OUTAGE").map_or(10, |time| time.parse().unwrap()));
    let mut random = Random::of("outage");
    let sidecar = cluster.sidecar().unwrap();
    let mut fleet = Fleet::new(cluster, "away", 3, 3).await;
    let process = sidecar.status().unwrap().pid;

    fleet.relabel(&mut random).await;
    fleet.delete_some(&mut random, 5).await;
    fleet.scale("web-b", 5).await;
    tokio::time::sleep(Duration::from_millis(random.below(400))).await;
    cluster
        .control_plane
        .stop(program::API_SERVER)
        .await
        .unwrap();
    let stopped = Instant::now();
    wait_until_unready(sidecar).await;
    let late = SidecarOptions {
        name: "pps-sidecar-late".to_owned(),
        ..SidecarOptions::default()
    };
    let late = cluster.run_sidecar(late).unwrap();
    tokio::time::sleep(outage.saturating_sub(stopped.elapsed())).await;
    for one in [sidecar, &late] {
        wait_until_unready(one).await;
        assert!(
            !one.leads().await.unwrap(),
            "its Lease has expired, or it never had one"
        );
    }

    cluster
        .control_plane
        .start_again(program::API_SERVER)
        .await
        .unwrap();
    let back = Instant::now();
    // Without a restart, these two would wait for half a minute before each list.
    for program in [program::CONTROLLER_MANAGER, program::SCHEDULER] {
        cluster.control_plane.restart(program).await.unwrap();
    }
    fleet.delete_some(&mut random, 3).await;
    fleet.scale("web-c", 1).await;
    fleet.relabel(&mut random).await;
    late.wait_ready(TIMEOUT).await.unwrap();
    late.terminate(TIMEOUT).await.unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    sidecar.wait_leading(TIMEOUT).await.unwrap();
    let leads = back.elapsed();
    fleet.ready().await;
    let ready = back.elapsed();
    fleet.end_state().await;
    note(&format!(
        "outage of {outage:.0?}; after its end the sidecar leads after {leads:.1?}, all Pods are \
         Ready after {ready:.1?}, everything is recorded after {:.1?}",
        back.elapsed()
    ));
    let status = sidecar.status().unwrap();
    assert_eq!(
        (status.running, status.pid),
        (true, process),
        "the sidecar must recover without a restart"
    );
}
