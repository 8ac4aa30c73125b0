//! What goes wrong in a cluster, on a real control plane; and that in the end what is recorded is what
//! the cluster shows.
//!
//! `PPS_E2E_ONLY=word` runs only the faults whose name has that word in it; `PPS_E2E_SEED=n` repeats what
//! is random; `PPS_E2E_REPLACEMENTS=n` and `PPS_E2E_OUTAGE=seconds` say how much of it there is.
//!
//! Faults that others cover are in `scenarios.rs`: a leader that is stopped and goes on, a malformed
//! list of custom kinds, the definition of a custom kind that goes, a Lease that may not be used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

#[macro_use]
mod support;

#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/contention.rs"]
mod contention;
#[path = "faults/crd_deletion.rs"]
mod crd_deletion;
#[path = "faults/end_state.rs"]
mod end_state;
#[path = "faults/fleet.rs"]
mod fleet;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/node_recreation.rs"]
mod node_recreation;
#[path = "faults/outage.rs"]
mod outage;
#[path = "faults/permissions.rs"]
mod permissions;
#[path = "faults/throttling.rs"]
mod throttling;

use pps_e2e::{
    cluster::{Cluster, ClusterBuilder},
    sidecar::SidecarOptions,
};

/// Without the policy, so that Pods come back anywhere and there is much to record.
fn roaming() -> ClusterBuilder {
    Cluster::builder().deployed_rights()
}

#[tokio::test]
async fn sidecar_kills() {
    let _turn = support::turn().await;
    let cluster = roaming().sidecar(SidecarOptions::default()).start().await.unwrap();
    let result =
        support::run_in_turn(scenarios![&cluster; kills::records_everything_despite_repeated_leader_kills])
            .await;
    result.unwrap();
}

#[tokio::test]
async fn network_faults() {
    let _turn = support::turn().await;
    let cluster = roaming().control_plane(|options| {
        options.audit_log = true;
        // The API server's own memory of what happened would outlast a compaction.
        options.api_server_flags.push("--watch-cache=false".to_owned());
    });
    let network = network::Network::new(cluster.start().await.unwrap()).await;
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

#[tokio::test]
async fn api_server_and_webhook_faults() {
    let _turn = support::turn().await;
    let cluster = roaming().sidecar(SidecarOptions::default()).start().await.unwrap();
    let result = support::run_in_turn(scenarios![&cluster;
        outage::recovers_from_an_api_server_outage,
        contention::converges_beside_a_busy_writer,
        contention::failing_writes_do_not_block_other_objects,
        crd_deletion::recovers_when_the_crd_is_deleted_and_restored,
    ])
    .await;
    result.unwrap();
}

#[tokio::test]
async fn node_recreation_and_clock_jumps() {
    let _turn = support::turn().await;
    let cluster = Cluster::builder().product().sidecar(node_recreation::sidecar()).start().await.unwrap();
    let first = support::run(scenarios![&cluster;
        node_recreation::keep_policy_survives_the_recreation_of_a_node,
        node_recreation::forget_policy_drops_states_of_a_node_recreated_late,
    ])
    .await;
    let second = support::run_in_turn(scenarios![&cluster; clock::ignores_jumps_of_the_wall_clock]).await;
    first.unwrap();
    second.unwrap();
}
