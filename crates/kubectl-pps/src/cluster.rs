//! The API server: which one, as whom, and which namespace, as kubectl finds them; reads and
//! writes.

mod kubeconfig;
pub mod read;
mod scope;
#[cfg(test)]
pub(crate) mod tests;
pub mod write;

use std::time::Duration;

use pps_api::{Limits, client};
use pps_check::read::{Problem, Right};
use pps_check::reader::{CHECK_LIMITS, Reader};
use serde_json::Value;

use self::kubeconfig::{address, apply, find};
use crate::Failure;
use crate::args::Connection;

/// A client of the API server, and how long it waits for an answer.
#[derive(Clone)]
pub struct Client {
    pub kube: kube::Client,
    /// How long one request may take, if the user says so.
    pub request_timeout: Option<Duration>,
}

impl Client {
    /// These limits, with the user's own for a request.
    pub fn limits(&self, own: Limits) -> Limits {
        Limits {
            request: self.request_timeout.unwrap_or(own.request),
            ..own
        }
    }
}

#[derive(Clone)]
pub struct Connected {
    /// The client. Reads through [`read`], writes through [`write`] only.
    pub client: Client,
    /// The namespace of the command line, else the namespace of the kubeconfig's context.
    pub namespace: String,
}

/// Connects, and checks that the API server answers: an unreachable server is reported at once, and
/// not list by list.
pub async fn connect(connection: &Connection) -> Result<Connected, Failure> {
    let kubeconfig::Found {
        mut config,
        context,
    } = find(connection).await?;
    apply(connection, &mut config)?;
    let namespace = connection
        .namespace
        .clone()
        .unwrap_or_else(|| config.default_namespace.clone());
    config.connect_timeout = Some(connection.request_timeout.unwrap_or(CHECK_LIMITS.request));
    let server = address(&config.cluster_url);
    let is_impersonated = config.auth_info.impersonate.is_some();
    let kube = client::build(config).map_err(|error| Failure::Usage(error.to_string()))?;
    let client = Client {
        kube,
        request_timeout: connection.request_timeout,
    };
    reach(&client, &server, &context, is_impersonated).await?;
    Ok(Connected { client, namespace })
}

/// Whether the API server answers. Every user may ask for its version.
async fn reach(
    client: &Client,
    server: &str,
    context: &str,
    is_impersonated: bool,
) -> Result<(), Failure> {
    let limits = client.limits(CHECK_LIMITS);
    let reader = Reader::new(client.kube.clone(), limits, 2 * limits.request);
    let _: pps_check::read::Read<Value> = reader
        .get(Right::new("get", "", "version"), "/version")
        .await;
    let context = if context.is_empty() {
        String::new()
    } else {
        format!(" (context {context})")
    };
    Err(Failure::Unreadable(match reader.into_problems().pop() {
        Some(Problem::Failed { why, .. }) => {
            format!("cannot reach the API server at {server}{context}: {why}")
        }
        Some(Problem::Forbidden(_)) if is_impersonated => {
            "you have no permission to impersonate this user, or this user with these groups".into()
        }
        // A refusal is an answer.
        _ => return Ok(()),
    }))
}
