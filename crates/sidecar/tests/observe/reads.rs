//! What the sidecar reads before it writes.

use super::*;

/// As many objects as writes run at once, and the Pods of each.
const SETS: usize = 16;
const PODS: usize = 4;

/// The number in a name like `web-3`.
fn set_of(pod: &str) -> &str {
    pod.rsplit_once('-').unwrap().0
}

/// A Pod that runs on this node, with something that is not needed.
fn pod(name: &str, node: &str, more: &str) -> String {
    let mut pod = ready_pod(set_of(name), 7, &json!({}));
    pod["metadata"]["name"] = name.into();
    pod["spec"]["nodeName"] = node.into();
    pod["spec"]["containers"] = json!([{"name": more}]);
    pod.to_string()
}

/// A cluster in which every Pod runs on another node than is recorded.
fn moved_pods(read: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Api {
    let sets: Vec<String> = (0..SETS).map(|set| format!("web{set}")).collect();
    let pods: Vec<String> = sets
        .iter()
        .flat_map(|set| (0..PODS).map(move |pod| format!("{set}-{pod}")))
        .collect();
    Api::start(move |method, path| {
        if is_watch(path) {
            return Answer::silence();
        }
        if method == "PATCH" {
            return Answer::Body(
                200,
                json!({"metadata": {"resourceVersion": "99"}}).to_string(),
            );
        }
        if let (true, Some((_, name))) =
            (path.contains("/pods"), path.split_once("metadata.name%3D"))
        {
            return read(name.split('&').next().unwrap());
        }
        let objects: Vec<String> = match path {
            _ if path.contains("/pods") => {
                pods.iter().map(|name| pod(name, "node-1", "c")).collect()
            }
            _ if path.contains("/nodes") => vec![node()],
            _ if path.contains("/statefulsets") => sets
                .iter()
                .map(|set| stateful_set(set).to_string())
                .collect(),
            _ if path.contains(PPS) => {
                let pps = sets.iter().map(|set| {
                    let states = (0..PODS)
                        .map(|pod| (format!("{set}-{pod}"), json!({"nodeName": "node-0"})));
                    let states: serde_json::Map<_, _> = states.collect();
                    let mut object = pps(set, 5, "ip");
                    object["status"] =
                        json!({"targetUID": format!("set-{set}"), "podStates": states});
                    object.to_string()
                });
                pps.collect()
            }
            _ => Vec::new(),
        };
        Answer::list(10, &objects, "")
    })
}

#[test]
fn large_pods_that_are_read_before_writes_cost_no_more_memory_than_four_of_them() {
    // 1.1 MB in etcd. Go writes "<" with six characters.
    let large = "\\u003c".repeat(1_100_000);
    let api = moved_pods(move |name| {
        let pod =
            pod(name, "node-1", "").replace(r#"{"name":""}"#, &format!(r#"{{"name":"{large}"}}"#));
        Answer::list(11, &[pod], "")
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    api.wait_for_requests(SETS * PODS, &["/pods", "metadata.name%3D"]);
    for set in 0..SETS {
        api.wait_for_requests(1, &["PATCH", &format!("/web{set}/status"), "node-1"]);
    }
    let megabytes = sidecar.peak_memory() >> 20;
    println!("peak: {megabytes} MiB");
    assert!(megabytes < 128, "{megabytes} MiB");
}
