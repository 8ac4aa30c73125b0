//! What is read before a write: how much at once, and what follows from a failure.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::write::Outcome;

/// How many states a worker drops with its first write.
async fn dropped_states(worker: &mut Worker, patches: &Requests) -> usize {
    worker.take_turn();
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    worker.done(done);
    let patches = patches.lock().unwrap();
    let states = patches
        .first()
        .and_then(|patch| patch["status"]["podStates"].as_object());
    states.map_or(0, serde_json::Map::len)
}

/// A PPS of a workload of no Pods, with these states.
fn surplus_states(name: &str, pods: usize) -> Observation {
    let state = json!({"nodeName": "node-1", "nodeTopologyLabels": {"zone": "a"}});
    let states: serde_json::Map<_, _> = (0..pods)
        .map(|pod| (format!("{name}-{pod}"), state.clone()))
        .collect();
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": "uid-1", "resourceVersion": "6", "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        },
        "status": {"targetUID": format!("uid-{name}"), "podStates": states},
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(object).unwrap());
    Observation::PersistentPodStates(Update::Apply(
        NamespacedName::new("n", name),
        Box::new(fact),
    ))
}

fn workload_of_no_pods(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}")}, "spec": {"replicas": 0}})
}

/// A worker that has to drop these states of each of these workloads.
fn dropping_worker(client: Client, names: &[String], pods: usize) -> Worker {
    let mut worker = worker(client, names.iter().map(|name| surplus_states(name, pods)));
    for name in names {
        let fact = stateful_set(&workload_of_no_pods(name));
        report_workload(
            &mut worker,
            Update::Apply(NamespacedName::new("n", name.as_str()), fact),
        );
    }
    worker
}

/// The name that the field selector of a read names.
fn name_in(path: &str) -> &str {
    path.split("metadata.name%3D")
        .nth(1)
        .unwrap_or_default()
        .split('&')
        .next()
        .unwrap_or_default()
}

/// An API server that answers reads of workloads, those of Pods as the test wants, and each write.
/// Counts the reads of Pods, and how many reads it had at once.
fn counting_api_server(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
) -> (Client, Arc<[AtomicUsize; 3]>) {
    let counts = Arc::<[AtomicUsize; 3]>::default();
    let seen = counts.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let (seen, answer) = (seen.clone(), answer.clone());
        async move {
            let [pods, now, most] = &*seen;
            let path = request.uri().to_string();
            let (code, answer) = if request.method() == http::Method::GET {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                if path.contains("statefulsets") {
                    list(&[workload_of_no_pods(name_in(&path))])
                } else {
                    pods.fetch_add(1, Ordering::Relaxed);
                    answer(name_in(&path))
                }
            } else {
                (200, json!({"metadata": {"resourceVersion": "8"}}))
            };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::builder().status(code).body(answer).unwrap())
        }
    });
    (Client::new(service, "n"), counts)
}

/// Makes the one write that is due, and says why the states that stay could not be checked.
async fn unconfirmed(worker: &mut Worker) -> (Vec<String>, String) {
    worker.take_turn();
    let result = worker.requests.next_outcome().await.unwrap().unwrap();
    let Outcome::LossUnconfirmed { unconfirmed, .. } = &result else {
        panic!("{result:?}")
    };
    let held = unconfirmed.held.iter().map(ToString::to_string).collect();
    (
        held,
        unconfirmed
            .failure
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    )
}

#[tokio::test]
async fn four_reads_run_at_once_however_many_writes_wait_for_them() {
    let (client, counts) = counting_api_server(|_| list(&[]));
    let names: Vec<String> = (0..16).map(|number| format!("w{number}")).collect();
    let mut worker = dropping_worker(client, &names, 8);
    worker.take_turn();
    assert_eq!(worker.requests.count(), 16);
    while let Some(done) = worker.requests.next_outcome().await {
        let result = done.unwrap();
        assert!(
            matches!(result, Outcome::Status { result: Ok(_), .. }),
            "{result:?}"
        );
    }
    let [pods, now, most] = &*counts;
    assert_eq!(
        [pods, now, most].map(|count| count.load(Ordering::Relaxed)),
        [16 * 8, 0, 4]
    );
}

