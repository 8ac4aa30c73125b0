//! Answers that are cut, or that are something else than what their headers say, as after a proxy
//! or a crash.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const JSON: &str = "Content-Type: application/json";
const PROTOBUF: &str = "Content-Type: application/vnd.kubernetes.protobuf";

/// Answers to lists and watches of Pods, one after the other; the last one again and again.
/// Everything else works.
fn api(lists: &'static [fn() -> Answer], watches: &'static [fn() -> Answer]) -> Api {
    let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
    Api::start(move |method, path| {
        if !path.contains("/pods") {
            return others(method, path);
        }
        // The question which version the API server has is no list.
        if path.contains("limit=1") && !is_watch(path) {
            return Answer::list(40, &[], "");
        }
        let (answers, count) = if is_watch(path) {
            (watches, &counts[1])
        } else {
            (lists, &counts[0])
        };
        answers[count.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1)]()
    })
}

/// A cluster with the StatefulSets a, b and c, without their Pods.
fn others(method: &str, path: &str) -> Answer {
    const SETS: [&str; 3] = ["a", "b", "c"];
    match path {
        _ if method == "PATCH" => Answer::Body(
            200,
            json!({"metadata": {"resourceVersion": "99"}}).to_string(),
        ),
        _ if is_watch(path) => Answer::silence(),
        _ if path.contains("/nodes") => Answer::list(10, &[node()], ""),
        _ if path.contains("/statefulsets") => {
            Answer::list(10, &SETS.map(|set| stateful_set(set).to_string()), "")
        }
        _ if path.contains(PPS) => {
            Answer::list(10, &SETS.map(|set| pps(set, 9, "ip").to_string()), "")
        }
        _ => empty(path),
    }
}

fn pods_list() -> Answer {
    pods_list_at(10)
}

fn pods_list_at(version: u64) -> Answer {
    let pod = ready_pod("a", 5, &json!({"ip": "10.0.0.7"}));
    Answer::list(version, &[pod.to_string()], "")
}

/// An event that shows that the Pod of a StatefulSet is Ready, as a line of a watch.
fn ready_event(set: &str, version: u64) -> Vec<u8> {
    let pod = ready_pod(set, version, &json!({"ip": "10.0.0.7"}));
    (event("ADDED", &pod) + "\n").into_bytes()
}

/// A watch that sends these bytes, and stays open or is cut off then.
fn watch(headers: &'static str, bytes: Vec<u8>, stays_open: bool) -> Answer {
    let (sender, pieces) = mpsc::channel();
    sender.send(bytes).unwrap();
    if stays_open {
        std::mem::forget(sender);
    }
    Answer::EncodedWatch(headers, pieces)
}

/// A watch that shows that a Pod of StatefulSet b is Ready.
fn good_watch() -> Answer {
    watch(JSON, ready_event("b", 30), true)
}

