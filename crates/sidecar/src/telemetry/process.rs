//! The metrics of the process itself, as Prometheus' client libraries define them, on Linux.

use std::fmt;
use std::time::Duration;

use procfs::process::{LimitValue, Process, Stat};
use procfs::{boot_time_secs, page_size, ticks_per_second};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the values at each scrape, and leaves out what cannot be read.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(process) = Process::myself() else { return Ok(()) };
        let mut encode = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let stat = process.stat().ok();
        if let Some(Stat { utime, stime, .. }) = &stat {
            let time = Duration::from_millis((utime + stime).saturating_mul(1000) / ticks_per_second());
            encode(
                "process_cpu_seconds",
                "User and system CPU time.",
                &ConstCounter::new(time.as_secs_f64()),
            )?;
        }
        let start_time = |stat: &Stat| Some(boot_time_secs().ok()? + stat.starttime / ticks_per_second());
        let max_fds = || match process.limits().ok()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        };
        let stat = stat.as_ref();
        for (name, help, value) in [
            ("process_virtual_memory_bytes", "Virtual memory size.", stat.map(|stat| stat.vsize)),
            (
                "process_resident_memory_bytes",
                "Resident memory size.",
                stat.map(|stat| stat.rss.saturating_mul(page_size())),
            ),
            ("process_start_time_seconds", "Start time since the Unix epoch.", stat.and_then(start_time)),
            (
                "process_open_fds",
                "Number of open file descriptors.",
                process.fd_count().ok().map(|count| count as u64),
            ),
            ("process_max_fds", "Maximum number of open file descriptors.", max_fds()),
        ] {
            if let Some(value) = value.and_then(|value| i64::try_from(value).ok()) {
                encode(name, help, &ConstGauge::new(value))?;
            }
        }
        Ok(())
    }
}
