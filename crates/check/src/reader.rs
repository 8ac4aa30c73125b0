//! Reads objects from the API server, each request with a limit and a timeout. Remembers what could not be read.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::read::{Problem, Read, Right};

/// How much is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long one request may take.
    pub request: Duration,
    /// Bytes of the largest response that is read. Parsed, it may need ten times as much memory.
    pub body: usize,
    /// How many objects a request asks for, unless so many are too large.
    pub page: usize,
    /// How many objects of a kind are read.
    pub objects: usize,
}

impl Limits {
    /// Those of the check.
    pub const CHECK: Self =
        Self { request: Duration::from_secs(10), body: 4 << 20, page: 250, objects: 5_000 };
}

/// How much of an error message is kept.
const MAX_MESSAGE: usize = 300;
const NOT_JSON: &str = "it is not the JSON that was expected";

/// Reads from the API server.
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
    /// One whose requests are all answered before the deadline, or fail.
    pub fn new(client: Client, limits: Limits, deadline: Instant) -> Self {
        Self { client, limits, deadline, problems: Mutex::default() }
    }

    /// How much time is left for all further requests.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What could not be read.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kubernetes' version: major, minor and its full text.
    pub async fn version(&self) -> Read<(u32, u32, String)> {
        let version: Value = match self.send(get("/version")).await {
            Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
            Err(failure) => return self.failed(None, &failure.text()),
        };
        // Some providers write `27+`.
        let number = |field: &str| {
            let text = version[field].as_str()?;
            text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
        };
        let text = version["gitVersion"].as_str().unwrap_or("?");
        match (number("major"), number("minor")) {
            (Some(major), Some(minor)) => Read::Known((major, minor, text.to_owned())),
            _ => self.failed(None, "its /version has no number"),
        }
    }

    /// One object.
    pub async fn get<T: DeserializeOwned>(&self, right: Right, path: &str) -> Read<T> {
        match self.send(get(path)).await {
            Ok(body) => match serde_json::from_slice(&body) {
                Ok(object) => Read::Known(object),
                Err(_) => self.failed(Some(right), NOT_JSON),
            },
            Err(failure) => self.unread(right, failure),
        }
    }

    /// One object of a built-in kind. One whose name cannot exist is absent.
    pub async fn get_one<K>(&self, namespace: Option<&str>, name: &str) -> Read<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        if !is_name(name) || !namespace.is_none_or(is_name) {
            return Read::Absent;
        }
        let right = right_of::<K>("get", namespace).named(name);
        self.get(right, &format!("{}/{name}", K::url_path(&(), namespace))).await
    }

    /// Whether an object exists.
    pub async fn exists(&self, right: Right, path: &str) -> Read<()> {
        self.get::<Value>(right, path).await.map(|_| ())
    }

    /// The objects of a built-in kind with these labels, up to the limit.
    pub async fn list_all<K>(&self, namespace: Option<&str>, selector: &str) -> Read<Vec<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        if !namespace.is_none_or(is_name) {
            return Read::Absent;
        }
        self.list(right_of::<K>("list", namespace), &K::url_path(&(), namespace), selector).await
    }

    /// The objects of a list, up to the limit.
    pub async fn list<T: DeserializeOwned>(&self, right: Right, path: &str, selector: &str) -> Read<Vec<T>> {
        let take = |item| serde_json::from_value(item).ok();
        self.list_as(right, path, selector, take).await.map(|(found, _)| found)
    }

    /// The objects of a list, up to the limit, and how many more there are. Each is passed through `take` as soon as it is
    /// read, so that a large list is never in memory as a whole; one that `take` has nothing for is a problem. Absent if
    /// the kind does not exist.
    pub async fn list_as<T>(
        &self,
        right: Right,
        path: &str,
        selector: &str,
        mut take: impl FnMut(Value) -> Option<T>,
    ) -> Read<(Vec<T>, u64)> {
        let mut found = Vec::new();
        let mut next = String::new();
        let mut page = self.limits.page;
        let mut is_second_list = false;
        loop {
            let mut url = format!("{path}?limit={page}");
            for (name, value) in [("labelSelector", selector), ("continue", &next)] {
                if !value.is_empty() {
                    url = format!("{url}&{name}={}", encode(value));
                }
            }
            let body = match self.send(get(&url)).await {
                Ok(body) => body,
                // Whoever may write one object can make it large; the others must still be read.
                Err(Failure::TooLarge) if page > 1 => {
                    page /= 2;
                    continue;
                }
                // The API server keeps old versions for some minutes only: what was read is incomplete.
                Err(Failure::Expired) if !is_second_list => {
                    is_second_list = true;
                    found.clear();
                    next.clear();
                    continue;
                }
                Err(failure) => return self.unread(right, failure),
            };
            let list = serde_json::from_slice::<Value>(&body).ok().filter(Value::is_object);
            let Some(mut list) = list else { return self.failed(Some(right), NOT_JSON) };
            let (kind, version) = (list["kind"].take(), list["apiVersion"].take());
            let kind = kind.as_str().and_then(|kind| kind.strip_suffix("List"));
            for mut item in list["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
                // A list of a built-in kind names the kind once, and not in each item.
                if let (Some(object), Some(kind)) = (item.as_object_mut(), kind) {
                    object.entry("kind").or_insert_with(|| kind.into());
                    object.entry("apiVersion").or_insert_with(|| version.clone());
                }
                match take(item) {
                    Some(object) => found.push(object),
                    None => {
                        let _: Read<()> = self.failed(Some(right.clone()), NOT_JSON);
                    }
                }
            }
            list["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
            if next.is_empty() {
                return Read::Known((found, 0));
            }
            if found.len() >= self.limits.objects {
                return Read::Known((found, list["metadata"]["remainingItemCount"].as_u64().unwrap_or(1)));
            }
        }
    }

    /// Sends a review, and returns its answer. Nothing is stored.
    pub async fn review(&self, right: Right, path: &str, review: &Value) -> Read<Value> {
        let body = Body::from(review.to_string().into_bytes());
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json").body(body);
        match self.send(request).await {
            Ok(body) => Read::Known(serde_json::from_slice(&body).unwrap_or_default()),
            Err(Failure::NotFound) => self.failed(Some(right), "it does not exist"),
            Err(failure) => self.unread(right, failure),
        }
    }

    async fn send(&self, request: http::Result<Request<Body>>) -> Result<Vec<u8>, Failure> {
        let request = request.map_err(|error| Failure::Other(error.to_string()))?;
        let exchange = async {
            let response = self.client.send(request).await;
            let response = response.map_err(|error| Failure::Other(root_cause(&error)))?;
            let status = response.status();
            let body = match Limited::new(response.into_body(), self.limits.body).collect().await {
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
                status => Failure::Other(format!("{}: {}", status.as_u16(), message(&body))),
            })
        };
        let left = self.time_left();
        let why = if left < self.limits.request {
            "no time is left for the answer: the API server answers too slowly".to_owned()
        } else {
            format!("no answer within {} s", self.limits.request.as_secs())
        };
        timeout(self.limits.request.min(left), exchange).await.unwrap_or(Err(Failure::Other(why)))
    }

    fn unread<T>(&self, right: Right, failure: Failure) -> Read<T> {
        match failure {
            Failure::NotFound => Read::Absent,
            Failure::Forbidden => self.report(Problem::Forbidden(right)),
            failure => self.failed(Some(right), &failure.text()),
        }
    }

    /// Remembers that something could not be read.
    pub fn failed<T>(&self, right: Option<Right>, why: &str) -> Read<T> {
        self.report(Problem::Failed { right, why: why.chars().take(MAX_MESSAGE).collect() })
    }

    fn report<T>(&self, problem: Problem) -> Read<T> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
        Read::Unknown
    }
}

