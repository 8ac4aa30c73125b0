//! What recording costs: Pods that become Ready, the first start, and changes of Pods.

use std::ops::Sub;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bed::{Bed, CANARY};
use crate::etcd::Records;
use crate::layout::{ADDRESS, Layout};
use crate::meter::{cpu, memory};
use crate::recorder::{Product, Recorder};
use crate::report::{Figures, Unit, count};

/// How long all Pods of a turn may take to be recorded.
const LIMIT: Duration = Duration::from_mins(10);
/// How many Pods are changed, and how many per second. No cluster has fewer.
const CHANGES: usize = 1_000;
const CHANGES_PER_SECOND: u32 = 400;

/// A change of a Pod.
struct Change {
    name: &'static str,
    /// The annotation that changes.
    annotation: &'static str,
}

/// The changes that the product can be measured with: OpenKruise does not record an annotation that
/// changes after the Pod is Ready.
fn changes_seen_by(product: Product) -> &'static [Change] {
    const ALL: [Change; 2] = [
        Change {
            name: "irrelevant changes",
            annotation: "example.com/heartbeat",
        },
        Change {
            name: "recorded changes",
            annotation: ADDRESS,
        },
    ];
    if product == Product::Ours {
        &ALL
    } else {
        &ALL[..1]
    }
}

/// What was used up to a moment.
#[derive(Clone, Copy)]
struct Usage {
    cpu: f64,
    api_server_cpu: f64,
    sent: f64,
    received: f64,
}

impl Usage {
    fn of(bed: &Bed, recorder: &Recorder) -> Result<Self> {
        let (sent, received) = recorder.proxy.bytes();
        Ok(Self {
            cpu: cpu(&recorder.process)?,
            api_server_cpu: bed.api_server_cpu()?,
            sent: sent as f64,
            received: received as f64,
        })
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            api_server_cpu: self.api_server_cpu - before.api_server_cpu,
            sent: self.sent - before.sent,
            received: self.received - before.received,
        }
    }
}

/// Rows of one scenario, in one column.
struct Rows<'a> {
    figures: &'a mut Figures,
    column: &'a str,
    scenario: &'a str,
}

impl Rows<'_> {
    fn add(&mut self, what: &str, unit: Unit, value: f64) {
        self.figures.add(
            self.column,
            &format!("{}: {what}", self.scenario),
            unit,
            value,
        );
    }

    fn add_usage(&mut self, used: Usage) {
        self.add("CPU", Unit::Seconds, used.cpu);
        self.add("CPU of the API server", Unit::Seconds, used.api_server_cpu);
        self.add("sent", Unit::Bytes, used.sent);
        self.add("received", Unit::Bytes, used.received);
    }

    fn add_memory(&mut self, recorder: &Recorder) -> Result<()> {
        let memory = memory(&recorder.process)?;
        self.add("memory, peak", Unit::Bytes, memory.peak as f64);
        self.add("memory, afterwards", Unit::Bytes, memory.now as f64);
        Ok(())
    }
}

/// 1,000 Pods of one StatefulSet become Ready at 50 a second, and 1,000 of another at once.
pub(crate) async fn measure_becoming_ready(
    bed: &mut Bed,
    product: Product,
    figures: &mut Figures,
) -> Result<()> {
    eprintln!("  1,000 Pods become Ready");
    let slow = Layout::new("slow", 1, 1_000).not_ready();
    let fast = Layout::new("fast", 1, 1_000).not_ready();
    let records = bed.prepare(product, &[slow, fast]).await?;
    let mut recorder = bed.start_recorder(product).await?;
    recorder.wait_until_ready().await?;
    wait(&records, &mut recorder, CANARY, 1).await?;
    recorder.settle().await?;
    let column = product.title();
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
        "lastTransitionTime": "2026-01-07T09:11:00Z"}]}});
    for (scenario, layout, rate) in [("50 a second", slow, Some(50)), ("at once", fast, None)] {
        let mut rows = Rows {
            figures,
            column,
            scenario,
        };
        let before = Usage::of(bed, &recorder)?;
        let writes = records.writes(layout.namespace);
        let last = patch_pods(bed.client(), layout, layout.all_pods(), rate, &patch).await?;
        let recorded = wait(&records, &mut recorder, layout.namespace, layout.all_pods()).await?;
        recorder.settle().await?;
        rows.add(
            "writes",
            Unit::Count,
            (records.writes(layout.namespace) - writes) as f64,
        );
        let after = recorded.saturating_duration_since(last);
        rows.add("last recorded after", Unit::Seconds, after.as_secs_f64());
        rows.add_usage(Usage::of(bed, &recorder)? - before);
    }
    Rows {
        figures,
        column,
        scenario: "afterwards",
    }
    .add_memory(&recorder)?;
    recorder.stop().await
}

