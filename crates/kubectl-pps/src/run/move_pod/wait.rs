//! Waits until the new Pod is Ready and recorded.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::steps::{POLL_INTERVAL, Steps};
use crate::decide::move_pod::Stage;
use crate::render::move_pod as text;
use crate::run::nodes;
use crate::snapshot::Pod;
use crate::{Failure, Outcome};

/// How long a stage lasts before it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(2);
/// For how long the scheduler must have found no node.
const SCHEDULER_PATIENCE: Duration = Duration::from_secs(3);
/// For how long a Ready Pod may not be recorded: another sidecar takes over within that time.
const RECORD_PATIENCE: Duration = Duration::from_secs(20);

impl Steps<'_> {
    /// Waits for the new Pod, and shows where it has started.
    pub(super) async fn wait(&self, timeout: Duration) -> Result<Outcome, Failure> {
        let (one, terminal, commands) = (self.one, self.job.terminal, &self.job.commands);
        let deadline = Instant::now() + timeout;
        let (mut stage, mut since, mut has_said, mut has_landed) =
            (Stage::Former, Instant::now(), false, false);
        loop {
            // A read that fails once ends no wait: the Pod goes on without this command.
            let (pod, now) = match self.look().await {
                Ok(looked) => looked,
                Err(failure) if Instant::now() >= deadline => {
                    return Err(failure.with(&format!("Pod {} goes on without this command", one.pod)));
                }
                Err(_) => {
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
            };
            if now != stage {
                (stage, since, has_said) = (now, Instant::now(), false);
            }
            if let Some(node) =
                pod.as_ref().filter(|_| stage >= Stage::NotReady && !has_landed).and_then(Pod::node)
            {
                terminal.print(&text::landed(one, node, terminal.style()))?;
                has_landed = true;
            }
            let patience = match (stage, &pod) {
                (Stage::Done, Some(pod)) => return self.arrived(pod),
                (Stage::Unschedulable, _) => SCHEDULER_PATIENCE,
                (Stage::Unrecorded, _) => RECORD_PATIENCE,
                _ => timeout,
            };
            if stage == Stage::Former {
                self.refuse_if_node_is_back().await?;
            }
            let is_late = Instant::now() >= deadline;
            if is_late || since.elapsed() >= patience {
                let why = pod.as_ref().and_then(Pod::unschedulable).filter(|_| stage == Stage::Unschedulable);
                if let Some(why) = why {
                    terminal.print(&text::pending(one, why, terminal.style(), commands))?;
                    return Ok(Outcome::NotWell);
                }
                let waited = if is_late { timeout } else { patience }.as_secs();
                return Err(Failure::Refused(text::timed_out(one, stage, waited, commands)));
            }
            if !has_said && since.elapsed() >= SILENCE {
                self.say(&text::waiting(one, stage));
                has_said = true;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The Pod as it is now, and how far it has come.
    async fn look(&self) -> Result<(Option<Pod>, Stage), Failure> {
        let pod = self.read_pod().await?;
        let stage = Stage::of(self.one, pod.as_ref(), None);
        if stage != Stage::Unrecorded {
            return Ok((pod, stage));
        }
        let state = self.read_state().await?;
        let stage = Stage::of(self.one, pod.as_ref(), state.as_ref());
        Ok((pod, stage))
    }

    /// Shows what the new Pod has got back, and whether it is at its destination.
    fn arrived(&self, pod: &Pod) -> Result<Outcome, Failure> {
        let (one, terminal) = (self.one, self.job.terminal);
        terminal.print(&text::kept(one, pod, terminal.style()))?;
        let node = pod.node().unwrap_or_default();
        let Some(to) = one.to.as_deref().filter(|to| *to != node) else { return Ok(Outcome::Well) };
        self.job.note(&text::elsewhere(one, to, node));
        Ok(Outcome::NotWell)
    }

    /// Fails if the node of a stranded Pod exists again, so that Kubernetes leaves the Pod there. A budget may have refused
    /// the eviction.
    async fn refuse_if_node_is_back(&self) -> Result<(), Failure> {
        let stranded = self.one.present.as_ref().filter(|present| present.is_stranded);
        let Some(node) = stranded.and_then(|present| present.node.as_deref()) else { return Ok(()) };
        match nodes::read(self.job.client, node).await {
            Ok(Some(_)) => Err(Failure::Refused(text::node_is_back(self.one, node, &self.job.commands))),
            _ => Ok(()),
        }
    }
}
