//! The worker with an API server that answers as a test wants.

mod fallback;
mod reads;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use http_body_util::BodyExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::client::Body;
use pps_core::Reason;
use pps_recorder::kinds::Definition;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::service_fn;

use super::Worker;
use super::actions::{Action, Task};
use crate::args::Args;
use crate::lead::Leadership;
use crate::observe::discovery::WatchId;
use crate::observe::objects::read_stateful_set;
use crate::observe::watch::{Observation, Watches};
use crate::telemetry::Health;
use pps_recorder::facts::{
    GroupKind, NamespacedName, NodeFact, PendingPod, PodFact, WorkloadFact, WorkloadKey,
    store::Update,
};
use pps_recorder::timing::schedule::Candidates;
use pps_recorder::{Fact, StatusOutcome};

/// The bodies of all writes.
type Requests = Arc<Mutex<Vec<Value>>>;

/// A StatefulSet that asks for nothing.
fn plain_workload() -> Value {
    json!({"metadata": {"name": "w", "namespace": "n", "uid": "uid-w"}, "spec": {"replicas": 1}})
}

fn stateful_set(object: &Value) -> WorkloadFact {
    read_stateful_set(&object.to_string())
        .unwrap()
        .fact
        .unwrap()
}

fn list(items: &[Value]) -> (u16, Value) {
    (
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items}),
    )
}

/// An API server that answers each write by its body, with a status code and an object. A read
/// finds the plain workload.
fn api_server(
    answer: impl Fn(&Value) -> (u16, Value) + Clone + Send + 'static,
) -> (Client, Requests) {
    api_server_with_reads(|_| list(&[plain_workload()]), answer)
}

/// An API server that answers each read by its path and query, and each write by its body.
fn api_server_with_reads(
    read: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
    answer: impl Fn(&Value) -> (u16, Value) + Clone + Send + 'static,
) -> (Client, Requests) {
    let requests = Requests::default();
    let seen = requests.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let (seen, read, answer) = (seen.clone(), read.clone(), answer.clone());
        async move {
            if request.method() == http::Method::GET {
                let (code, answer) = read(&request.uri().to_string());
                let answer = Body::from(answer.to_string().into_bytes());
                return Ok(http::Response::builder().status(code).body(answer).unwrap());
            }
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let (code, answer) = answer(&body);
            seen.lock().unwrap().push(body);
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::builder().status(code).body(answer).unwrap())
        }
    });
    (Client::new(service, "n"), requests)
}

fn refusal(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message});
    (code, status)
}

