//! The writes of one move: the mark, the recorded state, and the removal of the Pod.

use std::time::Duration;

use pps_check::read::Right;
use pps_core::PodState;
use pps_core::edit::set_state;
use pps_core::packed::recorded_state;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Job, Reached};
use crate::Failure;
use crate::cluster::read::get;
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::decide::move_pod::{PodMove, Present, Removal, mark};
use crate::render::move_pod as text;
use crate::render::printable;
use crate::run::states::{Address, TRIES, publish};
use crate::snapshot::{Pod, Snapshot};

/// What the API server says of a webhook that it does not ask in a dry run.
const NO_DRY_RUN: &str = "does not support dry run";
/// How often an object is read again.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The steps of one move.
pub(super) struct Steps<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) one: &'a PodMove,
    address: Address,
}

impl<'a> Steps<'a> {
    /// Of the move that was decided with this snapshot.
    pub(super) fn new(job: &'a Job<'_>, snapshot: &Snapshot, one: &'a PodMove) -> Self {
        Self { job, one, address: Address::of(snapshot, &one.namespace, &one.pps) }
    }

    fn pod_path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.one.namespace, self.one.pod)
    }

    fn pod_right(&self, verb: &'static str, resource: &str) -> Right {
        Right::new(verb, "", resource).named(&self.one.pod).within(&self.one.namespace)
    }

    /// The Pod as it is now; none if there is none.
    pub(super) async fn read_pod(&self) -> Result<Option<Pod>, Failure> {
        let found = get(self.job.client, self.pod_right("get", "pods"), &self.pod_path()).await?;
        Ok(found.and_then(Pod::read))
    }

    /// The recorded state as it is now.
    pub(super) async fn read_state(&self) -> Result<Option<PodState>, Failure> {
        let object = self.address.read(self.job.client).await?;
        recorded_state(&object["status"], &self.one.pod).map_err(|error| self.address.refused(&error))
    }

    /// The rights that the steps need, each with the step.
    pub(super) fn needed(&self) -> Vec<(Right, &'static str)> {
        let mut needed = vec![(self.pod_right("get", "pods"), "see where the Pod goes")];
        let patch = || self.pod_right("patch", "pods");
        if let Some(present) = &self.one.present {
            match present.removal {
                Removal::Evict => {
                    needed.push((patch(), "keep the Pod from being recorded again"));
                    needed.push((self.pod_right("create", "pods/eviction"), "evict the Pod"));
                }
                Removal::Delete => needed.push((self.pod_right("delete", "pods"), "delete the Pod")),
                Removal::Stay if present.is_marked => {
                    needed.push((patch(), "have the Pod recorded again"));
                }
                Removal::Stay | Removal::Unneeded => {}
            }
        }
        if self.one.changes_state() {
            needed.push((self.address.right(), "change the recorded state"));
        }
        needed
    }

    /// Checks before the first write that the state can be changed, and that the Pod can be removed: a disruption budget may
    /// take so long to allow that.
    pub(super) async fn check(&self, patience: Duration) -> Result<(), Failure> {
        let Self { job, one, .. } = self;
        let removed = one.removed_by(&[Removal::Evict, Removal::Delete]);
        if one.changes_state() || removed.is_some() {
            let object = self.address.read_to_write(job.client).await?;
            set_state(&object, &one.pod, one.new_state.of(one.before.as_ref()).as_ref())
                .map_err(|error| self.address.refused(&format!("{error}; nothing was changed")))?;
        }
        let Some(present) = removed.filter(|present| !present.is_stranded) else { return Ok(()) };
        let deadline = Instant::now() + patience;
        loop {
            let Some(now) = self.read_pod().await?.filter(|now| now.uid() == present.uid) else {
                return Ok(());
            };
            let write = self.removal(present, now.resource_version()).as_dry_run();
            let failure = match write::send(job.client, write).await {
                // What has become of the Pod meanwhile is found out by the real write.
                Ok(_) | Err(WriteError::NotFound | WriteError::Conflict(_)) => return Ok(()),
                // Such a webhook is only asked when it is done.
                Err(WriteError::Refused(text) | WriteError::Failed(text)) if text.contains(NO_DRY_RUN) => {
                    return Ok(());
                }
                Err(WriteError::Disruption(_)) if Instant::now() < deadline => {
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
                Err(error) => self.not_removed(error),
            };
            return Err(failure.with(&format!("Pod {} was left alone: nothing was changed", one.pod)));
        }
    }

    /// The write that removes exactly this Pod in this version.
    fn removal(&self, present: &Present, version: &str) -> Write {
        if present.removal == Removal::Delete {
            return Write::delete(self.pod_right("delete", "pods"), self.pod_path(), &present.uid, version);
        }
        Write::evict(&self.one.namespace, &self.one.pod, &present.uid, Some(version))
    }

    fn not_removed(&self, error: WriteError) -> Failure {
        match error {
            WriteError::Disruption(why) => Failure::Refused(format!(
                "a PodDisruptionBudget forbids to evict Pod {} now: {why}",
                self.one.pod
            )),
            // As of a Pod that two budgets select.
            WriteError::Failed(why) => Failure::Refused(why),
            error => error.into(),
        }
    }

    /// Makes all writes. False if the move has to be decided again: another Pod has the name.
    pub(super) async fn write(&self) -> Result<bool, Failure> {
        let failure = match self.write_all().await {
            Ok(is_written) => return Ok(is_written),
            Err(failure) => failure,
        };
        self.see_whether_removed().await;
        let reached = self.job.reached.get();
        if reached == Reached::All {
            let pod = &self.one.pod;
            return Err(failure.with(&format!("Pod {pod} was removed, and its successor starts by itself")));
        }
        Err(match text::done_so_far(self.one, reached == Reached::Written, &self.job.commands) {
            Some(text) if reached >= Reached::Marked => failure.with(&text),
            _ => failure,
        })
    }

    /// Finds out after the state was written whether the Pod was removed although no answer came.
    pub(super) async fn see_whether_removed(&self) {
        let removed = self.one.removed_by(&[Removal::Evict, Removal::Delete]).filter(|one| !one.is_stranded);
        if let Some(removed) = removed.filter(|_| self.job.reached.get() == Reached::Written) {
            // The API server may have been about to remove the Pod.
            sleep(POLL_INTERVAL).await;
            if self.is_gone(&removed.uid).await.unwrap_or_default() {
                self.job.reached.set(Reached::All);
            }
        }
    }

    async fn write_all(&self) -> Result<bool, Failure> {
        let reached = &self.job.reached;
        let present = self.one.present.as_ref();
        if let Some(evicted) = self.one.removed_by(&[Removal::Evict]) {
            reached.set(Reached::Marked);
            if !self.mark(&evicted.uid, true).await? {
                reached.set(Reached::Nothing);
                return Ok(false);
            }
            self.look_at_others(evicted).await?;
        }
        let before = reached.replace(Reached::Written);
        let is_changed = self.write_state(None).await.inspect_err(|_| reached.set(before))?;
        match present {
            Some(present) if present.removal == Removal::Stay => {
                // The state is as it was: from now on the sidecar keeps it so.
                return Ok(!present.is_marked || self.mark(&present.uid, false).await?);
            }
            Some(present) if present.removal != Removal::Unneeded => {
                self.remove(present).await?;
                reached.set(Reached::All);
                // Another recorder may not know the mark. The recorded state of the next Pod stays.
                if is_changed && let Err(failure) = self.write_state(Some(&present.uid)).await {
                    let pod = &self.one.pod;
                    self.job
                        .note(&format!("the state of Pod {pod} could not be checked once more: {failure}"));
                }
            }
            // A Pod that was created before the state was written has the former state.
            _ if is_changed => {
                let uid = present.map(|present| present.uid.as_str());
                let now = self.read_pod().await?;
                if now.is_some_and(|now| uid != Some(now.uid()) && now.node().is_none()) {
                    return Ok(false);
                }
            }
            _ => {}
        }
        reached.set(Reached::All);
        Ok(true)
    }

    /// Takes the mark back and fails if the workload can no longer do without the Pod. Of two moves, the later
    /// one sees the mark of the other here.
    async fn look_at_others(&self, evicted: &Present) -> Result<(), Failure> {
        if self.job.args.force {
            return Ok(());
        }
        let now = self.job.read().await?;
        let Some(why) = self.job.obstacle(&now, self.one, &[]) else { return Ok(()) };
        // A mark that was there before stays.
        if !evicted.is_marked {
            self.mark(&evicted.uid, false).await?;
        }
        self.job.reached.set(Reached::Nothing);
        let left = format!("Pod {} was left alone: nothing was changed; try again later", self.one.pod);
        Err(Failure::Refused(why).with(&left))
    }

    /// Marks the Pod, so that the sidecar leaves its state alone, or removes the mark. False if the Pod is gone.
    pub(super) async fn mark(&self, uid: &str, is_moved: bool) -> Result<bool, Failure> {
        for _ in 0..TRIES {
            let now = self.read_pod().await?.filter(|now| now.uid() == uid && !now.is_terminating());
            let Some(pod) = now else { return Ok(false) };
            let Some(annotations) = mark(&pod, is_moved) else { return Ok(true) };
            let version = pod.resource_version();
            let body =
                json!({"metadata": {"uid": uid, "resourceVersion": version, "annotations": annotations}});
            let patch = Write::patch(self.pod_right("patch", "pods"), self.pod_path(), body);
            match write::send(self.job.client, patch).await {
                Ok(_) => return Ok(true),
                // The kubelet has written its status, or the Pod is gone.
                Err(WriteError::Conflict(_) | WriteError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    fn busy(&self) -> Failure {
        Failure::Refused(format!(
            "other clients change Pod {} all the time; run the command again",
            self.one.pod
        ))
    }

    /// Writes the state, made from the state that is recorded at that moment. Returns whether it was another one. With a
    /// UID, it writes only as long as no other Pod has the name.
    async fn write_state(&self, uid: Option<&str>) -> Result<bool, Failure> {
        let Self { job, one, address } = self;
        for _ in 0..TRIES {
            let object = address.read_to_write(job.client).await?;
            let before =
                recorded_state(&object["status"], &one.pod).map_err(|error| address.refused(&error))?;
            if !one.new_state.changes(before.as_ref()) {
                return Ok(false);
            }
            // Read after the state: a state of the next Pod that is recorded from now on makes another version.
            if let Some(uid) = uid
                && self.read_pod().await?.is_some_and(|pod| pod.uid() != uid)
            {
                return Ok(false);
            }
            let after = one.new_state.of(before.as_ref());
            let edit =
                set_state(&object, &one.pod, after.as_ref()).map_err(|error| address.refused(&error))?;
            let Some(edit) = edit else { return Ok(false) };
            match address.write(job.client, &edit).await {
                Ok(stored) => {
                    let message = text::event(one, before.as_ref(), after.as_ref());
                    let note = Note { about: &stored, reason: "PodMoved", action: "Move", message };
                    publish(job.client, job.terminal, &note).await;
                    return Ok(true);
                }
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(address.busy())
    }

    /// Evicts or deletes exactly this Pod.
    async fn remove(&self, present: &Present) -> Result<(), Failure> {
        let again = |why: String| Err(Failure::Refused(format!("{why}: it was not removed")));
        let pod = &self.one.pod;
        for _ in 0..TRIES {
            let now = self.read_pod().await?;
            let Some(now) = now.filter(|now| now.uid() == present.uid && !now.is_terminating()) else {
                return Ok(());
            };
            // A write that changes any of this makes another version.
            match (present.removal, now.node()) {
                (Removal::Evict, _) if !now.is_marked() => {
                    return again(format!("another client has removed the mark of Pod {pod}"));
                }
                (Removal::Delete, Some(node)) => {
                    return again(format!("Pod {pod} has got node {node} meanwhile"));
                }
                _ => {}
            }
            match write::send(self.job.client, self.removal(present, now.resource_version())).await {
                Ok(_) | Err(WriteError::NotFound) => return Ok(()),
                Err(WriteError::Conflict(_)) => {}
                // Kubernetes deletes it without an eviction.
                Err(
                    WriteError::Disruption(_)
                    | WriteError::Busy(_)
                    | WriteError::Refused(_)
                    | WriteError::Failed(_),
                ) if present.is_stranded => return Ok(()),
                Err(error) => return Err(self.not_removed(error)),
            }
        }
        Err(self.busy())
    }

    /// Whether this Pod is gone, or terminating.
    pub(super) async fn is_gone(&self, uid: &str) -> Result<bool, Failure> {
        let now = self.read_pod().await?;
        Ok(now.is_none_or(|now| now.uid() != uid || now.is_terminating()))
    }

    pub(super) fn say(&self, text: &str) {
        self.job.terminal.say(&printable(text));
    }
}
