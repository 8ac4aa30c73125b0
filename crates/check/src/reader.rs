//! Reads objects from the API server, each request with a limit and a timeout. Remembers what could
//! not be read.

use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::api::ListParams;
use kube::client::Body;
use kube::{Client, Resource};
use pps_core::is_dns_subdomain;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::read::{Problem, Read, Right};

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long one request may take.
    pub request: Duration,
    /// Bytes of the largest response that is read. Parsed, it may need ten times as much memory.
    pub body: usize,
    /// How many objects a request asks for, unless so many are too large.
    pub page: u32,
    /// How many objects of a kind are read.
    pub objects: usize,
}

impl Limits {
    pub const CHECK: Self = Self {
        request: Duration::from_secs(10),
        body: 4 << 20,
        page: 250,
        objects: 5_000,
    };
}

/// How much of an error message is kept.
const MAX_MESSAGE: usize = 300;
const NOT_JSON: &str = "it is not the JSON that was expected";

pub struct Reader {
    client: Client,
    limits: Limits,
    /// When all requests have to be answered.
    deadline: Instant,
    problems: Mutex<Vec<Problem>>,
}

/// Why a request has no answer.
enum Failure {
    NotFound,
    Forbidden,
    TooLarge,
    /// The rest of a list is no longer known.
    Expired,
    Other(String),
}

impl Reader {
    /// One whose requests are all answered within this time, or fail.
    pub fn new(client: Client, limits: Limits, total: Duration) -> Self {
        Self {
            client,
            limits,
            deadline: Instant::now() + total,
            problems: Mutex::default(),
        }
    }

    /// How much time is left for all further requests.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What could not be read.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Kubernetes' version: major, minor and its full text.
    pub(crate) async fn version(&self) -> Read<(u32, u32, String)> {
        let version: Value = match self.send(get("/version")).await {
            Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
            Err(failure) => return self.unread(None, failure),
        };
        // Some providers write `27+`.
        let number = |field: &str| version[field].as_str()?.trim_end_matches('+').parse().ok();
        match (
            number("major"),
            number("minor"),
            version["gitVersion"].as_str(),
        ) {
            (Some(major), Some(minor), Some(text)) => Read::Known((major, minor, text.to_owned())),
            _ => self.failed(None, NOT_JSON),
        }
    }

    pub async fn get<T: DeserializeOwned>(&self, right: Right, path: &str) -> Read<T> {
        match self
            .send(get(path))
            .await
            .map(|body| serde_json::from_slice(&body))
        {
            Ok(Ok(object)) => Read::Known(object),
            Ok(Err(_)) => self.failed(Some(right), NOT_JSON),
            Err(failure) => self.unread(Some(right), failure),
        }
    }