fn pps(version: &str) -> Observation {
    let object = json!({
        "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": version, "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        },
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(object).unwrap());
    let update = Update::Apply(NamespacedName::new("n", "w"), Box::new(fact));
    Observation::PersistentPodStates(update)
}

/// A StatefulSet that asks for a PPS.
fn annotated_workload(key: &str) -> Value {
    let mut workload = plain_workload();
    workload["metadata"]["annotations"] = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": key});
    workload
}

fn annotated(key: &str) -> WorkloadFact {
    stateful_set(&annotated_workload(key))
}

/// A PPS with states of three Pods. The workload wants only the first of them.
fn pps_with_states() -> Observation {
    let state = json!({"nodeName": "node-1", "nodeTopologyLabels": {"zone": "a"}});
    let object = json!({
        "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6", "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        },
        "status": {"targetUID": "uid-w", "podStates": {"w-0": state, "w-1": state, "w-2": state}},
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(object).unwrap());
    Observation::PersistentPodStates(Update::Apply(NamespacedName::new("n", "w"), Box::new(fact)))
}

/// Reads of `w-1` are refused for seven seconds.
fn throttled(path: &str) -> (u16, Value) {
    if path.contains("statefulsets") {
        return list(&[plain_workload()]);
    }
    if path.ends_with("w-1") {
        let mut status = refusal(429, "TooManyRequests", "slow down");
        status.1["details"] = json!({"retryAfterSeconds": 7});
        return status;
    }
    list(&[])
}

fn report_plain_workload(worker: &mut Worker) {
    let plain = stateful_set(&plain_workload());
    report_workload(worker, Update::Apply(NamespacedName::new("n", "w"), plain));
}

#[tokio::test]
async fn a_drop_that_cannot_be_checked_holds_up_its_own_state_only_and_waits_as_long_as_the_api_server_asks()
 {
    let (client, patches) = api_server_with_reads(throttled, |_| {
        (200, json!({"metadata": {"resourceVersion": "8"}}))
    });
    let mut worker = worker(client, [pps_with_states()]);
    report_plain_workload(&mut worker);
    worker.take_turn();
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    worker.done(done);
    assert_eq!(
        *patches.lock().unwrap(),
        [Value::Null; 0],
        "nothing is written before the check"
    );
    let start = Instant::now();
    worker.take_turn();
    assert!(worker.next_due().unwrap() > start + Duration::from_secs(6));

    write_status(&mut worker, false);
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    worker.done(done);
    assert_eq!(
        patches.lock().unwrap()[0]["status"]["podStates"],
        json!({"w-2": null})
    );
}

fn workload() -> WorkloadKey {
    WorkloadKey {
        object: NamespacedName::new("n", "w"),
        kind: GroupKind::stateful_set(),
    }
}

fn report_workload(worker: &mut Worker, update: Update<NamespacedName, WorkloadFact>) {
    let id = WatchId {
        kind: GroupKind::stateful_set(),
        number: 0,
    };
    worker.apply(Observation::Workloads(id, update));
}

/// A worker that leads and whose lists are complete: one node, and these objects.
fn worker(client: Client, objects: impl IntoIterator<Item = Observation>) -> Worker {
    worker_in(&Leadership::fixed(true), client, objects)
}

fn worker_in(
    leadership: &Leadership,
    client: Client,
    objects: impl IntoIterator<Item = Observation>,
) -> Worker {
    let (sender, _) = mpsc::channel(1);
    let watches = Watches::new(client, None, Health::default(), Arc::default(), sender);
    let args = Args::parse_from(["pps-sidecar", "--namespace-selector="]);
    let mut worker = Worker::new(&args, watches, leadership.clone());
    worker.follow_leadership();
    // Only what a test reports is observed.
    worker.watching.has_pods = true;
    for update in [Update::Begin(0), Update::Done] {
        report_workload(&mut worker, update);
    }
    worker.apply(Observation::PersistentPodStates(Update::Begin(0)));
    for object in objects {
        worker.apply(object);
    }
    worker.apply(Observation::PersistentPodStates(Update::Done));
    worker.recorder.apply(Fact::KindsKnown);
    for update in [Update::Begin(u64::MAX), Update::Done] {
        worker.apply(Observation::Pods(update));
    }
    for update in [
        Update::Begin(u64::MAX),
        Update::Apply("node-1".into(), NodeFact::default()),
        Update::Done,
    ] {
        worker.apply(Observation::Nodes(update));
    }
    worker
}

/// Sends the status of the PPS, if there is something to write.
fn write_status(worker: &mut Worker, is_retry: bool) {
    let action = worker.decide_status(&NamespacedName::new("n", "w"), Instant::now());
    send(worker, action, is_retry);
}

fn begin_generated(worker: &mut Worker, now: Instant) {
    let action = worker.decide_generated(workload(), now);
    send(worker, action, false);
}

fn evict(worker: &mut Worker, pod: &NamespacedName, now: Instant) {
    let action = worker.decide_eviction(pod, now);
    send(worker, action, false);
}

fn send(worker: &mut Worker, action: Option<Action>, is_retry: bool) {
    if let Some(action) = action {
        worker.send(Task { action, is_retry });
    }
}

/// The API server has stored the status of an object.
fn stored(worker: &mut Worker, pps: &NamespacedName, resource_version: &str) {
    let outcome = StatusOutcome::Stored { resource_version };
    worker.recorder.on_status_done(pps, "uid-1", outcome);
}

/// Decides the generated PPS, and waits for the write if there is one. Returns the notices.
async fn write_generated_pps(worker: &mut Worker) -> Vec<(Reason, String)> {
    begin_generated(worker, Instant::now());
    if let Some(done) = worker.requests.next_outcome().await {
        worker.done(done.unwrap());
    }
    let notices = worker.recorder.take_work().notices;
    notices
        .into_iter()
        .map(|notice| (notice.reason, notice.message))
        .collect()
}

#[tokio::test]
async fn writes_an_object_that_has_changed_while_the_program_stops() {
    // The API server has the object in version 7, and refuses patches that were made from another.
    let (client, patches) = api_server(|patch| {
        if patch["metadata"]["resourceVersion"] == "7" {
            (200, json!({"metadata": {"resourceVersion": "8"}}))
        } else {
            refusal(409, "Conflict", "the object has been modified")
        }
    });
    let mut worker = worker(client, [pps("6")]);
    worker.take_turn();
    let (sender, mut observations) = mpsc::channel(8);
    let met = patches.clone();
    tokio::spawn(async move {
        while met.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The watch reports the version of the other writer after the first conflict.
        sender.send(pps("7")).await.unwrap();
        std::future::pending::<()>().await;
    });
    let stopped =
        tokio::time::timeout(Duration::from_secs(5), worker.finish(&mut observations)).await;
    assert!(
        stopped.is_ok(),
        "still writing: {:?}",
        patches.lock().unwrap().last()
    );
    assert_eq!(
        patches.lock().unwrap().last().unwrap()["metadata"]["resourceVersion"],
        "7"
    );
}

#[tokio::test]
async fn writes_what_changed_during_the_last_write_before_the_program_stops() {
    let (client, patches) = api_server(|_| (200, json!({"metadata": {"resourceVersion": "8"}})));
    let mut worker = worker(client, [pps("6")]);
    worker.take_turn();
    assert_eq!(worker.requests.count(), 1);
    // The workload appears while the write is on its way.
    let plain = WorkloadFact {
        annotations: [].into(),
        ..annotated("zone")
    };
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), plain),
    );
    // The change is due before the write has ended, and has to wait for it.
    worker.agenda.statuses.take_all();
    worker.recorder.take_work();
    let (_sender, mut observations) = mpsc::channel(8);
    let stopped =
        tokio::time::timeout(Duration::from_secs(5), worker.finish(&mut observations)).await;
    assert!(stopped.is_ok());
    let patches = patches.lock().unwrap();
    assert_eq!(patches.len(), 2);
    assert_eq!(patches[1]["status"]["targetUID"], "uid-w");
}

