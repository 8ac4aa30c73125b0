//! Reads objects from the API server, each request with a limit and a timeout. Remembers what could not be read.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::facts::{Problem, Read, Right};

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
const TOO_LARGE: &str = "the answer is too large";
const EXPIRED: &str = "it is gone (410)";

/// Reads from the API server.
pub struct Reader {
    client: Client,
    limits: Limits,
    /// When all requests have to be answered.
    deadline: Instant,
    problems: Mutex<Vec<Problem>>,
}

/// The answer to a request.
enum Answer {
    Ok(Vec<u8>),
    NotFound,
    Forbidden,
    TooLarge,
    /// The rest of a list is no longer known.
    Expired,
    Failed(String),
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

    /// Kubernetes' version.
    pub async fn version(&self) -> Read<(u32, u32, String)> {
        let version: Value = match self.send(get("/version")).await {
            Answer::Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
            Answer::NotFound => return self.failed("the API server", "it has no /version"),
            Answer::Forbidden => return self.failed("the API server", "it refuses /version"),
            Answer::TooLarge => return self.failed("the API server", TOO_LARGE),
            Answer::Expired => return self.failed("the API server", EXPIRED),
            Answer::Failed(why) => return self.failed("the API server", &why),
        };
        // Some providers write `27+`.
        let number = |field: &str| {
            let text = version[field].as_str()?;
            text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
        };
        let text = version["gitVersion"].as_str().unwrap_or("?");
        match (number("major"), number("minor")) {
            (Some(major), Some(minor)) => Read::Known((major, minor, text.to_owned())),
            _ => self.failed("the API server", "its /version has no number"),
        }
    }

    /// One object.
    pub async fn get<T: DeserializeOwned>(&self, right: Right, path: &str) -> Read<T> {
        match self.send(get(path)).await {
            Answer::Ok(body) => match serde_json::from_slice(&body) {
                Ok(object) => Read::Known(object),
                Err(_) => self.failed(&what(&right), "it is not the JSON that was expected"),
            },
            Answer::NotFound => Read::Absent,
            Answer::Forbidden => self.forbidden(right),
            Answer::TooLarge => self.failed(&what(&right), TOO_LARGE),
            Answer::Expired => self.failed(&what(&right), EXPIRED),
            Answer::Failed(why) => self.failed(&what(&right), &why),
        }
    }

    /// Whether an object exists.
    pub async fn exists(&self, right: Right, path: &str) -> Read<()> {
        self.get::<Value>(right, path).await.map(|_| ())
    }

