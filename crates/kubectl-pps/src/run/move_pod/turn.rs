//! When a Ready Pod may be evicted: its workload must not lose two at a time.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Job;
use super::mover::{Mover, PERIOD, read_pod};
use crate::Failure;
use crate::decide::relocate::{Also, Reached, Relocation, Removal, Wait, also, decide, held_up, peers};
use crate::print::printable;
use crate::run::states::TRIES;
use crate::snapshot::{Pod, Snapshot};

/// How often all is read again that decides whether a Pod may be evicted.
const PAUSE: Duration = Duration::from_secs(2);

/// How far a move has come.
pub(super) enum Step {
    /// All is written that has to be, and the Pod goes on by itself.
    Written(Box<Relocation>),
    /// There is nothing to do any more, which was said.
    Done,
    /// The Pod is as it was: it is another move now, or not possible.
    Left(String),
    /// The Pod is as it was: the others of its workload are not as they have to be.
    HeldUp(String),
}

/// A move whose turn it is, as it is decided now, and whether it has waited for that.
type Turn = (Box<Snapshot>, Box<Relocation>, bool);

impl Job<'_> {
    /// Moves a Pod as soon as it is its turn. `moved` are the Pods that the same command has moved before. If it was agreed to
    /// as it was shown, nothing else is recorded.
    pub(super) async fn step(
        &self,
        shown: &Relocation,
        moved: &[String],
        may_wait: bool,
        is_agreed: bool,
    ) -> Result<Step, Failure> {
        self.reached.set(Reached::Nothing);
        let mut why = String::new();
        // Kubernetes deletes the Pods of a node that is gone, and another command may move a Pod of the same workload.
        for _ in 0..TRIES {
            let (snapshot, now, has_waited) = match self.turn(shown, moved, may_wait).await? {
                Ok(turn) => turn,
                Err(step) => return Ok(step),
            };
            if let Some(what) = shown.changed(&now).filter(|_| is_agreed) {
                return Ok(Step::Left(format!("{what}: nothing was changed; run the command again")));
            }
            let mover = Mover::new(self, &snapshot, &now, moved);
            let has_peers = has_waited || !moved.is_empty();
            let patience = if has_peers && now.is_serving() { self.args.timeout } else { Duration::ZERO };
            match mover.check(&[], patience).await {
                Err(Failure::Refused(why)) => return Ok(Step::Left(why)),
                checked => checked?,
            }
            match mover.write().await? {
                Some(what) => why = what,
                None if now.present.as_ref().is_some_and(|present| present.removal == Removal::Stay) => {
                    let node = self.args.to.as_deref().unwrap_or_default();
                    self.print(&format!("Pod {} stays on {node}, and is recorded again", now.pod))?;
                    return Ok(Step::Done);
                }
                None => return Ok(Step::Written(now)),
            }
        }
        Ok(Step::Left(format!("{why}: it was left alone")))
    }

    /// Waits until it is the turn of this Pod. It is decided again each time: much may change meanwhile.
    pub(super) async fn turn(
        &self,
        shown: &Relocation,
        moved: &[String],
        may_wait: bool,
    ) -> Result<Result<Turn, Step>, Failure> {
        let mut deadline = None;
        loop {
            let snapshot = self.read().await?;
            let decision = decide(&snapshot, &self.goal().of(&shown.name()));
            let now = match also(shown, decision, self.args.force) {
                Ok(Also::Go(now)) => now,
                Ok(Also::Skip(text)) => {
                    self.print(&text)?;
                    return Ok(Err(Step::Done));
                }
                Err(Failure::Refused(why)) => return Ok(Err(Step::Left(why))),
                Err(failure) => return Err(failure),
            };
            // By force, it waits only for those that the same command has moved.
            let Some((wait, peers)) = peers(&snapshot, &now, self.args.force.then_some(moved)) else {
                return Ok(Ok((Box::new(snapshot), now, deadline.is_some())));
            };
            if !may_wait {
                return Ok(Err(Step::HeldUp(self.held_up(&now, wait, &peers, None))));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let seconds = self.args.timeout.as_secs();
                return Ok(Err(Step::HeldUp(self.held_up(&now, wait, &peers, Some(seconds)))));
            }
            if deadline.is_none() {
                let (pods, are) = if peers.len() == 1 { ("Pod", "is") } else { ("Pods", "are") };
                let text = format!("waiting until {pods} {} {are} {} …", peers.join(", "), wait.as_str());
                self.terminal.say(&printable(&text));
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.args.timeout);
            self.wait_until_ready(&now.namespace, &peers, deadline).await;
        }
    }

    /// Why a Pod was left alone.
    fn held_up(&self, now: &Relocation, wait: Wait, peers: &[String], seconds: Option<u64>) -> String {
        let why = held_up(now, wait, peers, seconds);
        match wait {
            Wait::Ready => why,
            Wait::Moved => {
                let explain =
                    peers.first().map(|pod| self.hand.pps(&format!("explain {pod}"), &now.namespace));
                let explain = explain.unwrap_or_default();
                format!(
                    "{why}; if that move was killed, the same command finishes it; to call it off: {explain}"
                )
            }
            Wait::Recorded => format!("{why}; to find out why it is not: {}", self.hand.check()),
        }
    }

    /// Waits until these Pods are Ready, or until then.
    async fn wait_until_ready(&self, namespace: &str, pods: &[String], deadline: Instant) {
        let pause = Instant::now() + PAUSE;
        for pod in pods {
            loop {
                let now = read_pod(self.client, namespace, pod).await.ok().flatten().and_then(Pod::read);
                if now.is_some_and(|pod| pod.is_ready() && !pod.is_terminating()) {
                    break;
                }
                if Instant::now() >= deadline {
                    return;
                }
                sleep(PERIOD).await;
            }
        }
        // Where they are not Ready in spite of that, as on a node that is gone, all is not read again at once.
        sleep_until(pause.min(deadline)).await;
    }
}
