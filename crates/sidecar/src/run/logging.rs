//! How the program logs: to stderr, as text on a terminal and as JSON otherwise.

use std::io::{IsTerminal, stderr};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::args::{Args, LogFormat};

pub(super) fn start(args: &Args) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("--log {:?} is not a valid log filter", args.log))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    let is_terminal = stderr().is_terminal();
    match args.log_format {
        LogFormat::Json => logs.json().flatten_event(true).init(),
        LogFormat::Auto if !is_terminal => logs.json().flatten_event(true).init(),
        LogFormat::Text | LogFormat::Auto => logs.with_ansi(is_terminal).init(),
    }
    Ok(())
}
