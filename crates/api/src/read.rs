//! Reads: one object, or a list page by page, each with limits on time, bytes and objects.

use std::time::Duration;

use http::{Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Accept, AnswerLimit, exchange};
use crate::failure::{Class, Failure};
use crate::write::Write;

/// The path of an object of a built-in kind, or of another that is known when this is compiled.
pub fn path<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", K::url_path(&(), namespace))
}

/// Reads what is at this path. One that ends with an empty name is not sent: it would be a list.
pub async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    accept: Accept,
    limit: AnswerLimit,
) -> Result<T, Failure> {
    if path.ends_with('/') {
        return Err(Failure::Nameless);
    }
    let request = Request::get(path)
        .header(header::ACCEPT, accept.media_type())
        .body(Body::empty())
        .map_err(|error| Failure::Invalid(error.to_string()))?;
    exchange(client, request, limit).await
}

/// The limits of a [`Reader`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long one request may take.
    pub request: Duration,
    /// Bytes of the largest response that is read. Parsed, it may need ten times as much memory.
    pub body: usize,
    /// How many objects a request asks for, unless so many are too large.
    pub page: u32,
    /// How many objects of a kind are read; a page more at most.
    pub objects: usize,
}

/// What a list has.
#[derive(Debug)]
pub struct List<T> {
    /// What the caller has made of the objects.
    pub objects: Vec<T>,
    /// How many objects there are beyond the limit.
    pub more: u64,
    /// How many objects were none that the caller could use.
    pub unusable: usize,
}

/// Reads within a time for all requests together.
pub struct Reader {
    client: Client,
    limits: Limits,
    /// When all requests have to be answered.
    deadline: Instant,
}

impl Reader {
    /// One whose requests are all answered within this time, or fail.
    pub fn new(client: Client, limits: Limits, total: Duration) -> Self {
        Self {
            client,
            limits,
            deadline: Instant::now() + total,
        }
    }

    /// How much time is left for all further requests.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Reads what is at this path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let answer = get(&self.client, path, Accept::Object, self.limit()).await;
        answer.map_err(|failure| self.late(failure))
    }

    /// Has the API server answer a review. It is created and stored nowhere.
    pub async fn review(&self, path: String, review: &Value) -> Result<Value, Failure> {
        let review = Write::create(path, review);
        let answer = review.send(&self.client, self.limit()).await;
        answer.map_err(|failure| self.late(failure))
    }

    /// The objects of a list with these labels (all if empty), up to the limit. Each is passed
    /// through `take` as soon as its page is read, so that a large list is never in memory as a
    /// whole. A page that is too large is asked for in halves. A list whose rest the API server has
    /// forgotten begins again, once.
    pub async fn list<T>(
        &self,
        path: &str,
        labels: &str,
        mut take: impl FnMut(Value) -> Option<T>,
    ) -> Result<List<T>, Failure> {
        let mut objects = Vec::new();
        let mut unusable = 0;
        let mut params = ListParams::default().labels(labels).limit(self.limits.page);
        let mut is_second_list = false;
        loop {
            let page = match self.page(path, &params).await {
                // Whoever may write one object can make it large; the others must still be read.
                Err(Failure::TooLarge(_)) if params.limit > Some(1) => {
                    params.limit = params.limit.map(|objects| objects / 2);
                    continue;
                }
                // The API server keeps old versions for some minutes only: what was read is
                // incomplete.
                Err(failure) if failure.class() == Some(Class::Expired) && !is_second_list => {
                    is_second_list = true;
                    objects.clear();
                    unusable = 0;
                    params.continue_token = None;
                    continue;
                }
                page => page?,
            };
            let kind = page.kind.strip_suffix("List");
            for item in page.items.unwrap_or_default() {
                match take(with_kind(item, kind, &page.api_version)) {
                    Some(object) => objects.push(object),
                    None => unusable += 1,
                }
            }
            let metadata = page.metadata;
            let next = metadata.continue_.filter(|token| !token.is_empty());
            if next.is_none() || objects.len() >= self.limits.objects {
                // The API server does not always say how many objects are left.
                let left = metadata.remaining_item_count.unwrap_or(1);
                return Ok(List {
                    objects,
                    more: next.map_or(0, |_| left.unsigned_abs()),
                    unusable,
                });
            }
            params.continue_token = next;
        }
    }

    async fn page(&self, path: &str, params: &ListParams) -> Result<Page, Failure> {
        let request = kube::core::Request::new(path)
            .list(params)
            .map_err(|error| Failure::Invalid(error.to_string()))?;
        let answer = exchange(&self.client, request.map(Body::from), self.limit()).await;
        answer.map_err(|failure| self.late(failure))
    }

    fn limit(&self) -> AnswerLimit {
        AnswerLimit {
            within: self.limits.request.min(self.time_left()),
            bytes: self.limits.body,
        }
    }

    /// Tells a request that had less time than others from one that is too slow.
    fn late(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Silent(within) if within < self.limits.request => Failure::NoTimeLeft,
            failure => failure,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Page {
    kind: String,
    api_version: String,
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

/// An object of a list. A list of a built-in kind names the kind once, and not in each item.
fn with_kind(mut item: Value, kind: Option<&str>, api_version: &str) -> Value {
    if let (Some(object), Some(kind)) = (item.as_object_mut(), kind) {
        object.entry("kind").or_insert_with(|| kind.into());
        object
            .entry("apiVersion")
            .or_insert_with(|| api_version.into());
    }
    item
}

#[cfg(test)]
mod tests;
