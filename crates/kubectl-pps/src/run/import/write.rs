//! Carries out what was decided and agreed to, one object at a time.

use kube::Client;
use pps_check::facts::Right;
use pps_core::pps::{GROUP, PLURAL};
use serde_json::Value;

use crate::Failure;
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::decide::import::{Action, Plan, keeps_compact_form, next_write};
use crate::print::Terminal;
use crate::run::states::{Address, TRIES, publish};

/// What became of one object.
#[derive(Debug)]
pub(super) struct Done {
    /// `namespace/name`.
    pub(super) what: String,
    /// Whether it was created.
    pub(super) is_created: bool,
    /// How many states were written, or why not all were.
    pub(super) states: Result<usize, Failure>,
}

/// Writes objects.
pub(super) struct Writer<'a> {
    pub(super) client: &'a Client,
    pub(super) terminal: &'a Terminal,
    pub(super) api_version: &'a str,
    pub(super) overwrite: bool,
}

impl Writer<'_> {
    pub(super) async fn write(&self, plan: &Plan) -> Done {
        let what = format!("{}/{}", plan.namespace, plan.name);
        let mut is_created = false;
        let created = match &plan.action {
            Action::Create { object, .. } => match self.create(plan, object).await {
                Ok(created) => {
                    is_created = true;
                    Some(created)
                }
                Err(failure) => return Done { what, is_created, states: Err(failure) },
            },
            _ => None,
        };
        let states = self.write_states(plan, created).await;
        Done { what, is_created, states }
    }

    async fn create(&self, plan: &Plan, object: &Value) -> Result<Value, Failure> {
        let namespace = &plan.namespace;
        let version = self.api_version.rsplit_once('/').map_or("v1alpha1", |(_, version)| version);
        let path = format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{PLURAL}");
        let right = Right::new("create", GROUP, PLURAL).within(namespace);
        write::send(self.client, Write::create(right, path, object.clone())).await.map_err(
            |error| match error {
                WriteError::NotFound => {
                    Failure::Refused(format!("there is no namespace {namespace}: create it first"))
                }
                WriteError::Conflict(_) => Failure::Refused("it exists by now: run the command again".into()),
                error => error.into(),
            },
        )
    }

    /// Writes states until no other client precedes it. What others have written meanwhile stays.
    async fn write_states(&self, plan: &Plan, created: Option<Value>) -> Result<usize, Failure> {
        if plan.changes.is_empty() {
            return Ok(0);
        }
        let address = Address::new(&plan.namespace, &plan.name, self.api_version);
        let mut object = match created {
            Some(created) => created,
            None => address.read_to_write(self.client).await?,
        };
        for _ in 0..TRIES {
            let next = next_write(&object, plan, self.overwrite).map_err(Failure::Refused)?;
            let Some((edit, is_compact)) = next else { return Ok(0) };
            let written = if is_compact {
                self.write_compact(&address, &edit.body).await
            } else {
                address.write(self.client, &edit).await
            };
            match written {
                Ok(stored) => {
                    self.tell(&stored, edit.changes.len()).await;
                    return Ok(edit.changes.len());
                }
                Err(WriteError::Conflict(_)) => object = address.read_to_write(self.client).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Refused("other clients keep changing the object; run the command again".into()))
    }

    /// A definition without the compact form would drop the states without a word, so the first write is a dry run.
    async fn write_compact(&self, address: &Address, body: &Value) -> Result<Value, WriteError> {
        let write = address.patch(body.clone());
        let answer = write::send(self.client, write.clone().as_dry_run()).await?;
        if !keeps_compact_form(body, &answer) {
            return Err(WriteError::Refused(
                "its states are too large for status.podStates, and the definition of PersistentPodState in this cluster \
                 has no status.packed: apply this product's definition first, and run the command again"
                    .into(),
            ));
        }
        write::send(self.client, write).await
    }

    async fn tell(&self, stored: &Value, states: usize) {
        let message = format!("imported {states} recorded states from a file");
        let note = Note { about: stored, reason: "StatesImported", action: "Import", message };
        publish(self.client, self.terminal, &note).await;
    }
}
