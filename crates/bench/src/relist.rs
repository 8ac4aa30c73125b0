//! Lists everything that the sidecar watches: the sidecar itself, and kube's `watcher` for the same
//! kinds. After an expired resource version both do the same again.

use std::time::Instant;

use anyhow::{Context, Result};
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube_runtime::watcher::{self, Event, watcher};
use pps_e2e::cluster::SIDECAR;
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::control_plane::ControlPlane;
use pps_e2e::metrics;

use crate::bed::Bed;
use crate::layout::Layout;
use crate::recorder::Product;
use crate::recording::wait;
use crate::report::{Figures, Unit, count};

/// The resources that both list.
const RESOURCES: [&str; 4] = ["nodes", "persistentpodstates", "pods", "statefulsets"];

pub(crate) async fn measure(bed: &mut Bed, workloads: usize) -> Result<String> {
    eprintln!("  a relist of {workloads} PPS × 10 Pods");
    let layout = Layout::new("bench", workloads, 10);
    let records = bed.prepare(Product::Ours, &[layout]).await?;
    let mut recorder = bed.start_recorder(Product::Ours).await?;
    wait(&records, &mut recorder, layout.namespace, layout.all_pods()).await?;
    recorder.settle().await?;
    recorder.stop().await?;

    let mut figures = Figures::default();
    let before = lists(bed).await?;
    let mut recorder = bed.start_recorder(Product::Ours).await?;
    let took = recorder
        .wait_until_ready()
        .await?
        .duration_since(recorder.started);
    let now = lists(bed).await?;
    add(
        &mut figures,
        "sidecar",
        now - before,
        took.as_secs_f64(),
        &recorder.proxy,
    );
    recorder.stop().await?;

    let proxy = Proxy::start(bed.control_plane.url()).await?;
    let client = ControlPlane::client_of(&proxy.kubeconfig(&bed.control_plane, SIDECAR)?)?;
    let config = watcher::Config::default;
    let started = Instant::now();
    futures::try_join!(
        list(watcher(Api::<Pod>::all(client.clone()), config())),
        list(watcher(Api::<StatefulSet>::all(client.clone()), config())),
        list(watcher(
            Api::<PartialObjectMeta<Node>>::all(client.clone()),
            config()
        )),
        list(watcher(
            Api::<DynamicObject>::all_with(client, &Product::Ours.resource()),
            config()
        )),
    )?;
    let took = started.elapsed().as_secs_f64();
    add(
        &mut figures,
        "kube's watcher",
        lists(bed).await? - now,
        took,
        &proxy,
    );
    Ok(figures.table(&format!("{} PPS × 10 Pods", count(workloads))))
}

fn add(figures: &mut Figures, column: &str, lists: f64, seconds: f64, proxy: &Proxy) {
    let (sent, received) = proxy.bytes();
    figures.add(column, "requests", Unit::Count, lists);
    figures.add(column, "sent", Unit::Bytes, sent as f64);
    figures.add(column, "received", Unit::Bytes, received as f64);
    figures.add(column, "complete after", Unit::Seconds, seconds);
}

/// Reads a watch until its first list is complete.
async fn list<K>(events: impl Stream<Item = Result<Event<K>, watcher::Error>>) -> Result<()> {
    let mut events = std::pin::pin!(events);
    while !matches!(
        events.next().await.context("the watch ended")??,
        Event::InitDone
    ) {}
    Ok(())
}

/// How many lists the API server has answered so far.
async fn lists(bed: &Bed) -> Result<f64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let samples = metrics::parse(&bed.client().request_text(request).await?);
    Ok(samples
        .iter()
        .filter(|sample| {
            sample.name == "apiserver_request_total" && label(sample, "verb") == "LIST"
        })
        .filter(|sample| RESOURCES.contains(&label(sample, "resource")))
        .map(|sample| sample.value)
        .sum())
}

fn label<'a>(sample: &'a metrics::Sample, name: &str) -> &'a str {
    sample.labels.get(name).map_or("", String::as_str)
}
