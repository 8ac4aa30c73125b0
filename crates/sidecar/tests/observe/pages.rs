//! Pages that are larger than the sidecar takes, and pages that fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// The value of a parameter of the query.
fn number(path: &str, parameter: &str) -> Option<usize> {
    let (_, value) = path.split_once(&format!("{parameter}="))?;
    value.split('&').next()?.parse().ok()
}

#[test]
fn lists_all_pods_although_those_of_one_namespace_are_too_large_for_one_page() {
    const PODS: usize = 45;
    // 1.1 MB in etcd. Go writes "<" with six characters.
    let large = "\\u003c".repeat(1_100_000);
    let api = Api::start(move |_, path| match path {
        _ if is_watch(path) => Answer::silence(),
        _ if path.contains("/pods") => {
            let first = number(path, "continue").unwrap_or(0);
            let end = (first + number(path, "limit").unwrap()).min(PODS);
            let pods: Vec<String> = (first..end)
                .map(|n| format!(r#"{{"metadata":{{"name":"p{n}","namespace":"n","uid":"u{n}","resourceVersion":"5"}},"spec":{{"containers":[{{"name":"{large}"}}]}}}}"#))
                .collect();
            Answer::list(
                10,
                &pods,
                &if end < PODS {
                    end.to_string()
                } else {
                    String::new()
                },
            )
        }
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    api::wait_for("all Pods", || {
        sidecar
            .get("/metrics")
            .contains(&format!("tracked_objects{{resource=\"pods\"}} {PODS}"))
    });
    assert!(
        api.count(&["GET", "/pods?"]) < PODS,
        "more than one object in most pages"
    );
    assert!(
        !sidecar.log().contains("retrying"),
        "no failure: {}",
        sidecar.log()
    );
}

#[test]
fn a_page_that_fails_is_asked_for_again_and_the_pages_before_it_are_not() {
    static WORKS: AtomicBool = AtomicBool::new(false);
    let api = Api::start(|_, path| match path {
        _ if is_watch(path) => Answer::silence(),
        _ if path.contains("/statefulsets") && path.contains("continue=second") => {
            if WORKS.load(Ordering::Relaxed) {
                Answer::list(11, &[stateful_set("b").to_string()], "third")
            } else {
                Answer::Body(
                    500,
                    json!({"kind": "Status", "code": 500, "message": "etcdserver: request timed out"})
                        .to_string(),
                )
            }
        }
        _ if path.contains("/statefulsets") && path.contains("continue=third") => {
            Answer::list(11, &[stateful_set("c").to_string()], "")
        }
        _ if path.contains("/statefulsets") => {
            Answer::list(11, &[stateful_set("a").to_string()], "second")
        }
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    api.wait_for_requests(2, &["/statefulsets", "continue=second"]);
    assert_eq!(sidecar.get("/readyz"), "cannot watch: statefulsets\n");
    WORKS.store(true, Ordering::Relaxed);
    sidecar.wait_ready();
    let tracked = "tracked_objects{resource=\"workloads\"} 3";
    api::wait_for("all workloads", || {
        sidecar.get("/metrics").contains(tracked)
    });
    let requests =
        api.count(&["/statefulsets", "limit="]) - api.count(&["/statefulsets", "continue="]);
    assert_eq!(requests, 1, "the first page was asked for once");
}

#[test]
fn a_watch_is_opened_again_while_a_list_waits() {
    let (objects, object_lines) = mpsc::channel();
    let (pods, pod_events) = mpsc::channel();
    let waiting = Mutex::new((Some(object_lines), Some(pod_events)));
    let is_listed = AtomicBool::new(false);
    let api = Api::start(move |_, path| match path {
        _ if path.contains(PPS) && is_watch(path) => match waiting.lock().unwrap().0.take() {
            Some(lines) => Answer::Watch(lines),
            None => Answer::silence(),
        },
        _ if path.contains("/pods") && is_watch(path) => match waiting.lock().unwrap().1.take() {
            Some(events) => Answer::EncodedWatch("Content-Type: application/json", events),
            None => Answer::silence(),
        },
        _ if path.contains("/pods")
            && path.contains("limit=250")
            && is_listed.swap(true, Ordering::Relaxed) =>
        {
            let details = json!({"retryAfterSeconds": 40});
            Answer::Body(
                429,
                json!({"kind": "Status", "code": 429, "details": details}).to_string(),
            )
        }
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    api.wait_for_requests(1, &["/pods", "watch=true"]);
    objects
        .send(event("ADDED", &pps("web", 11, "new")))
        .unwrap();
    sidecar.wait_for_log("the list failed");
    // The connection of the watch is cut.
    drop(pods);
    let start = Instant::now();
    api.wait_for_requests(2, &["/pods", "watch=true"]);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        api.count(&["/pods?", "limit=250"]),
        2,
        "the list still waits"
    );
}

#[test]
fn a_pending_pod_with_many_terms_costs_little() {
    // 1.5 MB, as much as etcd takes: Pods that anybody may create.
    let pod = |number: usize, terms: &str| {
        let name = format!("a-{number}");
        format!(
            r#"{{"metadata": {{"name": "{name}", "namespace": "n", "uid": "{name}", "resourceVersion": "5",
                "annotations": {{"kruise.io/injected-persistent-pod-state": "a"}}}},
                "spec": {{"affinity": {{"nodeAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution":
                    {{"nodeSelectorTerms": [{terms}]}}}}}}}},
                "status": {{"phase": "Pending"}}}}"#
        )
    };
    let many = |item: &str| vec![item; 1_500_000 / (item.len() + 1)].join(",");
    let expressions = |items: &str| format!(r#"{{"matchExpressions": [{items}]}}"#);
    let values = format!(
        r#"{{"key": "zone", "operator": "In", "values": [{}]}}"#,
        many(r#""""#)
    );
    let pods = [
        pod(0, &many("{}")),
        pod(1, &expressions(&many(r#"{"operator":"In"}"#))),
        pod(2, &expressions(&many("{}"))),
        pod(3, &expressions(&values)),
    ];
    let api = Api::start(move |_, path| match path {
        _ if path.contains("/pods") && !is_watch(path) => Answer::list(10, &pods, ""),
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    let peak = sidecar.peak_memory();
    println!("peak: {} MiB", peak >> 20);
    assert!(peak < 100 << 20, "{peak}");
}
