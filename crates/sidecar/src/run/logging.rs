//! How the program logs: to stderr, as text on a terminal and as JSON otherwise.

use std::io::{IsTerminal, stderr};

use anyhow::Context;
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::args::Args;

/// The part of kube that logs whole response bodies which it cannot read, and with them what is secret in an
/// object. Each error is also returned, and logged where it is handled.
const LOGS_BODIES: &str = "kube_client::client";

pub(super) fn start(args: &Args) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("--log {:?} is not a valid log filter", args.log))?;
    let filter = filter.and(filter_fn(|metadata| metadata.target() != LOGS_BODIES));
    let layer = fmt::layer().with_writer(stderr);
    let is_terminal = stderr().is_terminal();
    let layer = if is_terminal {
        layer.with_filter(filter).boxed()
    } else {
        layer.json().flatten_event(true).with_filter(filter).boxed()
    };
    registry().with(layer).try_init().context("cannot start logging")
}