/// No watch has shown yet that the namespace is out of scope.
#[tokio::test]
async fn no_state_is_dropped_in_a_namespace_that_has_just_left_the_scope() {
    for (namespaces, dropped) in [(vec![], 0), (vec![json!({"metadata": {"name": "n"}})], 3)] {
        let read = move |path: &str| {
            if path.contains("/namespaces?") {
                assert!(
                    path.contains("labelSelector=take-part%3Dyes") && name_in(path) == "n",
                    "{path}"
                );
                return list(&namespaces);
            }
            list(&if path.contains("statefulsets") {
                vec![workload_of_no_pods("w")]
            } else {
                vec![]
            })
        };
        let (client, patches) = api_server_with_reads(read, |_| {
            (200, json!({"metadata": {"resourceVersion": "8"}}))
        });
        let mut worker = dropping_worker(client, &["w".to_owned()], 3);
        worker.term.writer.namespace_selector = "take-part=yes".into();
        assert_eq!(dropped_states(&mut worker, &patches).await, dropped);
    }
}

#[tokio::test]
async fn no_state_is_dropped_of_a_workload_that_is_scaled_up_while_its_pods_are_read() {
    for (replicas, dropped) in [(0, 3), (3, 0)] {
        let are_pods_read = Arc::new(std::sync::atomic::AtomicBool::default());
        let read = move |path: &str| {
            if !path.contains("statefulsets") {
                are_pods_read.store(true, Ordering::Relaxed);
                return list(&[]);
            }
            let mut workload = workload_of_no_pods("w");
            if are_pods_read.load(Ordering::Relaxed) {
                workload["spec"]["replicas"] = replicas.into();
            }
            list(&[workload])
        };
        let (client, patches) = api_server_with_reads(read, |_| {
            (200, json!({"metadata": {"resourceVersion": "8"}}))
        });
        let mut worker = dropping_worker(client, &["w".to_owned()], 3);
        assert_eq!(dropped_states(&mut worker, &patches).await, dropped);
    }
}

#[tokio::test]
async fn a_check_begins_no_read_after_one_that_the_api_server_refused() {
    let (client, counts) = counting_api_server(|_| refusal(429, "TooManyRequests", "slow down"));
    let mut worker = dropping_worker(client, &["w".to_owned()], 100);
    let (held, failure) = unconfirmed(&mut worker).await;
    assert_eq!(held.len(), 100, "what was not read stays");
    assert!(failure.contains("slow down"), "{failure}");
    let reads = counts[0].load(Ordering::Relaxed);
    assert!(
        reads <= 4,
        "{reads} reads of an API server that is overloaded"
    );
}

#[tokio::test]
async fn a_pod_that_is_too_large_to_be_read_keeps_its_own_state_and_is_named() {
    let (client, counts) = counting_api_server(|name| match name {
        "w-1" => list(&[
            json!({"metadata": {"name": "w-1", "namespace": "n", "managedFields": "x".repeat(17 << 20)}}),
        ]),
        _ => list(&[]),
    });
    let mut worker = dropping_worker(client, &["w".to_owned()], 9);
    let (held, failure) = unconfirmed(&mut worker).await;
    assert_eq!(
        (held, counts[0].load(Ordering::Relaxed)),
        (vec!["w-1".to_owned()], 9)
    );
    let expected =
        "cannot read Pod n/w-1: the answer has more than 16777216 bytes; make the object smaller";
    assert_eq!(failure, expected);
}

