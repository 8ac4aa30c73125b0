//! Sends requests with a fixed number of workers, and measures what they cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::Client;
use pps_e2e::control_plane::{ControlPlane, program};
use procfs::process::Process;

use super::host::Host;
use super::lane::Lane;
use crate::meter::cpu;

/// The processes whose CPU time is measured.
pub(super) struct Servers {
    pub(super) api_server: Process,
    pub(super) host: Process,
    /// The administrator's client, for the API server's own counters.
    admin: Client,
}

/// What some admissions took.
#[derive(Default)]
pub(super) struct Load {
    pub(super) times: Vec<Duration>,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
    /// CPU time in seconds.
    pub(super) api_server: f64,
    pub(super) host: f64,
}

/// How many gets of PPS the API server has answered, and with how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gets {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Servers {
    pub(super) fn new(control_plane: &ControlPlane, host: &Host) -> Result<Self> {
        let pid = control_plane.supervisor().status(program::API_SERVER)?.pid;
        let pid = pid.context("the API server is not running")?;
        Ok(Self {
            api_server: Process::new(i32::try_from(pid)?)?,
            host: Process::new(host.process.pid())?,
            admin: control_plane.client(),
        })
    }

    /// Reads the API server's counters of gets; nothing if it has counted none. Kubernetes 1.20 counts lists only.
    pub(super) async fn gets(&self) -> Result<Option<Gets>> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let gets = Gets::read(&self.admin.request_text(request).await?);
        Ok(Some(gets).filter(|gets| gets.count > 0))
    }
}

impl Gets {
    fn read(metrics: &str) -> Self {
        let sum = |name: &str| -> u64 {
            let lines = metrics.lines().filter(|line| {
                line.starts_with(name)
                    && line.contains(r#"resource="persistentpodstates""#)
                    && line.contains(r#"verb="GET""#)
            });
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            // Large numbers are written with an exponent.
            values.filter_map(|value| format!("{value:.0}").parse::<u64>().ok()).sum()
        };
        Self { count: sum("apiserver_response_sizes_count{"), bytes: sum("apiserver_response_sizes_sum{") }
    }

    pub(super) fn since(self, before: Self) -> Self {
        let Self { count, bytes } = before;
        Self { count: self.count.saturating_sub(count), bytes: self.bytes.saturating_sub(bytes) }
    }
}

impl Load {
    pub(super) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.api_server += other.api_server;
        self.host += other.host;
    }

    /// CPU time for one admission.
    pub(super) fn each(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.times.len().max(1) as f64)
    }

    fn record(&mut self, time: Duration, outcome: Result<(), String>) {
        self.times.push(time);
        if let Err(error) = outcome {
            self.errors += 1;
            self.first_error.get_or_insert(error);
        }
    }
}

/// Sends requests of one lane for a while.
pub(super) async fn run_turn(
    host: &Host,
    servers: &Servers,
    lane: &Arc<Lane>,
    workers: usize,
    turn: Duration,
) -> Result<Load> {
    let before = (cpu(&servers.api_server)?, cpu(&servers.host)?);
    let end = Instant::now() + turn;
    let lanes = vec![lane.clone()];
    let mut load = Load::default();
    for (_, part) in send(host, &lanes, workers, move |_| (Instant::now() < end).then_some(0)).await? {
        load.add(part);
    }
    load.api_server = cpu(&servers.api_server)? - before.0;
    load.host = cpu(&servers.host)? - before.1;
    Ok(load)
}

/// Sends requests with so many workers at once. `choose` says of which lane the request of a number is, or that it
/// is not sent and the worker ends. Returns the results of each worker by lane.
pub(super) async fn send(
    host: &Host,
    lanes: &[Arc<Lane>],
    workers: usize,
    choose: impl Fn(usize) -> Option<usize> + Clone + Send + 'static,
) -> Result<Vec<(usize, Load)>> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = (0..workers).map(|_| {
        let (client, lanes, next, choose) =
            (host.client.clone(), lanes.to_vec(), next.clone(), choose.clone());
        tokio::spawn(async move {
            let mut loads: Vec<Load> = lanes.iter().map(|_| Load::default()).collect();
            loop {
                let number = next.fetch_add(1, Relaxed);
                let Some(chosen) = choose(number) else { return loads };
                let lane = &lanes[chosen];
                let exchange = lane.exchange(number);
                let started = Instant::now();
                let answer = client.send(lane.policy, exchange.review.clone()).await;
                let time = started.elapsed();
                let outcome =
                    answer.map_err(|error| format!("{error:#}")).and_then(|answer| exchange.check(&answer));
                loads[chosen].record(time, outcome);
            }
        })
    });
    let loads = try_join_all(tasks).await?;
    Ok(loads.into_iter().flat_map(|loads| loads.into_iter().enumerate()).collect())
}

/// The time that so many per cent of the admissions stayed below.
pub(super) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_gets_of_pps_only() {
        let metrics = r#"
apiserver_response_sizes_sum{group="apps.kruise.io",resource="persistentpodstates",scope="resource",verb="GET"} 1.5e+06
apiserver_response_sizes_sum{group="apps.kruise.io",resource="persistentpodstates",scope="cluster",verb="LIST"} 9
apiserver_response_sizes_sum{group="",resource="pods",scope="resource",verb="GET"} 9
apiserver_response_sizes_count{group="apps.kruise.io",resource="persistentpodstates",scope="resource",verb="GET"} 3
"#;
        assert_eq!(Gets::read(metrics), Gets { count: 3, bytes: 1_500_000 });
    }
}
