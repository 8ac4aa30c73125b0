//! The steps of one move: the mark, the recorded state, the removal of the Pod, and the wait for
//! its successor.

use std::time::Duration;

use pps_api::Guard;
use pps_check::read::Right;
use pps_core::edit::set_state;
use pps_core::packed::recorded_state;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Job, Prepared};
use crate::cluster::read::get;
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::decide::move_pod::{PodMove, Removal, mark};
use crate::render::move_pod as text;
use crate::run::states::{Address, TRIES, publish};
use crate::snapshot::{Pod, Snapshot};
use crate::{Failure, Outcome};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// When a disruption budget has to allow an eviction that is only rehearsed.
#[derive(Clone, Copy)]
pub(super) enum Budget {
    Within(Duration),
    /// After other moves: that is not known yet.
    Later,
}

pub(super) struct Steps<'a> {
    job: &'a Job<'a>,
    one: &'a PodMove,
    address: Address,
    /// Only if nothing is changed.
    rehearsal: Option<Budget>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(
        job: &'a Job<'_>,
        snapshot: &Snapshot,
        one: &'a PodMove,
        rehearsal: Option<Budget>,
    ) -> Self {
        Self {
            job,
            one,
            address: Address::of(snapshot, &one.namespace, &one.pps),
            rehearsal,
        }
    }

    fn pod_path(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/pods/{}",
            self.one.namespace, self.one.pod
        )
    }

    fn pod_right(&self, verb: &'static str) -> Right {
        Right::new(verb, "", "pods")
            .named(&self.one.pod)
            .within(&self.one.namespace)
    }

    async fn read_pod(&self) -> Result<Option<Pod>, Failure> {
        let found = get(self.job.client, self.pod_right("get"), &self.pod_path()).await?;
        Ok(found.and_then(Pod::read))
    }

    /// The Pod of the move as it is now; none if it is gone or terminating.
    async fn read_present(&self) -> Result<Option<Pod>, Failure> {
        let uid = self.one.present.as_ref().map(Pod::uid);
        Ok(self
            .read_pod()
            .await?
            .filter(|now| Some(now.uid()) == uid && !now.is_terminating()))
    }

    /// Sends a write; a rehearsal only has it checked.
    async fn send(&self, write: Write) -> Result<Value, WriteError> {
        let write = if self.rehearsal.is_some() {
            write.as_dry_run()
        } else {
            write
        };
        write::send(self.job.client, write).await
    }

    /// Has the API server check all writes before the first one.
    pub(super) async fn rehearse(&self) -> Result<(), Failure> {
        if self.one.removal == Removal::Evict {
            self.mark(true).await?;
        }
        self.write_state_and_remove().await
    }

    /// Makes all writes, and waits for the new Pod.
    pub(super) async fn carry_out(&self, timeout: Duration) -> Result<Outcome, Failure> {
        if self.one.removal == Removal::Evict {
            self.mark(true).await?;
        }
        self.write_state_and_remove()
            .await
            .map_err(|failure| self.unfinished(failure))?;
        if self.one.removal == Removal::Stay {
            return self
                .job
                .terminal
                .print(&text::stays(self.one))
                .map(|()| Outcome::Well);
        }
        if self
            .is_outdated()
            .await
            .map_err(|failure| self.unfinished(failure))?
        {
            return self.start_again(timeout).await;
        }
        self.wait(timeout).await
    }

    /// Moves a Pod that was created with the former state meanwhile.
    async fn start_again(&self, timeout: Duration) -> Result<Outcome, Failure> {
        let prepared = self
            .job
            .prepare(self.one)
            .await
            .map_err(|failure| self.unfinished(failure))?;
        match prepared {
            Some(Prepared { snapshot, now }) => {
                Box::pin(Steps::new(self.job, &snapshot, &now, None).carry_out(timeout)).await
            }
            None => Ok(Outcome::Well),
        }
    }

    fn unfinished(&self, failure: Failure) -> Failure {
        failure.with(&text::unfinished(self.one, &self.job.commands))
    }

    async fn write_state_and_remove(&self) -> Result<(), Failure> {
        self.write_state().await?;
        match self.one.removal {
            // The state is unchanged: from now on the sidecar records the Pod again.
            Removal::Stay => self.mark(false).await,
            Removal::Evict | Removal::Delete => self.remove().await,
            Removal::Unneeded => Ok(()),
        }
    }

    /// Whether a Pod was created between the decision and the write of the new state, and waits for
    /// a node: it may have the former state.
    async fn is_outdated(&self) -> Result<bool, Failure> {
        if self.one.removal != Removal::Unneeded || !self.one.changes_state() {
            return Ok(false);
        }
        let decided = self.one.present.as_ref().map(Pod::uid);
        let now = self.read_pod().await?;
        Ok(now.is_some_and(|pod| pod.node().is_none() && Some(pod.uid()) != decided))
    }

    /// Marks the Pod, so that the sidecar leaves its state alone, or removes the mark.
    async fn mark(&self, is_moved: bool) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some(pod) = self.read_present().await? else {
                break;
            };
            let Some(annotations) = mark(&pod, is_moved) else {
                return Ok(());
            };
            let body = json!({"metadata": {
                "uid": pod.uid(), "resourceVersion": pod.resource_version(), "annotations": annotations,
            }});
            let patch = pps_api::Write::patch(self.pod_path(), &body);
            let patch = Write::new(self.pod_right("patch"), patch);
            match self.send(patch).await {
                Ok(_) => return Ok(()),
                // The kubelet has written its status, or the Pod is gone.
                Err(WriteError::Conflict(_) | WriteError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(text::changed(&self.one.pod))
    }

    /// Writes the new state, made from the state that is recorded at that moment.
    async fn write_state(&self) -> Result<(), Failure> {
        let Self {
            job, one, address, ..
        } = self;
        for _ in 0..TRIES {
            let object = address.read_to_write(job.client).await?;
            let before = recorded_state(&object["status"], &one.pod)
                .map_err(|error| address.refused(&error))?;
            if !one.new_state.changes(before.as_ref()) {
                return Ok(());
            }
            let after = one.new_state.of(before.as_ref());
            let edit = set_state(&object, &one.pod, after.as_ref())
                .map_err(|error| address.refused(&error))?;
            let Some(edit) = edit else { return Ok(()) };
            match self.send(address.patch(&edit.body)).await {
                Ok(_) if self.rehearsal.is_some() => return Ok(()),
                Ok(stored) => {
                    let message = text::event(one, before.as_ref(), after.as_ref());
                    let note = Note {
                        about: &stored,
                        reason: "PodMoved",
                        action: "Move",
                        message,
                    };
                    publish(job.client, job.terminal, &note).await;
                    return Ok(());
                }
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(address.busy())
    }

    async fn remove(&self) -> Result<(), Failure> {
        let patience = if let Some(Budget::Within(patience)) = self.rehearsal {
            patience
        } else {
            Duration::ZERO
        };
        let deadline = Instant::now() + patience;
        let mut conflicts = 0;
        while conflicts < TRIES {
            let Some(now) = self.read_present().await? else {
                return Ok(());
            };
            // A write to any of these fields makes another version.
            let is_as_decided = match self.one.removal {
                Removal::Evict => now.is_marked() || self.rehearsal.is_some(),
                _ => now.node().is_none(),
            };
            if !is_as_decided {
                break;
            }
            let guard = Guard {
                uid: now.uid(),
                resource_version: now.resource_version(),
            };
            let removal = if self.one.removal == Removal::Evict {
                Write::evict(&self.one.namespace, &self.one.pod, guard)
            } else {
                let deletion = pps_api::Write::delete(self.pod_path(), guard);
                Write::new(self.pod_right("delete"), deletion)
            };
            match self.send(removal).await {
                Ok(_) | Err(WriteError::NotFound) => return Ok(()),
                Err(WriteError::Conflict(_)) => conflicts += 1,
                // Kubernetes deletes the Pod without an eviction.
                Err(error)
                    if self.one.is_stranded && !matches!(error, WriteError::Forbidden(_)) =>
                {
                    return Ok(());
                }
                Err(WriteError::Disruption(_)) if matches!(self.rehearsal, Some(Budget::Later)) => {
                    return Ok(());
                }
                Err(WriteError::Disruption(_)) if Instant::now() < deadline => {
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) => return Err(text::not_removed(self.one, error)),
            }
        }
        Err(text::changed(&self.one.pod))
    }

    /// Whether the node of a Pod is recorded, or need not be.
    async fn is_recorded(&self, pod: &Pod) -> bool {
        let object = self.address.read(self.job.client).await.unwrap_or_default();
        let state = recorded_state(&object["status"], &self.one.pod)
            .ok()
            .flatten();
        pod.is_exempt() || state.is_some_and(|state| !state.node_name.is_empty())
    }

    /// Waits until the new Pod is Ready and recorded, and shows where it has started.
    pub(super) async fn wait(&self, timeout: Duration) -> Result<Outcome, Failure> {
        let one = self.one;
        let terminal = self.job.terminal;
        terminal.say(&text::waiting(one));
        let deadline = Instant::now() + timeout;
        loop {
            // A read that fails once ends no wait: the Pod goes on without this command.
            let pod = self
                .read_pod()
                .await
                .ok()
                .flatten()
                .filter(|pod| one.is_successor(pod));
            if let Some(pod) = pod.as_ref().filter(|pod| pod.is_ready())
                && self.is_recorded(pod).await
            {
                let node = pod.node().unwrap_or_default();
                terminal.print(&text::moved(one, node, terminal.style()))?;
                let is_there = one.to.as_deref().is_none_or(|to| to == node);
                return Ok(if is_there {
                    Outcome::Well
                } else {
                    Outcome::NotWell
                });
            }
            if Instant::now() >= deadline {
                return Err(text::timed_out(one, timeout, &self.job.commands));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}
