//! The wiring: watches into the index, what is due out of it, outcomes back.

mod gone;
mod kinds;
mod leading;
mod other;
mod writing;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use self::kinds::Kinds;
use self::leading::LeadershipState;
use crate::args::{Args, LogFormat, Recorder};
use crate::decide::index::Index;
use crate::decide::missing_nodes::MissingNodes;
use crate::decide::schedule::{Batch, Of};
use crate::decide::unschedulable::UnschedulablePods;
use crate::facts::interest::Interest;
use crate::facts::store::Update;
use crate::facts::{NamespacedName, WorkloadKey};
use crate::lead::Election;
use crate::observe::client;
use crate::observe::discovery::Discovery;
use crate::observe::openkruise::Manager;
use crate::observe::watch::{Observation, Watches};
use crate::serve;
use crate::serve::health::Health;
use crate::serve::metrics::Metrics;
use crate::write::events::Publisher;
use crate::write::{WriteResult, Writer};

/// How many facts may wait for the index before the watches wait for it.
const QUEUE: usize = 1024;
/// How many facts are taken before what became due is written.
const TAKEN_AT_ONCE: usize = 256;
/// How often it is tried again to write what was too large: etcd may take more by now.
const RETRY_FULL: Duration = Duration::from_mins(10);
/// How often what is kept is counted, and what was quiet is forgotten.
const SWEEP: Duration = Duration::from_secs(10);

/// Runs the program until it is told to stop.
///
/// # Errors
///
/// If it cannot start: no cluster is configured, or the admin address is taken.
pub fn run_to_completion(args: &Args) -> anyhow::Result<()> {
    start_logging(args)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(args))
}