/// The first start with PPS of ten Pods each, and changes of Pods afterwards.
pub(crate) async fn measure_start(
    bed: &mut Bed,
    product: Product,
    workloads: usize,
    column: &str,
    figures: &mut Figures,
) -> Result<()> {
    eprintln!("  start with {workloads} PPS × 10 Pods");
    let layout = Layout::new("bench", workloads, 10);
    let records = bed.prepare(product, &[layout]).await?;
    let api_server_cpu = bed.api_server_cpu()?;
    let mut recorder = bed.start_recorder(product).await?;
    let recorded = wait(&records, &mut recorder, layout.namespace, layout.all_pods()).await?;
    recorder.settle().await?;
    let mut rows = Rows {
        figures,
        column,
        scenario: "start",
    };
    let took = recorded.saturating_duration_since(recorder.started);
    rows.add("all recorded after", Unit::Seconds, took.as_secs_f64());
    rows.add(
        "writes",
        Unit::Count,
        records.writes(layout.namespace) as f64,
    );
    let used = Usage::of(bed, &recorder)?;
    rows.add_usage(Usage {
        api_server_cpu: used.api_server_cpu - api_server_cpu,
        ..used
    });
    rows.add_memory(&recorder)?;
    for Change { name, annotation } in changes_seen_by(product) {
        let before = Usage::of(bed, &recorder)?;
        let patch = json!({"metadata": {"annotations": {*annotation: "10.99.0.1"}}});
        patch_pods(
            bed.client(),
            layout,
            CHANGES,
            Some(CHANGES_PER_SECOND),
            &patch,
        )
        .await?;
        recorder.settle().await?;
        let scenario = format!("{} {name}", count(CHANGES));
        Rows {
            figures,
            column,
            scenario: &scenario,
        }
        .add_usage(Usage::of(bed, &recorder)? - before);
    }
    recorder.stop().await
}

/// Waits until so many Pods of a namespace are recorded. Returns when the last of them was seen.
pub(crate) async fn wait(
    records: &Records,
    recorder: &mut Recorder,
    namespace: &str,
    states: usize,
) -> Result<Instant> {
    match records.wait(namespace, states, LIMIT).await? {
        Some(recorded) => Ok(recorded),
        None => recorder.fail("not all Pods are recorded"),
    }
}

/// Patches so many Pods once, spread over all workloads, at a rate per second or as fast as
/// possible. Returns when the last patch was answered.
async fn patch_pods(
    client: Client,
    layout: Layout,
    changes: usize,
    rate: Option<u32>,
    patch: &Value,
) -> Result<Instant> {
    let api: Api<Pod> = Api::namespaced(client, layout.namespace);
    let step = layout.all_pods() / changes;
    let started = Instant::now();
    let patches = (0..changes).map(|change| {
        let api = api.clone();
        let name = layout.pod_name(change * step);
        async move {
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(change as f64 / f64::from(rate));
                sleep(due.saturating_sub(started.elapsed())).await;
            }
            let params = PatchParams::default();
            if patch["status"].is_object() {
                api.patch_status(&name, &params, &Patch::Merge(patch)).await
            } else {
                api.patch(&name, &params, &Patch::Merge(patch)).await
            }
        }
    });
    let _: Vec<Pod> = stream::iter(patches).buffered(32).try_collect().await?;
    Ok(Instant::now())
}
