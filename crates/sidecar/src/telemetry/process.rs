//! The metrics of the process itself, as Prometheus' client libraries define them. Reads `/proc`; on a system
//! without it there are none.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Reads the values at each scrape.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut encode = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)
        };
        if let Some(stat) = Stat::read() {
            encode("process_cpu_seconds", "User and system CPU time.", &ConstCounter::new(stat.cpu_seconds))?;
            for (name, help, bytes) in [
                ("process_virtual_memory_bytes", "Virtual memory size.", stat.virtual_memory_bytes),
                ("process_resident_memory_bytes", "Resident memory size.", stat.resident_memory_bytes),
            ] {
                encode(name, help, &ConstGauge::new(bytes))?;
            }
            if let Some(boot_time) = read_boot_time() {
                let start = ConstGauge::new(boot_time + stat.start_seconds_after_boot);
                encode("process_start_time_seconds", "Start time since the Unix epoch.", &start)?;
            }
        }
        if let Some(count) = count_open_fds() {
            encode("process_open_fds", "Number of open file descriptors.", &ConstGauge::new(count))?;
        }
        if let Some(limit) = getrlimit(Resource::Nofile).current.and_then(|limit| i64::try_from(limit).ok()) {
            encode("process_max_fds", "Maximum number of open file descriptors.", &ConstGauge::new(limit))?;
        }
        Ok(())
    }
}

/// What `/proc/self/stat` says.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    start_seconds_after_boot: f64,
    virtual_memory_bytes: i64,
    resident_memory_bytes: i64,
}

impl Stat {
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let ticks_per_second = u32::try_from(clock_ticks_per_second()).ok()?;
        Self::parse(&text, ticks_per_second.into(), i64::try_from(page_size()).ok()?)
    }

    /// See `proc_pid_stat(5)` for the fields. The second one is the program's name in parentheses, which may
    /// contain spaces and parentheses.
    fn parse(text: &str, ticks_per_second: f64, page_size: i64) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let seconds = |number| Some(field(number)?.parse::<f64>().ok()? / ticks_per_second);
        Some(Self {
            cpu_seconds: seconds(14)? + seconds(15)?,
            start_seconds_after_boot: seconds(22)?,
            virtual_memory_bytes: field(23)?.parse().ok()?,
            resident_memory_bytes: field(24)?.parse::<i64>().ok()?.checked_mul(page_size)?,
        })
    }
}

/// When the system was booted, in seconds since the Unix epoch.
fn read_boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn count_open_fds() -> Option<i64> {
    // Reading the directory opens one more.
    i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_stat_file_of_a_process_with_an_odd_name() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 123 0 1 0 250 50 0 0 20 0 3 0 1200 8192000 300 18446744073709551615 1";
        let expected = Stat {
            cpu_seconds: 3.0,
            start_seconds_after_boot: 12.0,
            virtual_memory_bytes: 8_192_000,
            resident_memory_bytes: 300 * 4096,
        };
        assert_eq!(Stat::parse(text, 100.0, 4096), Some(expected));
        assert_eq!(Stat::parse("7 (short) S 1", 100.0, 4096), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_this_process() {
        let stat = Stat::read().unwrap();
        assert!(stat.virtual_memory_bytes >= stat.resident_memory_bytes && stat.resident_memory_bytes > 0);
        assert!(read_boot_time().unwrap() > 0.0);
        assert!(count_open_fds().unwrap() > 0);
    }
}