    /// The objects of a list, and how many more there are. Absent if the kind does not exist.
    pub async fn list_with_rest<T: DeserializeOwned>(
        &self,
        right: Right,
        path: &str,
        selector: &str,
    ) -> Read<(Vec<T>, u64)> {
        self.list_as(right, path, selector, |item| serde_json::from_value(item).ok()).await
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
                Answer::Ok(body) => body,
                Answer::NotFound => return Read::Absent,
                Answer::Forbidden => return self.forbidden(right),
                // Whoever may write one object can make it large; the others must still be read.
                Answer::TooLarge if page > 1 => {
                    page /= 2;
                    continue;
                }
                Answer::TooLarge => return self.failed(&what(&right), TOO_LARGE),
                // The API server keeps old versions for some minutes only: what was read is incomplete.
                Answer::Expired if !is_second_list => {
                    is_second_list = true;
                    found.clear();
                    next.clear();
                    continue;
                }
                Answer::Expired => return self.failed(&what(&right), "the list takes too long (410)"),
                Answer::Failed(why) => return self.failed(&what(&right), &why),
            };
            let list = serde_json::from_slice::<Value>(&body).ok().filter(Value::is_object);
            let Some(mut list) = list else {
                return self.failed(&what(&right), "it is not the JSON that was expected");
            };
            let (kind, version) = (list["kind"].take(), list["apiVersion"].take());
            let kind = kind.as_str().and_then(|kind| kind.strip_suffix("List"));
            let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            for mut item in items {
                // A list of a built-in kind names the kind once, and not in each item.
                if let (Some(object), Some(kind)) = (item.as_object_mut(), kind) {
                    object.entry("kind").or_insert_with(|| kind.into());
                    object.entry("apiVersion").or_insert_with(|| version.clone());
                }
                match take(item) {
                    Some(object) => found.push(object),
                    None => self.report(Problem::Failed {
                        what: what(&right),
                        why: "an object is not the JSON that was expected".into(),
                    }),
                }
            }
            list["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
            if next.is_empty() || found.len() >= self.limits.objects {
                let more = if next.is_empty() {
                    0
                } else {
                    list["metadata"]["remainingItemCount"].as_u64().unwrap_or(1)
                };
                return Read::Known((found, more));
            }
        }
    }

    /// The objects of a list, up to a limit.
    pub async fn list<T: DeserializeOwned>(&self, right: Right, path: &str, selector: &str) -> Read<Vec<T>> {
        self.list_with_rest(right, path, selector).await.map(|(found, _)| found)
    }

    /// Sends a review, and returns its answer. Nothing is stored.
    pub async fn review(&self, right: Right, path: &str, review: &Value) -> Read<Value> {
        let body = Body::from(review.to_string().into_bytes());
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json").body(body);
        match self.send(request).await {
            Answer::Ok(body) => Read::Known(serde_json::from_slice(&body).unwrap_or_default()),
            Answer::Forbidden => self.forbidden(right),
            Answer::NotFound => self.failed(&what(&right), "it does not exist"),
            Answer::TooLarge => self.failed(&what(&right), TOO_LARGE),
            Answer::Expired => self.failed(&what(&right), EXPIRED),
            Answer::Failed(why) => self.failed(&what(&right), &why),
        }
    }

    async fn send(&self, request: http::Result<Request<Body>>) -> Answer {
        let request = match request {
            Ok(request) => request,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        let exchange = async {
            let response = match self.client.send(request).await {
                Ok(response) => response,
                Err(error) => return Answer::Failed(root_cause(&error)),
            };
            let status = response.status();
            let body = match Limited::new(response.into_body(), self.limits.body).collect().await {
                Ok(body) => body.to_bytes().to_vec(),
                Err(error) if error.is::<LengthLimitError>() => return Answer::TooLarge,
                Err(error) => return Answer::Failed(error.to_string()),
            };
            match status {
                status if status.is_success() => Answer::Ok(body),
                StatusCode::NOT_FOUND => Answer::NotFound,
                StatusCode::FORBIDDEN => Answer::Forbidden,
                StatusCode::GONE => Answer::Expired,
                StatusCode::UNAUTHORIZED => {
                    Answer::Failed("the API server does not accept the credentials (401)".into())
                }
                status => Answer::Failed(format!("{}: {}", status.as_u16(), message(&body))),
            }
        };
        let left = self.time_left();
        let why = if left < self.limits.request {
            "no time is left for the answer: the API server answers too slowly".to_owned()
        } else {
            format!("no answer within {} s", self.limits.request.as_secs())
        };
        timeout(self.limits.request.min(left), exchange).await.unwrap_or(Answer::Failed(why))
    }

    fn forbidden<T>(&self, right: Right) -> Read<T> {
        self.report(Problem::Forbidden(right));
        Read::Unknown
    }

    /// Remembers that something could not be read.
    pub fn failed<T>(&self, what: &str, why: &str) -> Read<T> {
        self.report(Problem::Failed { what: what.to_owned(), why: why.chars().take(MAX_MESSAGE).collect() });
        Read::Unknown
    }

    fn report(&self, problem: Problem) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
    }
}

fn get(url: &str) -> http::Result<Request<Body>> {
    Request::get(url).header(header::ACCEPT, "application/json").body(Body::empty())
}

/// What a right is needed for.
fn what(right: &Right) -> String {
    let text = right.to_string();
    text.split_once(' ').map_or(text.clone(), |(_, rest)| rest.to_owned())
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