/// The sidecar, after it has recorded the Pods of the list and of the good watch.
fn record_after_failures(api: &Api, errors: &[&str]) -> Sidecar {
    let sidecar = Sidecar::start(api, &["--leader-election", "false"]);
    for error in errors {
        sidecar.wait_for_log(error);
    }
    api.wait_for_requests(1, &["PATCH", "/a/status", r#""a-0":{"#]);
    api.wait_for_requests(1, &["PATCH", "/b/status", r#""b-0":{"#]);
    sidecar.wait_ready();
    sidecar
}

#[test]
fn reports_and_retries_lists_that_are_no_json() {
    let api = api(
        &[
            || Answer::Encoded(200, PROTOBUF, b"k8s\0\x0a\0".to_vec()),
            || {
                Answer::Encoded(
                    200,
                    "Content-Type: text/html",
                    format!("<html>{SECRET}</html>").into_bytes(),
                )
            },
            || Answer::Encoded(200, "X-Content-Type: none", b"[]".to_vec()),
            pods_list,
        ],
        &[good_watch],
    );
    let errors = [
        "the answer cannot be read: expected value",
        "the answer cannot be read: expected struct ObjectList",
    ];
    let sidecar = record_after_failures(&api, &errors);
    assert!(!sidecar.log().contains(SECRET));
    assert_eq!(
        api.count(&["GET", "/pods?", "limit=250", "accept-encoding: gzip"]),
        4
    );
}

#[test]
fn reports_and_retries_lists_that_are_cut_or_damaged_between_their_objects() {
    let api = api(
        &[
            || {
                let pod = ready_pod("a", 5, &json!({}));
                let page = format!(
                    r#"{{"metadata": {{"resourceVersion": "10"}}, "items": [{pod} {pod}]}}"#
                );
                Answer::Body(200, page)
            },
            || {
                let Answer::Body(code, page) = pods_list() else {
                    panic!("a list is a body");
                };
                Answer::Body(code, page[..page.len() / 2].to_owned())
            },
            pods_list,
        ],
        &[good_watch],
    );
    record_after_failures(&api, &["expected `,` or `]`", "EOF while parsing"]);
    assert_eq!(api.count(&["GET", "/pods?", "limit=250"]), 3);
}

#[test]
fn reads_answers_whose_content_type_is_missing_or_wrong() {
    let api = api(
        &[|| {
            let Answer::Body(code, page) = pods_list() else {
                panic!("a list is a body");
            };
            Answer::Encoded(code, "X-Content-Type: none", page.into_bytes())
        }],
        &[
            || watch(PROTOBUF, ready_event("c", 29), false),
            || {
                watch(
                    "Content-Type: application/octet-stream",
                    ready_event("b", 30),
                    true,
                )
            },
        ],
    );
    record_after_failures(&api, &[]);
    api.wait_for_requests(1, &["PATCH", "/c/status", r#""c-0":{"#]);
}

#[test]
fn a_watch_that_is_cut_in_the_middle_of_an_event_loses_nothing() {
    let api = api(
        &[pods_list],
        &[
            || {
                // The connection is cut.
                let [whole, cut] = ["c", "b"].map(|set| ready_event(set, 20));
                watch(JSON, [&whole[..], &cut[..cut.len() - 2]].concat(), false)
            },
            || {
                // The API server ends the watch.
                let cut = ready_event("b", 21);
                Answer::Encoded(200, JSON, cut[..cut.len() - 2].to_vec())
            },
            good_watch,
        ],
    );
    record_after_failures(&api, &[]);
    api.wait_for_requests(1, &["PATCH", "/c/status", r#""c-0":{"#]);
    assert!(
        api.count(&["/pods", "watch=true", "resourceVersion=20"]) >= 2,
        "it continues after the whole event"
    );
}

#[test]
fn an_event_that_arrives_in_parts_is_recorded_when_it_is_complete() {
    let (sender, pieces) = mpsc::channel();
    let pieces = Mutex::new(Some(pieces));
    let api = Api::start(move |method, path| match path {
        _ if path.contains("/pods") && is_watch(path) => match pieces.lock().unwrap().take() {
            Some(pieces) => Answer::EncodedWatch(JSON, pieces),
            None => Answer::silence(),
        },
        _ if path.contains("/pods") => pods_list(),
        _ => others(method, path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    api.wait_for_requests(
        1,
        &["PATCH", "/a/status", r#""a-0":{"#, "10.0.0.7", "node-1"],
    );
    let event = ready_event("b", 11);
    let (first, last) = event.split_at(event.len() / 2);
    sender.send(first.to_vec()).unwrap();
    sender.send(last.to_vec()).unwrap();
    api.wait_for_requests(1, &["PATCH", "/b/status", r#""b-0":{"#]);
    sidecar.wait_ready();
}

#[test]
fn reports_and_retries_watches_that_are_no_json() {
    let api = api(
        &[pods_list],
        &[
            // A line that no object fills.
            || watch(JSON, vec![b' '; (64 << 20) + 1], true),
            || watch("Content-Type: text/html", b"<html>\n".to_vec(), false),
            || watch("Content-Encoding: gzip", b"not compressed".to_vec(), true),
            good_watch,
        ],
    );
    record_after_failures(&api, &["the answer has more than 67108864 bytes"]);
    let from_the_list = [
        "/pods",
        "watch=true",
        "resourceVersion=10",
        "accept-encoding: identity",
    ];
    assert_eq!(api.count(&from_the_list), 4, "no place is lost");
}

#[test]
fn a_bookmark_moves_the_watch_and_an_expired_version_lists_again() {
    let api = api(
        &[pods_list, || pods_list_at(26)],
        &[
            || {
                let bookmark = json!({"kind": "Pod", "apiVersion": "v1",
                    "metadata": {"resourceVersion": "25"}});
                let line = event("BOOKMARK", &bookmark) + "\n";
                Answer::Encoded(200, JSON, line.into_bytes())
            },
            || {
                let status = json!({"kind": "Status", "status": "Failure", "code": 410,
                    "reason": "Expired", "message": "too old resource version"});
                watch(JSON, (event("ERROR", &status) + "\n").into_bytes(), true)
            },
            good_watch,
        ],
    );
    record_after_failures(&api, &["410 Expired: too old resource version"]);
    let lists = ["GET", "/pods?", "limit=250"];
    let watches =
        |version: &str| api.count(&["/pods", "watch=true", &format!("resourceVersion={version}")]);
    assert_eq!(["10", "25", "26"].map(watches), [1; 3]);
    assert_eq!(api.count(&lists), 2);
}

#[test]
fn one_damaged_pod_affects_no_other_and_shows_nothing_in_the_log() {
    let damaged = |version: u64| {
        let mut pod = ready_pod("c", version, &json!({}));
        pod["spec"] = json!(SECRET);
        pod
    };
    let nameless = json!({"metadata": {"uid": SECRET}});
    let (sender, lines) = mpsc::channel();
    let lines = Mutex::new(Some(lines));
    let pods = [damaged(6), nameless.clone(), ready_pod("a", 5, &json!({}))];
    let pods = pods.map(|pod| pod.to_string());
    let api = Api::start(move |method, path| match path {
        _ if path.contains("/pods") && is_watch(path) => match lines.lock().unwrap().take() {
            Some(lines) => Answer::Watch(lines),
            None => Answer::silence(),
        },
        _ if path.contains("/pods") => Answer::list(10, &pods, ""),
        _ => others(method, path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false", "--log", "trace"]);
    for line in [
        event("MODIFIED", &damaged(11)),
        event(SECRET, &damaged(12)),
        event("MODIFIED", &nameless),
        event("MODIFIED", &ready_pod("b", 13, &json!({}))),
    ] {
        sender.send(line).unwrap();
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
fn waits_as_long_as_a_proxy_asks_and_does_not_show_what_it_says() {
    let api = api(
        &[
            || {
                Answer::Encoded(
                    429,
                    "Content-Type: text/plain\r\nRetry-After: 5",
                    SECRET.as_bytes().to_vec(),
                )
            },
            pods_list,
        ],
        &[good_watch],
    );
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_for_log("429 Too Many Requests: the answer is no Status");
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(
        api.count(&["GET", "/pods?", "limit=250"]),
        1,
        "it waits as long as it is asked to"
    );
    sidecar.wait_ready();
    assert!(!sidecar.log().contains(SECRET));
}