#[tokio::test]
async fn an_answer_that_is_no_list_confirms_no_drop() {
    for answer in [
        json!({}),
        json!({"kind": "Status", "status": "Success"}),
        json!({"items": []}),
    ] {
        let (client, _) = counting_api_server(move |_| (200, answer.clone()));
        let mut worker = dropping_worker(client, &["w".to_owned()], 1);
        let (held, failure) = unconfirmed(&mut worker).await;
        assert_eq!(held, ["w-0"]);
        assert!(
            failure.starts_with("cannot read Pod n/w-0: the answer cannot be read"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_state_whose_pod_keeps_changing_is_checked_again_without_a_hot_loop() {
    let running = json!({
        "metadata": {"name": "w-0", "namespace": "n", "uid": "1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "uid-w", "controller": true},
        ]},
        "spec": {"nodeName": "node-1", "containers": []},
    });
    let (client, _) = counting_api_server(move |name| match name {
        "w-0" => list(std::slice::from_ref(&running)),
        _ => list(&[]),
    });
    let mut worker = dropping_worker(client, &["w".to_owned()], 2);
    let mut waits = Vec::new();
    let mut written = 0;
    for _ in 0..6 {
        let start = Instant::now();
        worker.take_turn();
        if worker.requests.count() == 0 {
            let due = worker.next_due().unwrap();
            waits.push(due.saturating_duration_since(start).as_millis());
            tokio::time::sleep_until(due.into()).await;
            worker.take_turn();
        }
        let done = worker.requests.next_outcome().await.unwrap().unwrap();
        written += usize::from(matches!(done, Outcome::Status { .. }));
        // Something is heard of the Pod during each check.
        let key = NamespacedName::new("n", "w-0");
        for update in [
            Update::Apply(key.clone(), PodFact::default()),
            Update::Delete(key),
        ] {
            worker.apply(Observation::Pods(update));
        }
        worker.done(done);
    }
    assert_eq!(written, 1, "the other state is dropped at once");
    let [in_window @ .., second, third] = &waits[..] else {
        panic!("{waits:?}")
    };
    assert!(
        in_window.len() == 2 && (400..=500).contains(second) && (900..=1000).contains(third),
        "{waits:?}"
    );
}

#[tokio::test]
async fn a_changed_address_and_a_changed_label_are_read_as_the_spec_names_them_and_written() {
    let name = NamespacedName::new("n", "w-0");
    let running = json!({
        "metadata": {"name": "w-0", "namespace": "n", "uid": "1", "annotations": {"ip": "10.0.0.2", "other": "x"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "uid-w", "controller": true}]},
        "spec": {"nodeName": "node-1", "containers": []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let node = json!({"metadata": {"name": "node-1", "labels": {"zone": "b", "other": "x"}}});
    let read = move |path: &str| {
        let object = if path.contains("/nodes?") {
            &node
        } else {
            &running
        };
        list(std::slice::from_ref(object))
    };
    let (client, patches) = api_server_with_reads(read, |_| {
        (200, json!({"metadata": {"resourceVersion": "8"}}))
    });
    let object = json!({
        "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6", "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "persistentPodAnnotations": [{"key": "ip"}],
        },
        "status": {"targetUID": "uid-w", "podStates": {"w-0": {
            "nodeName": "node-1", "nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "10.0.0.1"}}}},
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(object).unwrap());
    let update = Update::Apply(NamespacedName::new("n", "w"), Box::new(fact));
    let mut worker = worker(client, [Observation::PersistentPodStates(update)]);
    report_plain_workload(&mut worker);
    let labels = vec![("zone".into(), "b".into())];
    worker.apply(Observation::Nodes(Update::Apply(
        "node-1".into(),
        NodeFact { labels },
    )));
    let pod = PodFact {
        owner: Some("uid-w".into()),
        node: Some("node-1".into()),
        ready: true,
        annotations: vec![("ip".into(), "10.0.0.2".into())],
        ..PodFact::default()
    };
    worker.apply(Observation::Pods(Update::Apply(name, pod)));
    worker.take_turn();
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    assert!(
        matches!(done, Outcome::Status { result: Ok(_), .. }),
        "{done:?}"
    );
    let expected =
        json!({"w-0": {"nodeTopologyLabels": {"zone": "b"}, "annotations": {"ip": "10.0.0.2"}}});
    assert_eq!(patches.lock().unwrap()[0]["status"]["podStates"], expected);
}
