//! The API server: which one, as whom, and which namespace, as kubectl finds them; reads and
//! writes.

pub mod read;
#[cfg(test)]
pub(crate) mod tests;
pub mod write;

use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use pps_api::{Limits, client, config};
use pps_check::read::{Problem, Right};
use pps_check::reader::{CHECK_LIMITS, Reader};
use serde_json::{Value, json};

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
    let (mut config, context) = find(connection).await?;
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

/// The configuration that kubectl would use, and the name of its context, if it has one.
async fn find(connection: &Connection) -> Result<(Config, String), Failure> {
    let Connection {
        context,
        cluster,
        user,
        kubeconfig: file,
        server,
        ..
    } = connection.clone();
    let is_named = file.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty())
        || [&context, &cluster, &user]
            .iter()
            .any(|name| name.is_some());
    let unusable = |error: KubeconfigError| {
        let file = file
            .as_ref()
            .map(|path| format!("--kubeconfig {}: ", path.display()));
        Failure::Usage(format!("{}{error}", file.unwrap_or_default()))
    };
    let mut read = match file
        .as_ref()
        .map_or_else(Kubeconfig::read, Kubeconfig::read_from)
    {
        Ok(read) => read,
        // Somebody means a certain cluster, which is not the one that this Pod runs in.
        Err(error) if is_named || !config::is_missing(&error) => return Err(unusable(error)),
        Err(_) if server.is_some() => Kubeconfig::default(),
        Err(error) => {
            let remedy = "use --kubeconfig FILE, or set KUBECONFIG";
            let unknown =
                |_| Failure::Usage(format!("no cluster is configured ({error}): {remedy}"));
            // In a Pod there is no kubeconfig, but a ServiceAccount.
            return Ok((Config::incluster().map_err(unknown)?, String::new()));
        }
    };
    let clusters = read
        .clusters
        .iter_mut()
        .filter_map(|one| one.cluster.as_mut());
    for cluster in clusters.filter(|_| server.is_some()) {
        cluster.server = server.as_ref().map(ToString::to_string);
        cluster.tls_server_name = None;
    }
    // Without such a user, the client would be nobody.
    let is_unknown = |user: &&String| read.auth_infos.iter().all(|one| one.name != **user);
    if let Some(user) = user.as_ref().filter(is_unknown) {
        return Err(Failure::Usage(format!("the kubeconfig has no user {user}")));
    }
    let name = context
        .clone()
        .or(read.current_context.clone())
        .unwrap_or_default();
    // Without a context, an address is enough.
    if let Some(server) = server.filter(|_| name.is_empty()) {
        let cluster = json!({"name": "", "cluster": {"server": server.to_string()}});
        let context = json!({"name": "", "context": {"cluster": ""}});
        let own = json!({"current-context": "", "contexts": [context], "clusters": [cluster]})
            .to_string();
        read = Kubeconfig::from_yaml(&own)
            .and_then(|own| read.merge(own))
            .map_err(unusable)?;
    }
    let options = KubeConfigOptions {
        context,
        cluster,
        user,
    };
    Ok((config::load(read, &options).await.map_err(unusable)?, name))
}

/// Lets the command line take precedence over the kubeconfig. An empty text is none, as in kubectl.
fn apply(connection: &Connection, config: &mut Config) -> Result<(), Failure> {
    if connection.certificate_authority.is_some() || connection.insecure_skip_tls_verify {
        config.accept_invalid_certs = connection.insecure_skip_tls_verify;
        config
            .root_cert_file
            .clone_from(&connection.certificate_authority);
        config.root_cert = Some(Vec::new());
    }
    if connection
        .token
        .as_ref()
        .is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        return Err(Failure::Usage(
            "--token has a space, a line break or a letter that no token has".into(),
        ));
    }
    let user = &mut config.auth_info;
    if let Some(token) = connection.token.as_ref().filter(|token| !token.is_empty()) {
        // The API server would prefer a client certificate, and kube a password.
        *user = config::without_credentials(std::mem::take(user));
        user.token = Some(token.clone().into());
    }
    let groups = Some(&connection.as_group).filter(|groups| !groups.is_empty());
    let named = connection.as_user.clone().filter(|name| !name.is_empty());
    user.impersonate = named.or(user.impersonate.take());
    user.impersonate_groups = groups.cloned().or(user.impersonate_groups.take());
    user.impersonate_uid = connection.as_uid.clone().or(user.impersonate_uid.take());
    if user.impersonate.is_none()
        && (user.impersonate_groups.is_some() || user.impersonate_uid.is_some())
    {
        return Err(Failure::Usage(
            "--as-group and --as-uid need --as NAME".into(),
        ));
    }
    Ok(())
}

/// `https://host:6443`, without a password.
fn address(url: &http::Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!(
        "{scheme}://{}{port}{}",
        url.host().unwrap_or_default(),
        url.path().trim_end_matches('/')
    )
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
