//! Reads one PersistentPodState again and writes its states.

use pps_check::read::Right;
use pps_core::edit::{EditError, may_hide_states};
use pps_core::packed::VERSION;
use pps_core::pps::{GROUP, PLURAL};
use serde_json::{Value, json};

use crate::Failure;
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::cluster::{Client, read};
use crate::render::Terminal;
use crate::snapshot::Snapshot;

/// Attempts at a write that conflicts with other clients.
pub(super) const TRIES: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) namespace: String,
    pub(super) name: String,
    version: String,
}

impl Address {
    /// The address in the API version in which the object was read.
    pub(super) fn of(snapshot: &Snapshot, namespace: &str, name: &str) -> Self {
        let api_version = snapshot
            .pps(namespace, name)
            .and_then(|pps| pps.object()["apiVersion"].as_str());
        Self::new(namespace, name, api_version.unwrap_or_default())
    }

    pub(super) fn new(namespace: &str, name: &str, api_version: &str) -> Self {
        let version = api_version
            .rsplit_once('/')
            .map_or("v1alpha1", |(_, version)| version);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }

    fn path(&self) -> String {
        let Self {
            namespace,
            name,
            version,
        } = self;
        format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{PLURAL}/{name}")
    }

    /// None if it does not exist.
    pub(super) async fn find(&self, client: &Client) -> Result<Option<Value>, Failure> {
        let right = Right::new("get", GROUP, PLURAL)
            .named(&self.name)
            .within(&self.namespace);
        read::get(client, right, &self.path()).await
    }

    pub(super) async fn read(&self, client: &Client) -> Result<Value, Failure> {
        self.find(client).await?.ok_or_else(|| {
            Failure::Refused(format!("PersistentPodState {} no longer exists", self.name))
        })
    }

    /// Reads the object to write its states. Fails if the cluster's definition hides some states:
    /// the write would lose the hidden ones.
    pub(super) async fn read_to_write(&self, client: &Client) -> Result<Value, Failure> {
        for _ in 0..TRIES {
            let mut object = self.read(client).await?;
            if !may_hide_states(&object) {
                return Ok(object);
            }
            // Only a definition without the compact form hides states, and the answer to a dry run
            // shows that.
            let metadata = &object["metadata"];
            let body = json!({
                "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
                "status": {"packed": {"version": VERSION, "buckets": {}}},
            });
            match write::send(client, self.patch(&body).as_dry_run()).await {
                Ok(answer) if answer["status"]["packed"].is_object() => {
                    // The managed fields still name the compact form, and have no other use.
                    if let Some(metadata) = object["metadata"].as_object_mut() {
                        metadata.remove("managedFields");
                    }
                    return Ok(object);
                }
                Ok(_) => return Err(self.refused(&EditError::Hidden)),
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy())
    }

    pub(super) fn refused(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::Refused(format!("PersistentPodState {}: {error}", self.name))
    }

    /// Each write conflicts with another client's.
    pub(super) fn busy(&self) -> Failure {
        Failure::Refused(format!(
            "other clients change PersistentPodState {} all the time; run the command again",
            self.name
        ))
    }

    pub(super) fn patch(&self, body: &Value) -> Write {
        let right = Right::new("patch", GROUP, &format!("{PLURAL}/status"));
        let right = right.named(&self.name).within(&self.namespace);
        Write::new(
            right,
            pps_api::Write::patch(format!("{}/status", self.path()), body),
        )
    }
}

/// Leaves an Event on a PersistentPodState. A failure is only noted.
pub(super) async fn publish(client: &Client, terminal: &Terminal, note: &Note<'_>) {
    if let Err(error) = write::publish(client, note).await {
        terminal.note(&format!(
            "no Event tells others of this: {}",
            Failure::from(error)
        ));
    }
}
