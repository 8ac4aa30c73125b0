//! Who we are to a registry, as Docker's configuration says.

use std::{env, path::PathBuf};

use anyhow::{Context, Result, bail};
use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential};

/// A user, a password, and where they are from.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) file: PathBuf,
}

impl Credentials {
    /// Those for the registry, if there are any.
    pub(super) fn of(registry: &str) -> Result<Option<Self>> {
        let Some(file) = config_file().filter(|file| file.exists()) else { return Ok(None) };
        match get_credential(registry) {
            Ok(DockerCredential::UsernamePassword(user, password)) => Ok(Some(Self { user, password, file })),
            Ok(DockerCredential::IdentityToken(_)) => bail!(
                "{} has an identity token for {registry}, which is not supported: log in with user and password",
                file.display()
            ),
            Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
            Err(error) => Err(error)
                .with_context(|| format!("cannot get the password for {registry} from {}", file.display())),
        }
    }
}

/// Docker's configuration, whether it is there or not.
pub(super) fn config_file() -> Option<PathBuf> {
    let folder = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".docker")))?;
    Some(folder.join("config.json"))
}
