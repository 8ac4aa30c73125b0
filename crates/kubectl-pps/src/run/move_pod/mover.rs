//! The steps of one move.

use std::cell::Cell;
use std::time::Duration;

use kube::Client;
use pps_check::facts::Right;
use pps_core::PodState;
use pps_core::edit::{Edit, set_state};
use pps_core::packed::recorded_state;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Job;
use crate::Failure;
use crate::cluster::read::get;
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::decide::hand::Hand;
use crate::decide::relocate::{Present, Reached, Relocation, Removal, describe};
use crate::print::{Terminal, printable};
use crate::run::states::{Address, TRIES, publish};
use crate::run::{nodes, rights};
use crate::snapshot::{Pod, Snapshot};

/// What the API server says of a webhook that it does not ask in a dry run.
const NO_DRY_RUN: &str = "does not support dry run";
/// How often something is read again.
pub(super) const PERIOD: Duration = Duration::from_millis(500);

/// Reads a Pod as it is now; none if there is none.
pub(super) async fn read_pod(client: &Client, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
    let right = Right::new("get", "", "pods").named(name).within(namespace);
    get(client, right, &format!("/api/v1/namespaces/{namespace}/pods/{name}")).await
}

/// Moves one Pod.
pub(super) struct Mover<'a> {
    pub(super) client: &'a Client,
    pub(super) terminal: &'a Terminal,
    /// How the commands are written that an answer names.
    pub(super) hand: &'a Hand,
    address: Address,
    pub(super) snapshot: &'a Snapshot,
    /// By force, it waits for no others than these.
    pub(super) only: Option<&'a [String]>,
    pub(super) relocation: &'a Relocation,
    pub(super) reached: &'a Cell<Reached>,
}

impl<'a> Mover<'a> {
    /// The move that was decided with this snapshot. `moved` are the Pods that the same command has moved before.
    pub(super) fn new(
        job: &'a Job<'_>,
        snapshot: &'a Snapshot,
        relocation: &'a Relocation,
        moved: &'a [String],
    ) -> Self {
        Self {
            snapshot,
            only: job.args.force.then_some(moved),
            client: job.client,
            terminal: job.terminal,
            hand: &job.hand,
            address: Address::of(snapshot, &relocation.namespace, &relocation.pps),
            relocation,
            reached: &job.reached,
        }
    }

    pub(super) fn pod_path(&self) -> String {
        let Relocation { namespace, pod, .. } = self.relocation;
        format!("/api/v1/namespaces/{namespace}/pods/{pod}")
    }

    pub(super) fn pod_right(&self, verb: &'static str, resource: &str) -> Right {
        let Relocation { namespace, pod, .. } = self.relocation;
        Right::new(verb, "", resource).named(pod).within(namespace)
    }

    /// The Pod as it is now; none if there is none.
    pub(super) async fn read_pod(&self) -> Result<Option<Value>, Failure> {
        read_pod(self.client, &self.relocation.namespace, &self.relocation.pod).await
    }

    /// What is recorded of the Pod now.
    pub(super) async fn read_state(&self) -> Result<Option<PodState>, Failure> {
        let object = self.address.read(self.client).await?;
        recorded_state(&object["status"], &self.relocation.pod).map_err(|error| self.address.refused(&error))
    }

    /// The rights that the steps need, each with what needs it.
    pub(super) fn needed(&self) -> Vec<(Right, &'static str)> {
        let relocation = self.relocation;
        let mut needed = vec![(self.pod_right("get", "pods"), "see where the Pod goes")];
        if let Some(present) = &relocation.present {
            if !present.is_left_over && present.removal == Removal::Evict {
                needed.push((self.pod_right("patch", "pods"), "keep the Pod from being recorded again"));
            }
            match present.removal {
                Removal::Evict => {
                    needed.push((self.pod_right("create", "pods/eviction"), "evict the Pod"));
                }
                Removal::Delete => needed.push((self.pod_right("delete", "pods"), "delete the Pod")),
                Removal::Stay if present.is_left_over => {
                    needed.push((self.pod_right("patch", "pods"), "have the Pod recorded again"));
                }
                Removal::Stay | Removal::None => {}
            }
        }
        if self.changes() {
            needed.push((self.address.right(), "change what is recorded"));
        }
        needed
    }

    fn changes(&self) -> bool {
        self.relocation.wish.changes(self.relocation.before.as_ref())
    }

    /// Checks these rights, that what is recorded can be changed, and that a disruption budget allows the eviction, before
    /// anything is written. A budget may take so long to allow it.
    pub(super) async fn check(&self, needed: &[(Right, &str)], patience: Duration) -> Result<(), Failure> {
        self.check_record(needed).await?;
        match self.relocation.present.as_ref().filter(|one| !one.is_stranded) {
            Some(present) => self.rehearse(present, patience).await,
            None => Ok(()),
        }
    }