fn start_logging(args: &Args) -> anyhow::Result<()> {
    let filter =
        EnvFilter::try_new(&args.log).with_context(|| format!("--log {:?} is no log filter", args.log))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    match args.log_format {
        LogFormat::Json => logs.json().flatten_event(true).init(),
        LogFormat::Auto if !terminal => logs.json().flatten_event(true).init(),
        LogFormat::Text | LogFormat::Auto => logs.with_ansi(terminal).init(),
    }
    Ok(())
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let client = client::connect(args.kubeconfig.as_deref()).await?;
    let (health, metrics) = (Health::default(), Arc::new(Metrics::default()));
    let election = election(args, &client, &health);
    let mut leadership = election.leadership();
    let served = serve::serve(args.admin_address, health.clone(), metrics.clone(), leadership.clone());
    // Not within the log entry: what is not logged is not evaluated.
    let address = served.await?;
    info!(version = env!("CARGO_PKG_VERSION"), %address, "started");
    if args.recorder == Recorder::OpenKruise {
        health.complete();
        tokio::select! {
            () = other::leave_recording(&client, &args.config_namespace, &metrics) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopped");
        return Ok(());
    }

    let (seen, mut facts) = mpsc::channel(QUEUE);
    let interest = Interest::default();
    let watches = Watches::new(client.clone(), interest.clone(), health.clone(), metrics.clone(), seen);
    let role = LeadershipState::new(leadership.clone());
    let client_of_looks = client.clone();
    let mut worker = Worker::new(args, client, interest, watches, role, health, metrics);
    worker.start_first_watches(args.config_namespace.clone());

    let mut looks = other::looks(client_of_looks, args.config_namespace.clone());
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        let due = worker.next_due();
        tokio::select! {
            seen = facts.recv() => {
                let Some(seen) = seen else { anyhow::bail!("all watches have ended") };
                worker.take(seen);
                for _ in 1..TAKEN_AT_ONCE {
                    let Ok(seen) = facts.try_recv() else { break };
                    worker.take(seen);
                }
            }
            Some(outcome) = worker.writes.join_next() => worker.on_write_done(outcome?),
            () = sleep_until(due.unwrap_or_else(|| Instant::now() + SWEEP).into()), if due.is_some() => {}
            _ = sweep.tick() => worker.sweep(),
            Some(look) = looks.recv() => worker.look_at_other(look, &args.config_namespace),
            cared_for = leadership.changed() => anyhow::ensure!(cared_for, "the election has ended"),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
        worker.work();
    }

    info!("stopping");
    while let Ok(seen) = facts.try_recv() {
        worker.take(seen);
    }
    if timeout(args.shutdown_timeout, worker.finish()).await.is_err() {
        warn!(seconds = args.shutdown_timeout.as_secs(), "not everything could be written in time");
    }
    election.end().await;
    info!("stopped");
    Ok(())
}

/// The election that decides which of several processes writes.
fn election(args: &Args, client: &Client, health: &Health) -> Election {
    if args.recorder == Recorder::OpenKruise {
        return Election::none();
    }
    if !args.leader_election {
        return Election::unopposed();
    }
    // Of a Pod, that is its own.
    let namespace = args.lease_namespace.as_deref().unwrap_or(client.default_namespace());
    Election::start(client.clone(), namespace, &args.lease_name, health.clone())
}

/// The index with everything around it that has a clock or does I/O.
struct Worker {
    index: Index,
    discovery: Discovery,
    kinds: Kinds,
    statuses: Batch<NamespacedName>,
    generated: Batch<WorkloadKey>,
    evictions: Batch<NamespacedName>,
    unschedulable: UnschedulablePods,
    grace: MissingNodes,
    /// The writes that are on their way, each with whether it is a retry.
    writes: JoinSet<(bool, WriteResult)>,
    retries: usize,
    max_writes: usize,
    writer: Writer,
    publisher: Publisher,
    role: LeadershipState,
    watches: Watches,
    relist_pods: watch::Sender<()>,
    relist_nodes: watch::Sender<()>,
    later_watches_started: bool,
    complete: bool,
    retry_full: Instant,
    other: Manager,
    health: Health,
    metrics: Arc<Metrics>,
}

impl Worker {
    fn new(
        args: &Args,
        client: Client,
        interest: Interest,
        watches: Watches,
        role: LeadershipState,
        health: Health,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut index = Index::new(interest);
        index.limit_objects(args.max_object_size.saturating_mul(1024));
        Self {
            index,
            discovery: Discovery::new(&args.config_namespace),
            kinds: Kinds::default(),
            statuses: Batch::default(),
            generated: Batch::default(),
            evictions: Batch::default(),
            unschedulable: UnschedulablePods::new(args.node_grace_period),
            grace: MissingNodes::new(args.node_grace_period),
            writes: JoinSet::new(),
            retries: 0,
            max_writes: args.max_writes.into(),
            writer: Writer::new(client.clone(), role.permit()),
            publisher: Publisher::new(client, role.permit()),
            role,
            watches,
            relist_pods: watch::Sender::new(()),
            relist_nodes: watch::Sender::new(()),
            later_watches_started: false,
            complete: false,
            retry_full: Instant::now() + RETRY_FULL,
            other: Manager::default(),
            health,
            metrics,
        }
    }

    /// Starts the watches that say what is of interest; those of Pods and Nodes follow when that is
    /// known, so that they need not be listed twice.
    fn start_first_watches(&self, config_namespace: String) {
        tokio::spawn(self.watches.clone().objects());
        tokio::spawn(self.watches.clone().stateful_sets());
        tokio::spawn(self.watches.clone().definitions());
        tokio::spawn(self.watches.clone().config(config_namespace));
    }

    fn take(&mut self, seen: Observation) {
        match seen {
            Observation::Pods(update) => self.index.apply_pods(update),
            Observation::Nodes(update) => self.index.apply_nodes(update),
            Observation::Workloads(id, update) => self.workloads(&id, update),
            Observation::Lost(id, forbidden) => self.on_kind_lost(&id, forbidden),
            Observation::Heard(id) => self.on_kind_reported(&id, false),
            Observation::Config(update) => {
                self.discovery.config(update);
                self.follow_discovery();
            }
            Observation::Definitions(update) => {
                self.discovery.definitions(update);
                self.follow_discovery();
            }
            Observation::Objects(update) => {
                if let Update::Delete(key) = &update {
                    self.statuses.forget(key);
                }
                self.index.apply_objects(update);
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        if !self.role.leads() || self.writes.len() >= self.max_writes {
            return None;
        }
        let of = self.allowed();
        let generation = if self.discovery.is_own_terminating() { None } else { self.generated.next(of) };
        let due = [self.statuses.next(of), generation, self.next_gone()];
        due.into_iter().flatten().min()
    }

    /// What has failed before may take half of the writes that are on their way at the same time: it may
    /// take long until it fails again, and the rest is for all others.
    fn allowed(&self) -> Of {
        if self.retries < self.max_writes.div_ceil(2) { Of::All } else { Of::Sound }
    }

    /// Takes up what has come up, and writes what is due, if this process leads.
    fn work(&mut self) {
        self.follow_leadership();
        if !self.later_watches_started && self.index.is_interest_known() {
            self.later_watches_started = true;
            tokio::spawn(self.watches.clone().pods(self.relist_pods.subscribe()));
            tokio::spawn(self.watches.clone().nodes(self.relist_nodes.subscribe()));
        }
        if !self.complete && self.index.is_complete() && self.discovery.is_settled() {
            self.complete = true;
            self.health.complete();
            info!(kept = ?self.index.counts(), "the cluster is known");
        }
        let now = Instant::now();
        self.take_work(now);
        if self.role.leads() && self.overdue(now) {
            self.take_work(now);
        }
        while self.role.leads() && self.writes.len() < self.max_writes {
            let of = self.allowed();
            if !self.discovery.is_own_terminating()
                && let Some((workload, retry)) = self.generated.take(of, now)
            {
                self.write_generation(workload, retry);
            } else if let Some((key, retry)) = self.statuses.take(of, now) {
                self.write_status(&key, retry);
                self.take_questions();
            } else if let Some(node) = self.grace.take_confirmation() {
                self.look_for(node);
            } else if let Some((pod, _)) = self.evictions.take(Of::All, now) {
                self.evict(&pod, now);
            } else {
                break;
            }
        }
    }

    fn take_work(&mut self, now: Instant) {
        let work = self.index.take_work();
        // All of it comes up again when this process leads.
        if self.role.leads() {
            for key in &work.statuses {
                self.statuses.mark(key, now);
            }
            for workload in &work.generated {
                self.generated.mark(workload, now);
            }
            for pod in &work.evictions {
                self.evictions.mark(pod, now);
            }
        }
        for node in &work.absences {
            self.on_node_absence(node, now);
        }
        for notice in work.notices {
            self.publish(notice);
        }
        if self.later_watches_started {
            if work.relist.annotations {
                self.relist_pods.send_replace(());
            }
            if work.relist.labels {
                self.relist_nodes.send_replace(());
            }
        }
    }

    fn sweep(&mut self) {
        let now = Instant::now();
        self.statuses.sweep(now);
        self.generated.sweep(now);
        self.evictions.sweep(now);
        let waiting = self.statuses.len() + self.generated.len() + self.evictions.len();
        self.metrics.sizes(self.index.counts(), waiting);
        let (largest, nearly, full) = self.index.sizes();
        self.metrics.fullness(largest, nearly, full);
        if now >= self.retry_full {
            self.retry_full = now + RETRY_FULL;
            self.index.retry_full();
        }
    }

    /// Writes all that is known, due or not, and waits for the outcomes. A standby has nothing to write.
    async fn finish(&mut self) {
        self.take_work(Instant::now());
        while self.role.leads() {
            for key in self.statuses.take_all() {
                self.write_status(&key, false);
            }
            let Some(outcome) = self.writes.join_next().await else { return };
            if let Ok(on_write_done) = outcome {
                let failed = matches!(
                    &on_write_done.1,
                    WriteResult::Status(_, Err(_)) | WriteResult::Generated(_, _, Err(_))
                );
                self.on_write_done(on_write_done);
                self.take_work(Instant::now());
                if failed {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}