impl Failure {
    fn text(self) -> String {
        let text = match self {
            Self::NotFound => "it does not exist (404)",
            Self::Forbidden => "it refuses (403)",
            Self::TooLarge => "the answer is too large",
            Self::Expired => "reading takes too long (410)",
            Self::Other(why) => return why,
        };
        text.to_owned()
    }
}

fn get(url: &str) -> http::Result<Request<Body>> {
    Request::get(url).header(header::ACCEPT, "application/json").body(Body::empty())
}

/// The right to read objects of a built-in kind.
fn right_of<K: Resource<DynamicType = ()>>(verb: &'static str, namespace: Option<&str>) -> Right {
    let right = Right::new(verb, K::group(&()).into_owned(), &K::plural(&()));
    Right { namespace: namespace.map(str::to_owned), ..right }
}

/// The message of a Status.
fn message(body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    status["message"].as_str().unwrap_or("no message").to_owned()
}

/// The innermost error: the outer ones only say that a request failed.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}

/// Whether an object can have this name. Names from a spec may be any text, and must not change a path.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
}

/// Encodes a value for a query.
pub fn encode(value: &str) -> String {
    let encode_byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    value.bytes().map(encode_byte).collect()
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
            assert_eq!(is_name(text), wanted, "{text}");
        }
        assert_eq!(encode("a b&c=ä/1"), "a%20b%26c%3D%C3%A4%2F1");
    }
}
