//! A long run: for as many minutes as `PPS_LONG_RUN_MINUTES` says, faults in random order. At the
//! end the sidecars hold and send as much as at the beginning.
#![allow(clippy::cast_precision_loss, reason = "the figures are small")]

use std::{env, time::Duration};

use kube::ResourceExt;
use nix::{sys::signal, unistd::Pid};
use pps_e2e::{
    cluster::{Cluster, real_nodes},
    control_plane::program,
    http,
    install::Installation,
    metrics::{self, Sample},
    report,
    sidecar::NAMESPACE,
};
use tokio::time::{Instant, sleep};

use super::{RECOVERY, Stage, lost_zone, replacement};
use crate::{
    behaviour::permissions::{requests_of, writes},
    install,
    support::{Random, homes, note},
};

/// How long nothing happens after a fault, at least.
const REST: Duration = Duration::from_secs(5);
/// By how much each figure may grow besides: some are hardly above zero.
const SLACK: f64 = 0.5;
/// The figures of a sample, and the factor by which each may grow.
const FIGURES: [(&str, f64); 5] = [
    ("MiB of the larger sidecar", 1.1),
    ("open watches", 1.1),
    ("writes of PPS a minute", 1.25),
    ("writes of Events a minute", 1.25),
    ("requests a minute", 1.25),
];

#[tokio::test]
async fn an_hour_of_faults_leaves_nothing_behind() {
    const TEST: &str = "an_hour_of_faults_leaves_nothing_behind";
    let Ok(minutes) = env::var("PPS_LONG_RUN_MINUTES") else {
        return report::skipped(TEST, "use `make long-run-on-real-nodes` to run it");
    };
    if !real_nodes::available(TEST) {
        return;
    }
    let mut cluster = install::cluster().await;
    let mut installation = install::install(&mut cluster, false).await;
    // Else both sidecars may run on the node that is lost.
    installation
        .apply(&cluster, "deploy/overlays/high-availability")
        .await
        .unwrap();
    Stage {
        cluster: &cluster,
        installation: &installation,
    }
    .first_start()
    .await;
    let (start, minutes, mut random) = (
        Instant::now(),
        minutes.parse().unwrap(),
        Random::of("long run"),
    );
    let minute = || start.elapsed().as_secs_f64() / 60.0;
    let (mut samples, mut round) = (Vec::new(), 0);
    note(
        "minute, MiB of the larger sidecar, open watches; since the start: writes of PPS, of \
         Events, requests",
    );
    while minute() < minutes {
        restart_the_policy_server(&mut cluster, &mut installation).await;
        let stage = &Stage {
            cluster: &cluster,
            installation: &installation,
        };
        let mut faults = super::faults(stage);
        faults.extend(scenarios![stage;
            replacement::a_rolling_update,
            a_deletion_by_force,
            a_crash_of_the_leader,
            a_restart_of_the_api_server,
        ]);
        // Each kind comes once.
        round = faults.len();
        while !faults.is_empty() && minute() < minutes {
            let (name, fault) =
                faults.swap_remove(usize::try_from(random.below(faults.len() as u64)).unwrap());
            fault.await;
            sleep(REST + Duration::from_secs(random.below(20))).await;
            samples.push((minute(), stage.sample().await));
            note(&format!("{:.1?} after {name}", samples.last().unwrap()));
        }
    }

    install::assert_used_as_granted(&cluster);
    let stage = &Stage {
        cluster: &cluster,
        installation: &installation,
    };
    lost_zone::pods_fall_back_one_after_the_other(stage).await;
    lost_zone::the_zone_stays_while_one_of_its_nodes_takes_pods(stage).await;

    // The last third is compared with the first one after a warm-up.
    let (all, third) = (&samples[samples.len() / 12..], samples.len() * 11 / 36);
    if third <= round {
        return report::skipped(TEST, "use more MINUTES: each third has to have all faults");
    }
    let figures = |part: &[(f64, [f64; 5])]| {
        let ((begin, first), (end, last)) = (part[0], part[part.len() - 1]);
        let mean =
            |of: usize| part.iter().map(|(_, sample)| sample[of]).sum::<f64>() / part.len() as f64;
        let rate = |of: usize| (last[of] - first[of]) / (end - begin);
        [mean(0), mean(1), rate(2), rate(3), rate(4)]
    };
    let (first, last) = (figures(&all[..third]), figures(&all[all.len() - third..]));
    note("                           first third  last third  at most");
    let mut grown = Vec::new();
    for (((name, factor), first), last) in FIGURES.into_iter().zip(first).zip(last) {
        let most = first * factor + SLACK;
        note(&format!("{name:<28}{first:10.1}{last:12.1}{most:9.1}"));
        grown.extend((last > most).then_some(name));
    }
    assert!(grown.is_empty(), "{grown:?} grew");
}

