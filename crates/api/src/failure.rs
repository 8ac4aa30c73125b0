//! Why a request has no usable answer. One table, [`Class::of`], says what a refusal means; the
//! caller decides what follows from that. Nothing that is no Status of an API server is ever
//! repeated: the page of another server may hold secrets.

use std::fmt;
use std::time::Duration;

use http::response::Parts;
use http::{HeaderMap, StatusCode, header};
use kube::core::Status;
use serde_json::Value;

use crate::describe::{describe_json, root_cause};

/// The longest wait that an answer can ask for. No caller may be held up for hours.
pub const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// What is said in place of a text that no API server has written.
const NO_STATUS: &str = "the answer is no Status";

/// Why a request has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An answer other than success.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// There is no connection, or it ended before the answer did. Of a write it is unknown whether
    /// it was done.
    #[error("cannot reach the API server: {0}")]
    Unreachable(String),
    /// The answer did not end within this time. Of a write it is unknown whether it was done.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// No time was left for the answer, because earlier requests took all of it.
    #[error("no time is left for the answer")]
    NoTimeLeft,
    /// A successful answer has more bytes than this.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// A successful answer is not what was asked for.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// A write that was not sent: it could change another version of an object than the one that
    /// was read.
    #[error("the write names neither UID nor version of an object")]
    Unguarded,
    /// A request that was not sent: without a name it would be about all objects of a kind.
    #[error("the path of the request has an empty name")]
    Nameless,
    /// A request that was not sent: it is none of HTTP, for instance because of a letter in its
    /// path.
    #[error("the request is invalid: {0}")]
    Invalid(String),
}

/// An answer other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it means.
    pub class: Class,
    /// Whether an API server has answered, and not something before it.
    pub is_of_api_server: bool,
    /// The HTTP status code; 0 if kube does not report it.
    pub code: u16,
    /// `NotFound`; HTTP's own words for the code if no API server has answered.
    pub reason: String,
    /// What the API server says, up to [`crate::LARGEST_REFUSAL`] bytes, maybe on several lines.
    pub message: String,
    /// How long to wait, as the answer asks for: at most [`LONGEST_WAIT`].
    pub retry_after: Duration,
    /// The resource that the API server names: `nodes`.
    resource: String,
    /// The name of the object that the API server names.
    name: String,
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The object would be larger than the API server, etcd or the connection between them takes.
    TooLarge,
    /// The API server or an admission webhook refuses what is asked for. The same request would be
    /// refused again.
    Denied,
    /// An authorizer refuses the request: a right is missing.
    Forbidden,
    /// The API server does not accept the credentials.
    Unauthorized,
    /// There is no such object or kind, or a proxy says so: see [`Failure::is_not_found`].
    NotFound,
    /// The object has changed since it was read, or exists already.
    Conflict,
    /// The API server has forgotten the resource version, or the rest of a list.
    Expired,
    /// The API server has not reached the resource version yet.
    VersionAhead,
    /// A `PodDisruptionBudget` forbids an eviction now.
    Budget,
    /// The API server has too many requests, and has not looked at this one.
    Busy,
    /// Anything else, most of it an error of the API server. Of a write it is unknown whether it
    /// was done.
    Other,
}

impl Failure {
    /// What a refusal means; none for anything else.
    pub fn class(&self) -> Option<Class> {
        self.refusal().map(|refusal| refusal.class)
    }

