//! The API server: which one, as whom, and which namespace, as kubectl finds them; reads and writes.

pub mod read;
#[cfg(test)]
pub(crate) mod tests;
pub mod write;

use std::time::Duration;

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use pps_check::read::{Problem, Right};
use pps_check::reader::{Limits, Reader};
use serde_json::Value;

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
        Limits { request: self.request_timeout.unwrap_or(own.request), ..own }
    }
}

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
    let (mut config, context) = find(connection).await?;
    apply(connection, &mut config)?;
    let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let request_timeout = connection.request_timeout;
    config.connect_timeout = Some(request_timeout.unwrap_or(Limits::CHECK.request));
    // A PodDisruptionBudget refuses an eviction with a code that means "try again", and the user should hear
    // of it at once.
    config.default_retry = false;
    let server = address(&config.cluster_url);
    let kube = kube::Client::try_from(config).map_err(|error| Failure::Usage(error.to_string()))?;
    let client = Client { kube, request_timeout };
    reach(&client, &server, &context).await?;
    Ok(Connected { client, namespace })
}

/// The configuration that kubectl would use, and the name of its context, if it has one.
async fn find(connection: &Connection) -> Result<(Config, String), Failure> {
    let Connection { context, cluster, user, kubeconfig: file, server, .. } = connection.clone();
    let is_named = file.is_some() || [&context, &cluster, &user].iter().any(|name| name.is_some());
    let options = KubeConfigOptions { context, cluster, user };
    let read = file.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let unusable = |error: KubeconfigError| {
        let file = file.as_ref().map(|path| format!("--kubeconfig {}: ", path.display()));
        Failure::Usage(format!("{}{error}", file.unwrap_or_default()))
    };
    let without_context = |config| Ok((config, String::new()));
    match read {
        Ok(read) => {
            let current = options.context.clone().or(read.current_context.clone()).unwrap_or_default();
            // Without a context, the address is enough.
            if let Some(server) = server.filter(|_| current.is_empty()) {
                return without_context(Config::new(server));
            }
            // Without such a user, the client would be nobody.
            let is_unknown = |user: &&String| read.auth_infos.iter().all(|one| one.name != **user);
            if let Some(user) = options.user.as_ref().filter(is_unknown) {
                return Err(Failure::Usage(format!("the kubeconfig has no user {user}")));
            }
            Ok((pps_connect::load(read, &options).await.map_err(unusable)?, current))
        }
        Err(error) if is_named => Err(unusable(error)),
        Err(error) => match (Config::incluster(), server) {
            // In a Pod there is no kubeconfig, but a ServiceAccount.
            (Ok(config), _) => without_context(config),
            (Err(_), Some(server)) => without_context(Config::new(server)),
            (Err(_), None) => Err(Failure::Usage(format!(
                "no cluster is configured ({error}): use --kubeconfig FILE, or set KUBECONFIG"
            ))),
        },
    }
}

/// Lets the command line take precedence over the kubeconfig.
fn apply(connection: &Connection, config: &mut Config) -> Result<(), Failure> {
    if let Some(server) = &connection.server {
        config.cluster_url = server.clone();
        config.tls_server_name = None;
    }
    let user = &mut config.auth_info;
    if let Some(token) = &connection.token {
        // The API server would prefer a client certificate, and kube a password.
        *user = AuthInfo {
            token: Some(token.clone().into()),
            impersonate: user.impersonate.take(),
            impersonate_uid: user.impersonate_uid.take(),
            impersonate_groups: user.impersonate_groups.take(),
            impersonate_user_extra: user.impersonate_user_extra.take(),
            ..AuthInfo::default()
        };
    }
    let groups = Some(&connection.as_group).filter(|groups| !groups.is_empty());
    user.impersonate = connection.as_user.clone().or(user.impersonate.take());
    user.impersonate_groups = groups.cloned().or(user.impersonate_groups.take());
    if user.impersonate_groups.is_some() && user.impersonate.is_none() {
        return Err(Failure::Usage("--as-group needs --as NAME".into()));
    }
    Ok(())
}

/// `https://host:6443`, without a password.
fn address(url: &http::Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{}{port}{}", url.host().unwrap_or_default(), url.path().trim_end_matches('/'))
}

/// Whether the API server answers. Every user may ask for its version.
async fn reach(client: &Client, server: &str, context: &str) -> Result<(), Failure> {
    let limits = client.limits(Limits::CHECK);
    let reader = Reader::new(client.kube.clone(), limits, 2 * limits.request);
    let _: pps_check::read::Read<Value> = reader.get(Right::new("get", "", "version"), "/version").await;
    // A refusal is an answer.
    let failed = |problem| if let Problem::Failed { why, .. } = problem { Some(why) } else { None };
    let Some(why) = reader.into_problems().into_iter().find_map(failed) else { return Ok(()) };
    let context = if context.is_empty() { String::new() } else { format!(" (context {context})") };
    Err(Failure::Unreadable(format!("cannot reach the API server at {server}{context}: {why}")))
}
