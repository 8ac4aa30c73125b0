//! A webhook interferes with the sidecar's writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use kube::api::{Patch, PatchParams};
use pps_e2e::{
    cluster::Cluster,
    wait::{Progress, wait_for},
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};

use super::fleet::Fleet;
use crate::support::{Random, TIMEOUT, note};

/// A server that accepts every connection and never responds.
struct SilentServer {
    port: u16,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl SilentServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                count.fetch_add(1, Relaxed);
                kept.push(connection);
            }
        });
        Self {
            port,
            connections,
            task,
        }
    }
}

impl Drop for SilentServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How long the API server waits for a webhook.
const HANGS: Duration = Duration::from_secs(5);
/// More objects than the sidecar writes at the same time.
const MANY: u8 = 18;

/// Registers a webhook for each status write in this namespace.
async fn register_status_webhook(cluster: &Cluster, namespace: &str, url: &str) {
    let label = "e2e.pps.kubewarden.io/asks";
    let name = format!("{namespace}.pps.kubewarden.io");
    let webhook = json!({
        "name": name,
        "clientConfig": {"url": url},
        "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
            "resources": ["persistentpodstates/status"]}],
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {label: namespace}},
        "sideEffects": "None",
        "timeoutSeconds": HANGS.as_secs(),
        "admissionReviewVersions": ["v1"],
    });
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [webhook]});
    let namespaced = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": {label: namespace}}});
    cluster
        .apply_objects(&[namespaced, configuration])
        .await
        .unwrap();
    // The API server uses it a moment later.
    let api = cluster.pps_api(namespace);
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"status": {"desired": 77}}));
    wait_for("the webhook to be called", TIMEOUT, async || {
        let refused = api.patch_status("web-a", &dry, &patch).await.is_err();
        Ok(Progress::when(refused, (), "a status can still be written"))
    })
    .await
    .unwrap();
}

async fn remove_status_webhook(cluster: &Cluster, namespace: &str) {
    let name = format!("{namespace}.pps.kubewarden.io");
    cluster
        .control_plane
        .kubectl(&["delete", "validatingwebhookconfiguration", &name])
        .await
        .unwrap();
}

/// Of two namespaces, one has a webhook that never responds, and more objects than concurrent
/// writes are allowed.
pub(crate) async fn failing_writes_do_not_block_other_objects(cluster: &Cluster) {
    let mut random = Random::of("webhooks");
    let (hangs, well) = tokio::join!(
        Fleet::new(cluster, "hook-hangs", MANY, 1),
        Fleet::new(cluster, "no-hook", 2, 2)
    );
    let sidecar = cluster.sidecar().unwrap();
    let metric =
        "persistentpodstate_writes_total{resource=\"persistentpodstates/status\",result=\"error\"}";
    let refused = async || sidecar.metric(metric).await.map(Option::unwrap_or_default);
    let hung = hangs.states().await;

    let silence = SilentServer::start().await;
    register_status_webhook(
        cluster,
        "hook-hangs",
        &format!("https://127.0.0.1:{}/", silence.port),
    )
    .await;
    let (before, count) = (silence.connections.load(Relaxed), refused().await.unwrap());
    let started = Instant::now();
    hangs.replace_some(&mut random, usize::from(MANY)).await;
    wait_for(
        "as many writes to hang as are allowed concurrently",
        TIMEOUT,
        async || {
            let connections = silence.connections.load(Relaxed) - before;
            let refused = refused().await? - count;
            let seen = format!("{connections} connections, {refused} refused");
            Ok(Progress::when(
                connections > 16 && refused >= 16.0,
                (),
                seen,
            ))
        },
    )
    .await
    .unwrap();
    // The others continue. Each would otherwise wait for a hanging write.
    let mut waited = Duration::ZERO;
    for _ in 0..4 {
        well.replace_some(&mut random, 2).await;
        let replaced = Instant::now();
        for set in well.sets() {
            well.pool.recorded(&set, &set).await;
        }
        waited += replaced.elapsed();
    }
    note(&format!(
        "{} hanging writes failed in {:.0?}, while four changes elsewhere were recorded in \
         {waited:.1?} in total",
        refused().await.unwrap() - count,
        started.elapsed()
    ));
    assert!(waited < 3 * HANGS, "{waited:?}");
    assert_eq!(hangs.states().await, hung, "no state may have been written");
    remove_status_webhook(cluster, "hook-hangs").await;
    drop(silence);
    for fleet in [&hangs, &well] {
        fleet.end_state().await;
    }
}