#[tokio::test]
async fn a_status_that_is_refused_again_and_again_is_reported_once() {
    let denied = r#"admission webhook "other" denied the request: "#;
    let times = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (client, patches) = api_server(move |_| {
        let time = times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if time == 2 {
            refusal(503, "", "busy")
        } else {
            refusal(403, "", &format!("{denied}{time}"))
        }
    });
    let mut worker = worker(client, [pps("6")]);
    let plain = WorkloadFact {
        annotations: [].into(),
        ..annotated("zone")
    };
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), plain),
    );
    let mut reported = Vec::new();
    for _ in 0..8 {
        write_status(&mut worker, true);
        let done = worker.requests.next_outcome().await.unwrap().unwrap();
        worker.done(done);
        reported.push(worker.recorder.take_work().notices);
    }
    let counts: Vec<usize> = reported.iter().map(Vec::len).collect();
    assert_eq!(
        (counts, patches.lock().unwrap().len()),
        (vec![0, 0, 0, 0, 1, 0, 0, 0], 8)
    );
    let notice = &reported[4][0];
    assert_eq!(notice.reason, Reason::WriteRefused);
    assert!(
        notice.message.contains("PersistentPodState w:"),
        "{}",
        notice.message
    );
}

#[tokio::test]
async fn a_refused_write_is_reported_once_and_made_again_when_the_annotations_change() {
    let denied = r#"admission webhook "p.kubewarden.admission" denied the request: no"#;
    let stored = Arc::new(Mutex::new(annotated_workload("zone")));
    let read = stored.clone();
    let read = move |_: &str| list(&[read.lock().unwrap().clone()]);
    let (client, requests) = api_server_with_reads(read, |_| refusal(400, "BadRequest", denied));
    let mut worker = worker(client, []);
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), annotated("zone")),
    );
    let notices = write_generated_pps(&mut worker).await;
    let [(Reason::WriteRefused, message)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(
        message.starts_with("cannot create PersistentPodState w;") && message.contains(denied),
        "{message}"
    );
    for _ in 0..5 {
        assert_eq!(write_generated_pps(&mut worker).await, []);
    }
    assert_eq!(requests.lock().unwrap().len(), 1);
    assert!(
        worker.agenda.generated.next(Candidates::All).is_some(),
        "it is tried again later"
    );
    assert_eq!(
        worker.agenda.waiting().count,
        0,
        "no write waits until then"
    );
    let after_the_wait = Instant::now() + Duration::from_secs(15);
    begin_generated(&mut worker, after_the_wait);
    assert_eq!(
        write_generated_pps(&mut worker).await,
        [],
        "while the other one is in flight"
    );
    begin_generated(&mut worker, Instant::now() + Duration::from_secs(25));
    assert_eq!(
        worker.requests.count(),
        0,
        "it waits longer after the second refusal"
    );

    *stored.lock().unwrap() = annotated_workload("host");
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), annotated("host")),
    );
    assert_eq!(write_generated_pps(&mut worker).await.len(), 1);
    assert_eq!(requests.lock().unwrap().len(), 3);
    report_workload(&mut worker, Update::Delete(NamespacedName::new("n", "w")));
    assert_eq!(write_generated_pps(&mut worker).await, []);
    assert!(worker.agenda.refused_writes.is_empty());
}

