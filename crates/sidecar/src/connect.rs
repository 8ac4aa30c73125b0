//! Where the sidecar's API server is.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pps_api::{client, config};

/// Creates a client from this kubeconfig file. Without one, uses the ServiceAccount of the Pod or
/// the user's kubeconfig. Fails if neither exists or the configuration is invalid.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let options = KubeConfigOptions::default();
    let config = match (kubeconfig, Kubeconfig::read()) {
        (Some(path), _) => {
            let read = async { config::load(Kubeconfig::read_from(path)?, &options).await };
            read.await
                .with_context(|| format!("--kubeconfig {}", path.display()))?
        }
        (None, Ok(found)) if !found.contexts.is_empty() => config::load(found, &options).await?,
        (None, found) => Config::incluster().with_context(|| {
            let why = found
                .err()
                .map(|error| format!(" ({error})"))
                .unwrap_or_default();
            format!("no cluster is configured{why}: run it in a Pod, or pass --kubeconfig FILE")
        })?,
    };
    Ok(client::build_for_watches(config)?)
}
