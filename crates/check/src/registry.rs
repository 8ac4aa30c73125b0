//! Asks a registry whether it has a module, without credentials and without pulling it.
//!
//! It connects as the PolicyServer does: with HTTPS and public authorities, or those that the PolicyServer is given; for a
//! registry that the PolicyServer lists as insecure, then with HTTPS without verification, then with HTTP.
//!
//! A registry says where its tokens are. That host is asked as the PolicyServer may connect to it, whatever the registry
//! itself may do: without HTTPS and verification only if the PolicyServer lists that host, too.

mod reference;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::time::Duration;

use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::{Client, Config};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tokio::time::timeout;

pub(crate) use self::reference::Reference;
use crate::facts::ModuleAnswer;
use crate::reader::{encode, root_cause};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one way of asking may take, with the request for a token.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The largest token response that is read.
const MAX_TOKEN: usize = 1 << 20;
/// What a manifest may be.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";

/// How a PolicyServer connects to registries.
pub(crate) struct Sources<'a> {
    insecure: &'a [String],
    authorities: Option<&'a BTreeMap<String, Vec<String>>>,
}

/// How to connect.
#[derive(Clone)]
enum Way {
    Verified(Vec<Vec<u8>>),
    Unverified,
    PlainHttp,
}

/// Where a token is.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    is_https: bool,
    /// With its port.
    host: String,
}

/// Why a connection failed.
enum Failure {
    UnknownAuthority(String),
    NotTls,
    Other(String),
}

impl Failure {
    /// The same failure, of another host than the registry.
    fn at(self, host: &str) -> Self {
        match self {
            Self::UnknownAuthority(why) => Self::UnknownAuthority(format!("its tokens are on {host}: {why}")),
            Self::NotTls => Self::Other(format!("its tokens are on {host}, which does not speak HTTPS")),
            Self::Other(why) => Self::Other(format!("its tokens are on {host}: {why}")),
        }
    }
}

impl<'a> Sources<'a> {
    pub(crate) fn new(
        insecure: &'a [String],
        authorities: Option<&'a BTreeMap<String, Vec<String>>>,
    ) -> Self {
        Self { insecure, authorities }
    }

    fn is_insecure(&self, host: &str) -> bool {
        self.insecure.iter().any(|listed| is_same_host(listed, host))
    }

    /// How to connect to a host that a registry names. None if the PolicyServer may not.
    fn way_to(&self, origin: &Origin) -> Option<Way> {
        let host = origin.host.as_str();
        match (origin.is_https, self.is_insecure(host)) {
            (true, true) => Some(Way::Unverified),
            (true, false) => Some(Way::Verified(self.trusted(host))),
            (false, _) => {
                let strip = |text: &str| text.strip_suffix(":80").unwrap_or(text).to_owned();
                self.insecure.iter().any(|listed| strip(listed) == strip(host)).then_some(Way::PlainHttp)
            }
        }
    }

    /// The certificates of the authorities to trust: the public ones, and those that the PolicyServer has for the host.
    fn trusted(&self, host: &str) -> Vec<Vec<u8>> {
        let own = self.authorities.into_iter().flatten().filter(|(listed, _)| is_same_host(listed, host));
        let own = own.flat_map(|(_, certificates)| certificates).flat_map(|pem| {
            CertificateDer::pem_slice_iter(pem.as_bytes())
                .filter_map(Result::ok)
                .map(|one| one.to_vec())
                .collect::<Vec<_>>()
        });
        public_authorities().chain(own).collect()
    }
}

fn public_authorities() -> impl Iterator<Item = Vec<u8>> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|one| one.to_vec())
}

/// Whether a listed registry is this host. The port of HTTPS may be left out.
fn is_same_host(listed: &str, host: &str) -> bool {
    let strip = |text: &str| text.strip_suffix(":443").unwrap_or(text).to_owned();
    strip(listed) == strip(host)
}