#[tokio::test]
async fn reports_once_that_a_generated_object_may_not_be_deleted() {
    let denied = r#"admission webhook "p.kubewarden.admission" denied the request: delete-protection is Always"#;
    let generated = json!({
        "metadata": {
            "name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6",
            "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
            "managedFields": [{"manager": "pps-sidecar", "fieldsV1": {"f:spec": {"f:targetRef": {}}}}],
        },
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}},
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(generated).unwrap());
    let update = Update::Apply(NamespacedName::new("n", "w"), Box::new(fact));
    let (client, requests) = api_server(|_| refusal(403, "Forbidden", denied));
    let mut worker = worker(client, [Observation::PersistentPodStates(update)]);
    let plain = stateful_set(&plain_workload());
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), plain),
    );
    let notices = write_generated_pps(&mut worker).await;
    let [(Reason::WriteRefused, message)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(
        message.contains("cannot delete PersistentPodState w; remove its protection"),
        "{message}"
    );
    assert_eq!(write_generated_pps(&mut worker).await, []);
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_new_term_waits_for_unschedulable_pods_and_refused_writes_anew() {
    let read = |_: &str| list(&[annotated_workload("zone")]);
    let (client, _) = api_server_with_reads(read, |_| refusal(403, "Forbidden", "exceeded quota"));
    let leadership = Leadership::fixed(true);
    let mut worker = worker_in(&leadership, client, []);
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), annotated("zone")),
    );
    write_generated_pps(&mut worker).await;
    let (pod, now) = (NamespacedName::new("n", "w-0"), Instant::now());
    worker
        .agenda
        .unschedulable_pods
        .skip_grace_period(&pod, "uid-1", now);
    assert!(!worker.agenda.refused_writes.is_empty());

    leadership.begin_another_term();
    worker.follow_leadership();
    assert!(worker.term.is_leader());
    assert!(
        worker.agenda.unschedulable_pods.observe(&pod, "uid-1", now) > now,
        "nobody knows how it was meanwhile"
    );
    assert!(worker.agenda.refused_writes.is_empty());
}

/// A PPS that forgets nodes.
fn forgetful() -> Value {
    json!({
        "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "nodeDeletionPolicy": "Forget",
        },
    })
}

