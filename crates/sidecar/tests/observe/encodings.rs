//! Answers in protobuf.

use super::*;

pub(crate) const PROTOBUF: &str = "Content-Type: application/vnd.kubernetes.protobuf";

/// A message with these fields.
pub(crate) fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, value) in fields {
        varint(usize::from(*number) << 3 | 2, &mut bytes);
        varint(value.len(), &mut bytes);
        bytes.extend_from_slice(value);
    }
    bytes
}

fn varint(mut value: usize, bytes: &mut Vec<u8>) {
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}

pub(crate) fn envelope(object: &[u8]) -> Vec<u8> {
    [
        b"k8s\0",
        &*message(&[(1, &message(&[(1, b"v1"), (2, b"x")])), (2, object)]),
    ]
    .concat()
}

pub(crate) fn list(version: u64, items: &[Vec<u8>]) -> Vec<u8> {
    let metadata = message(&[(2, version.to_string().as_bytes())]);
    let items = items.iter().map(|item| (2, &**item));
    envelope(&message(
        &[(1, &*metadata)]
            .into_iter()
            .chain(items)
            .collect::<Vec<_>>(),
    ))
}

pub(crate) fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = message(&[
        (1, kind.as_bytes()),
        (2, &message(&[(1, &envelope(object))])),
    ]);
    [&u32::try_from(event.len()).unwrap().to_be_bytes(), &*event].concat()
}

/// The metadata of a Pod of this StatefulSet.
pub(crate) fn pod_metadata(set: &str, version: u64) -> Vec<u8> {
    let (uid, pod) = (format!("set-{set}"), format!("pod-{set}"));
    let mut owner = message(&[
        (1, b"StatefulSet"),
        (3, set.as_bytes()),
        (4, uid.as_bytes()),
        (5, b"apps/v1"),
    ]);
    owner.extend([6 << 3, 1]);
    message(&[
        (1, format!("{set}-0").as_bytes()),
        (3, b"n"),
        (5, pod.as_bytes()),
        (6, version.to_string().as_bytes()),
        (12, &message(&[(1, b"ip"), (2, b"10.0.0.7")])),
        (13, &owner),
    ])
}

pub(crate) fn ready_pod_message(set: &str, version: u64) -> Vec<u8> {
    let condition = message(&[(1, b"Ready"), (2, b"True"), (4, &[8, 1])]);
    message(&[
        (1, &pod_metadata(set, version)),
        (2, &message(&[(10, b"node-1")])),
        (3, &message(&[(2, &condition)])),
    ])
}

/// A cluster whose Pods, nodes and StatefulSets arrive as protobuf, and the events of Pods as they
/// are sent.
fn api(pods: Vec<Vec<u8>>) -> (Api, mpsc::Sender<Vec<u8>>) {
    let (sender, events) = mpsc::channel();
    let events = Mutex::new(Some(events));
    let api = Api::start(move |method, path| match path {
        _ if path.contains("/pods") && is_watch(path) => match events.lock().unwrap().take() {
            Some(events) => Answer::EncodedWatch(PROTOBUF, events),
            None => Answer::silence(),
        },
        _ if path.contains("/pods") => Answer::Encoded(200, PROTOBUF, list(10, &pods)),
        _ => others(method, path),
    });
    (api, sender)
}

/// Everything else than the Pods of a cluster.
pub(crate) fn others(method: &str, path: &str) -> Answer {
    match path {
        _ if method == "PATCH" => Answer::Body(
            200,
            json!({"metadata": {"resourceVersion": "99"}}).to_string(),
        ),
        _ if is_watch(path) => Answer::silence(),
        _ if path.contains("/nodes") => {
            let metadata = message(&[(1, b"node-1"), (6, b"1")]);
            Answer::Encoded(200, PROTOBUF, list(10, &[message(&[(1, &metadata)])]))
        }
        _ if path.contains("/statefulsets") => {
            let sets = ["a", "b", "c"].map(|set| {
                let uid = format!("set-{set}");
                let metadata = message(&[
                    (1, set.as_bytes()),
                    (3, b"n"),
                    (5, uid.as_bytes()),
                    (6, b"1"),
                ]);
                message(&[(1, &metadata), (2, &[8, 1])])
            });
            Answer::Encoded(200, PROTOBUF, list(10, &sets))
        }
        _ if path.contains(PPS) => {
            let objects = ["a", "b", "c"].map(|set| pps(set, 9, "ip").to_string());
            Answer::list(10, &objects, "")
        }
        _ => empty(path),
    }
}