    /// One object of a built-in kind. One whose name cannot exist is absent.
    pub(crate) async fn get_one<K>(&self, namespace: Option<&str>, name: &str) -> Read<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        if !is_dns_subdomain(name) || !namespace.is_none_or(is_dns_subdomain) {
            return Read::Absent;
        }
        let mut right = Right::new("get", K::group(&()).into_owned(), &K::plural(&())).named(name);
        right.namespace = namespace.map(str::to_owned);
        self.get(right, &format!("{}/{name}", K::url_path(&(), namespace)))
            .await
    }

    /// The objects of a built-in kind with these labels, up to the limit.
    pub(crate) async fn list_all<K>(&self, selector: &str) -> Read<Vec<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let right = Right::new("list", K::group(&()).into_owned(), &K::plural(&()));
        self.list(right, &K::url_path(&(), None), selector).await
    }

    /// The objects of a list, up to the limit.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        right: Right,
        path: &str,
        selector: &str,
    ) -> Read<Vec<T>> {
        let take = |item| serde_json::from_value(item).ok();
        self.list_as(right, path, selector, take)
            .await
            .map(|(found, _)| found)
    }

    /// The objects of a list, up to the limit, and how many more there are. Each is passed through
    /// `take` as soon as it is read, so that a large list is never in memory as a whole; one that
    /// `take` has nothing for is a problem. Absent if the kind does not exist.
    pub async fn list_as<T>(
        &self,
        right: Right,
        path: &str,
        selector: &str,
        mut take: impl FnMut(Value) -> Option<T>,
    ) -> Read<(Vec<T>, u64)> {
        let mut found = Vec::new();
        let mut params = ListParams::default()
            .labels(selector)
            .limit(self.limits.page);
        let mut is_second_list = false;
        loop {
            let request = kube::core::Request::new(path).list(&params);
            let request = request
                .map(|request| request.map(Body::from))
                .map_err(|error| error.to_string());
            let body = match self.send(request).await {
                Ok(body) => body,
                // Whoever may write one object can make it large; the others must still be read.
                Err(Failure::TooLarge) if params.limit > Some(1) => {
                    params.limit = params.limit.map(|page| page / 2);
                    continue;
                }
                // The API server keeps old versions for some minutes only: what was read is
                // incomplete.
                Err(Failure::Expired) if !is_second_list => {
                    is_second_list = true;
                    found.clear();
                    params.continue_token = None;
                    continue;
                }
                Err(failure) => return self.unread(Some(right), failure),
            };
            let list = serde_json::from_slice::<Value>(&body)
                .ok()
                .filter(Value::is_object);
            let Some(mut list) = list else {
                return self.failed(Some(right), NOT_JSON);
            };
            let (kind, version) = (list["kind"].take(), list["apiVersion"].take());
            let kind = kind.as_str().and_then(|kind| kind.strip_suffix("List"));
            for mut item in list["items"]
                .as_array_mut()
                .map(std::mem::take)
                .unwrap_or_default()
            {
                // A list of a built-in kind names the kind once, and not in each item.
                if let (Some(object), Some(kind)) = (item.as_object_mut(), kind) {
                    object.entry("kind").or_insert_with(|| kind.into());
                    object
                        .entry("apiVersion")
                        .or_insert_with(|| version.clone());
                }
                match take(item) {
                    Some(object) => found.push(object),
                    None => {
                        let _: Read<()> = self.failed(Some(right.clone()), NOT_JSON);
                    }
                }
            }
            let metadata = &list["metadata"];
            match metadata["continue"].as_str() {
                None | Some("") => return Read::Known((found, 0)),
                Some(_) if found.len() >= self.limits.objects => {
                    return Read::Known((
                        found,
                        metadata["remainingItemCount"].as_u64().unwrap_or(1),
                    ));
                }
                Some(next) => params.continue_token = Some(next.to_owned()),
            }
        }
    }

    /// Whether the ServiceAccount of this namespace and name has a right, also through other roles
    /// than the product's.
    pub(crate) async fn may(&self, (namespace, name): (&str, &str), right: &Right) -> Read<bool> {
        let (resource, subresource) = right
            .resource
            .split_once('/')
            .unwrap_or((&right.resource, ""));
        let accounts = "system:serviceaccounts";
        let spec = json!({
            "user": format!("system:serviceaccount:{namespace}:{name}"),
            "groups": [accounts, format!("{accounts}:{namespace}"), "system:authenticated"],
            "resourceAttributes": {
                "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
                "namespace": right.namespace.as_deref().unwrap_or_default(),
                "name": right.name.as_deref().unwrap_or_default(),
            },
        });
        let (group, kind, plural) = (
            "authorization.k8s.io",
            "SubjectAccessReview",
            "subjectaccessreviews",
        );
        let review =
            json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec}).to_string();
        let request = Request::post(format!("/apis/{group}/v1/{plural}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(review.into_bytes()));
        let needed = Right::new("create", group, plural);
        match self.send(request.map_err(|error| error.to_string())).await {
            Ok(body) => {
                let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
                answer["status"]["allowed"]
                    .as_bool()
                    .map_or(Read::Unknown, Read::Known)
            }
            Err(Failure::NotFound) => self.failed(Some(needed), "it does not exist"),
            Err(failure) => self.unread(Some(needed), failure),
        }
    }

    async fn send(&self, request: Result<Request<Body>, String>) -> Result<Vec<u8>, Failure> {
        let request = request.map_err(Failure::Other)?;
        let exchange = async {
            let response = self.client.send(request).await;
            let response = response.map_err(|error| Failure::Other(root_cause(&error)))?;
            let status = response.status();
            let body = match Limited::new(response.into_body(), self.limits.body)
                .collect()
                .await
            {
                Ok(body) => body.to_bytes().to_vec(),
                Err(error) if error.is::<LengthLimitError>() => return Err(Failure::TooLarge),
                Err(error) => return Err(Failure::Other(error.to_string())),
            };
            Err(match status {
                status if status.is_success() => return Ok(body),
                StatusCode::NOT_FOUND => Failure::NotFound,
                StatusCode::FORBIDDEN => Failure::Forbidden,
                StatusCode::GONE => Failure::Expired,
                StatusCode::UNAUTHORIZED => {
                    Failure::Other("the API server does not accept the credentials (401)".into())
                }
                status => {
                    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let message = answer["message"].as_str().unwrap_or("no message");
                    Failure::Other(format!("{}: {message}", status.as_u16()))
                }
            })
        };
        let left = self.time_left();
        let why = if left < self.limits.request {
            "no time is left for the answer: the API server answers too slowly".to_owned()
        } else {
            format!("no answer within {} s", self.limits.request.as_secs_f32())
        };
        timeout(self.limits.request.min(left), exchange)
            .await
            .unwrap_or(Err(Failure::Other(why)))
    }

    fn unread<T>(&self, right: Option<Right>, failure: Failure) -> Read<T> {
        match (failure, right) {
            (Failure::NotFound, Some(_)) => Read::Absent,
            (Failure::Forbidden, Some(right)) => self.report(Problem::Forbidden(right)),
            (Failure::NotFound, right) => self.failed(right, "it does not exist (404)"),
            (Failure::Forbidden, right) => self.failed(right, "it refuses (403)"),
            (Failure::TooLarge, right) => self.failed(right, "the answer is too large"),
            (Failure::Expired, right) => self.failed(right, "reading takes too long (410)"),
            (Failure::Other(why), right) => self.failed(right, &why),
        }
    }

    /// Remembers that something could not be read.
    pub(crate) fn failed<T>(&self, right: Option<Right>, why: &str) -> Read<T> {
        self.report(Problem::Failed {
            right,
            why: why.chars().take(MAX_MESSAGE).collect(),
        })
    }

    fn report<T>(&self, problem: Problem) -> Read<T> {
        self.problems
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(problem);
        Read::Unknown
    }
}

fn get(url: &str) -> Result<Request<Body>, String> {
    let request = Request::get(url)
        .header(header::ACCEPT, "application/json")
        .body(Body::empty());
    request.map_err(|error| error.to_string())
}

/// The innermost error: the outer ones only say that a request failed. An `io::Error` does not
/// report the error that it wraps as its source.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let next = wrapped
        .map(|wrapped| wrapped as &(dyn Error + 'static))
        .or_else(|| error.source());
    next.map_or_else(|| error.to_string(), root_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_spec_cannot_change_a_path() {
        for (text, wanted) in [
            ("default", true),
            ("a.b-1", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a?b", false),
            ("A", false),
            ("ä", false),
            (&"a".repeat(254), false),
        ] {
            assert_eq!(is_dns_subdomain(text), wanted, "{text}");
        }
    }
}
