//! Asks a registry whether it has a module, without credentials and without pulling it.
//!
//! It connects as the PolicyServer does: with HTTPS and public authorities, or those that the
//! PolicyServer is given; for a registry that the PolicyServer lists as insecure, then with HTTPS
//! without verification, then with HTTP.
//!
//! A registry says where its tokens are. That host is asked as the PolicyServer may connect to it,
//! whatever the registry itself may do: without HTTPS and verification only if the PolicyServer
//! lists that host, too.

use std::collections::BTreeMap;
use std::time::Duration;

use form_urlencoded::Serializer;
use http::{Request, Response, StatusCode, Uri, header, uri::InvalidUri};
use http_auth::ChallengeRef;
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::{Client, Config};
use pps_api::{proxy, root_cause};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tokio::time::timeout;

use crate::facts::ModuleAnswer;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one way of asking may take, with the request for a token.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The largest token response that is read.
const MAX_TOKEN: usize = 1 << 20;
/// What a manifest may be.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";
/// Where Docker Hub's registry is.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// How a PolicyServer connects to registries.
pub(crate) struct Sources<'a> {
    pub(crate) insecure: &'a [String],
    pub(crate) authorities: Option<&'a BTreeMap<String, Vec<String>>>,
}

/// How to connect.
enum Way {
    Verified(Vec<Vec<u8>>),
    Unverified,
    PlainHttp,
}

impl Sources<'_> {
    fn is_insecure(&self, host: &str, default_port: &str) -> bool {
        self.insecure
            .iter()
            .any(|listed| is_same_host(listed, host, default_port))
    }

    /// How to connect to a host that a registry names. None if the PolicyServer may not.
    fn way_to(&self, scheme: &str, host: &str) -> Option<Way> {
        match scheme {
            "https" if self.is_insecure(host, ":443") => Some(Way::Unverified),
            "https" => Some(Way::Verified(self.trusted(host))),
            "http" if self.is_insecure(host, ":80") => Some(Way::PlainHttp),
            _ => None,
        }
    }

    /// The certificates of the authorities to trust: the public ones, and those that the
    /// PolicyServer has for the host.
    fn trusted(&self, host: &str) -> Vec<Vec<u8>> {
        let all = self.authorities.into_iter().flatten();
        let own = all
            .filter(|(listed, _)| is_same_host(listed, host, ":443"))
            .flat_map(|(_, pems)| pems);
        let own = own.flat_map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()).flatten());
        public_authorities()
            .chain(own.map(|one| one.to_vec()))
            .collect()
    }
}

fn public_authorities() -> impl Iterator<Item = Vec<u8>> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|one| one.to_vec())
}

/// Whether a listed registry is this host. The default port may be left out.
fn is_same_host(listed: &str, host: &str, default_port: &str) -> bool {
    let [listed, host] = [listed, host].map(|text| text.strip_suffix(default_port).unwrap_or(text));
    listed == host
}

/// Asks the registry of a module.
pub(crate) async fn ask(module: &str, sources: &Sources<'_>) -> ModuleAnswer {
    let reference = match Reference::parse(module) {
        Ok(reference) => reference,
        Err(answer) => return answer,
    };
    let host = reference.host.as_str();
    let mut ways = vec![Way::Verified(sources.trusted(host))];
    if sources.is_insecure(host, ":443") {
        ways.extend([Way::Unverified, Way::PlainHttp]);
    }
    let mut answer = ModuleAnswer::RegistryAnswerUnclear("nothing".into());
    for way in ways {
        answer = match timeout(TIMEOUT, ask_one_way(&reference, &way, sources)).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(why)) => ModuleAnswer::RegistryUnreachable(why),
            Err(_) => ModuleAnswer::RegistryUnreachable(format!(
                "no answer within {} s",
                TIMEOUT.as_secs()
            )),
        };
    }
    answer
}

async fn ask_one_way(
    reference: &Reference,
    way: &Way,
    sources: &Sources<'_>,
) -> Result<ModuleAnswer, String> {
    let client = connect(&reference.host, way)?;
    let ask_for_manifest = Request::head(&reference.path).header(header::ACCEPT, MANIFESTS);
    let mut answer = send(&client, ask_for_manifest).await?;
    if answer.status() == StatusCode::UNAUTHORIZED {
        let challenges = answer.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let url = challenges
            .filter_map(|one| one.to_str().ok())
            .find_map(|one| token_url(one, reference));
        if let Some(token) = fetch_token(url, sources).await? {
            let ask_with_token = Request::head(&reference.path)
                .header(header::ACCEPT, MANIFESTS)
                .header(header::AUTHORIZATION, format!("Bearer {token}"));
            answer = send(&client, ask_with_token).await?;
        }
    }
    Ok(match answer.status() {
        status if status.is_success() => ModuleAnswer::ModuleFound,
        StatusCode::NOT_FOUND => ModuleAnswer::ModuleNotFound,
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            ModuleAnswer::RegistryNeedsCredentials(status.as_u16())
        }
        other => ModuleAnswer::RegistryAnswerUnclear(other.to_string()),
    })
}

