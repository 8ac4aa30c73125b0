//! The wall clock jumps.

use std::{collections::BTreeSet, fs, time::Duration};

use pps_e2e::{cluster::Cluster, sidecar::SidecarOptions};

use super::end_state::end_state;
use super::fleet::Fleet;
use super::node_recreation::{self, Trio};
use crate::support::{Random, TIMEOUT};

/// It jumps by hours and days, forward and back, while the sidecar leads, batches changes and waits for a
/// node.
pub(crate) async fn ignores_jumps_of_the_wall_clock(cluster: &Cluster) {
    // This library fakes the wall clock of a program.
    let library = cluster.control_plane.binaries().path("libfaketime.so.1").unwrap();
    let mut random = Random::of("clock");
    let time = cluster.control_plane.folder().join("time");
    let set = |offset: &str| fs::write(&time, format!("{offset}\n")).unwrap();
    set("+0");
    let mut options = SidecarOptions { name: "jumping".to_owned(), ..node_recreation::sidecar() };
    for (key, value) in [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", time.display().to_string()),
        // Read the file at each call, and leave the monotonic clock alone.
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ] {
        options.env.push((key.to_owned(), value));
    }
    cluster.sidecar().unwrap().terminate(TIMEOUT).await.unwrap();
    let jumping = cluster.run_sidecar(options).unwrap();
    jumping.wait_ready(TIMEOUT).await.unwrap();
    jumping.wait_leading(TIMEOUT).await.unwrap();
    let fleet = Fleet::new(cluster, "clock", 2, 3).await;
    let mut trio = Trio::new(cluster, "clock-nodes", "Forget").await;

    let hours = 2 + random.below(20);
    for offset in [format!("+{hours}h"), "+400d".to_owned(), "-300d".to_owned(), format!("-{hours}h")] {
        // The clock jumps while changes are batched and a node is missing. The absence must not seem longer.
        let (pod, node) = trio.any().await;
        trio.delete_node(&node).await;
        trio.delete_pod(&pod).await;
        fleet.delete_some(&mut random, 2).await;
        tokio::time::sleep(Duration::from_millis(random.below(500))).await;
        set(&offset);
        fleet.ready().await;
        for set in fleet.sets() {
            fleet.pool.recorded(&set, &set).await;
        }
        trio.make_node(&node).await;
        assert_eq!(trio.home(&pod).await, node, "the state was forgotten too early, at {offset}");
        assert!(jumping.leads().await.unwrap());
    }
    fleet.end_state().await;
    end_state(cluster, "clock-nodes", 3).await;
    let log = jumping.log();
    assert!(!log.contains("no longer leading"), "the Lease must not depend on the wall clock");
    // Check that the clock did jump for the sidecar.
    let days: BTreeSet<&str> =
        log.lines().filter_map(|line| line.split("\"timestamp\":\"").nth(1)?.get(..10)).collect();
    assert!(days.len() >= 3, "the clock did not jump: {days:?}");
    assert_eq!(jumping.terminate(TIMEOUT).await.unwrap().code, Some(0));
    cluster.sidecar().unwrap().start_again().unwrap();
    cluster.sidecar().unwrap().wait_ready(TIMEOUT).await.unwrap();
}
