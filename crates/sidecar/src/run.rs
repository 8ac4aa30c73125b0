//! Run: sets up all parts and loops until a signal arrives. The [`worker`] has what happens in each
//! turn of the loop.

mod worker;

use std::env;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use kube::Client;
use pps_check::args::CheckArgs;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{sleep_until, timeout};
use tracing::{info, warn};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use self::worker::Worker;
use crate::args::{Args, Command, Recorder};
use crate::connect::connect;
use crate::lead::{Election, Leadership};
use crate::observe::openkruise;
use crate::observe::watch::Watches;
use crate::serve;
use crate::telemetry::Health;
use crate::telemetry::metrics::Metrics;

const QUEUE: usize = 1024;
/// How many observations are applied before due writes begin.
const APPLIED_AT_ONCE: usize = 256;
/// How often metrics are updated and unused timing is dropped.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// How long to continue with pending writes after a signal.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The exit code of a check that could not be made.
const NOT_CHECKED: u8 = 2;

/// The program: parses the command line, runs the sidecar, and turns the result into an exit code.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let (program, code, result) = match &args.command {
        Some(Command::Check(args)) => ("pps-sidecar check", NOT_CHECKED, check(args)),
        None => ("pps-sidecar", 1, run_to_completion(&args).map(|()| 0)),
    };
    ExitCode::from(result.unwrap_or_else(|error| {
        eprintln!("{program}: {error:#}");
        code
    }))
}

/// Runs the sidecar until a signal arrives. Fails if the log filter is invalid, no cluster is
/// configured, or the admin address is in use.
fn run_to_completion(args: &Args) -> anyhow::Result<()> {
    start_logging(args)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(args))
}

/// Checks an installation, and prints what was found. Returns the exit code. Fails if no cluster is
/// configured.
fn check(args: &CheckArgs) -> anyhow::Result<u8> {
    let report = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let client = connect(args.kubeconfig.as_deref()).await?;
            let runs_in_cluster = env::var_os("KUBERNETES_SERVICE_HOST").is_some();
            anyhow::Ok(args.run(&client, runs_in_cluster).await)
        })?;
    // A reader that closes the pipe early has seen enough.
    let _ = stdout().write_all(report.text.as_bytes());
    Ok(report.exit_code)
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let client = connect(args.kubeconfig.as_deref()).await?;
    let health = Health::default();
    let metrics = Arc::new(Metrics::default());
    let (election, leadership) = start_election(args, &client, &health);
    // Awaited here, because the fields of a log entry that is filtered out are not evaluated.
    let address = serve::serve(
        args.admin_address,
        health.clone(),
        metrics.clone(),
        leadership.clone(),
    );
    let address = address.await?;
    info!(version = env!("CARGO_PKG_VERSION"), %address, "started");
    match args.recorder {
        Recorder::Own => record(args, client, leadership, health, metrics, stop).await?,
        Recorder::OpenKruise => {
            health.mark_synced();
            tokio::select! {
                () = openkruise::watch_manager(&client, args.openkruise_namespace(), &metrics) => {}
                () = stop => {}
            }
        }
    }
    if let Some(election) = election {
        election.end().await;
    }
    info!("stopped");
    Ok(())
}

fn start_election(args: &Args, client: &Client, health: &Health) -> (Option<Election>, Leadership) {
    if args.recorder == Recorder::OpenKruise || !args.leader_election {
        return (None, Leadership::fixed(args.recorder == Recorder::Own));
    }
    // In a Pod, the client's default namespace is the Pod's own.
    let namespace = args
        .lease_namespace
        .as_deref()
        .unwrap_or(client.default_namespace());
    let (election, leadership) =
        Election::start(client.clone(), namespace, &args.lease_name, health.clone());
    (Some(election), leadership)
}

async fn record(
    args: &Args,
    client: Client,
    mut leadership: Leadership,
    health: Health,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (sender, mut observations) = mpsc::channel(QUEUE);
    let watches = Watches::new(client, args.namespace.as_deref(), health, metrics, sender);
    let mut worker = Worker::new(args, watches, leadership.clone());
    worker.watching.start_first(args);

    let mut stop = pin!(stop);
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        let due = worker.next_due();
        tokio::select! {
            failure = worker.watching.first_failure() => return Err(failure),
            observation = observations.recv() => {
                let Some(observation) = observation else { anyhow::bail!("all watches have ended") };
                worker.apply(observation);
                for _ in 1..APPLIED_AT_ONCE {
                    let Ok(observation) = observations.try_recv() else { break };
                    worker.apply(observation);
                }
            }
            Some(outcome) = worker.requests.next_outcome() => worker.done(outcome.context("a request task has panicked")?),
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
            _ = sweep.tick() => worker.sweep(),
            is_running = leadership.changed() => anyhow::ensure!(is_running, "the election has ended"),
            () = &mut stop => break,
        }
        worker.take_turn();
        // The election runs beside it.
        yield_now().await;
    }

    info!("stopping");
    while let Ok(observation) = observations.try_recv() {
        worker.apply(observation);
    }
    if timeout(SHUTDOWN_TIMEOUT, worker.finish(&mut observations))
        .await
        .is_err()
    {
        warn!(
            seconds = SHUTDOWN_TIMEOUT.as_secs(),
            "stopping before all pending writes were done"
        );
    }
    Ok(())
}

/// The part of kube that logs whole response bodies which it cannot read, and with them what is
/// secret in an object. Each error is also returned, and logged where it is handled.
const LOGS_BODIES: &str = "kube_client::client";

/// Logs to stderr, as text on a terminal and as JSON otherwise.
fn start_logging(args: &Args) -> anyhow::Result<()> {
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
    registry()
        .with(layer)
        .try_init()
        .context("cannot start logging")
}
