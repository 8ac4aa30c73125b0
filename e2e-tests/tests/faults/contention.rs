//! Webhooks and other writers interfere with the sidecar's writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use pps_e2e::{
    cluster::Cluster,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use super::fleet::Fleet;
use crate::support::{Random, TIMEOUT, ZONE, list, note};

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
        Self { port, connections, task }
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
    cluster.apply_objects(&[namespaced, configuration]).await.unwrap();
    // The API server uses it a moment later.
    let api = cluster.pps_api(namespace);
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
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
    cluster.control_plane.kubectl(&["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
}

/// Of three namespaces, one has an unreachable webhook and later another one has a webhook that never
/// responds. The latter has more objects than concurrent writes are allowed.
pub(crate) async fn failing_writes_do_not_block_other_objects(cluster: &Cluster) {
    let mut random = Random::of("webhooks");
    let (hangs, fails, well) = tokio::join!(
        Fleet::new(cluster, "hook-hangs", MANY, 1),
        Fleet::new(cluster, "hook-fails", 2, 2),
        Fleet::new(cluster, "no-hook", 2, 2),
    );
    let sidecar = cluster.sidecar().unwrap();
    let metric = "persistentpodstate_writes_total{resource=\"persistentpodstates/status\",result=\"error\"}";
    let refused = async || sidecar.metric(metric).await.map(Option::unwrap_or_default);
    let (hung, failed) = (hangs.states().await, fails.states().await);

    // Nothing listens on port 1.
    register_status_webhook(cluster, "hook-fails", "https://127.0.0.1:1/").await;
    let count = refused().await.unwrap();
    fails.replace_some(&mut random, 4).await;
    let refusing = Instant::now();
    let tried = wait_for("both objects to be tried again", TIMEOUT, async || {
        let tried = refused().await? - count;
        Ok(Progress::when(tried >= 4.0, tried, format!("{tried} writes were refused")))
    });
    let tried = tried.await.unwrap();
    // Two objects, each retried with growing pauses. Without pauses there would be hundreds of writes.
    let most = 20.0 + 4.0 * refusing.elapsed().as_secs_f64();
    assert!(tried <= most, "{tried} writes were refused");
    assert_eq!(fails.states().await, failed, "no state may have been written");
    remove_status_webhook(cluster, "hook-fails").await;

    let silence = SilentServer::start().await;
    register_status_webhook(cluster, "hook-hangs", &format!("https://127.0.0.1:{}/", silence.port)).await;
    let (before, count) = (silence.connections.load(Relaxed), refused().await.unwrap());
    let started = Instant::now();
    hangs.replace_some(&mut random, usize::from(MANY)).await;
    wait_for("as many writes to hang as are allowed concurrently", TIMEOUT, async || {
        let connections = silence.connections.load(Relaxed) - before;
        let refused = refused().await? - count;
        let seen = format!("{connections} connections, {refused} refused");
        Ok(Progress::when(connections > 16 && refused >= 16.0, (), seen))
    })
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
        "{tried} writes refused at once; {} hanging writes failed in {:.0?}, while four changes elsewhere \
         were recorded in {waited:.1?} in total",
        refused().await.unwrap() - count,
        started.elapsed()
    ));
    assert!(waited < 3 * HANGS, "{waited:?}");
    assert_eq!(hangs.states().await, hung, "no state may have been written");
    remove_status_webhook(cluster, "hook-hangs").await;
    drop(silence);
    for fleet in [&hangs, &fails, &well] {
        fleet.end_state().await;
    }
}

const THEIRS: &str = "Theirs";

fn their_number(object: &DynamicObject) -> Option<u64> {
    let condition = list(&object.data["status"]["conditions"]).find(|one| one["type"] == THEIRS)?;
    condition["message"].as_str()?.parse().ok()
}

/// Another writer counts in a condition of the same status, about ten times a second. A write of the sidecar
/// that drops states reads Pods first: on a busy machine that takes longer than the pauses of a faster
/// writer.
pub(crate) async fn converges_beside_a_busy_writer(cluster: &Cluster) {
    let mut random = Random::of("another writer");
    let mut fleet = Fleet::new(cluster, "contended", 1, 6).await;
    let sidecar = cluster.sidecar().unwrap();
    let metric =
        "persistentpodstate_writes_total{resource=\"persistentpodstates/status\",result=\"conflict\"}";
    let conflicts = async || sidecar.metric(metric).await.map(Option::unwrap_or_default);
    let before = conflicts().await.unwrap();
    let api = cluster.pps_api("contended");
    let (done, writes) = (AtomicBool::new(false), AtomicU64::new(0));

    let theirs = async {
        let mut random = Random::of("their pauses");
        let mut refused = 0_u64;
        while !done.load(Relaxed) {
            // A list must be written as a whole, so read it first.
            let mut object = api.get("web-a").await.unwrap();
            let taken = writes.load(Relaxed);
            assert!(
                taken == 0 || their_number(&object) == Some(taken),
                "the foreign condition was lost: {}",
                object.data
            );
            let mut conditions: Vec<Value> = list(&object.data["status"]["conditions"]).cloned().collect();
            conditions.retain(|one| one["type"] != THEIRS);
            conditions.push(json!({"type": THEIRS, "status": "True", "reason": "Counting",
                "message": (taken + 1).to_string(), "lastTransitionTime": "2026-01-01T00:00:00Z"}));
            object.data["status"]["conditions"] = json!(conditions);
            match api.replace_status("web-a", &PostParams::default(), &object).await {
                Ok(_) => writes.store(taken + 1, Relaxed),
                Err(kube::Error::Api(status)) if status.code == 409 => refused += 1,
                Err(other) => panic!("{other}"),
            }
            tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        }
        refused
    };
    let moves = async {
        for round in 0..100_u32 {
            fleet.replace_some(&mut random, 2).await;
            // Changes the sidecar's condition in the same list.
            let lacks = round % 2 == 0;
            for index in 0..6 {
                let value = (!lacks).then(|| format!("contended-zone-{round}"));
                let node = format!("contended-{index}");
                cluster.nodes.label(&node, ZONE, value.as_deref()).await.unwrap();
            }
            // Conflicts depend on timing, so continue until there are some.
            let met = writes.load(Relaxed) >= 20 && conflicts().await.unwrap() > before;
            if met && round >= 3 && !lacks {
                break;
            }
        }
        fleet.scale("web-a", 4).await;
        fleet.ready().await;
        // The sidecar succeeds although the other writer continues.
        fleet.end_state().await;
        done.store(true, Relaxed);
    };
    let (refused, ()) = tokio::join!(theirs, moves);
    let taken = writes.load(Relaxed);
    let conflicts = conflicts().await.unwrap() - before;
    note(&format!(
        "the other writer: {taken} writes, {refused} conflicts; the sidecar: {conflicts} conflicts"
    ));
    assert!(taken >= 20 && conflicts >= 1.0, "the writers did not conflict");
    let object = api.get("web-a").await.unwrap();
    assert_eq!(their_number(&object), Some(taken));
    fleet.end_state().await;
}