/// A worker with a workload that forgets nodes.
fn forgetful_worker(client: Client) -> Worker {
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(forgetful()).unwrap());
    let update = Update::Apply(NamespacedName::new("n", "w"), Box::new(fact));
    let mut worker = worker(client, [Observation::PersistentPodStates(update)]);
    let workload = stateful_set(&plain_workload());
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), workload),
    );
    worker
}

/// A Pod of it that waits for a zone which no node has.
fn waiting_pod() -> PodFact {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["gone"]}]},
    ]}}});
    let pending = PendingPod {
        uid: "uid-w-0".into(),
        resource_version: "7".into(),
        pps: "w".into(),
        required_affinity: serde_json::from_value(affinity).unwrap(),
        is_unschedulable: true,
        unschedulable_since: None,
    };
    PodFact {
        owner: Some("uid-w".into()),
        pending: Some(Box::new(pending)),
        ..PodFact::default()
    }
}

#[tokio::test]
async fn evicts_no_pod_while_a_watch_does_not_work() {
    let evicted = |_: &Value| (201, json!({"kind": "Status", "status": "Success"}));
    let read = |path: &str| {
        list(&if path.contains("/nodes?") {
            vec![]
        } else {
            vec![forgetful()]
        })
    };
    let (client, requests) = api_server_with_reads(read, evicted);
    let mut worker = forgetful_worker(client);
    let pod = NamespacedName::new("n", "w-0");
    worker.apply(Observation::Pods(Update::Apply(pod.clone(), waiting_pod())));
    worker.evicts_pending_pods = true;
    let now = Instant::now();
    worker
        .agenda
        .unschedulable_pods
        .skip_grace_period(&pod, "uid-w-0", now);

    worker.health.mark_watch("nodes", false);
    evict(&mut worker, &pod, now);
    assert!(
        worker.requests.count() == 0,
        "a node may be there that the watch has not shown"
    );
    assert_eq!(worker.agenda.waiting().count, 1, "it is tried again");

    worker.health.mark_watch("nodes", true);
    worker.health.mark_synced();
    evict(&mut worker, &pod, now);
    worker.requests.next_outcome().await.unwrap().unwrap();
    assert_eq!(requests.lock().unwrap().len(), 1);
}

/// Lets the waiting Pod be evicted, whose grace period has ended.
async fn evict_waiting_pod(worker: &mut Worker) {
    let (pod, now) = (NamespacedName::new("n", "w-0"), Instant::now());
    worker.apply(Observation::Pods(Update::Apply(pod.clone(), waiting_pod())));
    worker.evicts_pending_pods = true;
    worker.health.mark_synced();
    worker
        .agenda
        .unschedulable_pods
        .skip_grace_period(&pod, "uid-w-0", now);
    evict(worker, &pod, now);
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    worker.done(done);
}

#[tokio::test]
async fn evicts_no_pod_that_a_node_could_take_which_no_watch_has_shown() {
    let node = json!({"metadata": {"name": "node-2", "labels": {"zone": "gone"}}});
    for (nodes, evictions) in [(vec![node], 0), (vec![], 1)] {
        let read = move |path: &str| {
            if path.contains("/persistentpodstates?") {
                return list(&[forgetful()]);
            }
            assert!(
                path.contains("/nodes?") && path.contains("zone+in+%28gone%29"),
                "{path}"
            );
            list(&nodes)
        };
        let (client, requests) = api_server_with_reads(read, |_| {
            (201, json!({"kind": "Status", "status": "Success"}))
        });
        let mut worker = forgetful_worker(client);
        evict_waiting_pod(&mut worker).await;
        assert_eq!(requests.lock().unwrap().len(), evictions);
        assert_eq!(
            worker.agenda.evictions.waiting().count,
            1 - evictions,
            "it is tried again"
        );
    }
}

