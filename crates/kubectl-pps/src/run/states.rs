//! Reads one PersistentPodState again and writes its states.

use kube::Client;
use pps_check::facts::Right;
use pps_core::edit::Edit;
use pps_core::pps::GROUP;
use serde_json::Value;

use crate::Failure;
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::cluster::{now, read};
use crate::print::Terminal;
use crate::snapshot::Snapshot;

/// How often a write is tried that other clients precede.
pub(super) const TRIES: usize = 5;

const RESOURCE: &str = "persistentpodstates";

/// Where a PersistentPodState is.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) namespace: String,
    pub(super) name: String,
    version: String,
}

impl Address {
    pub(super) fn of(snapshot: &Snapshot, namespace: &str, name: &str) -> Self {
        let api_version = snapshot.pps(namespace, name).map(|pps| pps.object()["apiVersion"].clone());
        let api_version = api_version.as_ref().and_then(Value::as_str).unwrap_or_default();
        let version = api_version.rsplit_once('/').map_or("v1alpha1", |(_, version)| version);
        Self { namespace: namespace.to_owned(), name: name.to_owned(), version: version.to_owned() }
    }

    /// That of a namespace, a name and a version of the API.
    pub(super) fn new(namespace: &str, name: &str, api_version: &str) -> Self {
        let version = api_version.rsplit_once('/').map_or("v1alpha1", |(_, version)| version);
        Self { namespace: namespace.to_owned(), name: name.to_owned(), version: version.to_owned() }
    }

    fn path(&self) -> String {
        let Self { namespace, name, version } = self;
        format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{RESOURCE}/{name}")
    }

    /// Reads the object as it is now.
    pub(super) async fn read(&self, client: &Client) -> Result<Value, Failure> {
        let right = Right::new("get", GROUP, RESOURCE).named(&self.name).within(&self.namespace);
        let object = read::get(client, right, &self.path()).await?;
        object.ok_or_else(|| Failure::Refused(format!("PersistentPodState {} no longer exists", self.name)))
    }

    /// The right to write its states.
    pub(super) fn right(&self) -> Right {
        Right::new("patch", GROUP, &format!("{RESOURCE}/status")).named(&self.name).within(&self.namespace)
    }

    /// Writes its states.
    pub(super) async fn write(&self, client: &Client, edit: &Edit) -> Result<Value, WriteError> {
        write::send(client, self.patch(edit.body.clone())).await
    }

    /// A write of its status.
    pub(super) fn patch(&self, body: Value) -> Write {
        Write::patch(self.right(), format!("{}/status", self.path()), body)
    }
}

/// Leaves an Event on a PersistentPodState. That it could not is said once, and changes nothing.
pub(super) async fn publish(client: &Client, terminal: &Terminal, note: &Note<'_>) {
    if let Err(error) = write::publish(client, note, &now()).await {
        let why = match error {
            WriteError::Forbidden(right) => format!("you have no permission to {right}"),
            error => Failure::from(error).to_string(),
        };
        terminal.say(&terminal.style_of_errors().note(&format!("no Event tells others of this: {why}")));
    }
}
