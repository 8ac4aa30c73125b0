//! Explains failed requests: each message is one sentence that says what to do.

use std::{error::Error as StdError, io, path::PathBuf};

use anyhow::{Error, anyhow};
use oci_client::{
    RegistryOperation,
    errors::{OciDistributionError as Failure, OciError, OciErrorCode},
};
use rustls::CertificateError::{NotValidForName, NotValidForNameContext, UnknownIssuer};

use super::credentials::{Credentials, docker_config_path};

/// What a failed request was for.
pub(super) struct RequestContext {
    pub(super) operation: RegistryOperation,
    pub(super) host: String,
    pub(super) repository: String,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) credentials: Option<Credentials>,
}

impl RequestContext {
    pub(super) fn explain(&self, failure: &Failure) -> Error {
        let host = &self.host;
        match failure {
            Failure::AuthenticationFailure(_) | Failure::UnauthorizedError { .. } => {
                self.explain_unauthorized()
            }
            Failure::ServerError { code, message, .. } => self.explain_status(*code, message),
            Failure::RegistryError { envelope, .. } => {
                let is_unknown = |error: &OciError| {
                    matches!(error.code, OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown)
                };
                if self.operation == RegistryOperation::Pull && envelope.errors.iter().any(is_unknown) {
                    return self.explain_status(404, "");
                }
                let reasons: Vec<_> = envelope.errors.iter().map(|error| error.message.as_str()).collect();
                anyhow!("{host} refuses the {}: {}", self.verb(), reasons.join("; "))
            }
            Failure::RequestError(error) => match error.status() {
                Some(status) => self.explain_status(status.as_u16(), ""),
                None => self.explain_unreachable(error, error.is_timeout()),
            },
            _ => anyhow!("{host}: {failure}"),
        }
    }

    /// Explains a response with an error status.
    fn explain_status(&self, code: u16, message: &str) -> Error {
        let Self { host, repository, .. } = self;
        let (reason, verb) = (summarize(message), self.verb());
        match code {
            401 => self.explain_unauthorized(),
            403 => match &self.credentials {
                Some(found) => anyhow!(
                    "user {:?} may not {verb} {host}/{repository}: request access, or log in as another user",
                    found.user
                ),
                None => anyhow!("{host} refuses an anonymous {verb} of {repository}: {}", login_advice(host)),
            },
            404 if self.operation == RegistryOperation::Pull => anyhow!(
                "{host}/{repository} has no such tag: push it first with `make publish`, or correct the reference"
            ),
            400 if message.contains("HTTPS server") => {
                anyhow!("{host} speaks HTTPS: remove --plain-http")
            }
            429 => anyhow!("{host} limits the rate of requests: try again later (429: {reason})"),
            500.. => anyhow!("{host} has an internal error: try again later ({code}: {reason})"),
            _ => anyhow!("{host} refuses the {verb} ({code}): {reason}"),
        }
    }

    /// What the request does.
    const fn verb(&self) -> &'static str {
        match self.operation {
            RegistryOperation::Push => "push",
            RegistryOperation::Pull => "pull",
        }
    }

    fn explain_unauthorized(&self) -> Error {
        let host = &self.host;
        match &self.credentials {
            Some(found) => anyhow!(
                "{host} rejects user {:?}: run `docker login {host}`, or correct the password in {}",
                found.user,
                found.file.display()
            ),
            None => anyhow!("{host} requires a login: {}", login_advice(host)),
        }
    }

    /// Explains why there was no response.
    fn explain_unreachable(&self, error: &(dyn StdError + 'static), timeout: bool) -> Error {
        let host = &self.host;
        match find_tls_error(error) {
            Some(rustls::Error::InvalidCertificate(UnknownIssuer)) => match &self.ca_file {
                Some(file) => anyhow!(
                    "the certificate of {host} is not signed by an authority in {}: pass the right file with --ca-file",
                    file.display()
                ),
                None => anyhow!(
                    "the certificate of {host} is signed by an unknown authority: pass the authority's certificate with \
                     --ca-file"
                ),
            },
            Some(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                anyhow!("the certificate of {host} is for another name: use a name for which it is valid")
            }
            Some(rustls::Error::InvalidCertificate(reason)) => {
                anyhow!("the certificate of {host} is not trusted: {reason}")
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                anyhow!("{host} does not speak HTTPS: use --plain-http if you trust the network")
            }
            Some(other) => anyhow!("cannot connect to {host} with TLS: {other}"),
            None if timeout => {
                anyhow!("{host} does not respond: check its address, and whether you need a proxy")
            }
            None => anyhow!("cannot connect to {host}: {}", root_cause(error)),
        }
    }
}