#[test]
fn records_pods_that_arrive_as_protobuf() {
    let (api, events) = api(vec![ready_pod_message("a", 5)]);
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    api.wait_for_requests(
        1,
        &["PATCH", "/a/status", r#""a-0":{"#, "10.0.0.7", "node-1"],
    );
    // A part of an event shows nothing, and the rest shows it at once.
    let event = frame("ADDED", &ready_pod_message("b", 11));
    let (first, last) = event.split_at(event.len() / 2);
    events.send(first.to_vec()).unwrap();
    events.send(last.to_vec()).unwrap();
    api.wait_for_requests(1, &["PATCH", "/b/status", r#""b-0":{"#]);
    sidecar.wait_ready();
    let requests = api.requests.lock().unwrap().clone();
    for (resource, expected) in [
        ("/pods", true),
        ("/nodes", true),
        ("/statefulsets", true),
        (PPS, false),
        ("/configmaps", false),
    ] {
        for request in requests
            .iter()
            .filter(|request| request.contains(resource) && request.contains("watch=true"))
        {
            assert_eq!(
                request.contains("application/vnd.kubernetes.protobuf"),
                expected,
                "{request}"
            );
            assert!(
                !expected || request.contains("application/json"),
                "JSON is read as well: {request}"
            );
        }
    }
}

#[test]
fn one_damaged_pod_in_protobuf_affects_no_other_and_shows_nothing_in_the_log() {
    let damaged = message(&[
        (1, &pod_metadata("c", 6)),
        (2, SECRET.as_bytes()),
        (17, SECRET.as_bytes()),
    ]);
    let nameless = message(&[(1, SECRET.as_bytes())]);
    let (api, events) = api(vec![
        damaged.clone(),
        nameless.clone(),
        ready_pod_message("a", 5),
    ]);
    let sidecar = Sidecar::start(&api, &["--leader-election", "false", "--log", "trace"]);
    for event in [
        frame(
            "MODIFIED",
            &message(&[(1, &pod_metadata("c", 11)), (3, SECRET.as_bytes())]),
        ),
        frame(SECRET, &damaged),
        frame("MODIFIED", &nameless),
        frame("MODIFIED", &ready_pod_message("b", 12)),
    ] {
        events.send(event).unwrap();
    }
    api.wait_for_requests(1, &["PATCH", "/a/status", r#""a-0":{"#]);
    api.wait_for_requests(1, &["PATCH", "/b/status", r#""b-0":{"#]);
    sidecar.wait_ready();
    let metrics = sidecar.get("/metrics");
    assert!(
        metrics.contains("unreadable_objects{resource=\"pods\"} 1"),
        "{metrics}"
    );
    let log = sidecar.log();
    assert_eq!(
        log.matches("n/c-0").count(),
        1,
        "an object is reported once"
    );
    let leaks: Vec<&str> = log.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn waits_as_long_as_a_refusal_in_protobuf_asks_for() {
    let details = [5 << 3, 30];
    let status = envelope(&message(&[
        (2, b"Failure"),
        (3, b"too many requests"),
        (5, &details),
    ]));
    let api = Api::start(move |_, path| {
        if path.contains("/pods") {
            Answer::Encoded(429, PROTOBUF, status.clone())
        } else {
            empty(path)
        }
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_for_log("too many requests (429)");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(api.count(&["GET", "/pods"]), 1);
}

#[test]
fn a_pending_pod_with_many_terms_in_protobuf_costs_little() {
    // 1.5 MB, as much as etcd takes: Pods that anybody may create.
    let affinity = |terms: &[u8]| {
        let affinity = message(&[(1, &message(&[(1, terms)]))]);
        message(&[
            (1, &pod_metadata("a", 5)),
            (2, &message(&[(18, &affinity)])),
            (3, &message(&[(1, b"Pending")])),
        ])
    };
    let expressions = |bytes: &[u8]| message(&[(1, bytes)]);
    let value = [&b"\x0a\x04zone\x12\x02In"[..], &[0x1a, 0].repeat(700_000)].concat();
    let pods = vec![
        affinity(&[0x0a, 0].repeat(750_000)),
        affinity(&expressions(
            &[0x0a, 4, 0x12, 2, b'I', b'n'].repeat(250_000),
        )),
        affinity(&expressions(&[0x0a, 0].repeat(750_000))),
        affinity(&expressions(&expressions(&value))),
    ];
    let (api, _events) = api(pods);
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    let peak = sidecar.peak_memory();
    assert!(peak < 100 << 20, "{peak}");
}
