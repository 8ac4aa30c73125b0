//! Which API server, as whom, and which namespace: as kubectl finds them.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::Failure;
use crate::args::Connection;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a cluster.
#[derive(Clone)]
pub struct Connected {
    /// The client. Reads through [`read`](super::read), writes through [`write`](super::write) only.
    pub client: Client,
    /// The namespace of the command line, else that of the kubeconfig's context.
    pub namespace: String,
    /// Who publishes Events, for people to read.
    pub context: String,
}

/// Connects. Nothing is sent yet.
///
/// # Errors
///
/// If there is no kubeconfig, or it cannot be read, or has no such context.
pub async fn connect(connection: &Connection) -> Result<Connected, Failure> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    let unusable = |error: KubeconfigError| {
        let file = connection.kubeconfig.as_ref().map(|path| format!("--kubeconfig {}: ", path.display()));
        Failure::Usage(format!("{}{error}", file.unwrap_or_default()))
    };
    let kubeconfig = match &connection.kubeconfig {
        Some(path) => Kubeconfig::read_from(path).map(Some).map_err(unusable)?,
        None => match Kubeconfig::read() {
            Ok(kubeconfig) => Some(kubeconfig),
            Err(error) if connection.context.is_some() => return Err(unusable(error)),
            Err(error) => {
                // In a Pod there is no kubeconfig, but a ServiceAccount.
                if Config::incluster().is_err() {
                    return Err(Failure::Usage(format!(
                        "no cluster is configured ({error}): use --kubeconfig FILE, or set KUBECONFIG"
                    )));
                }
                None
            }
        },
    };
    let (mut config, context) = if let Some(kubeconfig) = kubeconfig {
        let current = connection.context.clone().or_else(|| kubeconfig.current_context.clone());
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
        (config, current.unwrap_or_default())
    } else {
        let config = Config::incluster().map_err(|error| Failure::Usage(error.to_string()))?;
        (config, String::new())
    };
    let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // A PodDisruptionBudget refuses an eviction with a code that means "try again", and the user should hear of it at once.
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Connected { client, namespace, context })
}
