//! Answers that are cut, or that are something else than what their headers say, as after a proxy
//! or a crash.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::encodings::{PROTOBUF, envelope, frame, list, message, others, ready_pod_message};
use super::*;

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

fn pods_list() -> Answer {
    Answer::Encoded(200, PROTOBUF, list(10, &[ready_pod_message("a", 5)]))
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
    watch(PROTOBUF, frame("ADDED", &ready_pod_message("b", 30)), true)
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
fn reports_and_retries_lists_that_are_neither_json_nor_protobuf() {
    let api = api(
        &[
            || Answer::Encoded(200, PROTOBUF, b"k8x\0".to_vec()),
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
    let sidecar = record_after_failures(&api, &["it begins neither like JSON nor like protobuf"]);
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
                // The number in place of a Pod may hide others.
                let pods = message(&[
                    (1, &message(&[(2, b"10")])),
                    (2, &ready_pod_message("a", 5)),
                ]);
                Answer::Encoded(200, PROTOBUF, envelope(&[&pods[..], &[2 << 3, 7]].concat()))
            },
            || {
                let whole = list(10, &[ready_pod_message("a", 5)]);
                Answer::Encoded(200, PROTOBUF, whole[..whole.len() / 2].to_vec())
            },
            pods_list,
        ],
        &[good_watch],
    );
    record_after_failures(
        &api,
        &["the answer cannot be read: the protobuf is damaged"],
    );
    assert_eq!(api.count(&["GET", "/pods?", "limit=250"]), 3);
}

#[test]
fn a_list_in_json_is_read_although_protobuf_was_asked_for() {
    let api = api(
        &[|| {
            let pod = ready_pod("a", 5, &json!({"ip": "10.0.0.7"}));
            let page = json!({"metadata": {"resourceVersion": "10"}, "items": [pod]}).to_string();
            Answer::Encoded(200, "Content-Type: application/json", page.into_bytes())
        }],
        &[|| {
            let line = event("ADDED", &ready_pod("b", 30, &json!({}))) + "\n";
            watch("Content-Type: application/json", line.into_bytes(), true)
        }],
    );
    record_after_failures(&api, &[]);
}

#[test]
fn reads_answers_whose_content_type_is_missing_or_wrong() {
    let api = api(
        &[|| {
            Answer::Encoded(
                200,
                "X-Content-Type: none",
                list(10, &[ready_pod_message("a", 5)]),
            )
        }],
        &[
            || {
                let line = event("ADDED", &ready_pod("c", 29, &json!({}))) + "\n";
                watch(PROTOBUF, line.into_bytes(), false)
            },
            || {
                let headers = "Content-Type: application/octet-stream";
                watch(headers, frame("ADDED", &ready_pod_message("b", 30)), true)
            },
        ],
    );
    record_after_failures(&api, &[]);
    api.wait_for_requests(1, &["PATCH", "/c/status", r#""c-0":{"#]);
}

#[test]
fn protobuf_that_was_not_asked_for_is_no_list_without_objects() {
    let api = Api::start(|method, path| {
        if path.contains(PPS) && !is_watch(path) && method == "GET" {
            return Answer::Encoded(200, PROTOBUF, list(10, &[]));
        }
        others(method, path)
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_for_log("it is protobuf, which was not asked for");
    api.wait_for_requests(2, &["GET", PPS]);
    assert!(!sidecar.get("/readyz").starts_with("ok"));
}

#[test]
fn a_watch_that_is_cut_in_the_middle_of_an_event_loses_nothing() {
    let api = api(
        &[pods_list],
        &[
            || {
                // The connection is cut.
                let [whole, cut] =
                    ["c", "b"].map(|set| frame("ADDED", &ready_pod_message(set, 20)));
                watch(
                    PROTOBUF,
                    [&whole[..], &cut[..cut.len() - 1]].concat(),
                    false,
                )
            },
            || {
                // The API server ends the watch.
                let cut = frame("ADDED", &ready_pod_message("b", 21));
                Answer::Encoded(200, PROTOBUF, cut[..cut.len() - 1].to_vec())
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
fn reports_and_retries_watches_that_are_neither_json_nor_protobuf() {
    let api = api(
        &[pods_list],
        &[
            // The length of a frame that no object fills.
            || watch(PROTOBUF, b"\x04\0\0\x01\x0a".to_vec(), true),
            || watch("Content-Type: text/html", b"<html>".to_vec(), true),
            || watch("Content-Encoding: gzip", b"not compressed".to_vec(), true),
            good_watch,
        ],
    );
    record_after_failures(
        &api,
        &[
            "it has an event of 67108865 bytes, more than 67108864",
            "it begins neither like JSON nor like protobuf",
        ],
    );
    let from_the_list = [
        "/pods",
        "watch=true",
        "resourceVersion=10",
        "accept-encoding: identity",
    ];
    assert_eq!(api.count(&from_the_list), 4, "no place is lost");
}

#[test]
fn a_bookmark_moves_the_watch_and_an_expired_version_lists_again_in_protobuf() {
    let api = api(
        &[pods_list],
        &[
            || {
                let bookmark = message(&[(1, &message(&[(6, b"25")]))]);
                Answer::Encoded(200, PROTOBUF, frame("BOOKMARK", &bookmark))
            },
            || {
                // Code 410.
                let status = [
                    message(&[(2, b"Failure"), (3, b"too old resource version")]),
                    vec![6 << 3, 0x9a, 3],
                ];
                watch(PROTOBUF, frame("ERROR", &status.concat()), true)
            },
            good_watch,
        ],
    );
    record_after_failures(&api, &["too old resource version (410)"]);
    let lists = ["GET", "/pods?", "limit=250"];
    let watches =
        |version: &str| api.count(&["/pods", "watch=true", &format!("resourceVersion={version}")]);
    assert_eq!((watches("10"), watches("25"), api.count(&lists)), (2, 1, 2));
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
    sidecar.wait_for_log("no answer of an API server (429)");
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(
        api.count(&["GET", "/pods?", "limit=250"]),
        1,
        "it waits as long as it is asked to"
    );
    sidecar.wait_ready();
    assert!(!sidecar.log().contains(SECRET));
}
