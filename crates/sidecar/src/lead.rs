//! Lead: the election. Of several processes only the Lease holder may write. Writes nothing but the
//! Lease.
//!
//! The Lease is written with the resource version that was read: of two processes that take it, one
//! gets a conflict. The time for which a holder leads is counted from its request, never from the
//! answer. If the process was stopped in between, the answer comes too late and does not count.

mod leadership;
mod lease;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Resource};
use pps_api::{Accept, AnswerLimit, Failure, Write, get};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, info, warn};

pub(crate) use self::leadership::{Leadership, Permit};
use self::leadership::{Term, now};
pub(crate) use self::lease::holder;
use self::lease::{ObservedLease, RENEW_WITHIN, RETRY, hold, release, retry_after};
use crate::telemetry::Health;

/// Short enough that a renewal that gets no answer can be retried before the term ends.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// A Lease has a few hundred bytes, and annotations of 256 KiB at most.
const LIMIT: AnswerLimit = AnswerLimit {
    within: REQUEST_TIMEOUT,
    bytes: 4 << 20,
};
/// When to read the Lease again after another process has written it.
const CONFLICT_RETRY: Duration = Duration::from_millis(200);

/// The former leader may have failed to publish an Event that is younger than this when a new term
/// begins.
pub(crate) const HANDOVER_WINDOW: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Election {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Election {
    pub(crate) fn start(
        client: Client,
        namespace: &str,
        name: &str,
        health: Health,
    ) -> (Self, Leadership) {
        let (term, leadership) = watch::channel(Term::default());
        let (stop, stopped) = oneshot::channel();
        health.set_election_problem(Some("the Lease has not been read yet".to_owned()));
        let elector = Elector {
            client,
            leases: Lease::url_path(&(), Some(namespace)),
            lease: format!("{namespace}/{name}"),
            name: name.to_owned(),
            me: create_identity(),
            observed: ObservedLease::default(),
            ours: None,
            has_requested: false,
            leader: None,
            term,
            health,
        };
        info!(
            lease = elector.lease,
            identity = elector.me,
            "taking part in the leader election"
        );
        (
            Self {
                stop,
                task: tokio::spawn(elector.run(stopped)),
            },
            Leadership::new(leadership),
        )
    }

    /// Ends the term and releases the Lease, so that another process can lead at once.
    pub(crate) async fn end(self) {
        // Fails only if the elector has ended already.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// The identity of this process. It differs after each restart, so that a process never takes a
/// Lease of its predecessor for its own.
fn create_identity() -> String {
    let name = std::env::var("POD_NAME")
        .ok()
        .filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    });
    // Each instance has random keys.
    let random = RandomState::new().build_hasher().finish();
    format!("{name}_{random:016x}")
}

struct Elector {
    client: Client,
    /// The path of the namespace's Leases.
    leases: String,
    /// `namespace/name`, for people.
    lease: String,
    name: String,
    me: String,
    observed: ObservedLease,
    /// The Lease after this process's last write; `None` if it has to be read.
    ours: Option<Lease>,
    /// Whether this process has ever requested the Lease, and so may hold it.
    has_requested: bool,
    leader: Option<String>,
    term: watch::Sender<Term>,
    health: Health,
}

impl Elector {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let wait = self.take_turn().await;
            tokio::select! {
                () = sleep(wait) => {}
                _ = &mut stopped => break,
            }
        }
        self.release_lease().await;
    }

    /// Reads, takes or renews the Lease. Returns when to do so again.
    async fn take_turn(&mut self) -> Duration {
        if self.term.borrow().has_lapsed(now()) {
            self.step_down("the Lease was not renewed in time");
            // Gives the watches time to catch up in case this process leads again.
            return RETRY;
        }
        let begun = now();
        match self.attempt().await {
            Ok(wait) => {
                if self.health.set_election_problem(None).is_some() {
                    info!(lease = self.lease, "the Lease is accessible");
                }
                wait
            }
            Err(problem) => {
                self.ours = None;
                let problem = self.describe(&problem);
                if self
                    .health
                    .set_election_problem(Some(problem.clone()))
                    .as_ref()
                    == Some(&problem)
                {
                    debug!(problem);
                } else {
                    warn!(lease = self.lease, "{problem}");
                }
                retry_after(now().saturating_sub(begun), self.term.borrow().left(now()))
            }
        }
    }

    async fn attempt(&mut self) -> Result<Duration, Failure> {
        let mut lease = self.ours.take();
        if lease.is_none() {
            lease = self.read().await?;
            let spec = lease
                .as_ref()
                .map(|lease| lease.spec.clone().unwrap_or_default());
            if let Some(wait) = self.observed.wait(&self.me, spec.as_ref(), now()) {
                self.follow(spec.as_ref().and_then(holder).unwrap_or_default());
                return Ok(wait);
            }
        }
        let requested_at = now();
        let exists = lease.is_some();
        self.has_requested = true;
        match self
            .write(lease, |before| {
                hold(before, &self.me, MicroTime(Timestamp::now()))
            })
            .await
        {
            Ok(lease) => {
                self.ours = Some(lease);
                self.lead(requested_at + RENEW_WITHIN);
                Ok(RETRY)
            }
            // Another process has written it, or it was deleted, in the meantime.
            Err(failure) if is_changed(&failure, exists) => Ok(CONFLICT_RETRY),
            Err(failure) => Err(failure),
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.leases, self.name)
    }

    /// Reads the Lease; none if there is none.
    async fn read(&self) -> Result<Option<Lease>, Failure> {
        match get(&self.client, &self.path(), Accept::Object, LIMIT).await {
            Err(failure) if failure.code() == Some(404) => Ok(None),
            lease => lease.map(Some),
        }
    }

    async fn write(
        &self,
        lease: Option<Lease>,
        change: impl FnOnce(Option<LeaseSpec>) -> LeaseSpec,
    ) -> Result<Lease, Failure> {
        let exists = lease.is_some();
        let mut lease = lease.unwrap_or_default();
        lease.metadata.name.get_or_insert_with(|| self.name.clone());
        lease.spec = Some(change(
            exists.then(|| lease.spec.take().unwrap_or_default()),
        ));
        let write = if exists {
            Write::replace(self.path(), &json!(lease))
        } else {
            Write::create(self.leases.clone(), &json!(lease))
        };
        write.send(&self.client, LIMIT).await
    }

    fn lead(&mut self, until: Duration) {
        let now = now();
        if until <= now {
            return self.step_down("the API server answered too late");
        }
        if self.term.send_if_modified(|term| term.extend(until, now)) {
            self.leader = Some(self.me.clone());
            info!(lease = self.lease, identity = self.me, "leading");
        }
    }

    fn follow(&mut self, leader: &str) {
        self.step_down("another process holds the Lease");
        if self.leader.as_deref() != Some(leader) {
            info!(lease = self.lease, leader, "standby");
            self.leader = Some(leader.to_owned());
        }
    }

    fn step_down(&mut self, why: &str) {
        self.ours = None;
        if self.term.send_if_modified(Term::end) {
            self.leader = None;
            warn!(lease = self.lease, "no longer leading: {why}");
        }
    }

    async fn release_lease(mut self) {
        self.term.send_if_modified(Term::end);
        if !self.has_requested {
            return;
        }
        let release = async {
            let lease = match self.ours.take() {
                Some(ours) => Some(ours),
                None => self.read().await?,
            };
            let is_ours =
                |lease: &Lease| lease.spec.as_ref().and_then(holder) == Some(self.me.as_str());
            if let Some(lease) = lease.filter(is_ours) {
                let change = |spec: Option<LeaseSpec>| {
                    release(spec.unwrap_or_default(), MicroTime(Timestamp::now()))
                };
                self.write(Some(lease), change).await?;
                info!(lease = self.lease, "released the Lease");
            }
            Ok(())
        };
        if let Err(problem) = release.await {
            warn!(
                lease = self.lease,
                "cannot release the Lease: {}",
                self.describe(&problem)
            );
        }
    }

    fn describe(&self, failure: &Failure) -> String {
        let lease = &self.lease;
        match failure {
            Failure::Refused(refusal) if refusal.code == 403 => format!(
                "not allowed to use the Lease {lease}: grant get, create and update on it, or run \
                 a single sidecar with --leader-election=false; until then nothing is written ({})",
                refusal.message
            ),
            other => format!("cannot use the Lease {lease}: {other}"),
        }
    }
}

/// Whether another process has written or deleted a Lease since it was read, or since it did not
/// exist.
fn is_changed(failure: &Failure, exists: bool) -> bool {
    match failure.code() {
        Some(404) => exists,
        code => code == Some(409),
    }
}
