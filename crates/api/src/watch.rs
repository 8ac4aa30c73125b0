//! The events of a watch, and whether the API server goes back in time.

use std::io;
use std::time::Duration;

use futures::stream::{BoxStream, once, try_unfold};
use futures::{Stream, StreamExt, TryFutureExt, TryStreamExt};
use http::{HeaderValue, header};
use http_body_util::BodyExt;
use kube::api::WatchParams;
use kube::client::Body;
use tokio::time::timeout;

use crate::client::LONGEST_SILENCE;
use crate::describe::root_cause;
use crate::failure::Failure;
use crate::source::Source;
use crate::stream::{LineError, lines};

/// How long the API server keeps a watch open. It ends the watch then, whether there were events or
/// not, and the sidecar opens the next one where it ended: one cheap request a minute. So a
/// connection that stays silent for longer is dead. Neither bookmarks nor keep-alive tell as much:
/// the API server promises no bookmark, and a proxy may keep a connection alive that it forwards
/// nothing on.
const WATCH_SECONDS: u32 = 50;
/// A watch that ends earlier was not ended by its time: the API server may have stopped.
pub const WATCH_TIME: Duration = Duration::from_secs(WATCH_SECONDS as u64);
/// The largest answer about the version: it has the metadata of one object.
const LARGEST_VERSION: usize = 16 << 20;
/// The largest event, in bytes. etcd stores objects of 1.5 MiB by default.
const LARGEST_EVENT: usize = 64 << 20;

/// What a watch yields.
pub enum WatchSignal {
    /// The API server has accepted the watch.
    Opened,
    /// An event in JSON.
    Line(String),
}

/// Why a watch ends that did not end in time.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("{0}")]
    /// A request has failed, or the API server has ended the watch with an error.
    Failed(#[from] Failure),
    /// The API server has gone back to an earlier state, as after etcd was restored from a backup.
    #[error("the API server has gone back to an earlier state")]
    WentBack,
}

impl From<LineError> for Failure {
    fn from(error: LineError) -> Self {
        match error {
            LineError::TooLong => Self::TooLarge(LARGEST_EVENT),
            LineError::Io(error) => Self::Unreachable(root_cause(&error)),
        }
    }
}

impl Source {
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
    pub fn watch(
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
}

/// Fails if a version is earlier than one that was seen before it was asked for, as after etcd was
/// restored from a backup.
pub fn expect_not_earlier(version: &str, before: Option<u64>) -> Result<(), WatchError> {
    match version.parse() {
        Ok(version) if Some(version) < before => Err(WatchError::WentBack),
        _ => Ok(()),
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