/// No Pod is created without its recorded state.
async fn restart_the_policy_server(cluster: &mut Cluster, installation: &mut Installation) {
    let before = Stage {
        cluster,
        installation,
    }
    .places()
    .await;
    cluster.webhook = None;
    cluster
        .delete_pods("shop", "db", &["db-0", "db-1", "db-2"])
        .await
        .unwrap();
    sleep(REST).await;
    installation
        .serve_policy(cluster, install::ACCOUNT, false)
        .await
        .unwrap();
    Stage {
        cluster,
        installation,
    }
    .are_back(&before)
    .await;
}

/// The next Pod starts beside the one that still ends, so it may get another address.
async fn a_deletion_by_force(stage: &Stage<'_>) {
    let before = homes(&stage.pods().await);
    stage.replace_one("--force").await;
    assert_eq!(
        homes(
            &stage
                .cluster
                .wait_ready("shop", "db", 3, RECOVERY)
                .await
                .unwrap()
        ),
        before
    );
}

async fn a_crash_of_the_leader(stage: &Stage<'_>) {
    let [(leader, _), _] = stage.sidecars().await;
    let uid = stage
        .cluster
        .pods_api(NAMESPACE)
        .get(&leader)
        .await
        .unwrap()
        .uid()
        .unwrap();
    let [process] = stage.nodes().processes(&uid).unwrap()[..] else {
        panic!("{leader} has one process")
    };
    signal::kill(Pid::from_raw(process.try_into().unwrap()), signal::SIGKILL).unwrap();
    stage.one_returns().await;
}

async fn a_restart_of_the_api_server(stage: &Stage<'_>) {
    stage
        .cluster
        .control_plane
        .restart(program::API_SERVER)
        .await
        .unwrap();
    stage.one_returns().await;
}

impl Stage<'_> {
    async fn replace_one(&self, flag: &str) {
        let old = self.pods().await.into_values().next().unwrap();
        self.cluster
            .control_plane
            .kubectl(&["delete", "pod", "-n", "shop", &old.name, flag])
            .await
            .unwrap();
        self.replaced(&old).await;
    }

    async fn one_returns(&self) {
        let before = self.places().await;
        self.replace_one("--wait=false").await;
        self.are_back(&before).await;
    }

    /// Memory and watches now; writes and requests since the start.
    async fn sample(&self) -> [f64; 5] {
        self.records_match().await;
        let mut memory: f64 = 0.0;
        for pod in self.installation.sidecars(self.cluster).await.unwrap() {
            let address = format!("{}:8080", pod.status.unwrap().pod_ip.unwrap());
            let (_, metrics) = http::get(&address, "/metrics").await.unwrap();
            memory = memory.max(http::metric(&metrics, "process_resident_memory_bytes").unwrap());
        }
        let served = self
            .cluster
            .control_plane
            .kubectl(&["get", "--raw", "/metrics"])
            .await
            .unwrap();
        let is_watch = |one: &Sample| {
            one.name.starts_with("apiserver_longrunning_") && one.labels["verb"] == "WATCH"
        };
        let watches = metrics::parse(&served)
            .into_iter()
            .filter(is_watch)
            .map(|one| one.value)
            .sum();
        let (requests, writes) = (
            requests_of(self.cluster, &install::user()),
            writes(self.cluster, &install::user()),
        );
        let of = |resource| {
            writes
                .iter()
                .filter(|one| one["objectRef"]["resource"] == resource)
                .count() as f64
        };
        [
            memory / 1024.0 / 1024.0,
            watches,
            of("persistentpodstates"),
            of("events"),
            requests.len() as f64,
        ]
    }
}
