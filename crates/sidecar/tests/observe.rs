//! The program in front of an API server that sends odd, broken and secret things.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

#[path = "observe/api.rs"]
mod api;
#[path = "observe/broken.rs"]
mod broken;
#[path = "observe/pages.rs"]
mod pages;
#[path = "observe/reads.rs"]
mod reads;
#[path = "observe/restore.rs"]
mod restore;

use std::sync::Mutex;
use std::sync::mpsc;

use serde_json::{Value, json};

use self::api::{Answer, Api, Sidecar};

const SECRET: &str = "hunter2";
const PPS: &str = "/persistentpodstates";

fn is_watch(path: &str) -> bool {
    path.contains("watch=true")
}

/// An empty cluster.
fn empty(path: &str) -> Answer {
    if is_watch(path) {
        Answer::silence()
    } else {
        Answer::list(10, &[], "")
    }
}

/// An event as the API server sends it.
fn event(kind: &str, object: &Value) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn pps(name: &str, version: u64, annotation: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(), "generation": 1},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
            "persistentPodAnnotations": [{"key": annotation}]},
    })
}

fn stateful_set(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("set-{name}"), "resourceVersion": "1"}, "spec": {"replicas": 1}})
}

fn ready_pod(set: &str, version: u64, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{set}-0"), "namespace": "n", "uid": format!("pod-{set}"), "resourceVersion": version.to_string(),
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": format!("set-{set}"), "controller": true}]},
        "spec": {"nodeName": "node-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn node() -> String {
    json!({"metadata": {"name": "node-1", "resourceVersion": "1"}}).to_string()
}

#[test]
fn logs_no_body_that_it_cannot_read() {
    let api = Api::start(|_, path| {
        let broken = format!(
            r#"{{"kind": "{SECRET}", "spec": {{"a": "{SECRET}"}}, "metadata": {{"resourceVersion": "{SECRET}", "leaseTransitions": "#
        );
        let mut odd = pps("odd", if is_watch(path) { 11 } else { 5 }, "x");
        odd["spec"]["persistentPodAnnotations"] = json!(SECRET);
        let mut lease = json!({"metadata": {"name": "l"}, "spec": {"leaseTransitions": SECRET}});
        lease["metadata"]["annotations"] = json!({"a": SECRET});
        match path {
            _ if path.contains("/leases") => Answer::Body(200, lease.to_string()),
            _ if path.contains("/pods") => Answer::Body(200, broken),
            _ if path.contains("/nodes") => Answer::Body(502, format!("<html>{SECRET}</html>")),
            _ if path.contains(PPS) && is_watch(path) => {
                let (sender, lines) = mpsc::channel();
                for line in [
                    format!(r#"{{"type": "{SECRET}", "object": "{SECRET}"}}"#),
                    SECRET.to_owned(),
                    event("MODIFIED", &odd),
                    event("MODIFIED", &json!({"metadata": SECRET})),
                    event("ADDED", &pps("later", 12, "x")),
                ] {
                    sender.send(line).unwrap();
                }
                std::mem::forget(sender);
                Answer::Watch(lines)
            }
            _ if path.contains(PPS) => {
                Answer::list(10, &[odd.to_string(), format!("[\"{SECRET}\"]")], "")
            }
            _ => empty(path),
        }
    });
    let sidecar = Sidecar::start(&api, &["--log", "trace", "--lease-namespace", "n"]);
    sidecar.wait_for_log("cannot be read");
    api.wait_for_requests(2, &["GET", "/pods"]);
    api.wait_for_requests(2, &["GET", "/nodes"]);
    api.wait_for_requests(2, &["GET", "/leases"]);
    let log = sidecar.log();
    let leaks: Vec<&str> = log.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert_eq!(
        log.matches("n/odd").count(),
        1,
        "an object is reported once"
    );
    let metrics = sidecar.get("/metrics");
    assert!(
        metrics.contains("unreadable_objects{resource=\"persistentpodstates\"} 1"),
        "{metrics}"
    );
    let tracked = "tracked_objects{resource=\"persistentpodstates\"} 2";
    api::wait_for("both objects", || sidecar.get("/metrics").contains(tracked));
}

#[test]
fn lists_in_pages_and_begins_again_when_a_token_has_expired() {
    let has_expired = Mutex::new(false);
    let api = Api::start(move |_, path| match path {
        _ if is_watch(path) => Answer::silence(),
        _ if path.contains("/statefulsets") && path.contains("continue=") => {
            if std::mem::replace(&mut has_expired.lock().unwrap(), true) {
                Answer::list(11, &[stateful_set("b").to_string()], "")
            } else {
                let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "The provided continue parameter is too old"});
                Answer::Body(410, status.to_string())
            }
        }
        _ if path.contains("/statefulsets") => {
            Answer::list(11, &[stateful_set("a").to_string()], "t")
        }
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    assert_eq!(api.count(&["/statefulsets", "continue=t"]), 2);
    for request in api
        .requests
        .lock()
        .unwrap()
        .iter()
        .filter(|request| !is_watch(request))
    {
        assert!(
            request.contains("limit=") || request.contains("/leases"),
            "{request}"
        );
    }
    api::wait_for("both workloads", || {
        sidecar
            .get("/metrics")
            .contains("tracked_objects{resource=\"workloads\"} 2")
    });
    api.wait_for_requests(1, &["/statefulsets", "watch=true", "resourceVersion=11"]);
}

#[test]
fn records_workloads_of_a_kind_of_which_one_object_is_nested_deeply() {
    let api = Api::start(|_, path| {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(150), "}".repeat(150));
        let database = |name: &str, deep: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}", "namespace": "n", "uid": "{name}", "resourceVersion": "5"}}, "spec": {{"replicas": 1, "deep": {deep}}}}}"#
            )
        };
        let definition = json!({
            "metadata": {"name": "databases.a.io", "resourceVersion": "1"},
            "spec": {"group": "a.io", "names": {"kind": "Database", "plural": "databases"}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        let config = json!({
            "metadata": {"name": "kruise-configuration", "namespace": "kruise-system", "uid": "c", "resourceVersion": "1"},
            "data": {"PPS_Watch_Custom_Workload_WhiteList": r#"{"workloads":[{"group":"a.io","kind":"Database"}]}"#},
        });
        match path {
            _ if is_watch(path) => Answer::silence(),
            _ if path.contains("/customresourcedefinitions") => {
                Answer::list(9, &[definition.to_string()], "")
            }
            _ if path.contains("/configmaps") => Answer::list(9, &[config.to_string()], ""),
            _ if path.contains("/databases") => {
                Answer::list(9, &[database("deep", &deep), database("flat", "1")], "")
            }
            _ => empty(path),
        }
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    api::wait_for("both workloads", || {
        sidecar
            .get("/metrics")
            .contains("tracked_objects{resource=\"workloads\"} 2")
    });
}

#[test]
fn watches_pods_without_a_gap_while_it_lists_them_for_a_new_key() {
    let (pods, pod_lines) = mpsc::channel();
    let (objects, object_lines) = mpsc::channel();
    let (finish_list, list_may_end) = mpsc::channel::<()>();
    let list_may_end = Mutex::new(list_may_end);
    let waiting = Mutex::new((Some(pod_lines), Some(object_lines), 0));
    let api = Api::start(move |method, path| {
        let mut waiting = waiting.lock().unwrap();
        match path {
            _ if method == "PATCH" => Answer::Body(
                200,
                json!({"metadata": {"resourceVersion": "99"}}).to_string(),
            ),
            _ if path.contains("/pods") && is_watch(path) => match waiting.0.take() {
                Some(lines) => Answer::Watch(lines),
                None => Answer::silence(),
            },
            _ if path.contains("/pods") => {
                waiting.2 += 1;
                if waiting.2 == 1 {
                    return Answer::list(10, &[], "");
                }
                // The second list is slow. Other requests are answered meanwhile.
                drop(waiting);
                list_may_end.lock().unwrap().recv().unwrap();
                // It was read before the Pod was there.
                Answer::list(15, &[], "")
            }
            _ if path.contains(PPS) && is_watch(path) => match waiting.1.take() {
                Some(lines) => Answer::Watch(lines),
                None => Answer::silence(),
            },
            _ if path.contains(PPS) => Answer::list(10, &[pps("web", 5, "old").to_string()], ""),
            _ if path.contains("/statefulsets") && !is_watch(path) => Answer::list(
                10,
                &[
                    stateful_set("web").to_string(),
                    stateful_set("db").to_string(),
                ],
                "",
            ),
            _ if path.contains("/nodes") && !is_watch(path) => Answer::list(10, &[node()], ""),
            _ => empty(path),
        }
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    api.wait_for_requests(1, &["/pods", "watch=true"]);
    objects.send(event("ADDED", &pps("db", 11, "new"))).unwrap();
    api.wait_for_requests(2, &["GET", "/pods?", "limit="]);
    // While the Pods are listed again, one becomes Ready.
    let pod = ready_pod("web", 20, &json!({"old": "1", "new": "2"}));
    pods.send(event("ADDED", &pod)).unwrap();
    api.wait_for_requests(1, &["PATCH", "/web/status", "node-1"]);
    assert!(
        sidecar
            .get("/metrics")
            .contains("watch_up{resource=\"pods\"} 1")
    );
    finish_list.send(()).unwrap();
    // The object with the new key records once the list is complete; the Pod that came meanwhile is
    // not lost.
    let pod = ready_pod("db", 21, &json!({"new": "3"}));
    pods.send(event("ADDED", &pod)).unwrap();
    api.wait_for_requests(1, &["PATCH", "/db/status", "\"new\":\"3\""]);
    let tracked = "tracked_objects{resource=\"pods\"} 2";
    api::wait_for("both Pods", || sidecar.get("/metrics").contains(tracked));
    assert_eq!(api.count(&["/pods", "watch=true"]), 1, "the same watch");
}
