//! Where a watch reads from: the requests for pages and events, how they fail, and how bodies are
//! read within limits. No body is ever logged.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, once, try_unfold};
use futures::{Stream, StreamExt, TryFutureExt, TryStreamExt};
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{ApiResource, Request as Requests};
use kube::{Client, Resource};
use pps_api::{Failure, LARGEST_REFUSAL, LONGEST_SILENCE, Refusal, root_cause};
use pps_recorder::kinds;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::stream::{LineError, Page, lines, text_of};
use crate::observe::objects::Malformed;

/// How long the API server keeps a watch open. It ends the watch then, whether there were events or
/// not, and the sidecar opens the next one where it ended: one cheap request a minute. So a
/// connection that stays silent for longer is dead. Neither bookmarks nor keep-alive tell as much:
/// the API server promises no bookmark, and a proxy may keep a connection alive that it forwards
/// nothing on.
const WATCH_SECONDS: u32 = 50;
/// A watch that ends earlier was not ended by its time: the API server may have stopped.
pub(super) const WATCH_TIME: Duration = Duration::from_secs(WATCH_SECONDS as u64);
/// How long the API server may take to begin an answer. It gives up on a list after a minute
/// itself.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer may take, however steadily it arrives: meanwhile it may hold up other lists.
/// The API server gives up after a minute itself.
const LONGEST_ANSWER: Duration = Duration::from_mins(2);

/// The largest page of a list, in bytes. A larger one is asked for in smaller parts.
pub(super) const LARGEST_PAGE: usize = 32 << 20;
/// The largest page of one object, which has no smaller parts. etcd takes 1.5 MiB by default, which
/// are six times as many in JSON at most.
pub(super) const LARGEST_OBJECT: usize = 64 << 20;
/// The largest answer about the version: it has the metadata of one object.
const LARGEST_VERSION: usize = 16 << 20;
/// How many pages are in memory at once, whatever the number of watches.
pub(super) const PAGES_AT_ONCE: usize = 2;
/// The largest event, in bytes. etcd stores objects of 1.5 MiB by default.
const LARGEST_EVENT: usize = 64 << 20;

/// The objects to list, watch or read.
#[derive(Clone)]
pub(crate) struct Source {
    client: Client,
    requests: Requests,
    page_size: u32,
    field_selector: Option<String>,
    label_selector: Option<String>,
    only_metadata: bool,
}

/// A page of a list. Until it is dropped, it counts as one of the pages that are in memory at once.
pub(crate) struct PageBody {
    text: String,
    _permit: Option<OwnedSemaphorePermit>,
}

impl PageBody {
    /// Size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn read(&self) -> Result<Page<'_>, Failure> {
        Ok(Page::read(&self.text)?)
    }
}

/// How many objects to ask for in a page: fewer if a page is too large, then more again.
#[derive(Debug)]
pub(crate) struct PageSize {
    now: u32,
    most: u32,
}

/// What a watch yields.
pub(super) enum WatchSignal {
    /// The API server has accepted the watch.
    Opened,
    /// An event in JSON.
    Line(String),
}

/// Why a watch ends that did not end in time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("{0}")]
    Failed(#[from] Failure),
    /// The API server has gone back to an earlier state, as after etcd was restored from a backup.
    #[error("the API server has gone back to an earlier state")]
    WentBack,
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Unreadable(malformed.0)
    }
}

impl From<LineError> for Failure {
    fn from(error: LineError) -> Self {
        match error {
            LineError::TooLong => Self::TooLarge(LARGEST_EVENT),
            LineError::Io(error) => Self::Unreachable(root_cause(&error)),
        }
    }
}

impl PageSize {
    pub(crate) fn objects(&self) -> u32 {
        self.now
    }

    /// A page of this many bytes has arrived. The next may have twice as many objects, if that is
    /// no risk.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        if bytes <= LARGEST_PAGE / 4 {
            self.now = self.now.saturating_mul(2).min(self.most);
        }
    }

    /// A page was too large. Returns false if one of fewer objects cannot be asked for.
    pub(crate) fn shrink(&mut self) -> bool {
        let can_shrink = self.now > 1;
        self.now = (self.now / 4).max(1);
        can_shrink
    }
}

impl Source {
    pub(crate) fn new<O: Resource>(
        client: Client,
        resource: &O::DynamicType,
        namespace: Option<&str>,
        page_size: u32,
    ) -> Self {
        let requests = Requests::new(O::url_path(resource, namespace));
        Self {
            client,
            requests,
            page_size,
            field_selector: None,
            label_selector: None,
            only_metadata: false,
        }
    }

