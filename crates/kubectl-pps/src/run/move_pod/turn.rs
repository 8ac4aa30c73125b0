//! When a Ready Pod may be evicted: its workload must not lose two at a time.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Job;
use super::mover::{PERIOD, read_pod};
use crate::Failure;
use crate::decide::relocate::{Also, Relocation, Wait, also, decide, held_up, peers};
use crate::print::printable;
use crate::snapshot::{Pod, Snapshot};

/// How often all is read again that decides whether a Pod may be evicted.
const PAUSE: Duration = Duration::from_secs(2);

/// Whether it is a Pod's turn.
pub(super) enum Turn {
    /// It may be moved, as is decided now.
    Come { snapshot: Box<Snapshot>, now: Box<Relocation>, has_waited: bool },
    /// There is nothing to do any more.
    Over(String),
    /// It is another move now.
    Left(String),
    /// The others of its workload are not as they have to be.
    HeldUp(String),
}

impl Job<'_> {
    /// The Pods that it waits for now, and for what. By force, it waits for those only that the same command has moved.
    pub(super) fn peers(
        &self,
        snapshot: &Snapshot,
        now: &Relocation,
        moved: &[String],
    ) -> Option<(Wait, Vec<String>)> {
        peers(snapshot, now, self.args.force.then_some(moved))
    }

    /// Waits until it is the turn of this Pod. It is decided again each time: much may change meanwhile.
    pub(super) async fn turn(
        &self,
        shown: &Relocation,
        moved: &[String],
        may_wait: bool,
    ) -> Result<Turn, Failure> {
        let mut deadline = None;
        loop {
            let snapshot = self.read().await?;
            let decision = decide(&snapshot, &self.goal().of(&shown.name()));
            let now = match also(shown, decision, self.args.force) {
                Ok(Also::Go(now)) => now,
                Ok(Also::Skip(text)) => return Ok(Turn::Over(text)),
                Err(Failure::Refused(why)) => return Ok(Turn::Left(why)),
                Err(failure) => return Err(failure),
            };
            // It may have become Ready meanwhile.
            let Some((wait, peers)) = self.peers(&snapshot, &now, moved) else {
                return Ok(Turn::Come { snapshot: Box::new(snapshot), now, has_waited: deadline.is_some() });
            };
            if !may_wait {
                return Ok(Turn::HeldUp(self.held_up(&now, wait, &peers, None)));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let seconds = self.args.timeout.as_secs();
                return Ok(Turn::HeldUp(self.held_up(&now, wait, &peers, Some(seconds))));
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
