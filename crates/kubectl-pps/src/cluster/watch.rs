//! Watches what `watch` shows. A watch that fails begins again after a while.

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use kube::Api;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use pps_core::pps::{GROUP, KIND, PLURAL};
use serde_json::Value;

use crate::snapshot::{Report, Scope, Snapshot, Watched};

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Something may have changed.
    Report(Watched, Report),
    /// This kind may not be watched.
    Forbidden(Watched),
    /// A watch has failed and is tried again.
    Lost(String),
}

/// Watches everything of a scope that could be read.
pub fn watch(client: &Client, scope: &Scope, snapshot: &Snapshot) -> SelectAll<BoxStream<'static, News>> {
    let version = snapshot.pps.first().and_then(|pps| pps.object()["apiVersion"].as_str());
    let version = version.and_then(|version| version.split('/').nth(1)).unwrap_or("v1alpha1");
    let mut streams = vec![of(client, scope, Watched::Pps, &resource(GROUP, version, KIND, PLURAL))];
    if snapshot.unread("pods").is_none() {
        streams.push(of(client, scope, Watched::Pods, &resource("", "v1", "Pod", "pods")));
    }
    if snapshot.nodes.is_some() {
        streams.push(of(client, &Scope::All, Watched::Nodes, &resource("", "v1", "Node", "nodes")));
    }
    if snapshot.unread("statefulsets.apps").is_none() {
        let workloads = resource("apps", "v1", "StatefulSet", "statefulsets");
        streams.push(of(client, scope, Watched::Workloads, &workloads));
    }
    if snapshot.has_kruise_workloads {
        let workloads = resource(GROUP, "v1beta1", "StatefulSet", "statefulsets");
        streams.push(of(client, scope, Watched::KruiseWorkloads, &workloads));
    }
    select_all(streams)
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn of(client: &Client, scope: &Scope, watched: Watched, resource: &ApiResource) -> BoxStream<'static, News> {
    let api: Api<DynamicObject> = match scope {
        Scope::All => Api::all_with(client.clone(), resource),
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
    };
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let news = move |event: Result<Event<DynamicObject>, watcher::Error>| match event {
        Ok(Event::Init) => News::Report(watched, Report::Begin),
        Ok(Event::InitApply(object) | Event::Apply(object)) => {
            News::Report(watched, Report::Put(Box::new(json(&object))))
        }
        Ok(Event::Delete(object)) => News::Report(watched, Report::Gone(Box::new(json(&object)))),
        Ok(Event::InitDone) => News::Report(watched, Report::Done),
        Err(error) if is_forbidden(&error) => News::Forbidden(watched),
        Err(error) => News::Lost(pps_check::gather::reader::root_cause(&error)),
    };
    events.map(news).boxed()
}

fn json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn is_forbidden(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
        if status.code == 403
    )
}
