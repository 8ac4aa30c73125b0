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
    pub(super) fn explain(&self, failure: &Failure) -> Error {
        let host = &self.host;
        match failure {
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
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(user: Option<&str>) -> Situation {
        let credentials = user.map(|user| Credentials {
            user: user.to_owned(),
            password: "secret".to_owned(),
            file: "/here/config.json".into(),
        });
        Situation { host: "r.example".to_owned(), repository: "a/b".to_owned(), ca_file: None, credentials }
    }

    fn answer(user: Option<&str>, code: u16, message: &str) -> String {
        let (url, message) = (String::new(), message.to_owned());
        situation(user).explain(&Failure::ServerError { code, url, message }).to_string()
    }

    #[test]
    fn each_answer_is_one_sentence_with_the_way_out() {
        let denied = r#"{"errors":[{"code":"DENIED","message":"no\n such right"}]}"#;
        for (user, code, message, wanted) in [
            (
                Some("me"),
                401,
                "",
                "r.example refuses the user \"me\" with the password in /here/config.json: `docker login r.example`",
            ),
            (None, 401, "", "r.example wants a user and a password: `docker login r.example`"),
            (
                Some("me"),
                403,
                denied,
                "r.example does not let \"me\" push to a/b: ask for the right to, or log in as somebody else",
            ),
            (None, 403, denied, "r.example does not let just anybody push to a/b: `docker login r.example`"),
            (None, 404, denied, "r.example refuses it (404): no such right"),
            (None, 429, "slow\ndown", "r.example asks to come back later (429 Too Many Requests): slow down"),
            (None, 503, "", "r.example fails (503): it does not say why"),
            (
                None,
                400,
                "Client sent an HTTP request to an HTTPS server.\n",
                "r.example speaks HTTPS: leave out --plain-http",
            ),
        ] {
            let sentence = answer(user, code, message);
            assert!(sentence.starts_with(wanted), "{sentence}");
            assert!(!sentence.contains('\n') && !sentence.contains("secret"), "{sentence}");
        }
        assert_eq!(
            answer(None, 500, &"x".repeat(10_000)),
            format!("r.example fails (500): {}", "x".repeat(200))
        );
    }

    #[test]
    fn an_error_of_tls_is_found_within_what_carries_it() {
        let inner = io::Error::other(rustls::Error::DecryptError);
        let outer = io::Error::other(inner);
        assert!(matches!(tls_error(&outer), Some(rustls::Error::DecryptError)));
        assert!(tls_error(&io::Error::other("something else")).is_none());
    }
}
