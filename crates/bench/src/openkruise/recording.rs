//! What recording costs: Pods that become Ready, the first start, and changes that do not matter.

use std::ops::Sub;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::bed::{Bed, CANARY};
use super::comparison::{Comparison, Unit};
use super::recorder::{Product, Recorder};
use super::records::Records;
use crate::meter::{cpu, memory};
use crate::report::count;
use crate::sidecar::layout::ClusterLayout;
use crate::sidecar::{PodPatch, patch_pods};

/// How long all Pods of a turn may take to be recorded.
const LIMIT: Duration = Duration::from_mins(5);
/// Changes that do not matter, and how many of them are made per second.
const CHANGES: usize = 2_000;
const CHANGES_PER_SECOND: u64 = 400;

/// What was used up to a moment.
#[derive(Clone, Copy)]
struct Usage {
    cpu: f64,
    api_server_cpu: f64,
    sent: f64,
    received: f64,
}

impl Usage {
    fn of(bed: &Bed, recorder: &Recorder) -> Result<Self> {
        let (sent, received) = recorder.proxy.bytes();
        Ok(Self {
            cpu: cpu(&recorder.process)?,
            api_server_cpu: bed.api_server_cpu()?,
            sent: sent as f64,
            received: received as f64,
        })
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            api_server_cpu: self.api_server_cpu - before.api_server_cpu,
            sent: self.sent - before.sent,
            received: self.received - before.received,
        }
    }
}

/// Rows of one scenario.
struct Rows<'a> {
    comparison: &'a mut Comparison,
    scenario: &'a str,
    product: Product,
}

impl Rows<'_> {
    fn add(&mut self, what: &str, unit: Unit, value: f64) {
        self.comparison.add(&format!("{}: {what}", self.scenario), unit, self.product, value);
    }

    fn add_usage(&mut self, used: Usage) {
        self.add("CPU", Unit::Seconds, used.cpu);
        self.add("CPU of the API server", Unit::Seconds, used.api_server_cpu);
        self.add("sent", Unit::Bytes, used.sent);
        self.add("received", Unit::Bytes, used.received);
    }

    fn add_memory(&mut self, recorder: &Recorder) -> Result<()> {
        let (now, peak) = memory(&recorder.process)?;
        self.add("memory, peak", Unit::Bytes, peak as f64);
        self.add("memory, afterwards", Unit::Bytes, now as f64);
        Ok(())
    }
}

/// 1,000 Pods of one StatefulSet become Ready at 50 a second, and 1,000 of another at once.
pub(super) async fn measure_becoming_ready(
    bed: &mut Bed,
    product: Product,
    comparison: &mut Comparison,
) -> Result<()> {
    let slow = ClusterLayout { namespace: "slow", workloads: 1, pods: 1_000, ready: false };
    let fast = ClusterLayout { namespace: "fast", ..slow };
    let records = bed.prepare(product, &[slow, fast]).await?;
    let mut recorder = bed.start_recorder(product).await?;
    recorder.wait_until_ready().await?;
    wait(&records, &mut recorder, CANARY.namespace, 1).await?;
    recorder.settle().await?;
    for (scenario, layout, rate) in [("50 a second", slow, Some(50)), ("at once", fast, None)] {
        let mut rows = Rows { comparison, scenario, product };
        let (before, writes) = (Usage::of(bed, &recorder)?, records.seen().writes(layout.namespace));
        let pods: Vec<usize> = (0..layout.all_pods()).collect();
        let last = patch_pods(bed.client(), layout, &pods, rate, &PodPatch::become_ready()).await?;
        let recorded = wait(&records, &mut recorder, layout.namespace, layout.all_pods()).await?;
        recorder.settle().await?;
        rows.add("writes", Unit::Count, (records.seen().writes(layout.namespace) - writes) as f64);
        rows.add(
            "last recorded after",
            Unit::Seconds,
            recorded.saturating_duration_since(last).as_secs_f64(),
        );
        rows.add_usage(Usage::of(bed, &recorder)? - before);
    }
    Rows { comparison, scenario: "afterwards", product }.add_memory(&recorder)?;
    recorder.stop().await
}

/// The first start with PPS of ten Pods each. In the smaller cluster, changes that do not matter follow.
pub(super) async fn measure_start(
    bed: &mut Bed,
    product: Product,
    workloads: usize,
    with_changes: bool,
    comparison: &mut Comparison,
) -> Result<()> {
    let layout = ClusterLayout { namespace: "bench", workloads, pods: 10, ready: true };
    let records = bed.prepare(product, &[layout]).await?;
    let api_server_cpu = bed.api_server_cpu()?;
    let mut recorder = bed.start_recorder(product).await?;
    let recorded = wait(&records, &mut recorder, layout.namespace, layout.all_pods()).await?;
    recorder.settle().await?;
    let scenario = format!("{} × 10", count(workloads));
    let mut rows = Rows { comparison, scenario: &scenario, product };
    let took = recorded.saturating_duration_since(recorder.started);
    rows.add("all recorded after", Unit::Seconds, took.as_secs_f64());
    rows.add("writes", Unit::Count, records.seen().writes(layout.namespace) as f64);
    let used = Usage::of(bed, &recorder)?;
    rows.add_usage(Usage { api_server_cpu: used.api_server_cpu - api_server_cpu, ..used });
    rows.add_memory(&recorder)?;
    if with_changes {
        let before = Usage::of(bed, &recorder)?;
        let step = (layout.all_pods() / CHANGES).max(1);
        let pods: Vec<usize> = (0..CHANGES).map(|change| change * step % layout.all_pods()).collect();
        let patch = PodPatch::Object(json!({"metadata": {"annotations": {"example.com/heartbeat": "1"}}}));
        patch_pods(bed.client(), layout, &pods, Some(CHANGES_PER_SECOND), &patch).await?;
        recorder.settle().await?;
        let scenario = format!("{} changes that do not matter", count(CHANGES));
        Rows { comparison, scenario: &scenario, product }.add_usage(Usage::of(bed, &recorder)? - before);
    }
    recorder.stop().await
}

async fn wait(records: &Records, recorder: &mut Recorder, namespace: &str, states: usize) -> Result<Instant> {
    let prefix = format!("{namespace}/");
    let recorded = records.wait(&prefix, states, LIMIT).await?;
    recorder.check()?;
    let seen = records.seen().states(&prefix);
    ensure!(
        recorded.is_some(),
        "after {LIMIT:?}, {seen} of {states} Pods are recorded; the recorder's last lines:\n{}",
        recorder.log_tail()
    );
    Ok(recorded.unwrap_or_else(Instant::now))
}
