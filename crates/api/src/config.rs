//! The configuration of a client, from a kubeconfig.

use std::io::ErrorKind;

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::proxy;

/// The configuration of a client, as this kubeconfig and these options say. kube itself would use
/// the environment's proxy also for a server on this machine, compare `NO_PROXY` with the address
/// of the proxy, and send credentials without TLS.
pub async fn load(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, KubeconfigError> {
    let context = options
        .context
        .as_ref()
        .or(kubeconfig.current_context.as_ref());
    let context = kubeconfig
        .contexts
        .iter()
        .find(|one| Some(&one.name) == context);
    let context = context.and_then(|one| one.context.as_ref());
    let name = options
        .cluster
        .as_ref()
        .or(context.map(|context| &context.cluster));
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|one| Some(&one.name) == name);
    let named = cluster
        .and_then(|one| one.cluster.as_ref()?.proxy_url.clone())
        .unwrap_or_default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
    let proxy = if named.is_empty() {
        proxy::of_environment(&config.cluster_url)
    } else {
        proxy::parse(&named).map(Some)
    };
    config.proxy_url = proxy.map_err(KubeconfigError::ParseProxyUrl)?;
    if config.accept_invalid_certs {
        // kube would look for certificates of the system, and fail where there are none.
        config.root_cert.get_or_insert_default();
    }
    if config.cluster_url.scheme_str() == Some("http") {
        config.auth_info = without_credentials(config.auth_info);
    }
    Ok(config)
}

/// Whether there is no kubeconfig, and not one that cannot be read.
pub fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

/// The user that is impersonated, without the credentials of the one who does that.
pub fn without_credentials(user: AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate,
        impersonate_uid: user.impersonate_uid,
        impersonate_groups: user.impersonate_groups,
        impersonate_user_extra: user.impersonate_user_extra,
        ..AuthInfo::default()
    }
}
