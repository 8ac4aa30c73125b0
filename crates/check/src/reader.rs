//! Reads objects from the API server, and remembers what could not be read and which right that
//! needs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::{Client, Resource};
use pps_api::{Failure, Limits, path};
use pps_core::is_dns_subdomain;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::read::{MinorVersion, Problem, Read, Right, ServiceAccountName, Version};

/// The limits of a check.
pub const CHECK_LIMITS: Limits = Limits {
    request: Duration::from_secs(10),
    body: 4 << 20,
    page: 250,
    objects: 5_000,
};

/// How much of an error message is kept.
const MAX_MESSAGE: usize = 300;
const NOT_JSON: &str = "it is not the JSON that was expected";

pub struct Reader {
    api: pps_api::Reader,
    problems: Mutex<Vec<Problem>>,
}

impl Reader {
    /// One whose requests are all answered within this time, or fail.
    pub fn new(client: Client, limits: Limits, total: Duration) -> Self {
        Self {
            api: pps_api::Reader::new(client, limits, total),
            problems: Mutex::default(),
        }
    }

    /// How much time is left for all further requests.
    pub fn time_left(&self) -> Duration {
        self.api.time_left()
    }

    /// What could not be read.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of Kubernetes.
    pub(crate) async fn version(&self) -> Read<Version> {
        match self.api.get("/version").await {
            Ok(answer) => match parse_version(&answer) {
                Some(version) => Read::Known(version),
                None => self.failed(None, NOT_JSON),
            },
            Err(failure) => self.unread(None, &failure),
        }
    }

    pub async fn get<T: DeserializeOwned>(&self, right: Right, path: &str) -> Read<T> {
        match self.api.get(path).await {
            Ok(object) => Read::Known(object),
            Err(failure) => self.unread(Some(right), &failure),
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
        self.get(right, &path::<K>(namespace, name)).await
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
        self.list_as(right, path, selector, |item| {
            serde_json::from_value(item).ok()
        })
        .await
        .map(|(found, _)| found)
    }

    /// The objects of a list, up to the limit, and how many more there are. Each is passed through
    /// `take` as soon as it is read; one that `take` has nothing for is a problem. Absent if the
    /// kind does not exist.
    pub async fn list_as<T>(
        &self,
        right: Right,
        path: &str,
        selector: &str,
        take: impl FnMut(Value) -> Option<T>,
    ) -> Read<(Vec<T>, u64)> {
        match self.api.list(path, selector, take).await {
            Ok(list) => {
                for _ in 0..list.unusable {
                    let _: Read<()> = self.failed(Some(right.clone()), NOT_JSON);
                }
                Read::Known((list.objects, list.more))
            }
            Err(failure) => self.unread(Some(right), &failure),
        }
    }

    /// Whether a ServiceAccount has a right, also through other roles than the product's.
    pub(crate) async fn may(&self, account: &ServiceAccountName, right: &Right) -> Read<bool> {
        const GROUP: &str = "authorization.k8s.io";
        const RESOURCE: &str = "subjectaccessreviews";
        let review = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "SubjectAccessReview",
            "spec": access_review_spec(account, right),
        });
        let path = format!("/apis/{GROUP}/v1/{RESOURCE}");
        let needed = Right::new("create", GROUP, RESOURCE);
        match self.api.review(path, &review).await {
            Ok(answer) => answer["status"]["allowed"]
                .as_bool()
                .map_or(Read::Unknown, Read::Known),
            Err(failure) if failure.code() == Some(404) => {
                self.failed(Some(needed), "it does not exist")
            }
            Err(failure) => self.unread(Some(needed), &failure),
        }
    }

    fn unread<T>(&self, right: Option<Right>, failure: &Failure) -> Read<T> {
        match (failure.code(), right) {
            (Some(404), Some(_)) => Read::Absent,
            (Some(403), Some(right)) => self.report(Problem::Forbidden(right)),
            (_, right) => self.failed(right, &reason(failure)),
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

fn access_review_spec(account: &ServiceAccountName, right: &Right) -> Value {
    let ServiceAccountName { namespace, name } = account;
    let accounts = "system:serviceaccounts";
    let (resource, subresource) = right
        .resource
        .split_once('/')
        .unwrap_or((&right.resource, ""));
    json!({
        "user": format!("system:serviceaccount:{namespace}:{name}"),
        "groups": [accounts, format!("{accounts}:{namespace}"), "system:authenticated"],
        "resourceAttributes": {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace.as_deref().unwrap_or_default(),
            "name": right.name.as_deref().unwrap_or_default(),
        },
    })
}

fn parse_version(answer: &Value) -> Option<Version> {
    Some(Version {
        minor: MinorVersion {
            major: version_number(&answer["major"])?,
            minor: version_number(&answer["minor"])?,
        },
        text: answer["gitVersion"].as_str()?.to_owned(),
    })
}

/// A part of a version. Some providers write `27+`.
fn version_number(text: &Value) -> Option<u32> {
    text.as_str()?.trim_end_matches('+').parse().ok()
}

/// Why something could not be read.
fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Refused(refusal) => match refusal.code {
            404 => "it does not exist (404)".into(),
            403 => "it refuses (403)".into(),
            401 => "the API server does not accept the credentials (401)".into(),
            410 => "reading takes too long (410)".into(),
            code => format!("{code}: {}", refusal.message),
        },
        Failure::Unreachable(cause) => cause.clone(),
        Failure::NoTimeLeft => {
            "no time is left for the answer: the API server answers too slowly".into()
        }
        Failure::TooLarge(_) => "the answer is too large".into(),
        Failure::Unreadable(_) => NOT_JSON.into(),
        Failure::Silent(_) | Failure::Unguarded | Failure::Nameless | Failure::Invalid(_) => {
            failure.to_string()
        }
    }
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
