//! The sidecar is killed.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::DeleteParams};
use pps_e2e::{
    cluster::Cluster,
    sidecar::{NAMESPACE, Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};

use super::fleet::Fleet;
use crate::support::{Random, TIMEOUT, note};

const SETS: u8 = 4;
/// The minimum number of kills, however fast the machine is.
const LEAST: u32 = 4;

/// Kills the leader of two sidecars repeatedly while Pods are replaced.
pub(crate) async fn records_everything_despite_repeated_leader_kills(cluster: &Cluster) {
    let replacements = env::var("PPS_E2E_REPLACEMENTS").map_or(24, |count| count.parse().unwrap());
    let mut random = Random::of("kills of the leader");
    let first = cluster.sidecar().unwrap();
    let second = SidecarOptions {
        name: "pps-sidecar-second".to_owned(),
        ..SidecarOptions::default()
    };
    let second = &cluster.run_sidecar(second).unwrap();
    let fleet = Fleet::new(cluster, "killed", SETS, 4).await;
    second.wait_ready(TIMEOUT).await.unwrap();

    let (started, done) = (Instant::now(), AtomicBool::new(false));
    let each = (replacements / usize::from(SETS)).max(1);
    let sets = fleet.sets();
    let work = async {
        futures::future::join_all(sets.iter().map(|set| fleet.churn(set, each))).await;
        done.store(true, Relaxed);
    };
    let kills = async {
        let (mut kills, mut expired) = (0, 0);
        loop {
            tokio::time::sleep(Duration::from_millis(random.below(2500))).await;
            let leader = leader(first, second).await;
            let end = leader.kill().await.unwrap();
            assert_eq!(end.signal, Some(9), "{end:?}");
            kills += 1_u32;
            // Mostly delete the Lease of the killed leader. Waiting until it expires would allow
            // few kills.
            if kills % 5 == 1 {
                expired += 1;
            } else {
                let api: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
                api.delete("pps-sidecar", &DeleteParams::default())
                    .await
                    .unwrap();
            }
            tokio::time::sleep(Duration::from_millis(random.below(500))).await;
            leader.start_again().unwrap();
            if done.load(Relaxed) && kills >= LEAST {
                return (kills, expired);
            }
        }
    };
    let ((), (kills, expired)) = tokio::join!(work, kills);
    note(&format!(
        "{kills} kills, {expired} of them until the Lease expired, during {} replacements in \
         {:.0?}",
        each * usize::from(SETS),
        started.elapsed()
    ));
    // The next leader has seen these changes only as a standby.
    let last = leader(first, second).await;
    last.kill().await.unwrap();
    fleet.replace_some(&mut random, 5).await;
    fleet.relabel(&mut random).await;
    leader(first, second).await;
    fleet.end_state().await;
    last.start_again().unwrap();
    last.wait_ready(TIMEOUT).await.unwrap();
    fleet.end_state().await;
    second.terminate(TIMEOUT).await.unwrap();
}

/// Waits until one of the two leads.
async fn leader<'a>(first: &'a Sidecar, second: &'a Sidecar) -> &'a Sidecar {
    wait_for("one of the two to lead", TIMEOUT, async || {
        for one in [first, second] {
            // It may not listen yet.
            if one.leads().await.unwrap_or_default() {
                return Ok(Progress::Done(one));
            }
        }
        Ok(Progress::Waiting("neither leads".to_owned()))
    })
    .await
    .unwrap()
}
