//! A long run: faults of this file's neighbours in random order, for as many minutes as `PPS_LONG_RUN_MINUTES` says.
//! After each one nothing is written at rest, and what the sidecars hold stays the same.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use kube::ResourceExt;
use pps_e2e::{cluster::real_nodes, http, install::SIDECAR, sidecar::NAMESPACE};

use super::{Stage, outages, replacement};
use crate::{
    install,
    scenarios::permissions::requests_of,
    support::{Random, Scenario, note, run_in_turn},
};

/// How long the cluster is left alone after each fault.
const REST: Duration = Duration::from_secs(10);
/// By how much the memory of a process may grow after the first fault that it has lived through.
const GROWTH_MIB: f64 = 4.0;
/// How many writes and Events a fault may cause: each concerns at most six Pods of two objects.
const WRITES_A_FAULT: usize = 30;

/// What the sidecars hold and have done.
struct Figures {
    /// By process: its memory in MiB, and the number of watches that work.
    processes: BTreeMap<String, (f64, usize)>,
    writes: usize,
    events: usize,
}

#[tokio::test]
#[ignore = "takes as long as PPS_LONG_RUN_MINUTES says: make long-run"]
async fn what_sidecars_hold_stays_the_same_for_an_hour_of_faults() {
    if !real_nodes::available("what_sidecars_hold_stays_the_same_for_an_hour_of_faults") {
        return;
    }
    let mut cluster = install::cluster().await;
    let installation = install::install(&mut cluster, false).await;
    let stage = &Stage { cluster: &cluster, installation: &installation };
    stage.first_start().await;
    let minutes = std::env::var("PPS_LONG_RUN_MINUTES").map_or(60, |minutes| minutes.parse().unwrap());
    let (start, mut random) = (Instant::now(), Random::of("long run"));
    let mut first: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    let mut before = stage.figures().await;
    while start.elapsed() < Duration::from_mins(minutes) {
        let mut faults: Vec<Scenario<'_>> = scenarios![stage;
            replacement::all_pods_at_once,
            replacement::a_drain_with_a_disruption_budget,
            replacement::an_eviction_under_memory_pressure,
            outages::a_reboot_while_the_registry_is_gone,
            outages::a_frozen_node,
            outages::a_cut_network,
            outages::a_loss_of_power_with_pods_that_terminate,
            outages::the_loss_of_the_leaders_node,
            outages::the_loss_of_a_policy_servers_node,
            outages::a_deleted_node_that_comes_back,
        ];
        let number = random.below(faults.len() as u64);
        let fault = faults.swap_remove(usize::try_from(number).unwrap());
        run_in_turn(vec![fault]).await.unwrap();
        tokio::time::sleep(REST).await;
        let after = stage.figures().await;
        tokio::time::sleep(REST).await;
        let rested = stage.figures().await;
        let (writes, events) = (after.writes - before.writes, after.events - before.events);
        note(&format!(
            "after {:.0?}: {writes} writes, {events} Events, memory in MiB and watches: {:?}",
            start.elapsed(),
            rested.processes.values()
        ));
        assert_eq!((rested.writes, rested.events), (after.writes, after.events), "written at rest");
        assert!(writes <= WRITES_A_FAULT && events <= WRITES_A_FAULT, "{writes} writes, {events} Events");
        for (process, (memory, watches)) in &rested.processes {
            let (first_memory, first_watches) = first.entry(process.clone()).or_insert((*memory, *watches));
            assert!(*memory <= *first_memory + GROWTH_MIB, "{process}: {memory} MiB after {first_memory}");
            assert_eq!(watches, first_watches, "{process}: watches");
        }
        before = rested;
    }
    install::assert_used_as_granted(&cluster);
}

impl Stage<'_> {
    async fn figures(&self) -> Figures {
        let mut processes = BTreeMap::new();
        for pod in self.installation.sidecars(self.cluster).await.unwrap() {
            let status = pod.status.as_ref().unwrap();
            let address = format!("{}:8080", status.pod_ip.as_ref().unwrap());
            let (_, metrics) = http::get(&address, "/metrics").await.unwrap();
            let memory = http::metric(&metrics, "process_resident_memory_bytes").unwrap() / 1024.0 / 1024.0;
            let watches = metrics.lines().filter(|line| line.starts_with("persistentpodstate_watch_up{"));
            let watches = watches.filter(|line| line.ends_with(" 1")).count();
            let restarts = status.container_statuses.as_ref().unwrap()[0].restart_count;
            let process = format!("{} {restarts}", pod.name_any());
            processes.insert(process, (memory, watches));
        }
        let requests = requests_of(self.cluster, &format!("system:serviceaccount:{NAMESPACE}:{SIDECAR}"));
        let changes = |resource: &str| {
            let of = |request: &&serde_json::Value| {
                request["objectRef"]["resource"] == resource
                    && ["create", "patch", "update", "delete"].iter().any(|verb| request["verb"] == *verb)
            };
            requests.iter().filter(of).count()
        };
        Figures { processes, writes: changes("persistentpodstates"), events: changes("events") }
    }
}
