//! Faults of a cluster, injected into a real control plane. Each test ends with the same check: the
//! recorded states match the cluster.
//!
//! `PPS_E2E_ONLY=word` runs only the faults whose name contains that word. `PPS_E2E_SEED=n` repeats
//! the random numbers of a run. `PPS_E2E_REPLACEMENTS=n` and `PPS_E2E_OUTAGE=seconds` set how long
//! a fault lasts.
//!
//! `behaviour.rs` covers further faults: a frozen leader that continues, a deleted definition of a
//! custom kind, and a Lease that the sidecar may not use. `contained.rs` deletes the definition of
//! PersistentPodState.

mod clock;
mod contention;
mod end_state;
mod fleet;
mod forms;
mod kills;
mod network;
mod outage;
mod permissions;
mod throttling;

use pps_e2e::{
    cluster::{Cluster, ClusterBuilder, SIDECAR},
    repository::repository_file,
    sidecar::SidecarOptions,
};

use crate::behaviour::permissions::EVICTION;
use crate::support;

/// A cluster without the policy, so that replaced Pods start on any node and there is much to
/// record.
fn without_policy() -> ClusterBuilder {
    Cluster::builder().deployed_rights()
}

#[tokio::test]
async fn recovers_from_network_faults() {
    let cluster = without_policy().control_plane(|options| {
        options.audit_log = true;
        // The watch cache of the API server would survive a compaction of etcd.
        options
            .api_server_flags
            .push("--watch-cache=false".to_owned());
    });
    let cluster = cluster.start().await.unwrap();
    let network = network::Network::new(&cluster).await;
    let result = support::run_in_turn(scenarios![&network;
        network::relists_after_watches_expire,
        network::tolerates_slow_responses_and_yields_the_lease_when_they_stall,
        permissions::writes_states_once_the_permission_returns,
        permissions::keeps_states_while_pods_cannot_be_watched,
        throttling::honours_retry_after,
    ])
    .await;
    result.unwrap();
}

/// Apart from the other faults of the network: the first takes more than a minute.
#[tokio::test]
async fn recovers_from_silence_and_from_kills_while_objects_change_their_form() {
    let cluster = without_policy().start().await.unwrap();
    let network = network::Network::new(&cluster).await;
    let result = support::run_in_turn(scenarios![&network;
        network::notices_silent_connections_and_catches_up,
        forms::keeps_every_state_despite_kills_and_lost_answers,
    ])
    .await;
    result.unwrap();
}

#[tokio::test]
async fn recovers_from_api_server_and_webhook_faults() {
    let cluster = without_policy()
        .sidecar(SidecarOptions::default())
        .start()
        .await
        .unwrap();
    let result = support::run_in_turn(scenarios![&cluster;
        outage::recovers_from_an_api_server_outage,
        contention::failing_writes_do_not_block_other_objects,
    ])
    .await;
    result.unwrap();
}

#[tokio::test]
async fn recovers_from_kills_and_clock_jumps() {
    let cluster = Cluster::builder()
        .product()
        .rbac(repository_file(EVICTION), SIDECAR, &[]);
    let cluster = cluster.sidecar(clock::sidecar()).start().await.unwrap();
    let first =
        support::run_in_turn(scenarios![&cluster; clock::ignores_jumps_of_the_wall_clock]).await;
    // Without the policy, as in the other tests of faults.
    cluster
        .webhook()
        .unwrap()
        .unregister(&cluster.client())
        .await
        .unwrap();
    let second = support::run_in_turn(scenarios![&cluster;
        kills::records_everything_despite_repeated_leader_kills,
    ])
    .await;
    [first, second].into_iter().for_each(Result::unwrap);
}
