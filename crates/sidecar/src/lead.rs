//! Leader election: of several processes only the one that holds the Lease writes.
//!
//! The Lease is written with the resource version that was read, so that of two who take it one gets a
//! conflict. A holder leads for a while from the moment at which it asked for what it then got, never
//! from the answer; if it was stopped in between, the answer comes too late to count.

mod decide;
mod leadership;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use self::decide::{LeaseAction, ObservedLease, RENEW_WITHIN, RETRY, held, holder, released};
pub use self::leadership::{Leadership, Permit};
use self::leadership::{Term, now};
use crate::serve::health::Health;

/// How long one request may take: a renewal can be tried again before it is too late.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// How soon to look again after somebody else has written the Lease.
const AFTER_CONFLICT: Duration = Duration::from_millis(200);

/// A notice that came up so long before this process leads may not have been told by the former leader.
pub const PERHAPS_UNTOLD: Duration = Duration::from_secs(30);

/// The election, while it goes on.
#[derive(Debug)]
pub struct Election {
    leadership: Leadership,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Elector(oneshot::Sender<()>, JoinHandle<()>),
    /// Nobody elects: nothing changes as long as this is kept.
    Settled(#[expect(dead_code, reason = "it is only kept")] watch::Sender<Term>),
}

impl Election {
    /// Stands for election by this Lease.
    pub fn start(client: Client, namespace: &str, name: &str, health: Health) -> Self {
        let (term, leadership) = watch::channel(Term::default());
        let (stop, stopped) = oneshot::channel();
        health.election(Some("the Lease has not been read yet".to_owned()));
        let elector = Elector {
            api: Api::namespaced(client, namespace),
            lease: format!("{namespace}/{name}"),
            name: name.to_owned(),
            me: identity(),
            seen: ObservedLease::default(),
            ours: None,
            asked: false,
            leader: None,
            term,
            health,
            complaint: None,
        };
        info!(lease = elector.lease, identity = elector.me, "standing for election");
        let task = Task::Elector(stop, tokio::spawn(elector.run(stopped)));
        Self { leadership: Leadership::new(leadership), task }
    }

    /// Leads without being asked: for a process that is the only one.
    pub fn unopposed() -> Self {
        let (term, leadership) = watch::channel(Term::unlimited());
        Self { leadership: Leadership::new(leadership), task: Task::Settled(term) }
    }

    /// Never leads: for a process that writes nothing.
    pub fn none() -> Self {
        let (term, leadership) = watch::channel(Term::default());
        Self { leadership: Leadership::new(leadership), task: Task::Settled(term) }
    }