    pub(crate) fn named(self, name: &str) -> Self {
        Self {
            field_selector: Some(format!("metadata.name={name}")),
            ..self
        }
    }

    /// Only the objects that this label selector selects.
    pub(crate) fn selected(self, labels: &str) -> Self {
        Self {
            label_selector: Some(labels.into()),
            ..self
        }
    }

    pub(crate) fn only_metadata(self) -> Self {
        Self {
            only_metadata: true,
            ..self
        }
    }

    pub(crate) fn page_size(&self) -> PageSize {
        PageSize {
            now: self.page_size,
            most: self.page_size,
        }
    }

    /// One page of a list, of this many objects, or of all if that is 0, and of at most this many
    /// bytes: the first one, or the one that this token stands for. Waits for its turn before the
    /// answer is read, but not before it is requested: an API server that does not answer holds up
    /// no other list.
    pub(crate) async fn page(
        self,
        continue_token: Option<String>,
        objects: u32,
        most: usize,
        turns: Option<Arc<Semaphore>>,
    ) -> Result<PageBody, Failure> {
        let params = ListParams {
            field_selector: self.field_selector.clone(),
            label_selector: self.label_selector.clone(),
            limit: Some(objects).filter(|objects| *objects > 0),
            continue_token,
            ..ListParams::default()
        };
        let request = self
            .requests
            .list(&params)
            .map_err(|error| Failure::Invalid(error.to_string()))?;
        let body = self.send(request, "PartialObjectMetadataList").await?;
        let permit = match turns {
            // The semaphore is never closed.
            Some(turns) => turns.acquire_owned().await.ok(),
            None => None,
        };
        Ok(PageBody {
            text: text_of(collect(body, most).await?),
            _permit: permit,
        })
    }

    /// The version that the API server has reached. It reads it from etcd, or from a cache that it
    /// knows to be current, so it is never earlier than what a watch has shown before, unless etcd
    /// has gone back. Asks for the metadata of one object.
    async fn version(self) -> Result<String, Failure> {
        let source = self.only_metadata();
        let page = source.page(None, 1, LARGEST_VERSION, None).await?;
        Ok(page.read()?.resource_version)
    }