    /// Checks these rights, and that what is recorded can be changed.
    pub(super) async fn check_record(&self, needed: &[(Right, &str)]) -> Result<(), Failure> {
        let relocation = self.relocation;
        rights::require(self.client, needed).await?;
        let removes = |present: &Present| matches!(present.removal, Removal::Evict | Removal::Delete);
        if self.changes() || relocation.present.as_ref().is_some_and(removes) {
            // What cannot be read or written must not be found out after the first write.
            let object = self.address.read_to_write(self.client).await?;
            let after = relocation.wish.state(relocation.before.as_ref());
            set_state(&object, &relocation.pod, after.as_ref())
                .map_err(|error| self.address.refused(&format!("{error}; nothing was changed")))?;
        }
        Ok(())
    }

    /// Asks whether the Pod may be evicted or deleted: what is recorded must not be changed for a Pod that stays. A budget may
    /// take so long to allow it.
    async fn rehearse(&self, present: &Present, patience: Duration) -> Result<(), Failure> {
        let Relocation { namespace, pod, .. } = self.relocation;
        let deadline = Instant::now() + patience;
        let mut has_said = false;
        loop {
            let write = match present.removal {
                Removal::None | Removal::Stay => return Ok(()),
                Removal::Evict => Write::evict(namespace, pod, &present.uid, None),
                Removal::Delete => {
                    let now = self.read_pod().await?.unwrap_or_default();
                    let version = now["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                    Write::delete(self.pod_right("delete", "pods"), self.pod_path(), &present.uid, version)
                }
            };
            let why = match write::send(self.client, write.as_dry_run()).await {
                // What has become of the Pod meanwhile is found out before anything is written.
                Ok(_) | Err(WriteError::NotFound | WriteError::Conflict(_)) => return Ok(()),
                // Such a webhook is only asked when it is done.
                Err(WriteError::Refused(text) | WriteError::Failed(text)) if text.contains(NO_DRY_RUN) => {
                    return Ok(());
                }
                Err(WriteError::Disruption(why)) => why,
                Err(error) => {
                    let left = format!("Pod {pod} was left alone: nothing was changed");
                    return Err(match error {
                        // As of a Pod that two budgets select. Nothing was written, and others may be moved.
                        WriteError::Failed(text) => Failure::Refused(format!("{text}\n{left}")),
                        error => Failure::from(error).with(&left),
                    });
                }
            };
            if Instant::now() >= deadline {
                return Err(Failure::Refused(format!(
                    "a PodDisruptionBudget forbids to evict Pod {pod} now: {why}\nPod {pod} was left alone: nothing was changed"
                )));
            }
            if !has_said {
                let text = format!("waiting until a PodDisruptionBudget allows to evict Pod {pod} …");
                self.terminal.say(&printable(&text));
                has_said = true;
            }
            sleep(PERIOD).await;
        }
    }

    /// What has become of the Pod since the move was decided, if that makes it another move.
    pub(super) async fn overtaken(&self) -> Result<Option<String>, Failure> {
        let now = self.read_pod().await?.and_then(Pod::read);
        Ok(self.relocation.overtaken_by(now.as_ref()))
    }

    /// Does all that has to be written. Returns why if nothing was: the Pod has changed so that this is another move, or
    /// another command moves one of its workload.
    pub(super) async fn write(&self) -> Result<Option<String>, Failure> {
        if let Some(what) = self.overtaken().await? {
            return Ok(Some(what));
        }
        // A node may have come back while the user was asked, and what runs on it is not to be given up.
        let stranded = self.relocation.present.as_ref().filter(|present| present.is_stranded);
        if let Some(node) = stranded.and_then(|present| present.node.as_deref()) {
            nodes::refuse_if_back(self.client, node).await?;
        }
        let mut done = Vec::new();
        let result = self.write_all(&mut done).await;
        result.map_err(|failure| self.so_far(failure, &done))
    }

    /// A failure after something was done says what, how to go on, and how to go back.
    fn so_far(&self, failure: Failure, done: &[&str]) -> Failure {
        if done.is_empty() {
            return failure;
        }
        let back = self.relocation.call_off(self.hand);
        let back = back.map(|command| format!("; to call it off: {command}")).unwrap_or_default();
        let done = done.join("; ");
        failure.with(&format!("Done so far: {done}. To go on from here, run the same command again{back}"))
    }

    /// Does all that has to be written, and notes what was done. Returns why if nothing was.
    async fn write_all(&self, done: &mut Vec<&'static str>) -> Result<Option<String>, Failure> {
        let present = self.relocation.present.as_ref();
        let mut claimed = None;
        if let Some(present) = present.filter(|one| one.removal == Removal::Evict) {
            match self.mark(present, done).await? {
                Ok(version) => claimed = Some(version),
                Err(why) => return Ok(Some(why)),
            }
        }
        let before = self.reached.replace(Reached::Written);
        let changed = self.write_state(None).await.inspect_err(|_| self.reached.set(before))?;
        if changed {
            done.push("what is recorded is changed");
        }
        if let Some(present) = present {
            self.remove(&present.uid, present.removal, claimed).await?;
            if matches!(present.removal, Removal::Evict | Removal::Delete) {
                done.push("the Pod is being deleted");
            }
            if present.removal == Removal::Stay {
                // The state is as it was: from now on the sidecar keeps it so.
                let is_gone = present.is_left_over && !self.annotate(&present.uid, false).await?;
                return Ok(is_gone.then(|| self.created_again()));
            }
        }
        // Another recorder may not know the annotation. What is recorded of the next Pod stays.
        if let Some(present) = present.filter(|_| changed) {
            self.write_state(Some(&present.uid)).await?;
        }
        Ok(None)
    }

    /// Writes the state, made from what is recorded at that moment. Returns whether it was another one. With a UID, it writes
    /// only as long as no other Pod has the name.
    async fn write_state(&self, uid: Option<&str>) -> Result<bool, Failure> {
        let Relocation { pod, wish, to, .. } = self.relocation;
        for _ in 0..TRIES {
            let object = self.address.read_to_write(self.client).await?;
            let before =
                recorded_state(&object["status"], pod).map_err(|error| self.address.refused(&error))?;
            if !wish.changes(before.as_ref()) {
                return Ok(false);
            }
            // Read after what is recorded: what is recorded of the next Pod from now on makes another version.
            if let Some(uid) = uid
                && self.read_pod().await?.is_some_and(|pod| pod["metadata"]["uid"] != uid)
            {
                return Ok(false);
            }
            let after = wish.state(before.as_ref());
            let edit: Option<Edit> =
                set_state(&object, pod, after.as_ref()).map_err(|error| self.address.refused(&error))?;
            let Some(edit) = edit else { return Ok(false) };
            match self.address.write(self.client, &edit).await {
                Ok(stored) => {
                    let to = to.as_deref().unwrap_or("any node");
                    self.tell(&stored, to, before.as_ref(), after.as_ref()).await;
                    return Ok(true);
                }
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.address.busy())
    }

    async fn tell(&self, stored: &Value, to: &str, before: Option<&PodState>, after: Option<&PodState>) {
        let message = format!(
            "Pod {} is moved to {to} with kubectl-pps: its recorded state was {}, and is {}",
            self.relocation.pod,
            describe(before),
            describe(after)
        );
        let note = Note { about: stored, reason: "PodMoved", action: "Move", message };
        publish(self.client, self.terminal, &note).await;
    }

    pub(super) fn is_stranded(&self) -> bool {
        self.relocation.present.as_ref().is_some_and(|present| present.is_stranded)
    }

    /// Evicts or deletes exactly this Pod.
    async fn remove(&self, uid: &str, removal: Removal, mut claimed: Option<String>) -> Result<(), Failure> {
        let Relocation { namespace, pod, .. } = self.relocation;
        let mut changes = format!("Pod {pod} changes all the time");
        for _ in 0..TRIES {
            let write = match removal {
                Removal::None | Removal::Stay => return Ok(()),
                Removal::Evict => {
                    // A Pod that has lost its mark, which held back other moves, has another version.
                    let version = match claimed.take() {
                        Some(version) => Ok(version),
                        None => self.claim().await?,
                    };
                    match version {
                        Ok(version) => Write::evict(namespace, pod, uid, Some(&version)),
                        Err(_) if self.is_gone(uid).await? => return Ok(()),
                        // Another mark may be about to be taken back.
                        Err(why) => {
                            changes = why;
                            sleep(PERIOD).await;
                            continue;
                        }
                    }
                }
                Removal::Delete => {
                    let now = self.read_pod().await?.filter(|pod| pod["metadata"]["uid"] == uid);
                    let Some(now) = now else { return Ok(()) };
                    // From this version on it has no node: what gives it one makes another version.
                    if let Some(node) = now["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                        return Err(Failure::Refused(format!(
                            "Pod {pod} has got node {node} meanwhile, and was not deleted; what is recorded is changed: run the command again"
                        )));
                    }
                    let version = now["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                    Write::delete(self.pod_right("delete", "pods"), self.pod_path(), uid, version)
                }
            };
            match write::send(self.client, write).await {
                Ok(_) | Err(WriteError::NotFound) => return Ok(()),
                // Of an eviction: another Pod has the name already. Of a deletion: the Pod has changed.
                Err(WriteError::Conflict(_)) => {
                    if self.is_gone(uid).await? {
                        return Ok(());
                    }
                }
                // Kubernetes deletes it without an eviction.
                Err(
                    WriteError::Disruption(_)
                    | WriteError::Busy(_)
                    | WriteError::Refused(_)
                    | WriteError::Failed(_),
                ) if self.is_stranded() => {
                    return Ok(());
                }
                Err(WriteError::Disruption(why)) => {
                    return Err(Failure::Refused(format!(
                        "a PodDisruptionBudget forbids to evict Pod {pod} now: {why}"
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Refused(format!("{changes}; run the command again")))
    }

    /// Whether this Pod is gone, or ends.
    async fn is_gone(&self, uid: &str) -> Result<bool, Failure> {
        let now = self.read_pod().await?.and_then(Pod::read);
        Ok(now.is_none_or(|now| now.uid() != uid || now.is_terminating()))
    }
}
