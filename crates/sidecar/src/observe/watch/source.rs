//! Where a watch reads from, and the probe that asks whether it can be listed and watched.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use kube::core::ApiResource;
use kube::runtime::watcher;
use pps_core::kinds;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// How long the API server may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the rest of a refusal; a healthy watch may stay silent.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(250);

/// The objects to list and watch.
pub(super) struct Source<O> {
    pub(super) api: Api<O>,
    pub(super) config: watcher::Config,
}

impl<O> Source<O> {
    pub(super) fn new(api: Api<O>) -> Self {
        Self { api, config: watcher::Config::default() }
    }

    pub(super) fn with_page_size(mut self, size: u32) -> Self {
        self.config.page_size = Some(size);
        self
    }

    pub(super) fn with_fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }
}

impl<O: Clone + DeserializeOwned + Debug> Source<O> {
    /// Fails if these objects cannot be listed or cannot be watched.
    pub(super) async fn probe(&self) -> kube::Result<()> {
        let field_selector = self.config.field_selector.clone();
        let list =
            ListParams { field_selector: field_selector.clone(), limit: Some(1), ..ListParams::default() };
        let watch = WatchParams { field_selector, timeout: Some(1), ..WatchParams::default() };
        let probe = async {
            let list = self.api.list(&list).await?;
            let version = list.metadata.resource_version.unwrap_or_default();
            let mut events = Box::pin(self.api.watch(&watch, &version).await?);
            // A refusal arrives at once, as the first event.
            timeout(REFUSAL_TIMEOUT, events.next()).await.map_or(Ok(None), Option::transpose).map(drop)
        };
        let no_answer = |_| kube::Error::Service("no answer from the API server".into());
        timeout(PROBE_TIMEOUT, probe).await.map_err(no_answer)?
    }
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

pub(super) fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            matches!(error, kube::Error::Api(status) if status.code == 403)
        }
        watcher::Error::WatchError(status) => status.code == 403,
        _ => false,
    }
}

pub(super) fn is_forbidden_response(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}
