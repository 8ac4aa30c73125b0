//! What goes wrong in a cluster, on a real control plane; and that in the end what is recorded is what
//! the cluster shows.
//!
//! `PPS_E2E_ONLY=word` runs only the faults whose name has that word in it; `PPS_E2E_SEED=n` repeats what
//! is random; `PPS_E2E_REPLACEMENTS=n` and `PPS_E2E_OUTAGE=seconds` say how much of it there is.
//!
//! Faults that others cover are in `scenarios.rs`: a leader that is stopped and goes on, a malformed
//! list of custom kinds, the definition of a custom kind that goes, a Lease that may not be used.

mod clock;
mod definitions;
mod end_state;
mod fleet;
mod kills;
mod nodes;
mod outage;
mod refusals;
mod rights;
mod road;
mod writers;

use pps_e2e::{
    cluster::{Cluster, ClusterBuilder},
    sidecar::SidecarOptions,
};

use crate::support;

/// Without the policy, so that Pods come back anywhere and there is much to record.
fn roaming() -> ClusterBuilder {
    Cluster::builder().deployed_rights()
}

#[tokio::test]
async fn the_sidecar_dies() {
    let cluster = roaming().sidecar(SidecarOptions::default()).start().await.unwrap();
    let result =
        support::run_in_turn(scenarios![&cluster; kills::the_leader_is_killed_again_and_again]).await;
    result.unwrap();
}

#[tokio::test]
async fn the_road_to_the_api_server_is_bad() {
    let cluster = roaming().control_plane(|options| {
        options.audit_log = true;
        // The API server's own memory of what happened would outlast a compaction.
        options.api_server_flags.push("--watch-cache=false".to_owned());
    });
    let road = road::Road::new(cluster.start().await.unwrap()).await;
    let result = support::run_in_turn(scenarios![&road;
        road::watches_expire_while_the_road_is_cut,
        road::a_slow_api_server_and_one_that_stalls,
        rights::what_may_not_be_written_is_written_later,
        rights::what_may_not_be_seen_is_not_taken_for_gone,
        refusals::who_is_told_to_wait_waits,
    ])
    .await;
    result.unwrap();
}

#[tokio::test]
async fn the_api_server_and_what_it_asks_fail() {
    let cluster = roaming().sidecar(SidecarOptions::default()).start().await.unwrap();
    let result = support::run_in_turn(scenarios![&cluster;
        outage::the_api_server_is_away,
        writers::another_writer_never_rests,
        writers::a_webhook_hangs_and_another_fails,
        definitions::the_definition_goes_and_comes_back,
    ])
    .await;
    result.unwrap();
}

#[tokio::test]
async fn nodes_are_made_again_and_clocks_are_set() {
    let cluster = Cluster::builder().product().sidecar(nodes::sidecar()).start().await.unwrap();
    let first = support::run(scenarios![&cluster;
        nodes::a_node_that_is_made_again_is_kept,
        nodes::a_node_that_is_made_again_late_was_forgotten,
    ])
    .await;
    let second = support::run_in_turn(scenarios![&cluster; clock::the_clock_jumps]).await;
    first.unwrap();
    second.unwrap();
}