    /// Who leads.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Leads no longer, and lets others lead at once.
    pub async fn end(self) {
        if let Task::Elector(stop, task) = self.task {
            // It ends if it is told to, and also if nobody is there any longer.
            let _ = stop.send(());
            let _ = task.await;
        }
    }
}

/// Who this process is: another one in each of its lives, so that none takes what another one did for
/// its own.
fn identity() -> String {
    let name = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    // Each of these has random keys.
    let random = RandomState::new().build_hasher().finish();
    format!("{name}_{random:016x}")
}

struct Elector {
    api: Api<Lease>,
    lease: String,
    name: String,
    me: String,
    seen: ObservedLease,
    /// The Lease as the last write of this process left it; nothing if it has to be read.
    ours: Option<Lease>,
    /// Whether it was ever asked for the Lease, and so may hold it.
    asked: bool,
    /// Who leads, as far as was told.
    leader: Option<String>,
    term: watch::Sender<Term>,
    health: Health,
    complaint: Option<String>,
}

impl Elector {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let wait = self.turn().await;
            tokio::select! {
                () = sleep(wait) => {}
                _ = &mut stopped => break,
            }
        }
        self.release().await;
    }

    /// Looks, takes or renews, and says when to do so again.
    async fn turn(&mut self) -> Duration {
        if self.term.borrow().has_lapsed(now()) {
            self.step_down("the Lease was not renewed in time");
            // Time for the watches to tell what happened meanwhile, should this process lead again.
            return RETRY;
        }
        match self.attempt().await {
            Ok(wait) => {
                self.health.election(None);
                if self.complaint.take().is_some() {
                    info!(lease = self.lease, "the Lease can be used again");
                }
                wait
            }
            Err(problem) => {
                self.ours = None;
                let problem = self.sentence(&problem);
                if self.complaint.as_ref() == Some(&problem) {
                    debug!(problem);
                } else {
                    warn!(lease = self.lease, "{problem}");
                    self.health.election(Some(problem.clone()));
                    self.complaint = Some(problem);
                }
                // In time to say that it leads no longer.
                let left = self.term.borrow().left(now());
                left.map_or(RETRY, |left| left.min(RETRY))
            }
        }
    }

    async fn attempt(&mut self) -> Result<Duration, Problem> {
        let ours = self.ours.take();
        let (lease, step) = if let Some(ours) = ours {
            (Some(ours), LeaseAction::Renew)
        } else {
            let lease = bounded(self.api.get_opt(&self.name)).await?;
            let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
            let step = self.seen.look(&self.me, spec.as_ref(), now());
            (lease, step)
        };
        if let LeaseAction::Wait(wait) = step {
            let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
            self.follow(holder(&spec).unwrap_or_default());
            return Ok(wait);
        }

        let asked_at = now();
        self.asked = true;
        match self.write(lease, |before| held(before, &self.me, wall_clock())).await {
            Ok(lease) => {
                self.ours = Some(lease);
                self.lead(asked_at + RENEW_WITHIN);
                Ok(RETRY)
            }
            Err(Problem::Changed) => Ok(AFTER_CONFLICT),
            Err(other) => Err(other),
        }
    }

    /// Writes a new Lease, or changes the one that was read.
    async fn write(
        &self,
        lease: Option<Lease>,
        change: impl FnOnce(Option<LeaseSpec>) -> LeaseSpec,
    ) -> Result<Lease, Problem> {
        let params = PostParams::default();
        if let Some(mut lease) = lease {
            lease.spec = Some(change(Some(lease.spec.unwrap_or_default())));
            match bounded(self.api.replace(&self.name, &params, &lease)).await {
                // It was deleted.
                Err(Problem::Api(kube::Error::Api(status))) if status.code == 404 => Err(Problem::Changed),
                other => other,
            }
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(change(None)) };
            bounded(self.api.create(&params, &lease)).await
        }
    }

    fn lead(&mut self, until: Duration) {
        let now = now();
        if until <= now {
            self.step_down("the answer came too late");
            return;
        }
        let mut is_new = false;
        self.term.send_modify(|term| is_new = term.lead(until, now));
        if is_new {
            self.leader = Some(self.me.clone());
            info!(lease = self.lease, identity = self.me, "leading");
        }
    }

    /// Another one leads.
    fn follow(&mut self, leader: &str) {
        self.step_down("another one has taken the Lease");
        if self.leader.as_deref() != Some(leader) {
            info!(lease = self.lease, leader, "standing by");
            self.leader = Some(leader.to_owned());
        }
    }

    fn step_down(&mut self, why: &str) {
        self.ours = None;
        let mut led = false;
        self.term.send_modify(|term| led = term.end());
        if led {
            self.leader = None;
            warn!(lease = self.lease, "no longer leading: {why}");
        }
    }

    /// Gives the Lease back, if this process may hold it.
    async fn release(mut self) {
        self.term.send_modify(|term| {
            term.end();
        });
        if !self.asked {
            return;
        }
        let lease = match self.ours.take() {
            Some(ours) => Ok(Some(ours)),
            None => bounded(self.api.get_opt(&self.name)).await,
        };
        let mine = |lease: &Lease| lease.spec.as_ref().and_then(holder) == Some(self.me.as_str());
        let released = match lease {
            Ok(lease) => match lease.filter(mine) {
                Some(lease) => {
                    let change = |spec: Option<LeaseSpec>| released(spec.unwrap_or_default(), wall_clock());
                    self.write(Some(lease), change).await.map(drop)
                }
                None => return,
            },
            Err(problem) => Err(problem),
        };
        match released {
            Ok(()) => info!(lease = self.lease, "the Lease is released"),
            Err(problem) => {
                warn!(lease = self.lease, "the Lease could not be released: {}", self.sentence(&problem));
            }
        }
    }

    /// What is wrong, and what to do.
    fn sentence(&self, problem: &Problem) -> String {
        let lease = &self.lease;
        match problem {
            Problem::Api(kube::Error::Api(status)) if status.code == 403 => format!(
                "nothing is written, since the Lease {lease} may not be used ({}); grant get, create and update, or run a single sidecar with --leader-election=false",
                status.message
            ),
            Problem::Api(kube::Error::Api(status)) => {
                format!("the Lease {lease} cannot be used: {}", status.message)
            }
            other => format!("the Lease {lease} cannot be used: {other}"),
        }
    }
}

/// Why a request was of no use.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("somebody else has written it meanwhile")]
    Changed,
    #[error("no answer from the API server for {} s", REQUEST_TIMEOUT.as_secs())]
    NoAnswer,
    #[error(transparent)]
    Api(kube::Error),
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Problem> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Problem::Changed),
        Ok(Err(error)) => Err(Problem::Api(error)),
        Err(_) => Err(Problem::NoAnswer),
    }
}

fn wall_clock() -> MicroTime {
    MicroTime(Timestamp::now())
}
