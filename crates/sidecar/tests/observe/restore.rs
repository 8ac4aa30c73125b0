//! etcd was restored from a backup. The API server answers as a real one does: a watch from a
//! version that is not reached yet is accepted, shows nothing, and ends after its time. Neither an
//! event nor a bookmark shows the earlier version.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;

#[test]
fn lists_again_when_a_restored_api_server_shows_nothing() {
    // Each list comes before the restore, and each watch after it.
    let are_restored = [AtomicBool::new(false), AtomicBool::new(false)];
    let api = Api::start(move |_, path| {
        let is_of_nodes = path.contains("/nodes");
        if !is_of_nodes && !path.contains("/statefulsets") {
            return empty(path);
        }
        let is_restored = &are_restored[usize::from(is_of_nodes)];
        if is_watch(path) && path.contains("resourceVersion=100") {
            let is_back = is_restored.swap(true, Ordering::Relaxed);
            // One watch fails while the API server starts, the other one opens when it is back.
            if is_of_nodes && !is_back {
                return Answer::Body(503, json!({"kind": "Status", "code": 503}).to_string());
            }
            return Answer::WatchUntil(Duration::from_secs(1));
        }
        if is_watch(path) {
            return Answer::silence();
        }
        let (version, count) = if is_restored.load(Ordering::Relaxed) {
            (50, 1)
        } else {
            (100, 2)
        };
        let object = |name: &&str| {
            if is_of_nodes {
                json!({"metadata": {"name": name, "resourceVersion": "1"}}).to_string()
            } else {
                stateful_set(name).to_string()
            }
        };
        let objects: Vec<String> = ["a", "b"][..count].iter().map(object).collect();
        Answer::list(version, &objects, "")
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    api.wait_for_requests(1, &["/statefulsets", "watch=true", "resourceVersion=50"]);
    api.wait_for_requests(1, &["/nodes", "watch=true", "resourceVersion=50"]);
    assert_eq!(
        api.count(&["/nodes", "watch=true", "resourceVersion=100"]),
        1,
        "checked after a failure"
    );
    for resource in ["workloads", "nodes"] {
        let tracked = format!("tracked_objects{{resource=\"{resource}\"}} 1");
        api::wait_for(&tracked, || sidecar.get("/metrics").contains(&tracked));
    }
    sidecar.wait_ready();
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