fn connect(host: &str, way: &Way) -> Result<Client, String> {
    let scheme = if matches!(way, Way::PlainHttp) {
        "http"
    } else {
        "https"
    };
    let invalid = |error: InvalidUri| error.to_string();
    let mut config = Config::new(format!("{scheme}://{host}").parse().map_err(invalid)?);
    config.proxy_url = proxy::of_environment(&config.cluster_url).map_err(invalid)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    config.default_retry = false;
    config.accept_invalid_certs = matches!(way, Way::Unverified);
    // Without any, kube would look for certificates of the system, and fail in an image that has
    // none, also for HTTP.
    config.root_cert = Some(match way {
        Way::Verified(authorities) => authorities.clone(),
        Way::Unverified | Way::PlainHttp => public_authorities().collect(),
    });
    Client::try_from(config).map_err(|error| root_cause(&error))
}

async fn send(client: &Client, request: http::request::Builder) -> Result<Response<Body>, String> {
    let request = request
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    client
        .send(request)
        .await
        .map_err(|error| root_cause(&error))
}

/// An anonymous token. None if the registry gives none, or the PolicyServer may not ask for it.
async fn fetch_token(url: Option<Uri>, sources: &Sources<'_>) -> Result<Option<String>, String> {
    let url = url
        .as_ref()
        .and_then(|url| Some((url.scheme_str()?, url.authority()?, url.path_and_query()?)));
    let Some((scheme, host, path)) = url else {
        return Ok(None);
    };
    let Some(way) = sources.way_to(scheme, host.as_str()) else {
        return Ok(None);
    };
    let token = request_token(host.as_str(), path.as_str(), &way).await;
    token.map_err(|why| format!("its tokens are on {host}: {why}"))
}

async fn request_token(host: &str, path: &str, way: &Way) -> Result<Option<String>, String> {
    let client = connect(host, way)?;
    let response = send(&client, Request::get(path)).await?;
    if !response.status().is_success() {
        return Ok(None);
    }
    let body = Limited::new(response.into_body(), MAX_TOKEN)
        .collect()
        .await
        .map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let token = ["token", "access_token"]
        .iter()
        .find_map(|field| answer[*field].as_str());
    Ok(token.filter(|token| !token.is_empty()).map(str::to_owned))
}

/// Where to ask for a token, from a `WWW-Authenticate: Bearer` challenge.
fn token_url(challenge: &str, reference: &Reference) -> Option<Uri> {
    let challenges = http_auth::parse_challenges(challenge).ok()?;
    let bearer = challenges
        .iter()
        .find(|one| one.scheme.eq_ignore_ascii_case("bearer"))?;
    let realm = parameter(bearer, "realm")?;
    let start = realm.find('?').map_or(realm.len() + 1, |query| query + 1);
    let realm = if start > realm.len() {
        realm + "?"
    } else {
        realm
    };
    let scope = parameter(bearer, "scope")
        .unwrap_or_else(|| format!("repository:{}:pull", reference.repository));
    let mut url = Serializer::for_suffix(realm, start);
    url.extend_pairs(parameter(bearer, "service").map(|service| ("service", service)));
    let url: Uri = url.append_pair("scope", &scope).finish().parse().ok()?;
    // Credentials in the URL are not sent.
    url.authority()
        .is_some_and(|host| !host.as_str().contains('@'))
        .then_some(url)
}

fn parameter(challenge: &ChallengeRef<'_>, name: &str) -> Option<String> {
    let mut all = challenge.params.iter();
    all.find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.to_unescaped())
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    host: String,
    repository: String,
    /// The path of its manifest.
    path: String,
}

impl Reference {
    /// Reads `registry://host/repository:tag`. Returns the answer for a module that is not in a
    /// registry.
    fn parse(module: &str) -> Result<Self, ModuleAnswer> {
        let rest = match module.split_once("://") {
            Some(("registry", rest)) => rest,
            Some(_) => return Err(ModuleAnswer::ModuleNotChecked),
            None => module,
        };
        let invalid =
            || ModuleAnswer::RegistryAnswerUnclear("nothing: the reference is not valid".into());
        let (host, path) = match rest.split_once('/').ok_or_else(invalid)? {
            ("docker.io" | "index.docker.io", path) => (DOCKER_HUB, path),
            (host, path) if host.contains(['.', ':']) || host == "localhost" => (host, path),
            _ => (DOCKER_HUB, rest),
        };
        let (name, digest) = path
            .split_once('@')
            .map_or((path, None), |(name, digest)| (name, Some(digest)));
        let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
        let version = digest.unwrap_or(tag);
        if !is_valid_part(host, ".-:[]")
            || !is_valid_part(repository, "._-/")
            || !is_valid_part(version, "._-:")
        {
            return Err(invalid());
        }
        let path = format!("/v2/{repository}/manifests/{version}");
        Ok(Self {
            host: host.into(),
            repository: repository.into(),
            path,
        })
    }
}

/// Whether a part of a reference has only letters, digits and these other characters.
fn is_valid_part(part: &str, others: &str) -> bool {
    !part.is_empty()
        && part.len() <= 255
        && !part.contains("..")
        && part
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

#[cfg(test)]
mod tests;
