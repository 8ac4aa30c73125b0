//! The API server: which one, as whom, and which namespace, as kubectl finds them; reads and writes.

pub mod read;
#[cfg(test)]
pub(crate) mod tests;
pub mod write;

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use pps_check::read::{Problem, Right};
use pps_check::reader::{Limits, Reader};
use serde_json::Value;
use tokio::time::Instant;

use crate::Failure;
use crate::args::Connection;

/// How long a connection may take, and the first answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// More than the answer of `/version` has.
const MAX_VERSION: usize = 1 << 16;

/// A connection to a cluster.
#[derive(Clone)]
pub struct Connected {
    /// The client. Reads through [`read`], writes through [`write`] only.
    pub client: Client,
    /// The namespace of the command line, else the namespace of the kubeconfig's context.
    pub namespace: String,
}

/// Connects, and checks that the API server answers: an unreachable server is reported at once, and not list
/// by list.
pub async fn connect(connection: &Connection) -> Result<Connected, Failure> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    let unusable = |error: KubeconfigError| {
        let file = connection.kubeconfig.as_ref().map(|path| format!("--kubeconfig {}: ", path.display()));
        Failure::Usage(format!("{}{error}", file.unwrap_or_default()))
    };
    let read = match &connection.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let is_named = connection.kubeconfig.is_some() || connection.context.is_some();
    let (mut config, context) = match (read, Config::incluster()) {
        (Ok(kubeconfig), _) => {
            let current = connection.context.clone().or_else(|| kubeconfig.current_context.clone());
            let config = pps_connect::load(kubeconfig, &options).await.map_err(unusable)?;
            (config, current.unwrap_or_default())
        }
        (Err(error), _) if is_named => return Err(unusable(error)),
        // In a Pod there is no kubeconfig, but a ServiceAccount.
        (Err(_), Ok(config)) => (config, String::new()),
        (Err(error), Err(_)) => {
            return Err(Failure::Usage(format!(
                "no cluster is configured ({error}): use --kubeconfig FILE, or set KUBECONFIG"
            )));
        }
    };
    let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // A PodDisruptionBudget refuses an eviction with a code that means "try again", and the user should hear
    // of it at once.
    config.default_retry = false;
    let server = address(&config.cluster_url);
    let client = Client::try_from(config).map_err(|error| Failure::Usage(error.to_string()))?;
    reach(&client, &server, &context, CONNECT_TIMEOUT).await?;
    Ok(Connected { client, namespace })
}

/// `https://host:6443`, without a password.
fn address(url: &http::Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{}{port}{}", url.host().unwrap_or_default(), url.path().trim_end_matches('/'))
}

/// Whether the API server answers. Every user may ask for its version.
async fn reach(client: &Client, server: &str, context: &str, within: Duration) -> Result<(), Failure> {
    let limits = Limits { request: within, body: MAX_VERSION, page: 1, objects: 1 };
    let reader = Reader::new(client.clone(), limits, Instant::now() + 2 * within);
    let _: pps_check::read::Read<Value> = reader.get(Right::new("get", "", "version"), "/version").await;
    // A refusal is an answer.
    let failed = |problem| if let Problem::Failed { why, .. } = problem { Some(why) } else { None };
    let Some(why) = reader.into_problems().into_iter().find_map(failed) else { return Ok(()) };
    let context = if context.is_empty() { String::new() } else { format!(" (context {context})") };
    Err(Failure::Unreadable(format!("cannot reach the API server at {server}{context}: {why}")))
}

/// The time, as Events have it.
pub fn now() -> String {
    k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
