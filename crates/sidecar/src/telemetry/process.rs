//! The metrics of the process itself, as Prometheus' client libraries define them, on Linux.

use std::fmt;
use std::time::Duration;

use procfs::process::Process;
use procfs::{page_size, ticks_per_second};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the values at each scrape, and leaves out what cannot be read.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(stat) = Process::myself().and_then(|process| process.stat()) else {
            return Ok(());
        };
        let mut encode = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let milliseconds = (stat.utime + stat.stime).saturating_mul(1000) / ticks_per_second();
        let time = ConstCounter::new(Duration::from_millis(milliseconds).as_secs_f64());
        encode("process_cpu_seconds", "User and system CPU time.", &time)?;
        let memory = stat
            .rss
            .saturating_mul(page_size())
            .try_into()
            .unwrap_or(i64::MAX);
        encode(
            "process_resident_memory_bytes",
            "Resident memory size.",
            &ConstGauge::new(memory),
        )
    }
}
