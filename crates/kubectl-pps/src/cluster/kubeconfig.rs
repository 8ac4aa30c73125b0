//! Which API server, and as whom: the kubeconfig and the command line, as kubectl reads them.

use http::Uri;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use pps_api::config;
use serde_json::json;

use crate::Failure;
use crate::args::Connection;

#[derive(Debug)]
pub(super) struct Found {
    pub(super) config: Config,
    /// The name of its context; empty without one.
    pub(super) context: String,
}

/// The configuration that kubectl would use.
pub(super) async fn find(connection: &Connection) -> Result<Found, Failure> {
    let unusable = |error: KubeconfigError| unusable(connection, &error);
    let server = connection.server.as_ref();
    let read = match &connection.kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let mut kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        // Somebody means a certain cluster, which is not the one that this Pod runs in.
        Err(error) if names_cluster(connection) || !config::is_missing(&error) => {
            return Err(unusable(error));
        }
        Err(_) if server.is_some() => Kubeconfig::default(),
        Err(error) => return in_cluster(&error),
    };
    if let Some(server) = server {
        replace_server(&mut kubeconfig, server);
    }
    // Without such a user, the client would be nobody.
    if let Some(user) = &connection.user
        && kubeconfig.auth_infos.iter().all(|one| one.name != *user)
    {
        return Err(Failure::Usage(format!("the kubeconfig has no user {user}")));
    }
    let context = connection
        .context
        .clone()
        .or(kubeconfig.current_context.clone())
        .unwrap_or_default();
    // Without a context, an address is enough.
    if let Some(server) = server.filter(|_| context.is_empty()) {
        kubeconfig = with_context_of(kubeconfig, server).map_err(unusable)?;
    }
    let options = KubeConfigOptions {
        context: connection.context.clone(),
        cluster: connection.cluster.clone(),
        user: connection.user.clone(),
    };
    let config = config::load(kubeconfig, &options).await.map_err(unusable)?;
    Ok(Found { config, context })
}

/// Whether the user names a cluster, or where one is named.
fn names_cluster(connection: &Connection) -> bool {
    connection.kubeconfig.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty())
        || connection.context.is_some()
        || connection.cluster.is_some()
        || connection.user.is_some()
}

fn unusable(connection: &Connection, error: &KubeconfigError) -> Failure {
    Failure::Usage(match &connection.kubeconfig {
        Some(file) => format!("--kubeconfig {}: {error}", file.display()),
        None => error.to_string(),
    })
}

/// In a Pod there is no kubeconfig, but a ServiceAccount.
fn in_cluster(missing: &KubeconfigError) -> Result<Found, Failure> {
    let config = Config::incluster().map_err(|_| {
        Failure::Usage(format!(
            "no cluster is configured ({missing}): use --kubeconfig FILE, or set KUBECONFIG"
        ))
    })?;
    Ok(Found {
        config,
        context: String::new(),
    })
}

fn replace_server(kubeconfig: &mut Kubeconfig, server: &Uri) {
    for named in &mut kubeconfig.clusters {
        if let Some(cluster) = &mut named.cluster {
            cluster.server = Some(server.to_string());
            cluster.tls_server_name = None;
        }
    }
}

/// Adds a cluster with this address, and a context of the empty name.
fn with_context_of(kubeconfig: Kubeconfig, server: &Uri) -> Result<Kubeconfig, KubeconfigError> {
    let cluster = json!({"name": "", "cluster": {"server": server.to_string()}});
    let context = json!({"name": "", "context": {"cluster": ""}});
    let own = json!({"current-context": "", "contexts": [context], "clusters": [cluster]});
    kubeconfig.merge(Kubeconfig::from_yaml(&own.to_string())?)
}

/// Lets the command line take precedence over the kubeconfig. An empty text is none, as in kubectl.
pub(super) fn apply(connection: &Connection, config: &mut Config) -> Result<(), Failure> {
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
    if let Some(name) = connection.as_user.as_ref().filter(|name| !name.is_empty()) {
        user.impersonate = Some(name.clone());
    }
    if !connection.as_group.is_empty() {
        user.impersonate_groups = Some(connection.as_group.clone());
    }
    if let Some(uid) = &connection.as_uid {
        user.impersonate_uid = Some(uid.clone());
    }
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
pub(super) fn address(url: &http::Uri) -> String {
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