    /// The HTTP status code of a refusal; none for anything else.
    pub fn code(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.code)
    }

    /// How long to wait before another attempt, as the answer asks for.
    pub fn retry_after(&self) -> Duration {
        self.refusal()
            .map_or(Duration::ZERO, |refusal| refusal.retry_after)
    }

    /// Whether the API server itself says that there is no object of this resource and name. A
    /// proxy may also answer 404.
    pub fn is_not_found(&self, resource: &str, name: &str) -> bool {
        self.refusal().is_some_and(|refusal| {
            refusal.class == Class::NotFound
                && refusal.reason == "NotFound"
                && refusal.resource == resource
                && refusal.name == name
        })
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl Class {
    fn of(code: u16, status: &Status) -> Self {
        let message = status.message.as_str();
        match code {
            413 => Self::TooLarge,
            _ if is_about_size(message) => Self::TooLarge,
            // A webhook's denial may have any code.
            _ if is_denial(message) => Self::Denied,
            403 if is_of_authorizer(message) => Self::Forbidden,
            400 | 403 | 405 | 422 => Self::Denied,
            401 => Self::Unauthorized,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Expired,
            429 if is_of_budget(status) => Self::Budget,
            429 => Self::Busy,
            _ if message.contains("Too large resource version") => Self::VersionAhead,
            _ => Self::Other,
        }
    }
}

fn is_about_size(message: &str) -> bool {
    message.contains("request is too large") || message.contains("larger than max")
}

fn is_denial(message: &str) -> bool {
    message.starts_with("admission webhook ") && message.contains("denied the request")
}

/// An admission webhook may quote such a refusal.
fn is_of_authorizer(message: &str) -> bool {
    message.contains("is forbidden: User \"") && !message.starts_with("admission webhook ")
}

/// The API server's flow control answers with the same code.
fn is_of_budget(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "DisruptionBudget")
}

impl Refusal {
    /// What an answer refuses. Of one that a gateway has written, or a full queue of the API
    /// server, only the head counts: it has the code, and says how long to wait.
    pub fn of_answer(head: &Parts, body: &[u8]) -> Self {
        let status = read_status(body);
        Self::new(head.status.as_u16(), status, header_wait(&head.headers))
    }

    /// What a Status refuses that kube has read. Where kube finds none, it makes one of the text.
    pub fn of_status(status: &Status) -> Self {
        let is_own = status.status.is_some() && status.reason != "Failed to parse error data";
        Self::new(status.code, is_own.then(|| status.clone()), 0)
    }

    /// What a watch has ended with. The API server sends such a Status as an event.
    pub fn of_event(status: &Status) -> Self {
        let code = if status.code == 0 { 500 } else { status.code };
        Self::new(code, Some(status.clone()), 0)
    }

    /// `header_wait` is how many seconds the headers of the answer ask to wait.
    fn new(code: u16, status: Option<Status>, header_wait: u32) -> Self {
        let is_of_api_server = status.is_some();
        let status = status.unwrap_or_else(|| Status::failure(NO_STATUS, http_reason(code)));
        let class = Class::of(code, &status);
        let asked = status.details.as_ref();
        let seconds = asked.map_or(0, |details| details.retry_after_seconds);
        let (resource, name) = status
            .details
            .map(|details| (details.kind, details.name))
            .unwrap_or_default();
        Self {
            class,
            is_of_api_server,
            code,
            reason: status.reason,
            message: status.message,
            retry_after: Duration::from_secs(seconds.max(header_wait).into()).min(LONGEST_WAIT),
            resource,
            name,
        }
    }
}

/// The Status in a body; none if no API server has sent it.
fn read_status(body: &[u8]) -> Option<Status> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let is_status = value["kind"] == "Status" || value["status"] == "Failure";
    serde_json::from_value(value).ok().filter(|_| is_status)
}

/// How many seconds the headers ask to wait. A date is not understood.
fn header_wait(headers: &HeaderMap) -> u32 {
    headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .unwrap_or(0)
}

fn http_reason(code: u16) -> &'static str {
    let code = StatusCode::from_u16(code).ok();
    code.and_then(|code| code.canonical_reason())
        .unwrap_or_default()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) => Refusal::of_status(status).into(),
            kube::Error::SerdeError(error) => Self::Unreadable(describe_json(error)),
            kube::Error::FromUtf8(_) => Self::Unreadable("it is not UTF-8".into()),
            kube::Error::BuildRequest(error) => Self::Invalid(error.to_string()),
            other => Self::Unreachable(root_cause(other)),
        }
    }
}

#[cfg(test)]
mod tests;
