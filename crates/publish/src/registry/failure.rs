//! Explains failed requests: each message is one line that says what to do.

use std::error::Error as StdError;
use std::io;

use anyhow::{Error, anyhow};
use oci_client::{
    RegistryOperation,
    errors::{OciDistributionError as Failure, OciErrorCode},
};
use rustls::CertificateError::UnknownIssuer;

use super::credentials::Credentials;

/// The request that failed.
pub(super) struct RequestContext {
    pub(super) operation: RegistryOperation,
    pub(super) host: String,
    pub(super) repository: String,
    pub(super) credentials: Option<Credentials>,
}

impl RequestContext {
    pub(super) fn explain(&self, failure: &Failure) -> Error {
        let Self {
            host,
            repository,
            operation,
            credentials,
        } = self;
        let advice = match (status(failure), find_tls_error(failure)) {
            (Some(401 | 403), _) => match credentials {
                Some(Credentials { user, file, .. }) => format!(
                    "{host} rejects user {user:?}: run `docker login {host}`, or correct the \
                     password in {}",
                    file.display()
                ),
                None => format!("{host} requires a login: run `docker login {host}`"),
            },
            (Some(404), _) if *operation == RegistryOperation::Pull => format!(
                "{host}/{repository} has no such tag: push it first with `make publish`, or \
                 correct the reference"
            ),
            (_, Some(rustls::Error::InvalidCertificate(UnknownIssuer))) => format!(
                "the certificate of {host} is signed by an unknown authority: pass the \
                 authority's certificate with --ca-file"
            ),
            // An HTTP response is no TLS message.
            (_, Some(rustls::Error::InvalidMessage(_))) => {
                format!("{host} does not speak HTTPS: use --plain-http if you trust the network")
            }
            _ => format!("the request to {host}/{repository} failed"),
        };
        let cause = root_cause(failure)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        anyhow!("{advice} ({})", cause.chars().take(300).collect::<String>())
    }
}

fn status(failure: &Failure) -> Option<u16> {
    match failure {
        Failure::AuthenticationFailure(_) | Failure::UnauthorizedError { .. } => Some(401),
        Failure::ServerError { code, .. } => Some(*code),
        Failure::RequestError(error) => error.status().map(|status| status.as_u16()),
        Failure::RegistryError { envelope, .. } => {
            let mut codes = envelope.errors.iter().map(|error| &error.code);
            let is_unknown = codes.any(|code| {
                matches!(
                    code,
                    OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown
                )
            });
            is_unknown.then_some(404)
        }
        _ => None,
    }
}

/// Finds the error of the TLS handshake in a chain of errors. An `io::Error` does not report the
/// error that it wraps as its source.
fn find_tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let next = wrapped
        .map(|wrapped| wrapped as &(dyn StdError + 'static))
        .or_else(|| error.source());
    error.downcast_ref().or_else(|| find_tls_error(next?))
}

fn root_cause(error: &(dyn StdError + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(
        user: Option<&str>,
        operation: RegistryOperation,
        code: u16,
        message: &str,
    ) -> String {
        let credentials = user.map(|user| Credentials {
            user: user.to_owned(),
            password: "secret".to_owned(),
            file: "/here/config.json".into(),
        });
        let (host, repository) = ("r.example".to_owned(), "a/b".to_owned());
        let context = RequestContext {
            operation,
            host,
            repository,
            credentials,
        };
        let failure = Failure::ServerError {
            code,
            url: String::new(),
            message: message.to_owned(),
        };
        context.explain(&failure).to_string()
    }

    #[test]
    fn explains_each_status_in_one_line_that_says_what_to_do() {
        use RegistryOperation::{Pull, Push};
        let login = "r.example rejects user \"me\": run `docker login r.example`, or correct the \
                     password in /here/config.json";
        for (user, operation, code, message, wanted) in [
            (Some("me"), Push, 401, "", login),
            (
                None,
                Push,
                401,
                "",
                "r.example requires a login: run `docker login r.example`",
            ),
            (
                None,
                Pull,
                404,
                "",
                "r.example/a/b has no such tag: push it first with `make publish`",
            ),
            (None, Push, 404, "", "the request to r.example/a/b failed"),
            (
                None,
                Push,
                429,
                "slow\ndown",
                "the request to r.example/a/b failed",
            ),
            (
                None,
                Push,
                500,
                &"x".repeat(10_000),
                "the request to r.example/a/b failed",
            ),
        ] {
            let explanation = explain(user, operation, code, message);
            assert!(explanation.starts_with(wanted), "{explanation}");
            assert!(
                !explanation.contains('\n') && !explanation.contains("secret"),
                "{explanation}"
            );
            assert!(explanation.len() < 500, "{explanation}");
        }
    }

    #[test]
    fn finds_a_tls_error_inside_wrapping_errors() {
        let inner = io::Error::other(rustls::Error::DecryptError);
        let outer = io::Error::other(inner);
        assert!(matches!(
            find_tls_error(&outer),
            Some(rustls::Error::DecryptError)
        ));
        assert!(find_tls_error(&io::Error::other("something else")).is_none());
    }
}
