//! What `hack/publish.sh` pushes to a real registry can be read by others: by an independent reader,
//! by the waPC host, as a root file system, by helm, and by kwctl if there is one.

mod chart;
mod image;
mod kwctl;
mod platforms;
mod policy;
mod refusals;
mod rendered;
mod signatures;

use pps_e2e::{
    registry::{Registry, RegistryOptions},
    supervisor::Supervisor,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Registries with and without TLS and a password.
fn all_kinds() -> Vec<RegistryOptions> {
    let credentials = Some(("pusher".to_owned(), "let me: in".to_owned()));
    [
        (false, None),
        (false, credentials.clone()),
        (true, None),
        (true, credentials),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, (tls, credentials))| RegistryOptions {
        tls,
        credentials,
        name: format!("registry-{index}"),
        ..RegistryOptions::default()
    })
    .collect()
}

fn with_password() -> RegistryOptions {
    all_kinds().pop().unwrap()
}

async fn start(options: RegistryOptions) -> (Supervisor, Registry) {
    let supervisor = Supervisor::start().unwrap();
    let registry = Registry::start(&supervisor, options).await.unwrap();
    (supervisor, registry)
}

/// The annotations of the policy and labels of the image that are the same for every commit.
fn provenance() -> Vec<(&'static str, String)> {
    let repository = env!("CARGO_PKG_REPOSITORY").to_owned();
    vec![
        ("org.opencontainers.image.licenses", "Apache-2.0".to_owned()),
        ("org.opencontainers.image.source", repository.clone()),
        ("org.opencontainers.image.url", repository),
        (
            "org.opencontainers.image.vendor",
            "The PersistentPodState authors".to_owned(),
        ),
        ("org.opencontainers.image.version", VERSION.to_owned()),
    ]
}
