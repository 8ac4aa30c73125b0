//! Waits for a condition. A timeout reports the condition and what was seen last.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const SHORTEST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The end of a wait is noticed late by at most this part of it, so that long waits ask seldom.
const LATE_PART: u32 = 5;

/// The result of one probe.
#[derive(Debug)]
pub enum Progress<T> {
    /// The condition holds.
    Done(T),
    /// Not yet. Describes what was seen.
    Waiting(String),
}

impl<T> Progress<T> {
    /// Done with `value` if `condition` holds, else waiting with a description of what was seen.
    pub fn when(condition: bool, value: T, seen: impl Display) -> Self {
        if condition {
            Self::Done(value)
        } else {
            Self::Waiting(seen.to_string())
        }
    }
}

/// Probes repeatedly until `probe` is done. An error of the probe counts as "not yet", because the
/// API server may be restarting.
pub async fn wait_for<T, F>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<Progress<T>>>,
{
    let started = Instant::now();
    let mut last = "nothing".to_owned();
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        let asked = Instant::now();
        match tokio::time::timeout(left, probe()).await {
            Ok(Ok(Progress::Done(value))) => return Ok(value),
            Ok(Ok(Progress::Waiting(seen))) => last = seen,
            Ok(Err(error)) => last = format!("error: {error:#}"),
            Err(_) => {}
        }
        if started.elapsed() >= timeout {
            bail!("waited {timeout:?} for {what}; last seen: {last}");
        }
        // Half of the wait is idle: probes may cost much, and others may need the processor.
        let pause = (started.elapsed() / LATE_PART).max(asked.elapsed());
        tokio::time::sleep(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
    }
}
