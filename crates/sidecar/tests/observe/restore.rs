//! etcd was restored from a backup. The API server answers as a real one does: a watch from a
//! version that is not reached yet is accepted, shows nothing, and ends after its time. Neither an
//! event nor a bookmark shows the earlier version. So it is asked for. Or the watch is refused, and
//! the next list shows the earlier version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

/// What shows the sidecar that the API server has gone back.
#[derive(Clone, Copy)]
enum After {
    /// The watch ends in time, having shown nothing.
    SilentWatch,
    /// The watch fails while the API server starts.
    FailedWatch,
    /// The API server has forgotten the version of the watch.
    ExpiredWatch,
    /// The API server says that it does not have the version of the watch yet.
    WatchFromTooLargeVersion,
}

/// A cluster at version 100 with the StatefulSet a, its Node and no Pod. When the watch of Nodes is
/// opened, etcd is restored to version 50. Shortly after the sidecar was answered so, a Pod of `a`
/// becomes Ready.
fn restored(after: After) -> Api {
    let is_restored = Arc::new(AtomicBool::new(false));
    let (pods, pod_lines) = mpsc::channel();
    let pod_lines = Mutex::new(Some(pod_lines));
    Api::start(move |method, path| {
        let version = if is_restored.load(Ordering::Relaxed) {
            50
        } else {
            100
        };
        match path {
            _ if path.contains("/leases") && method == "GET" => {
                let status = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
                Answer::Body(404, status.to_string())
            }
            _ if method != "GET" => {
                let written = json!({"metadata": {"name": "x", "resourceVersion": "101"}});
                Answer::Body(200, written.to_string())
            }
            _ if path.contains("/nodes") && is_watch(path) => {
                is_restored.store(true, Ordering::Relaxed);
                let (code, message) = match after {
                    After::SilentWatch => return Answer::WatchUntil(Duration::from_secs(1)),
                    After::FailedWatch => (503, ""),
                    After::ExpiredWatch => (410, "too old resource version: 100 (120)"),
                    After::WatchFromTooLargeVersion => {
                        (504, "Too large resource version: 100, current: 50")
                    }
                };
                // Until then the first status is written.
                thread::sleep(Duration::from_secs(1));
                let status = json!({"kind": "Status", "code": code, "message": message});
                Answer::Body(code, status.to_string())
            }
            _ if path.contains("/nodes") => {
                if version == 50 {
                    let pods = pods.clone();
                    thread::spawn(move || {
                        thread::sleep(Duration::from_millis(100));
                        let pod = ready_pod("a", 51, &json!({"ip": "10.0.0.7"}));
                        let _ = pods.send(event("ADDED", &pod));
                    });
                }
                Answer::list(version, &[node()], "")
            }
            _ if path.contains("/pods") && is_watch(path) => {
                match pod_lines.lock().unwrap().take() {
                    Some(lines) => Answer::Watch(lines),
                    None => Answer::silence(),
                }
            }
            _ if is_watch(path) => Answer::silence(),
            _ if path.contains("/statefulsets") => {
                Answer::list(version, &[stateful_set("a").to_string()], "")
            }
            _ if path.contains(PPS) => Answer::list(version, &[pps("a", 9, "ip").to_string()], ""),
            _ => empty(path),
        }
    })
}

#[test]
fn ends_without_writing_when_etcd_was_restored() {
    for after in [
        After::SilentWatch,
        After::FailedWatch,
        After::ExpiredWatch,
        After::WatchFromTooLargeVersion,
    ] {
        for arguments in [
            &["--leader-election", "false"][..],
            &["--lease-namespace", "n"],
        ] {
            let api = restored(after);
            let mut sidecar = Sidecar::start(&api, arguments);
            assert_eq!(sidecar.wait_for_end(), Some(1));
            sidecar.wait_for_log("gone back to an earlier state");
            let requests = api.requests.lock().unwrap();
            let mut requests = requests.iter();
            let mut of_nodes = |watches: bool| {
                requests.any(|request| request.contains("/nodes?") && is_watch(request) == watches)
            };
            assert!(of_nodes(true) && of_nodes(false), "what shows it");
            let after_that: Vec<_> = requests.collect();
            assert!(
                after_that.iter().all(|request| request.starts_with("GET")),
                "{after_that:#?}"
            );
        }
    }
}

#[test]
fn forgets_an_object_whose_status_is_not_found_and_which_no_list_has() {
    let api = Api::start(move |method, path| match path {
        _ if method == "PATCH" => {
            let status = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"});
            Answer::Body(404, status.to_string())
        }
        _ if path.contains(PPS) && path.contains("fieldSelector") => Answer::list(50, &[], ""),
        _ if path.contains(PPS) && !is_watch(path) => {
            Answer::list(10, &[pps("p", 9, "x").to_string()], "")
        }
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    api.wait_for_requests(1, &["PATCH", "/p/status"]);
    api.wait_for_requests(1, &["GET", PPS, "fieldSelector=metadata.name"]);
    let tracked = "tracked_objects{resource=\"persistentpodstates\"} 0";
    api::wait_for(tracked, || sidecar.get("/metrics").contains(tracked));
    assert!(
        sidecar
            .get("/metrics")
            .contains("unwritable_objects{cause=\"conflicts\"} 0")
    );
    assert!(api.count(&["PATCH"]) <= 3, "as many as after conflicts");
}
