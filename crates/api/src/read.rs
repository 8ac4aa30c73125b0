//! Reads: one object, or a list page by page, each with limits on time, bytes and objects.

use std::time::Duration;

use http::{Request, header};
use kube::client::Body;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use crate::client::{Accept, AnswerLimit, exchange};
use crate::failure::{Class, Failure};
use crate::source::{PageBody, Source};
use crate::stream::Page;
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
    /// whole. A page that is too large is asked for in smaller parts. A list whose rest the API server has
    /// forgotten begins again, once.
    pub async fn list<T>(
        &self,
        path: &str,
        labels: &str,
        mut take: impl FnMut(Value) -> Option<T>,
    ) -> Result<List<T>, Failure> {
        let source = Source::at(self.client.clone(), path, self.limits.page).selected(labels);
        let mut size = source.page_size();
        let mut token = None;
        let mut objects = Vec::new();
        let mut unusable = 0;
        let mut is_second_list = false;
        loop {
            let body = match self.page(&source, token.clone(), size.objects()).await {
                // Whoever may write one object can make it large; the others must still be read.
                Err(Failure::TooLarge(_)) if size.shrink() => continue,
                // The API server keeps old versions for some minutes only: what was read is
                // incomplete.
                Err(failure) if failure.class() == Some(Class::Expired) && !is_second_list => {
                    is_second_list = true;
                    objects.clear();
                    unusable = 0;
                    token = None;
                    continue;
                }
                body => body?,
            };
            let page = body.read_unversioned()?;
            for item in &page.items {
                match read_item(item, &page).and_then(&mut take) {
                    Some(object) => objects.push(object),
                    None => unusable += 1,
                }
            }
            if page.continue_token.is_none() || objects.len() >= self.limits.objects {
                // The API server does not always say how many objects are left.
                let left = page.remaining.unwrap_or(1).unsigned_abs();
                return Ok(List {
                    objects,
                    more: page.continue_token.map_or(0, |_| left),
                    unusable,
                });
            }
            token = page.continue_token;
        }
    }

    async fn page(
        &self,
        source: &Source,
        token: Option<String>,
        objects: u32,
    ) -> Result<PageBody, Failure> {
        let limit = self.limit();
        // On the heap, since callers await many of these at once.
        let page = Box::pin(source.clone().page(token, objects, limit.bytes, None));
        let page = timeout(limit.within, page)
            .await
            .unwrap_or(Err(Failure::Silent(limit.within)));
        page.map_err(|failure| self.late(failure))
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

/// An object of a list. A list of a built-in kind names the kind once, and not in each item.
fn read_item(item: &RawValue, page: &Page<'_>) -> Option<Value> {
    let mut item: Value = serde_json::from_str(item.get()).ok()?;
    let kind = page
        .kind
        .strip_suffix("List")
        .filter(|kind| !kind.is_empty());
    if let (Some(object), Some(kind)) = (item.as_object_mut(), kind) {
        object.entry("kind").or_insert_with(|| kind.into());
        object
            .entry("apiVersion")
            .or_insert_with(|| page.api_version.as_str().into());
    }
    Some(item)
}

#[cfg(test)]
mod tests;
