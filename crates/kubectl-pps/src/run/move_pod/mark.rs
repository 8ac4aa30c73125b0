//! The mark of a move on its Pod: the sidecar does not record the Pod, and other moves of its workload wait.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use pps_core::RECORD_ANNOTATION;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::mover::Mover;
use crate::Failure;
use crate::cluster::read::{Wanted, read_lists};
use crate::cluster::write::{self, Write, WriteError};
use crate::decide::relocate::{Present, claim};
use crate::decide::unread;
use crate::run::states::TRIES;
use crate::snapshot::Scope;

/// For how long at most a move lets another one go first, when both have marked their Pods and have taken that back.
const BEHIND_MILLIS: u64 = 4000;

impl Mover<'_> {
    /// Marks a Pod that is to be evicted. Returns the version in which it may be, or why it may not: then it is as it was.
    pub(super) async fn mark(
        &self,
        present: &Present,
        done: &mut Vec<&'static str>,
    ) -> Result<Result<String, String>, Failure> {
        if present.is_recorded {
            self.annotate(&present.uid, &"false".into()).await?;
            done.push("the Pod is annotated, and is not recorded any longer");
        }
        let claimed = self.claim().await?;
        if claimed.is_err() {
            if present.is_recorded {
                self.annotate(&present.uid, &Value::Null).await?;
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

    /// Annotates the Pod, so that the sidecar leaves its state alone, or removes the annotation again.
    pub(super) async fn annotate(&self, uid: &str, value: &Value) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some(pod) = self.read_pod().await?.filter(|pod| pod["metadata"]["uid"] == uid) else {
                return Err(Failure::Refused(format!(
                    "Pod {} was created again meanwhile, nothing was changed; run the command again",
                    self.relocation.pod
                )));
            };
            let version = &pod["metadata"]["resourceVersion"];
            let body = json!({"metadata": {
                "uid": uid, "resourceVersion": version, "annotations": {RECORD_ANNOTATION: value},
            }});
            let patch = Write::merge_patch(self.pod_right("patch", "pods"), self.pod_path(), body);
            match write::send(self.client, patch).await {
                Ok(_) => return Ok(()),
                // The kubelet has written its status.
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Refused(format!(
            "other clients change Pod {} all the time, nothing was changed; run the command again",
            self.relocation.pod
        )))
    }
}
