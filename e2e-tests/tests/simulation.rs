//! Random worlds on a real control plane go as the simulation says: which nodes Pods may land on,
//! which stay Pending, what the policy injects, and what the sidecar records.
//!
//! The real scheduler takes any of several best nodes. The simulation takes over that choice and
//! continues from there. `PPS_E2E_SEED=n` repeats a run, and `PPS_E2E_WORLDS=n` and
//! `PPS_E2E_ACTIONS=n` set how many worlds there are, and how many actions in each.

mod live;
mod notice;
mod picture;
mod scheduler;
mod world;

use std::{env, time::Duration};

use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    control_plane::program,
    repository::repository_file,
    sidecar::SidecarOptions,
};

use crate::{
    behaviour::permissions::EVICTION,
    support::{self, Scenario},
};
use live::Live;
use world::World;

/// How long a node is missing before its states are dropped. Pods have to be placed again within
/// it.
const GRACE: Duration = Duration::from_secs(4);
const WORLDS: usize = 2;
const PLACES: usize = 4;
const ACTIONS: usize = 6;

#[tokio::test]
async fn random_worlds_and_places_are_as_simulated() {
    let grace = format!("{}s", GRACE.as_secs());
    let args = ["--node-grace-period", &grace, "--evict-pending-pods"]
        .map(str::to_owned)
        .into();
    let cluster = Cluster::builder()
        .product()
        .rbac(repository_file(EVICTION), SIDECAR, &[]);
    let cluster = cluster
        .sidecar(SidecarOptions {
            args,
            ..SidecarOptions::default()
        })
        .start()
        .await
        .unwrap();
    let worlds: Vec<Scenario> = (0..number("PPS_E2E_WORLDS", WORLDS))
        .map(|index| {
            let name: &'static str = format!("world-{index}").leak();
            let scenario: Scenario = (name, Box::pin(live_through(&cluster, name)));
            scenario
        })
        .collect();
    support::run(worlds).await.unwrap();

    // Nothing but the scheduler decides about these Pods.
    cluster
        .control_plane
        .stop(program::CONTROLLER_MANAGER)
        .await
        .unwrap();
    let places: Vec<Scenario> = (0..number("PPS_E2E_WORLDS", PLACES))
        .map(|index| {
            let name: &'static str = format!("place-{index}").leak();
            let scenario: Scenario = (name, Box::pin(scheduler::places_pods(&cluster, name)));
            scenario
        })
        .collect();
    support::run(places).await.unwrap();
}

fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |value| value.parse().unwrap())
}

async fn live_through(cluster: &Cluster, name: &'static str) {
    let mut world = World::new(name);
    let mut live = Live::start(cluster, &world).await;
    live.roll_out(&mut world).await;
    for _ in 0..number("PPS_E2E_ACTIONS", ACTIONS) {
        let Some(action) = world.next_action(live.simulated()) else {
            break;
        };
        live.act(&mut world, action).await;
    }
}
