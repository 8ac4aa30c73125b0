//! Waits until the Pod is somewhere, and says where.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::mover::{Mover, PERIOD};
use crate::decide::relocate::{Record, Relocation, Removal, brought_back, has_address, not_recorded};
use crate::print::{Role, printable};
use crate::run::nodes;
use crate::snapshot::Pod;
use crate::{Failure, Outcome};

/// For how long the scheduler must have found no node.
const PATIENCE: Duration = Duration::from_secs(3);
/// For how long a Pod that has a node is waited for to get an address.
const FOR_ADDRESS: Duration = Duration::from_secs(10);
/// For how long a Pod that has a node is waited for to become Ready: one that takes longer is recorded later.
const FOR_READY: Duration = Duration::from_secs(5);
/// For how long a Ready Pod is waited for to be recorded: another sidecar takes over within that time.
const FOR_RECORD: Duration = Duration::from_secs(20);
/// How often it is looked for: this is what a move takes longer at most.
const GLANCE: Duration = Duration::from_millis(200);
/// After this time it is said what is waited for.
const UNSAID: Duration = Duration::from_secs(2);

impl Mover<'_> {
    /// Waits for the new Pod, and shows where it landed, or why it is Pending.
    pub(super) async fn wait(&self, timeout: Duration) -> Result<Outcome, Failure> {
        let relocation = self.relocation;
        let name = &relocation.pod;
        let former = relocation.present.as_ref().filter(|present| {
            // One that stays is the new Pod itself.
            present.node.is_some() || present.removal != Removal::None
        });
        let deadline = Instant::now() + timeout;
        let mut unschedulable: Option<(String, Instant)> = None;
        let mut has_said = false;
        loop {
            // A read that fails once ends no wait: the Pod goes on without this command.
            let pod = match self.read_pod().await {
                Ok(pod) => pod.and_then(Pod::read),
                Err(failure) if Instant::now() >= deadline => {
                    return Err(Failure::Unreadable(format!(
                        "{failure}\nPod {name} goes on without this command: what is recorded is as it shall be"
                    )));
                }
                Err(_) => {
                    sleep(PERIOD).await;
                    continue;
                }
            };
            // One that has ended, and that a finalizer keeps, is no successor.
            let is_other = |pod: &&Pod| former.is_none_or(|former| former.uid != pod.uid());
            let successor = pod.as_ref().filter(is_other).filter(|pod| !pod.is_finished());
            if let Some(successor) = successor.filter(|pod| pod.node().is_some()) {
                return self.landed(&self.with_address(successor, deadline).await);
            }
            if let Some(why) = successor.and_then(Pod::unschedulable) {
                let since = unschedulable.get_or_insert_with(|| (String::new(), Instant::now()));
                why.clone_into(&mut since.0);
                if since.1.elapsed() >= PATIENCE {
                    return self.pending(why);
                }
            } else {
                unschedulable = None;
            }
            let is_left = pod.as_ref().is_some_and(|pod| successor.is_none() && !pod.is_terminating());
            if self.is_stranded() && is_left {
                self.refuse_if_node_is_back().await?;
            }
            if Instant::now() >= deadline {
                return Err(Failure::Refused(self.timed_out(pod.as_ref(), successor.is_some(), timeout)));
            }
            if !has_said && former.is_some() && successor.is_none() {
                let why =
                    if self.is_stranded() { " (its node is gone: this takes about a minute)" } else { "" };
                let text = format!("waiting until Pod {name} has ended and is created again{why} …");
                self.terminal.say(&printable(&text));
                has_said = true;
            }
            sleep(PERIOD).await;
        }
    }

    /// Waits until a Pod that has landed, and whose place was given up before, is recorded again. Without a sidecar, its
    /// successor would start anywhere.
    pub(super) async fn wait_for_record(&self, timeout: Duration) -> Outcome {
        let Relocation { pod: name, to: None, .. } = self.relocation else { return Outcome::Well };
        let ready_by = Instant::now() + FOR_READY.min(timeout);
        let (mut ready, mut has_said) = (None, false);
        loop {
            // What cannot be read is not known to be missing.
            let Ok(state) = self.read_state().await else { return Outcome::Well };
            let Ok(Some(pod)) = self.read_pod().await.map(|pod| pod.and_then(Pod::read)) else {
                return Outcome::Well;
            };
            match Record::of(&pod, state.as_ref()) {
                Record::Done => return Outcome::Well,
                Record::NotReady if Instant::now() >= ready_by => return Outcome::Well,
                Record::NotReady => {}
                Record::Late => {
                    let since: Instant = *ready.get_or_insert_with(Instant::now);
                    let patience = FOR_RECORD.min(timeout);
                    if since.elapsed() >= patience {
                        let text = not_recorded(name, patience.as_secs(), self.hand);
                        self.terminal.say(&self.terminal.style_of_errors().note(&text));
                        return Outcome::NotWell;
                    }
                    if !has_said && since.elapsed() >= UNSAID {
                        self.terminal.say(&printable(&format!("waiting until Pod {name} is recorded …")));
                        has_said = true;
                    }
                }
            }
            sleep(GLANCE).await;
        }
    }

    /// Fails if the node exists again, so that Kubernetes leaves the Pod on it. A budget may have refused its eviction.
    async fn refuse_if_node_is_back(&self) -> Result<(), Failure> {
        let Relocation { namespace, pod, present, .. } = self.relocation;
        let Some(node) = present.as_ref().and_then(|present| present.node.as_deref()) else { return Ok(()) };
        if !matches!(nodes::read(self.client, node).await, Ok(Some(_))) {
            return Ok(());
        }
        let back = self.hand.pps(&format!("move {pod} --to {node}"), namespace);
        Err(Failure::Refused(format!(
            "node {node} has come back, and Pod {pod} is still on it; to call the move off, so that it is recorded again: {back}; to \
             evict it: run the same command again"
        )))
    }

    /// The recorded annotations that the new Pod should have.
    fn kept(&self) -> BTreeMap<String, String> {
        let Relocation { wish, before, .. } = self.relocation;
        wish.state(before.as_ref()).unwrap_or_default().annotations
    }

    /// The Pod once it has an address, if one is recorded and it gets one soon.
    async fn with_address(&self, pod: &Pod, deadline: Instant) -> Pod {
        let deadline = deadline.min(Instant::now() + FOR_ADDRESS);
        let mut pod = pod.clone();
        while has_address(&self.kept()) && pod.ips().is_empty() && Instant::now() < deadline {
            sleep(PERIOD).await;
            match self.read_pod().await.ok().flatten().and_then(Pod::read) {
                Some(now) if now.uid() == pod.uid() => pod = now,
                _ => break,
            }
        }
        pod
    }

    fn landed(&self, pod: &Pod) -> Result<Outcome, Failure> {
        let relocation = self.relocation;
        let node = pod.node().unwrap_or_default();
        let from = relocation.present.as_ref().and_then(|present| present.node.as_deref());
        let is_there = relocation.to.as_deref().is_none_or(|to| to == node);
        let name = &relocation.pod;
        let line = printable(&match from {
            Some(from) if from == node => format!("Pod {name} is on {node} again"),
            Some(from) => format!("Pod {name} has moved from {from} to {node}"),
            None => format!("Pod {name} has moved to {node}"),
        });
        let role = if is_there { Role::Good } else { Role::Warning };
        let mut text = self.terminal.style().paint(role, &line) + "\n";
        for (is_as_recorded, line) in brought_back(&self.kept(), pod) {
            let line = printable(&line);
            let role = if is_as_recorded { Role::Dim } else { Role::Warning };
            let _ = writeln!(text, "  {}", self.terminal.style().paint(role, &line));
        }
        self.terminal.print(&text)?;
        if is_there {
            return Ok(Outcome::Well);
        }
        let to = relocation.to.as_deref().unwrap_or_default();
        let was_certain = relocation.forecast.as_ref().is_some_and(|forecast| forecast.may_land_on == [to]);
        let why = if was_certain {
            "another client may have changed what is recorded meanwhile".to_owned()
        } else {
            format!(
                "PersistentPodState {} does not require the node itself, and the scheduler chose {node}",
                relocation.pps
            )
        };
        self.terminal.say(&self.terminal.style_of_errors().note(&format!("it is not on {to}: {why}")));
        Ok(Outcome::NotWell)
    }

    fn pending(&self, why: &str) -> Result<Outcome, Failure> {
        let (pod, namespace) = (&self.relocation.pod, &self.relocation.namespace);
        let line = format!("Pod {pod} is Pending: {}", why.lines().next().unwrap_or_default());
        let line = self.terminal.style().paint(Role::Bad, &printable(&line));
        let next = printable(&self.hand.pps(&format!("explain {pod}"), namespace));
        self.terminal.print(&format!("{line}\n  why in detail: {next}\n"))?;
        Ok(Outcome::NotWell)
    }

    fn timed_out(&self, pod: Option<&Pod>, is_new: bool, timeout: Duration) -> String {
        let name = &self.relocation.pod;
        let what = match pod {
            None => "its controller has not created it again",
            Some(_) if is_new => "the scheduler has not looked at it",
            Some(pod) if pod.is_terminating() => "the former Pod has not ended",
            Some(_) => "the former Pod is still there",
        };
        format!(
            "Pod {name} is not on a node after {} s: {what}; it goes on without this command",
            timeout.as_secs()
        )
    }
}
