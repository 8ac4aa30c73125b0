//! What went wrong, in one sentence with the way out.

use std::{error::Error as StdError, io, path::PathBuf};

use anyhow::{Error, anyhow};
use oci_client::errors::OciDistributionError as Failure;
use rustls::CertificateError::{NotValidForName, NotValidForNameContext, UnknownIssuer};

use super::credentials::{Credentials, config_file};

/// What an error is told for.
pub(super) struct Situation {
    pub(super) host: String,
    pub(super) repository: String,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) credentials: Option<Credentials>,
}

impl Situation {
    pub(super) fn explain(&self, failure: Failure) -> Error {
        let host = &self.host;
        match &failure {
            Failure::AuthenticationFailure(_) | Failure::UnauthorizedError { .. } => self.unauthorized(),
            Failure::ServerError { code, message, .. } => self.status(*code, message),
            Failure::RegistryError { envelope, .. } => {
                let told: Vec<_> = envelope.errors.iter().map(|error| error.message.as_str()).collect();
                anyhow!("{host} refuses it: {}", told.join("; "))
            }
            Failure::RequestError(error) => match error.status() {
                Some(status) => self.status(status.as_u16(), ""),
                None => self.unreachable(error, error.is_timeout()),
            },
            _ => anyhow!("{host}: {failure}"),
        }
    }

    /// It answered, and not as it should.
    fn status(&self, code: u16, message: &str) -> Error {
        let Self { host, repository, .. } = self;
        let said = first_words(message);
        match code {
            401 => self.unauthorized(),
            403 => match &self.credentials {
                Some(found) => anyhow!(
                    "{host} does not let {:?} push to {repository}: ask for the right to, or log in as somebody else",
                    found.user
                ),
                None => anyhow!("{host} does not let just anybody push to {repository}: {}", log_in(host)),
            },
            400 if message.contains("HTTPS server") => {
                anyhow!("{host} speaks HTTPS: leave out --plain-http")
            }
            429 => anyhow!("{host} asks to come back later (429 Too Many Requests): {said}"),
            500.. => anyhow!("{host} fails ({code}): {said}"),
            _ => anyhow!("{host} refuses it ({code}): {said}"),
        }
    }

    fn unauthorized(&self) -> Error {
        let host = &self.host;
        match &self.credentials {
            Some(found) => anyhow!(
                "{host} refuses the user {:?} with the password in {}: {}",
                found.user,
                found.file.display(),
                log_in(host)
            ),
            None => anyhow!("{host} wants a user and a password: {}", log_in(host)),
        }
    }

    /// No answer came.
    fn unreachable(&self, error: &(dyn StdError + 'static), timeout: bool) -> Error {
        let host = &self.host;
        match tls_error(error) {
            Some(rustls::Error::InvalidCertificate(UnknownIssuer)) => match &self.ca_file {
                Some(file) => anyhow!(
                    "no authority in {} has signed the certificate of {host}: name the right file with --ca-file",
                    file.display()
                ),
                None => anyhow!(
                    "the certificate of {host} is signed by an authority that is unknown here: name the authority's \
                     certificate with --ca-file"
                ),
            },
            Some(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                anyhow!("the certificate of {host} is for another name: use a name that it is for")
            }
            Some(rustls::Error::InvalidCertificate(reason)) => {
                anyhow!("the certificate of {host} cannot be trusted: {reason}")
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                anyhow!(
                    "{host} does not speak HTTPS: if it speaks HTTP, and the network can be trusted, use --plain-http"
                )
            }
            Some(other) => anyhow!("{host} cannot be reached by HTTPS: {other}"),
            None if timeout => {
                anyhow!("{host} does not answer: see whether it is there, and whether a proxy is needed")
            }
            None => anyhow!("{host} cannot be reached: {}", innermost(error)),
        }
    }
}

fn log_in(host: &str) -> String {
    let file = config_file().map_or_else(|| "config.json".to_owned(), |file| file.display().to_string());
    format!("`docker login {host}`, or write user and password to {file}")
}

/// The error of the TLS handshake, wherever in the chain it is. What `io::Error` carries is not among its sources.
fn tls_error(error: &(dyn StdError + 'static)) -> Option<&rustls::Error> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        current = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    None
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}

/// The message of the registry's error, or the beginning of whatever it is.
fn first_words(answer: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    let message = json["errors"][0]["message"].as_str().unwrap_or(answer);
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it does not say why".to_owned() } else { line.chars().take(200).collect() }
}
