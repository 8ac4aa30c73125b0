//! Reads the credentials for a registry from Docker's configuration.

use std::{env, path::PathBuf};

use anyhow::{Context, Result, bail};
use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential};

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) file: PathBuf,
}

impl Credentials {
    pub(super) fn load(registry: &str) -> Result<Option<Self>> {
        let Some(file) = docker_config_path().filter(|file| file.exists()) else {
            return Ok(None);
        };
        match get_credential(registry) {
            Ok(DockerCredential::UsernamePassword(user, password)) => Ok(Some(Self {
                user,
                password,
                file,
            })),
            Ok(DockerCredential::IdentityToken(_)) => bail!(
                "log in to {registry} with user and password: identity tokens, as in {}, are not \
                 supported",
                file.display()
            ),
            Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
            Err(error) => Err(error).with_context(|| {
                format!(
                    "cannot get the password for {registry} from {}",
                    file.display()
                )
            }),
        }
    }
}

/// The path of Docker's configuration; the file may not exist.
fn docker_config_path() -> Option<PathBuf> {
    let folder = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".docker")))?;
    Some(folder.join("config.json"))
}
