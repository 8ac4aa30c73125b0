//! The mark of a move on its Pod: the sidecar does not record the Pod, and other moves of its workload wait.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::mover::Mover;
use crate::Failure;
use crate::cluster::read::{Wanted, read_lists};
use crate::cluster::write::{self, Write, WriteError};
use crate::decide::relocate::{Present, Reached, claim, mark};
use crate::decide::unread;
use crate::run::states::TRIES;
use crate::snapshot::{Pod, Scope};

/// For how long at most a move lets another one go first, when both have marked their Pods and have taken that back.
const BEHIND_MILLIS: u64 = 4000;

impl Mover<'_> {
    /// Marks a Pod that is to be evicted. Returns the version in which it may be, or why it may not: then it is as it was.
    pub(super) async fn mark(
        &self,
        present: &Present,
        done: &mut Vec<&'static str>,
    ) -> Result<Result<String, String>, Failure> {
        if !present.is_left_over {
            self.reached.set(Reached::Marked);
            if !self.annotate(&present.uid, true).await? {
                return Ok(Err(self.created_again()));
            }
            done.push("the Pod is annotated, and is not recorded any longer");
        }
        let claimed = self.claim().await?;
        if claimed.is_err() {
            if !present.is_left_over {
                // One that is gone has taken its mark with it.
                self.annotate(&present.uid, false).await?;
            }
            // Two that have seen each other's mark do not try again at the same moment.
            sleep(Duration::from_millis(RandomState::new().hash_one(()) % BEHIND_MILLIS)).await;
        }
        Ok(claimed)
    }

    /// Whether this Pod may be evicted, as of now.
    pub(super) async fn claim(&self) -> Result<Result<String, String>, Failure> {
        let scope = Scope::Namespace(self.relocation.namespace.clone());
        let wanted = Wanted { pods: true, ..Wanted::default() };
        let mut now = Box::pin(read_lists(self.client, &scope, wanted)).await?;
        unread::require(&now, "pods")?;
        unread::require(&now, unread::PPS)?;
        now.workloads.clone_from(&self.snapshot.workloads);
        now.nodes.clone_from(&self.snapshot.nodes);
        Ok(claim(&now, self.relocation, self.only))
    }

    pub(super) fn created_again(&self) -> String {
        format!("Pod {} was created again meanwhile", self.relocation.pod)
    }

    /// Marks the Pod, so that the sidecar leaves its state alone and other moves wait, or takes that back. Returns whether the Pod
    /// is still there.
    pub(super) async fn annotate(&self, uid: &str, is_moved: bool) -> Result<bool, Failure> {
        for _ in 0..TRIES {
            let now = self.read_pod().await?.and_then(Pod::read);
            let Some(pod) = now.filter(|pod| pod.uid() == uid) else { return Ok(false) };
            let Some(annotations) = mark(&pod, is_moved) else { return Ok(true) };
            let version = pod.resource_version();
            let body = json!({"metadata": {
                "uid": uid, "resourceVersion": version, "annotations": annotations,
            }});
            let patch = Write::merge_patch(self.pod_right("patch", "pods"), self.pod_path(), body);
            match write::send(self.client, patch).await {
                Ok(_) => return Ok(true),
                // The kubelet has written its status, or the Pod is gone.
                Err(WriteError::Conflict(_) | WriteError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Refused(format!(
            "other clients change Pod {} all the time; run the command again",
            self.relocation.pod
        )))
    }
}
