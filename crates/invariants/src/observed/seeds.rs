//! The inputs from which fuzzing starts: objects of the small cluster, and variants of them.

use serde_json::{Value, json};

use super::kinds::{config, definition};
use super::world::{node, object, pod, workload};

/// The target, name and bytes of each seed.
pub(crate) fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    let mut add = |target, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));
    let text = |value: &Value| value.to_string().into_bytes();
    for (name, pod) in [
        ("known", pod("web-0")),
        ("new", pod("web-2")),
        ("pending", pending()),
        ("exempt", exempt()),
        ("replicated", replicated()),
    ] {
        add("observed_pod", name, text(&pod));
    }
    add("observed_node", "known", text(&node("node-1")));
    add("observed_node", "new", text(&node("node-3")));
    for (name, object) in [
        ("known", object("web")),
        ("second", object("other")),
        ("odd", odd_object()),
    ] {
        add("observed_object", name, text(&object));
    }
    let mut set = workload("web");
    set["metadata"]["annotations"] = json!({"kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "zone",
        "kruise.io/required-persistent-topology-fallback-after-seconds": "600", "other": "x"});
    set["spec"] = json!({"replicas": 2, "ordinals": {"start": 1}, "reserveOrdinals": [1, "3-4"], "shape": {"size": 4},
        "pods": [{"metadata": {"name": "web-7"}}, {"metadata": {"name": "web-a"}}]});
    set["status"] = json!({"instanceNames": ["web-7", "web-a"]});
    for kind in 0..6 {
        add(
            "observed_workload",
            &format!("kind-{kind}"),
            [&[kind], &*text(&set)].concat(),
        );
    }
    add(
        "observed_definition",
        "listed",
        text(&definition("b.io", "Cache")),
    );
    let mut versions = definition("a.io", "Database");
    versions["spec"]["versions"] = json!([{"name": "v2", "served": true, "subresources": {"scale": {"specReplicasPath": ".spec.size"}}}, {"name": "v1", "served": false}]);
    add("observed_definition", "versions", text(&versions));
    let list =
        json!({"Workloads": [{"Group": "a.io", "KIND": "Database", "version": "v1"}]}).to_string();
    add("observed_whitelist", "list", list.clone().into_bytes());
    add(
        "observed_whitelist",
        "object",
        [&[0], &*text(&config(&list))].concat(),
    );
    let event = |kind: &str, version: u64, object: &Value| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        json!({"type": kind, "object": object}).to_string() + "\n"
    };
    let watch = [
        event("ADDED", 11, &pod("web-0")),
        event("BOOKMARK", 12, &json!({"metadata": {}})),
        event(
            "MODIFIED",
            13,
            &json!({"metadata": {"name": "web-0", "namespace": "n"}}),
        ),
        event("ADDED", 9, &pod("web-1")),
        event("DELETED", 14, &pod("web-0")),
        event("ADDED", 15, &json!({"metadata": {"name": "a"}, "spec": 5})),
        event(
            "ERROR",
            16,
            &json!({"code": 410, "message": "too old", "metadata": {}}),
        ),
    ];
    for (name, first) in [("pieces", 7), ("during-a-list", 0x80 + 50)] {
        add(
            "observed_watch",
            name,
            [&[first], watch.concat().as_bytes()].concat(),
        );
    }
    seeds
}

fn pending() -> Value {
    let mut pod = pod("web-2");
    pod["metadata"]["annotations"]["kruise.io/injected-persistent-pod-state"] = "web".into();
    pod["spec"] = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}}}});
    pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    pod
}

fn exempt() -> Value {
    let mut pod = pod("web-0");
    pod["metadata"]["annotations"]["kruise.io/record-persistent-pod-state"] = "false".into();
    pod
}

fn replicated() -> Value {
    let mut pod = pod("web-x");
    pod["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into();
    pod
}

fn odd_object() -> Value {
    let mut object = object("web");
    object["spec"]["preferredPersistentTopology"] =
        json!([{"weight": 5, "preference": {"keys": ["rack"]}}]);
    object["spec"]["persistentPodAnnotations"] =
        json!(["y", {"key": "ip", "valueFrom": "PodIPsJSON"}]);
    object["spec"]["nodeDeletionPolicy"] = "Forget".into();
    object["spec"]["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
    object["status"]["conditions"] =
        json!([{"type": "Recording", "status": "True", "reason": "R", "lastTransitionTime": "t"}]);
    object["metadata"]["resourceVersion"] = "2000".into();
    object
}