#[tokio::test]
async fn evicts_no_pod_of_a_namespace_that_has_just_left_the_scope() {
    let read = |path: &str| {
        assert!(
            path.contains("/namespaces?") && path.contains("labelSelector=take-part%3Dyes"),
            "{path}"
        );
        list(&[])
    };
    let (client, requests) = api_server_with_reads(read, |_| panic!("nothing is written"));
    let mut worker = forgetful_worker(client);
    worker.term.writer.namespace_selector = "take-part=yes".into();
    evict_waiting_pod(&mut worker).await;
    assert!(requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_condition_says_what_is_missing_when_a_pod_is_not_evicted() {
    let (client, _) = api_server(|_| (200, json!({"metadata": {"resourceVersion": "8"}})));
    let mut worker = forgetful_worker(client);
    let (pod, pps) = (
        NamespacedName::new("n", "w-0"),
        NamespacedName::new("n", "w"),
    );
    worker.apply(Observation::Pods(Update::Apply(pod.clone(), waiting_pod())));
    let now = Instant::now();
    worker
        .agenda
        .unschedulable_pods
        .skip_grace_period(&pod, "uid-w-0", now);
    evict(&mut worker, &pod, now);
    let condition = |worker: &mut Worker| {
        let write = worker
            .recorder
            .decide_status(&pps, "2026-01-01T00:00:00Z")
            .write
            .unwrap();
        stored(worker, &pps, "8");
        write.patch["status"]["conditions"][0].clone()
    };
    assert!(worker.recorder.take_work().statuses.contains(&pps));
    let stays = condition(&mut worker);
    assert_eq!(
        (&stays["status"], &stays["reason"]),
        (&json!("False"), &json!("PodNotEvicted"))
    );
    let message = stays["message"].as_str().unwrap();
    assert!(
        message.contains("delete Pod w-0") && message.contains("--evict-pending-pods"),
        "{message}"
    );

    // A node that could take it is there, and full.
    let node = NodeFact {
        labels: vec![("zone".into(), "gone".into())],
    };
    worker.apply(Observation::Nodes(Update::Apply("node-1".into(), node)));
    evict(&mut worker, &pod, Instant::now());
    assert_eq!(condition(&mut worker)["reason"], "WaitingForPods");
}

#[tokio::test]
async fn a_workload_that_is_scaled_down_gets_an_event_that_names_the_policy_which_keeps_states() {
    let read = |path: &str| {
        if path.contains("statefulsets") {
            list(&[plain_workload()])
        } else {
            list(&[])
        }
    };
    let (client, _) = api_server_with_reads(read, |_| {
        (200, json!({"metadata": {"resourceVersion": "8"}}))
    });
    for round in 0..2 {
        let mut worker = worker(client.clone(), [pps_with_states()]);
        report_plain_workload(&mut worker);
        write_status(&mut worker, false);
        worker.recorder.take_work();
        let done = worker.requests.next_outcome().await.unwrap().unwrap();
        worker.done(done);
        let notices = worker.recorder.take_work().notices;
        let [notice] = &notices[..] else {
            panic!("{round}: {notices:?}")
        };
        assert_eq!(
            (notice.reason.as_str(), &*notice.subject.kind),
            ("StatesDropped", "StatefulSet")
        );
        let said = &notice.message;
        assert!(
            said.contains("w-1, w-2") && said.contains("WhenDeleted") && !said.contains("w-0"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn nothing_gets_the_compact_form_beside_openkruises_manager() {
    use pps_recorder::facts::StoredForm::{Compact, Plain};
    let held = |holder: &str| {
        let lease = json!({"metadata": {"uid": "1"}, "spec": {"holderIdentity": holder}});
        Some(Box::<Lease>::new(serde_json::from_value(lease).unwrap()))
    };
    let states: serde_json::Map<String, Value> = (0..300)
        .map(|pod| (format!("w-{pod}"), json!({"nodeName": "node-1"})))
        .collect();
    let object = json!({
        "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6", "generation": 1},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "persistentPodStateRetentionPolicy": "Retain"},
        "status": {"podStates": states},
    });
    let definition = "persistentpodstates.apps.kruise.io";
    let own = Definition {
        group: "apps.kruise.io".into(),
        kind: "PersistentPodState".into(),
        plural: "persistentpodstates".into(),
        namespaced: true,
        established: true,
        terminating: false,
        versions: Vec::new(),
        generation: 1,
        keeps_packed: true,
    };
    let key = NamespacedName::new("n", "w");
    let (client, _) = api_server(|_| (200, json!({"metadata": {"resourceVersion": "8"}})));
    let moves_to = |leases: &[Option<Box<Lease>>]| {
        let fact =
            pps_recorder::facts::object_fact(serde_json::from_value(object.clone()).unwrap());
        let update = Update::Apply(key.clone(), Box::new(fact));
        let mut worker = worker(client.clone(), [Observation::PersistentPodStates(update)]);
        for update in [
            Update::Begin(0),
            Update::Apply(definition.into(), own.clone()),
            Update::Done,
        ] {
            worker.apply(Observation::Definitions(update));
        }
        for lease in leases {
            worker.on_manager_checked(lease.clone());
        }
        let before = worker
            .recorder
            .decide_status(&key, "2026-01-01T00:00:00Z")
            .write
            .unwrap()
            .form
            .moves_to();
        stored(&mut worker, &key, "8");
        // The manager runs from now on.
        worker.on_manager_checked(held("y"));
        worker.on_manager_checked(held("z"));
        let moves = |worker: &mut Worker| {
            worker
                .recorder
                .decide_status(&key, "2026-01-01T00:00:00Z")
                .write
                .and_then(|write| write.form.moves_to())
        };
        let after = moves(&mut worker);
        stored(&mut worker, &key, "9");
        worker.on_manager_checked(None);
        assert_eq!(
            moves(&mut worker),
            None,
            "the manager may come again at once"
        );
        (before, after)
    };
    assert_eq!(
        moves_to(&[]),
        (None, None),
        "nobody knows whether the manager runs"
    );
    assert_eq!(moves_to(&[held("a"), held("b")]), (None, None));
    assert_eq!(moves_to(&[None]), (Some(Compact), Some(Plain)));
}

#[tokio::test]
async fn a_stopping_program_waits_as_long_as_the_api_server_asks() {
    let (client, patches) = api_server(|_| {
        let mut status = refusal(429, "TooManyRequests", "slow down");
        status.1["details"] = json!({"retryAfterSeconds": 7});
        status
    });
    let mut worker = worker(client, [pps("6")]);
    worker.take_turn();
    let (_sender, mut observations) = mpsc::channel(8);
    let stopped =
        tokio::time::timeout(Duration::from_secs(1), worker.finish(&mut observations)).await;
    assert!(stopped.is_err());
    assert_eq!(patches.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_stopping_program_makes_no_more_writes_at_once_than_before() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (now.clone(), most.clone());
    let service = service_fn(move |_: http::Request<Body>| {
        let (now, most) = counts.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            let answer = json!({"metadata": {"resourceVersion": "8"}}).to_string();
            Ok::<_, Infallible>(http::Response::new(Body::from(answer.into_bytes())))
        }
    });
    let objects = (0..20).map(|number| {
        let Observation::PersistentPodStates(Update::Apply(_, fact)) = pps("6") else {
            unreachable!()
        };
        let key = NamespacedName::new("n", format!("w{number}"));
        Observation::PersistentPodStates(Update::Apply(key, fact))
    });
    let mut worker = worker(Client::new(service, "n"), objects);
    let (_sender, mut observations) = mpsc::channel(8);
    worker.finish(&mut observations).await;
    assert_eq!(
        (most.load(Ordering::Relaxed), now.load(Ordering::Relaxed)),
        (16, 0)
    );
}

#[tokio::test]
async fn a_stopping_program_writes_what_stands_beside_an_unconfirmed_drop() {
    let running = json!({
        "metadata": {"name": "w-1", "namespace": "n", "uid": "1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "uid-w", "controller": true},
        ]},
        "spec": {"nodeName": "node-1", "containers": []},
    });
    let read = move |path: &str| {
        if path.ends_with("w-1") {
            list(std::slice::from_ref(&running))
        } else {
            throttled(path)
        }
    };
    let (client, patches) = api_server_with_reads(read, |_| {
        (200, json!({"metadata": {"resourceVersion": "8"}}))
    });
    let mut worker = worker(client, [pps_with_states()]);
    report_plain_workload(&mut worker);
    worker.take_turn();
    let (_sender, mut observations) = mpsc::channel(8);
    let stopped =
        tokio::time::timeout(Duration::from_secs(5), worker.finish(&mut observations)).await;
    assert!(stopped.is_ok());
    assert_eq!(
        patches.lock().unwrap()[0]["status"]["podStates"],
        json!({"w-2": null})
    );
}

#[tokio::test]
async fn a_generated_object_gets_no_owner_that_the_api_server_does_not_have() {
    // The API server has the workload uid-w, and the StatefulSet watch still shows an earlier one.
    let (client, requests) = api_server(|_| (200, json!({})));
    let generated = json!({
        "metadata": {
            "name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6",
            "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
            "managedFields": [{"manager": "pps-sidecar", "fieldsV1": {"f:spec": {"f:targetRef": {}}}}],
        },
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        },
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(generated).unwrap());
    let update = Update::Apply(NamespacedName::new("n", "w"), Box::new(fact));
    let mut worker = worker(client, [Observation::PersistentPodStates(update)]);
    let earlier = WorkloadFact {
        uid: "uid-earlier".into(),
        ..annotated("zone")
    };
    report_workload(
        &mut worker,
        Update::Apply(NamespacedName::new("n", "w"), earlier),
    );
    assert_eq!(write_generated_pps(&mut worker).await, []);
    assert_eq!(
        *requests.lock().unwrap(),
        [] as [Value; 0],
        "the garbage collector would delete it with its states"
    );
}

#[tokio::test]
async fn examines_one_pod_in_a_turn_and_the_next_one_at_once() {
    let (client, _) = api_server(|_| (200, json!({})));
    let mut worker = forgetful_worker(client);
    for n in 0..100 {
        let update = Update::Apply(NamespacedName::new("n", format!("w-{n}")), waiting_pod());
        worker.apply(Observation::Pods(update));
    }
    for left in (0..100).rev() {
        worker.take_turn();
        let is_any_due = worker.agenda.evictions.next(Candidates::All).unwrap() <= Instant::now();
        assert_eq!(
            is_any_due,
            left > 0,
            "the examined Pods wait for the end of their grace period"
        );
    }
}

#[tokio::test]
async fn only_the_leader_counts_bound_pods() {
    for (leadership, expected) in [(Leadership::fixed(true), 1), (Leadership::fixed(false), 0)] {
        let (client, _) = api_server(|_| (200, json!({"metadata": {"resourceVersion": "8"}})));
        let mut worker = worker_in(&leadership, client, [pps_with_states()]);
        report_plain_workload(&mut worker);
        let pod = |node: Option<&str>| {
            let fact = PodFact {
                owner: Some("uid-w".into()),
                node: node.map(Into::into),
                ..PodFact::default()
            };
            Observation::Pods(Update::Apply(NamespacedName::new("n", "w-0"), fact))
        };
        for node in [None, Some("node-1")] {
            worker.apply(pod(node));
        }
        worker.take_turn();
        let line = format!(
            r#"persistentpodstate_bound_pods_total{{placement="recorded_node",injected="false"}} {expected}"#
        );
        let text = worker.metrics.render(true, true);
        assert!(text.contains(&line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn a_task_that_panics_is_a_failure_and_one_that_is_aborted_is_none() {
    let (client, _requests) = api_server(|_| (200, json!({})));
    let mut worker = worker(client, []);
    worker.watching.tasks.spawn(std::future::pending()).abort();
    worker.watching.tasks.spawn(async { panic!("out of luck") });
    let failure = format!("{:#}", worker.watching.first_failure().await);
    assert!(
        failure.starts_with("a watch has failed: ") && failure.contains("out of luck"),
        "{failure}"
    );
}
