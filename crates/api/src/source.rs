//! The objects of a kind: the requests for pages of a list, and how bodies are read within limits.
//! No body is ever logged.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, header};
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request as Requests;
use kube::{Client, Resource};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::client::{collect, success};
use crate::failure::Failure;
use crate::stream::{Page, text_of};

/// How long the API server may take to begin an answer. It gives up on a list after a minute
/// itself.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest page of a list, in bytes. A larger one is asked for in smaller parts.
pub const LARGEST_PAGE: usize = 32 << 20;
/// The largest page of one object, which has no smaller parts. etcd takes 1.5 MiB by default, which
/// are six times as many in JSON at most.
pub const LARGEST_OBJECT: usize = 64 << 20;
/// How many pages are in memory at once, whatever the number of watches.
pub const PAGES_AT_ONCE: usize = 2;
/// The objects to list, watch or read.
#[derive(Clone)]
pub struct Source {
    client: Client,
    pub(crate) requests: Requests,
    /// The kind of the list, if it is known.
    list_kind: Option<String>,
    page_size: u32,
    pub(crate) field_selector: Option<String>,
    pub(crate) label_selector: Option<String>,
    only_metadata: bool,
}

/// A page of a list. Until it is dropped, it counts as one of the pages that are in memory at once.
pub struct PageBody {
    text: String,
    list_kind: Option<String>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl PageBody {
    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Reads the page, but not its objects. Fails if it does not say at which version they were as
    /// they are in it: then nothing follows from an object that is missing.
    pub fn read(&self) -> Result<Page<'_>, Failure> {
        let page = self.read_unversioned()?;
        if page.resource_version.is_empty() {
            return Err(Failure::Unreadable(
                "the list has no resource version".into(),
            ));
        }
        Ok(page)
    }

    /// Reads the page, but not its objects. Fails if it is a list of another kind: that has none of
    /// the objects, which then would pass for deleted.
    pub(crate) fn read_unversioned(&self) -> Result<Page<'_>, Failure> {
        let page = Page::read(&self.text)?;
        match &self.list_kind {
            Some(kind) if page.kind != *kind && page.kind != "List" => Err(Failure::Unreadable(
                format!("it is no {kind}, but another kind of object"),
            )),
            _ => Ok(page),
        }
    }
}

/// How many objects to ask for in a page: fewer if a page is too large, then more again.
#[derive(Debug)]
pub struct PageSize {
    now: u32,
    most: u32,
}

impl PageSize {
    /// How many objects to ask for.
    pub fn objects(&self) -> u32 {
        self.now
    }

    /// A page of this many bytes has arrived. The next may have twice as many objects, if that is
    /// no risk.
    pub fn arrived(&mut self, bytes: usize) {
        if bytes <= LARGEST_PAGE / 4 {
            self.now = self.now.saturating_mul(2).min(self.most);
        }
    }

    /// A page was too large. Returns false if one of fewer objects cannot be asked for.
    pub fn shrink(&mut self) -> bool {
        let can_shrink = self.now > 1;
        self.now = (self.now / 4).max(1);
        can_shrink
    }
}

impl Source {
    /// The objects of a kind, in a namespace or in all, in pages of this many.
    pub fn new<O: Resource>(
        client: Client,
        resource: &O::DynamicType,
        namespace: Option<&str>,
        page_size: u32,
    ) -> Self {
        Self {
            list_kind: Some(format!("{}List", O::kind(resource))),
            ..Self::at(client, &O::url_path(resource, namespace), page_size)
        }
    }

    /// The objects of the list at this path, in pages of this many.
    pub fn at(client: Client, path: &str, page_size: u32) -> Self {
        Self {
            client,
            requests: Requests::new(path),
            list_kind: None,
            page_size,
            field_selector: None,
            label_selector: None,
            only_metadata: false,
        }
    }

    /// A definition of a custom kind chooses the kind of its lists.
    #[must_use]
    pub fn with_any_list_kind(self) -> Self {
        Self {
            list_kind: None,
            ..self
        }
    }

    /// Only the object of this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.with_field("metadata.name", name)
    }

    /// Only the objects with this value of a field that the API server can select by.
    #[must_use]
    pub fn with_field(self, field: &str, value: &str) -> Self {
        Self {
            field_selector: Some(format!("{field}={value}")),
            ..self
        }
    }

    /// Only the objects that this label selector selects.
    #[must_use]
    pub fn selected(self, labels: &str) -> Self {
        Self {
            label_selector: Some(labels.into()),
            ..self
        }
    }

    /// Only the metadata of each object.
    #[must_use]
    pub fn only_metadata(self) -> Self {
        Self {
            list_kind: Some("PartialObjectMetadataList".to_owned()),
            only_metadata: true,
            ..self
        }
    }

    /// The size of the first page.
    pub fn page_size(&self) -> PageSize {
        PageSize {
            now: self.page_size,
            most: self.page_size,
        }
    }

    /// One page of a list, of this many objects, or of all if that is 0, and of at most this many
    /// bytes: the first one, or the one that this token stands for. Waits for its turn before the
    /// answer is read, but not before it is requested: an API server that does not answer holds up
    /// no other list.
    pub async fn page(
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
            list_kind: self.list_kind.clone(),
            text: text_of(collect(body, most).await?),
            _permit: permit,
        })
    }

    /// Sends a request. Fails if the answer is a refusal.
    pub(crate) async fn send(
        &self,
        mut request: Request<Vec<u8>>,
        metadata_kind: &str,
    ) -> Result<Body, Failure> {
        if let Ok(accept) = self.accept(metadata_kind).parse() {
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        let response = timeout(RESPONSE_TIMEOUT, self.client.send(request.map(Body::from))).await;
        success(response.map_err(|_| Failure::Silent(RESPONSE_TIMEOUT))??).await
    }

    fn accept(&self, metadata_kind: &str) -> String {
        if self.only_metadata {
            format!("application/json;as={metadata_kind};g=meta.k8s.io;v=v1")
        } else {
            "application/json".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
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
        assert!(matches!(
            page,
            Err(Failure::Silent(crate::client::LONGEST_ANSWER))
        ));
        assert_eq!(pages.available_permits(), 1);
    }

    #[test]
    fn a_list_of_another_kind_or_without_a_version_is_no_list_without_objects() {
        for (list, is_read) in [
            (
                r#"{"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []}"#,
                true,
            ),
            (
                r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#,
                true,
            ),
            (
                r#"{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": []}"#,
                false,
            ),
            (
                r#"{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}"#,
                false,
            ),
        ] {
            let body = PageBody {
                text: list.to_owned(),
                list_kind: Some("PodList".to_owned()),
                _permit: None,
            };
            assert_eq!(body.read().is_ok(), is_read, "{list}");
        }
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