    /// A watch that begins at this resource version. The stream ends when the API server ends the
    /// watch. Fails if the API server has not reached the version `not_before`, if there is one.
    pub(super) fn watch(
        self,
        version: String,
        not_before: Option<u64>,
    ) -> BoxStream<'static, Result<WatchSignal, WatchError>> {
        let opened = async move {
            if not_before.is_some() {
                expect_not_earlier(&self.clone().version().await?, not_before)?;
            }
            let body = self.open_watch(&version).await?;
            let events = lines_of(body).map(|line| Ok(WatchSignal::Line(line?)));
            Ok(once(async { Ok(WatchSignal::Opened) }).chain(events))
        };
        opened.try_flatten_stream().boxed()
    }

    async fn open_watch(&self, version: &str) -> Result<Body, Failure> {
        let params = WatchParams {
            field_selector: self.field_selector.clone(),
            label_selector: self.label_selector.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let mut request = self
            .requests
            .watch(&params, version)
            .map_err(|error| Failure::Invalid(error.to_string()))?;
        // A proxy that compresses events holds them back.
        request.headers_mut().insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        self.send(request, "PartialObjectMetadata").await
    }

    /// Sends a request. Fails if the answer is a refusal.
    async fn send(
        &self,
        mut request: Request<Vec<u8>>,
        metadata_kind: &str,
    ) -> Result<Body, Failure> {
        if let Ok(accept) = self.accept(metadata_kind).parse() {
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        let response = timeout(RESPONSE_TIMEOUT, self.client.send(request.map(Body::from))).await;
        let (head, body) = response
            .map_err(|_| Failure::Silent(RESPONSE_TIMEOUT))??
            .into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        // Without its body, a refusal still has its code, and says how long to wait.
        let body = collect(body, LARGEST_REFUSAL).await.unwrap_or_default();
        Err(Refusal::of_answer(&head, &body).into())
    }

    fn accept(&self, metadata_kind: &str) -> String {
        if self.only_metadata {
            format!("application/json;as={metadata_kind};g=meta.k8s.io;v=v1")
        } else {
            "application/json".to_owned()
        }
    }
}

/// Fails if a version is earlier than one that was seen before it was asked for, as after etcd was
/// restored from a backup.
pub(super) fn expect_not_earlier(version: &str, before: Option<u64>) -> Result<(), WatchError> {
    match version.parse() {
        Ok(version) if Some(version) < before => Err(WatchError::WentBack),
        _ => Ok(()),
    }
}

/// Reads a body of at most so many bytes.
async fn collect(mut body: Body, most: usize) -> Result<Vec<u8>, Failure> {
    let read = async {
        let mut bytes = Vec::new();
        while let Some(data) = next_data(&mut body).await? {
            if bytes.len() + data.len() > most {
                return Err(Failure::TooLarge(most));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    timeout(LONGEST_ANSWER, read)
        .await
        .unwrap_or(Err(Failure::Silent(LONGEST_ANSWER)))
}

async fn next_data(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    let frame = timeout(LONGEST_SILENCE, body.frame()).await;
    match frame.map_err(|_| Failure::Silent(LONGEST_SILENCE))? {
        Some(frame) => Ok(Some(frame?.into_data().unwrap_or_default())),
        None => Ok(None),
    }
}

/// The lines of a watch. Fails if none comes for [`LONGEST_SILENCE`].
fn lines_of(body: Body) -> impl Stream<Item = Result<String, Failure>> {
    let chunks = body.into_data_stream().map_err(io::Error::other);
    try_unfold(lines(chunks, LARGEST_EVENT), |mut lines| async {
        let line = timeout(LONGEST_SILENCE, lines.next()).await;
        match line.map_err(|_| Failure::Silent(LONGEST_SILENCE))? {
            Some(line) => Ok(Some((line?, lines))),
            None => Ok(None),
        }
    })
}

pub(crate) fn api_resource(resource: kinds::Resource) -> ApiResource {
    ApiResource {
        api_version: format!("{}/{}", resource.group, resource.version),
        group: resource.group,
        version: resource.version,
        kind: resource.kind,
        plural: resource.plural,
    }
}
#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use k8s_openapi::api::core::v1::Pod;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn only_two_pages_are_in_memory_at_once() {
        let answer = service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(http::Response::new(Body::from(b"{}".to_vec())))
        });
        let pages = Arc::new(Semaphore::new(PAGES_AT_ONCE));
        let source = || Source::new::<Pod>(Client::new(answer, "n"), &(), None, 250);
        let (pods, others) = (source(), source());
        let first = pods
            .clone()
            .page(None, 250, LARGEST_PAGE, Some(pages.clone()))
            .await
            .unwrap();
        let second = others
            .clone()
            .page(None, 250, LARGEST_PAGE, Some(pages.clone()))
            .await
            .unwrap();
        let third = others.page(None, 250, LARGEST_PAGE, Some(pages.clone()));
        tokio::pin!(third);
        assert!(
            timeout(Duration::from_millis(100), &mut third)
                .await
                .is_err()
        );
        drop(first);
        assert_eq!([second.text, third.await.unwrap().text], ["{}", "{}"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_never_ends_holds_up_other_lists_for_two_minutes_only() {
        let answer = service_fn(|_: Request<Body>| async {
            let drops = futures::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let drop = Frame::data(Bytes::from_static(b" "));
                Some((Ok::<_, Infallible>(drop), ()))
            });
            Ok::<_, Infallible>(http::Response::new(StreamBody::new(drops)))
        });
        let pages = Arc::new(Semaphore::new(1));
        let source = Source::new::<Pod>(Client::new(answer, "n"), &(), None, 250);
        let page = source.page(None, 250, LARGEST_PAGE, Some(pages.clone()));
        let page = timeout(Duration::from_mins(3), page).await.unwrap();
        assert!(matches!(page, Err(Failure::Silent(LONGEST_ANSWER))));
        assert_eq!(pages.available_permits(), 1);
    }

    #[test]
    fn asks_for_fewer_objects_after_a_page_that_is_too_large_and_for_more_after_small_ones() {
        let mut size = PageSize {
            now: 250,
            most: 250,
        };
        let shrunk: Vec<_> = (0..5).map(|_| (size.shrink(), size.objects())).collect();
        assert_eq!(
            shrunk,
            [(true, 62), (true, 15), (true, 3), (true, 1), (false, 1)]
        );
        size.arrived(LARGEST_PAGE / 2);
        assert_eq!(size.objects(), 1, "two might be too large");
        let grown = (0..9).map(|_| {
            size.arrived(1000);
            size.objects()
        });
        assert_eq!(
            grown.collect::<Vec<_>>(),
            [2, 4, 8, 16, 32, 64, 128, 250, 250]
        );
    }
}
