//! The writes of a first start: the sidecar's, and the same patches from a client that does nothing else, which shows
//! what API server and etcd can take.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, header};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use pps_e2e::cluster::pps_resource;
use pps_e2e::control_plane::ControlPlane;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::LAYOUT;
use crate::meter::{cpu, memory};
use crate::report::{count, table};
use crate::sidecar::{TestBed, mebibytes};

/// How many patches are in flight at once. The sidecar's default is 16.
const CONCURRENCY: [usize; 4] = [8, 16, 32, 64];

pub(crate) async fn measure() -> Result<String> {
    let mut rows = Vec::new();
    let mut bodies = Vec::new();
    for turn in 0..2 {
        eprintln!("  the sidecar's writes, turn {turn}");
        let test_bed = TestBed::prepare(LAYOUT).await?;
        let (before, sent) = (served(&test_bed)?, test_bed.proxy.bytes());
        let mut sidecar = test_bed.start_sidecar()?;
        let time = sidecar.wait_until_recorded(LAYOUT.all_pods()).await?.duration_since(sidecar.started);
        let (after, now) = (served(&test_bed)?, test_bed.proxy.bytes());
        sidecar.wait_until_idle().await?;
        let writes = sidecar.status_writes().await?;
        let title = "sidecar, from its start";
        let mut cells = row(title, time, writes, now.0 - sent.0, now.1 - sent.1, after - before);
        cells.push(mebibytes(memory(&sidecar.process)?.1));
        eprintln!("    {cells:?}");
        rows.push(cells);
        bodies = statuses(test_bed.control_plane.client()).await?;
        drop(sidecar);
        drop(test_bed);
        for concurrency in CONCURRENCY {
            eprintln!("  the same patches, {concurrency} at once");
            rows.push(send_patches(&bodies, concurrency).await?);
        }
    }
    rows.sort_by(|a, b| a[0].cmp(&b[0]));
    let size: usize = bodies.iter().map(|(_, status)| status.to_string().len()).sum();
    let title = format!("1,000 PPS × 10: {} bytes of statuses", count(size));
    Ok(table(
        &[
            &title,
            "time",
            "writes",
            "bytes sent",
            "bytes received",
            "CPU of API server and etcd",
            "peak memory",
        ],
        rows,
    ))
}

fn row(title: &str, time: Duration, writes: u64, sent: u64, received: u64, served: f64) -> Vec<String> {
    vec![
        title.to_owned(),
        format!("{:.2} s", time.as_secs_f64()),
        count(writes),
        count(sent),
        count(received),
        format!("{served:.2} s"),
    ]
}

fn served(test_bed: &TestBed) -> Result<f64> {
    test_bed.servers()?.iter().map(cpu).sum()
}

/// The name and the status of each object.
async fn statuses(client: Client) -> Result<Vec<(String, Value)>> {
    let api: Api<DynamicObject> = Api::all_with(client, &pps_resource());
    let objects = api.list(&ListParams::default()).await?;
    let status = |mut object: DynamicObject| {
        let name = object.metadata.name.take().context("an object without a name")?;
        Ok((name, object.data["status"].take()))
    };
    objects.into_iter().map(status).collect()
}

/// Sends each object's status in one patch, as the sidecar does, with UID and resource version, for the metadata in
/// return.
async fn send_patches(bodies: &[(String, Value)], concurrency: usize) -> Result<Vec<String>> {
    let test_bed = TestBed::prepare(LAYOUT).await?;
    let kubeconfig = test_bed.proxy.kubeconfig(&test_bed.control_plane, pps_e2e::cluster::SIDECAR)?;
    let client = ControlPlane::client_of(&kubeconfig)?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &pps_resource());
    let listed = api.list_metadata(&ListParams::default()).await?;
    let versions: std::collections::BTreeMap<_, _> = listed
        .into_iter()
        .map(|object| {
            let metadata = object.metadata;
            (
                metadata.name.unwrap_or_default(),
                json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version}),
            )
        })
        .collect();
    let requests = bodies.iter().map(|(name, status)| {
        let body = json!({"metadata": versions.get(name), "status": status}).to_string().into_bytes();
        Request::patch(format!(
            "/apis/apps.kruise.io/v1alpha1/namespaces/{}/persistentpodstates/{name}/status?fieldManager=bench",
            LAYOUT.namespace
        ))
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .header(header::ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .body(body)
    });
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    sleep(Duration::from_secs(2)).await;
    let (before, bytes) = (served(&test_bed)?, test_bed.proxy.bytes());
    let started = Instant::now();
    let answers = requests.into_iter().map(|request| client.request_text(request));
    let answers: Vec<String> = stream::iter(answers).buffer_unordered(concurrency).try_collect().await?;
    let time = started.elapsed();
    let now = test_bed.proxy.bytes();
    let title = format!("the same patches, {concurrency:2} at once");
    let writes = answers.len() as u64;
    let mut cells = row(&title, time, writes, now.0 - bytes.0, now.1 - bytes.1, served(&test_bed)? - before);
    cells.push(String::new());
    eprintln!("    {cells:?}");
    Ok(cells)
}