fn login_advice(host: &str) -> String {
    let file =
        docker_config_path().map_or_else(|| "config.json".to_owned(), |file| file.display().to_string());
    format!("run `docker login {host}`, or add user and password to {file}")
}

/// Finds the error of the TLS handshake in a chain of errors. An `io::Error` does not report the error that
/// it wraps as its source.
fn find_tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
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

fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}

/// The message of the registry's error, or the start of its response.
fn summarize(response: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(response).unwrap_or_default();
    let message = json["errors"][0]["message"].as_str().unwrap_or(response);
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it gives no reason".to_owned() } else { line.chars().take(200).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(user: Option<&str>) -> RequestContext {
        let credentials = user.map(|user| Credentials {
            user: user.to_owned(),
            password: "secret".to_owned(),
            file: "/here/config.json".into(),
        });
        let operation = RegistryOperation::Push;
        RequestContext {
            operation,
            host: "r.example".to_owned(),
            repository: "a/b".to_owned(),
            ca_file: None,
            credentials,
        }
    }

    fn explain(user: Option<&str>, code: u16, message: &str) -> String {
        let (url, message) = (String::new(), message.to_owned());
        context(user).explain(&Failure::ServerError { code, url, message }).to_string()
    }

    #[test]
    fn explains_each_status_in_one_line_that_says_what_to_do() {
        let denied = r#"{"errors":[{"code":"DENIED","message":"no\n such right"}]}"#;
        for (user, code, message, wanted) in [
            (
                Some("me"),
                401,
                "",
                "r.example rejects user \"me\": run `docker login r.example`, or correct the password in /here/config.json",
            ),
            (
                None,
                401,
                "",
                "r.example requires a login: run `docker login r.example`, or add user and password to ",
            ),
            (
                Some("me"),
                403,
                denied,
                "user \"me\" may not push r.example/a/b: request access, or log in as another user",
            ),
            (None, 403, denied, "r.example refuses an anonymous push of a/b: run `docker login r.example`"),
            (None, 404, denied, "r.example refuses the push (404): no such right"),
            (
                None,
                429,
                "slow\ndown",
                "r.example limits the rate of requests: try again later (429: slow down)",
            ),
            (None, 503, "", "r.example has an internal error: try again later (503: it gives no reason)"),
            (
                None,
                400,
                "Client sent an HTTP request to an HTTPS server.\n",
                "r.example speaks HTTPS: remove --plain-http",
            ),
        ] {
            let explanation = explain(user, code, message);
            assert!(explanation.starts_with(wanted), "{explanation}");
            assert!(!explanation.contains('\n') && !explanation.contains("secret"), "{explanation}");
        }
        assert_eq!(
            explain(None, 500, &"x".repeat(10_000)),
            format!("r.example has an internal error: try again later (500: {})", "x".repeat(200))
        );
    }

    #[test]
    fn says_what_to_push_where_a_tag_is_missing() {
        let context = RequestContext { operation: RegistryOperation::Pull, ..context(None) };
        let failure = Failure::ServerError { code: 404, url: String::new(), message: String::new() };
        assert_eq!(
            context.explain(&failure).to_string(),
            "r.example/a/b has no such tag: push it first with `make publish`, or correct the reference"
        );
    }

    #[test]
    fn finds_a_tls_error_inside_wrapping_errors() {
        let inner = io::Error::other(rustls::Error::DecryptError);
        let outer = io::Error::other(inner);
        assert!(matches!(find_tls_error(&outer), Some(rustls::Error::DecryptError)));
        assert!(find_tls_error(&io::Error::other("something else")).is_none());
    }
}
