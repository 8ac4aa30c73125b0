//! Telemetry: the state that probes and scrapes show. The other parts report into it; it depends on none of
//! them.

pub(crate) mod health;
pub mod metrics;
#[cfg(target_os = "linux")]
mod process;