/// Asks the registry of a module.
pub(crate) async fn ask(module: &str, sources: &Sources<'_>) -> ModuleAnswer {
    let reference = match Reference::parse(module) {
        Ok(reference) => reference,
        Err(answer) => return answer,
    };
    let host = reference.host.as_str();
    let mut ways = vec![Way::Verified(sources.trusted(host))];
    if sources.is_insecure(host) {
        ways.extend([Way::Unverified, Way::PlainHttp]);
    }
    let mut answer = ModuleAnswer::Unclear("nothing".into());
    for way in ways {
        let asked = timeout(TIMEOUT, ask_one_way(&reference, &way, sources)).await;
        answer = match asked {
            Ok(Ok(answer)) => return answer,
            Ok(Err(Failure::UnknownAuthority(why))) => ModuleAnswer::UnknownAuthority(why),
            Ok(Err(Failure::NotTls)) => ModuleAnswer::PlainHttp,
            Ok(Err(Failure::Other(why))) => ModuleAnswer::Unreachable(why),
            Err(_) => ModuleAnswer::Unreachable(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
    }
    answer
}

async fn ask_one_way(
    reference: &Reference,
    way: &Way,
    sources: &Sources<'_>,
) -> Result<ModuleAnswer, Failure> {
    let client = connect(&reference.host, way)?;
    let path = reference.manifest_path();
    let first = head(&client, &path, None).await?;
    if first.status() != StatusCode::UNAUTHORIZED {
        return Ok(read_status(first.status()));
    }
    let challenges = first.headers().get_all(header::WWW_AUTHENTICATE);
    let realm = challenges
        .iter()
        .filter_map(|value| value.to_str().ok())
        .find_map(|value| token_url(value, reference));
    let tokens = realm.and_then(|(origin, path)| Some((sources.way_to(&origin)?, origin.host, path)));
    let Some((way, host, path)) = tokens else { return Ok(ModuleAnswer::NeedsCredentials(401)) };
    let token = match connect(&host, &way) {
        Ok(client) => fetch_token(&client, &path).await,
        Err(failure) => Err(failure),
    };
    let Some(token) = token.map_err(|failure| failure.at(&host))? else {
        return Ok(ModuleAnswer::NeedsCredentials(401));
    };
    Ok(read_status(head(&client, &reference.manifest_path(), Some(&token)).await?.status()))
}

fn read_status(status: StatusCode) -> ModuleAnswer {
    match status {
        status if status.is_success() => ModuleAnswer::Found,
        StatusCode::NOT_FOUND => ModuleAnswer::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModuleAnswer::NeedsCredentials(status.as_u16()),
        other => ModuleAnswer::Unclear(other.to_string()),
    }
}

fn connect(host: &str, way: &Way) -> Result<Client, Failure> {
    let scheme = if matches!(way, Way::PlainHttp) { "http" } else { "https" };
    let url: Uri = format!("{scheme}://{host}")
        .parse()
        .map_err(|error: http::uri::InvalidUri| Failure::Other(error.to_string()))?;
    let mut config = Config::new(url);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    config.default_retry = false;
    config.accept_invalid_certs = matches!(way, Way::Unverified);
    // Without any, kube would look for certificates of the system, and fail in an image that has none, also for HTTP.
    config.root_cert = Some(match way {
        Way::Verified(authorities) => authorities.clone(),
        Way::Unverified | Way::PlainHttp => public_authorities().collect(),
    });
    Client::try_from(config).map_err(|error| Failure::Other(root_cause(&error)))
}

async fn head(client: &Client, path: &str, token: Option<&str>) -> Result<Response<Body>, Failure> {
    let mut request = Request::head(path).header(header::ACCEPT, MANIFESTS);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    send(client, request.body(Body::empty())).await
}

async fn send(client: &Client, request: http::Result<Request<Body>>) -> Result<Response<Body>, Failure> {
    let request = request.map_err(|error| Failure::Other(error.to_string()))?;
    client.send(request).await.map_err(|error| classify(&error))
}

/// An anonymous token. None if the registry gives none.
async fn fetch_token(client: &Client, path: &str) -> Result<Option<String>, Failure> {
    let response = send(client, Request::get(path).body(Body::empty())).await?;
    if !response.status().is_success() {
        return Ok(None);
    }
    let body = Limited::new(response.into_body(), MAX_TOKEN).collect().await;
    let body = body.map_err(|error| Failure::Other(error.to_string()))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let token = ["token", "access_token"].iter().find_map(|field| answer[*field].as_str());
    Ok(token.filter(|token| !token.is_empty()).map(str::to_owned))
}

/// Origin and path of the request for a token, from a `WWW-Authenticate: Bearer` challenge.
fn token_url(challenge: &str, reference: &Reference) -> Option<(Origin, String)> {
    let challenges = http_auth::parse_challenges(challenge).ok()?;
    let bearer = challenges.iter().find(|one| one.scheme.eq_ignore_ascii_case("bearer"))?;
    let parameter = |name: &str| {
        let found = bearer.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_unescaped())
    };
    let realm: Uri = parameter("realm")?.parse().ok()?;
    let is_https = match realm.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let host = realm.authority()?.as_str().to_owned();
    // Credentials in the URL are not sent.
    if host.contains('@') {
        return None;
    }
    let scope = parameter("scope").unwrap_or_else(|| format!("repository:{}:pull", reference.repository));
    let mut path = realm.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    path.push(if path.contains('?') { '&' } else { '?' });
    if let Some(service) = parameter("service") {
        path = format!("{path}service={}&", encode(&service));
    }
    Some((Origin { is_https, host }, format!("{path}scope={}", encode(&scope))))
}

fn classify(error: &(dyn Error + 'static)) -> Failure {
    match find_tls_error(error) {
        // What a server that speaks HTTP answers is no TLS message.
        Some(rustls::Error::InvalidMessage(_)) => Failure::NotTls,
        Some(rustls::Error::InvalidCertificate(reason @ CertificateError::UnknownIssuer)) => {
            Failure::UnknownAuthority(reason.to_string())
        }
        // Another authority in the PolicyServer's list changes nothing here.
        Some(rustls::Error::InvalidCertificate(reason)) => Failure::Other(format!(
            "its certificate is not valid: {reason}; renew it, or use a name for which it was issued"
        )),
        Some(other) => Failure::Other(other.to_string()),
        None => Failure::Other(root_cause(error)),
    }
}

/// Finds the error of the TLS handshake in a chain of errors. An `io::Error` does not report the error that it wraps as
/// its source.
fn find_tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        current = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests;
