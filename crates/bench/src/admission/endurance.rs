//! Many admissions in a row: does memory grow, and does the host ever fail?

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use super::load::{Load, percentile, send};
use super::{World, fine_millis};
use crate::meter::memory;
use crate::report::{count, table};

const WORKERS: usize = 8;
/// The lanes of the admissions, in turn: most workloads are small. The numbers are those of `OBJECTS`, behind the floors.
const MIX: [usize; 20] = [2, 6, 2, 7, 2, 6, 2, 6, 2, 7, 2, 6, 2, 8, 2, 6, 2, 7, 2, 6];
/// The run is reported in so many parts.
const PARTS: usize = 10;

/// Sends that many admissions. One table by part, one by size.
pub(super) async fn measure(world: &World, admissions: usize) -> Result<Vec<(&'static str, String)>> {
    let World { host, servers, lanes, .. } = world;
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let memories = || -> Result<[String; 2]> {
        Ok([mebibytes(memory(&servers.host)?.0), mebibytes(memory(&servers.api_server)?.0)])
    };
    let nothing = || vec![String::new(); 4];
    let mut parts = vec![[vec!["before".to_owned()], nothing(), memories()?.to_vec()].concat()];
    let mut by_lane: Vec<Load> = lanes.iter().map(|_| Load::default()).collect();
    let before = servers.gets().await?;
    let mut sent = 0;
    for part in 1..=PARTS {
        let until = admissions * part / PARTS;
        let size = until - sent;
        let started = Instant::now();
        let results =
            send(host, lanes, WORKERS, move |number| (number < size).then(|| MIX[number % MIX.len()]));
        let mut times = Vec::with_capacity(size);
        let mut errors = 0;
        for (lane, load) in results.await? {
            times.extend_from_slice(&load.times);
            errors += load.errors;
            if let Some(error) = &load.first_error {
                eprintln!("  wrong: {error}");
            }
            by_lane[lane].add(load);
        }
        sent = until;
        host.truncate_log()?;
        let [at_host, at_api_server] = memories()?;
        let row = vec![
            count(sent),
            format!("{:.0}", times.len() as f64 / started.elapsed().as_secs_f64()),
            fine_millis(percentile(&mut times, 50)),
            fine_millis(percentile(&mut times, 99)),
            errors.to_string(),
            at_host,
            at_api_server,
        ];
        eprintln!("  {}", row.join(", "));
        parts.push(row);
    }
    let made = servers.gets().await?.zip(before).map(|(after, before)| after.since(before).count);
    let gets = made.unwrap_or(admissions as u64);
    let errors: usize = by_lane.iter().map(|load| load.errors).sum();
    let first = format!("admissions: {}", world.title());
    let header =
        [&first, "per second", "p50", "p99", "errors", "memory of the host", "memory of the API server"];
    let by_part = table(&header, parts);
    let rows =
        lanes.iter().zip(&mut by_lane).filter(|(_, load)| !load.times.is_empty()).map(|(lane, load)| {
            let [p50, p99] = [50, 99].map(|percent| fine_millis(percentile(&mut load.times, percent)));
            vec![lane.title.clone(), count(load.times.len()), p50, p99, load.errors.to_string()]
        });
    let by_size = table(&["of a workload with", "admissions", "p50", "p99", "errors"], rows);
    if errors > 0 {
        bail!("{errors} answers were wrong:\n{by_part}\n{by_size}");
    }
    ensure!(gets == admissions as u64, "{gets} gets for {admissions} admissions:\n{by_part}\n{by_size}");
    Ok(vec![("many admissions", by_part), ("many admissions by size", by_size)])
}
