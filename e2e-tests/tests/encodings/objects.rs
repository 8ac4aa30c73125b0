//! Random objects, which no API server would accept but which one may have stored.

use serde_json::{Value, json};

use super::TO_BREAK;
use crate::support::random::Random;

const TEXTS: [&str; 6] = ["", "a", "true", "ü€𝄞", "\"<&>\\\n\u{2028}", "x-0"];
const TIMES: [&str; 7] = [
    "2026-01-07T09:10:13Z",
    "1970-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-30T21:59:59Z",
    // Later than the sidecar's clock can show.
    "9999-12-31T23:59:59Z",
    "2026-01-07T09:10:13+02:00",
];

fn metadata(random: &mut Random, name: &str) -> Value {
    let map = |random: &mut Random| -> Value {
        let keys = ["ip", "zone", "example.com/x", "example.com/rack", "other"];
        let mut map = serde_json::Map::new();
        for key in keys {
            if random.below(2) == 0 {
                map.insert(key.to_owned(), json!(*random.one(&TEXTS)));
            }
        }
        map.into()
    };
    let mut metadata = json!({
        "name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": random.below(3),
        "creationTimestamp": *random.one(&TIMES), "labels": map(random), "annotations": map(random),
    });
    if random.below(4) == 0 {
        metadata["deletionTimestamp"] = (*random.one(&TIMES)).into();
        metadata["deletionGracePeriodSeconds"] = 30.into();
        metadata["finalizers"] = json!(["example.com/keep"]);
    }
    if random.below(2) == 0 {
        metadata["annotations"][pps_core::INJECTED_ANNOTATION] =
            (*random.one(&["p", "", "ü"])).into();
        metadata["annotations"][pps_core::RECORD_ANNOTATION] =
            (*random.one(&["false", "", "true"])).into();
    }
    let owners = ["StatefulSet", "ReplicaSet", "Database", ""];
    let groups = ["apps/v1", "example.com/v1", ""];
    metadata["ownerReferences"] = (0..random.below(3))
        .map(|number| {
            json!({"apiVersion": *random.one(&groups), "kind": *random.one(&owners), "name": *random.one(&TEXTS),
                "uid": format!("owner-{number}"), "controller": *random.one(&[json!(null), json!(true), json!(false)])})
        })
        .collect();
    metadata
}

pub(super) fn pod(random: &mut Random, index: u64) -> Value {
    let mut metadata = metadata(random, &format!("p{index}"));
    if index < 5 {
        // These are changed through the API, which accepts only valid Pods.
        metadata = json!({"name": format!("p{index}"), "namespace": "default", "uid": format!("uid-{index}"),
            "creationTimestamp": TIMES[0], "annotations": {"ip": TO_BREAK}});
    }
    let requirement = |random: &mut Random| {
        json!({"key": *random.one(&["zone", "example.com/rack", ""]), "operator": *random.one(&["In", "NotIn", "Exists", "ü"]),
            "values": *random.one(&[json!(null), json!([]), json!(["a"]), json!(["a", "", "ü"])])})
    };
    let terms: Vec<Value> = (0..random.below(3))
        .map(|_| {
            let expressions: Vec<Value> =
                (0..random.below(3)).map(|_| requirement(random)).collect();
            json!({"matchExpressions": expressions, "matchFields": [requirement(random)]})
        })
        .collect();
    let affinity = match random.below(4) {
        0 => json!(null),
        1 => json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "preference": {"matchExpressions": [requirement(random)]}}]}}),
        _ => {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
            "podAntiAffinity": {}})
        }
    };
    let conditions: Vec<Value> = (0..random.below(4))
        .map(|_| {
            json!({"type": *random.one(&["Ready", "PodScheduled", "ü"]), "status": *random.one(&["True", "False", "Unknown", ""]),
                "lastTransitionTime": *random.one(&[json!(null), json!(TIMES[0]), json!(TIMES[1]), json!(TIMES[2]), json!(TIMES[5])]),
                "message": *random.one(&TEXTS)})
        })
        .collect();
    let ips: Vec<Value> = (0..random.below(3))
        .map(|n| json!({"ip": *random.one(&["", "10.0.0.7", "fd00::7"]), "n": n}))
        .collect();
    let valid = index < 5;
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "containers": [{"name": "main", "image": "example.invalid/a:1", "env": [{"name": "A", "value": *random.one(&TEXTS)}],
                "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"}],
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "nodeName": *random.one(&[json!(null), json!(""), json!("node-1"), json!("ü")]),
            "affinity": affinity,
            "schedulingGates": *random.one(&[json!(null), json!(null), json!([]), json!([{"name": "hold"}])]),
        },
        "status": {
            "phase": *random.one(&["Pending", "Running", "", "ü"]), "conditions": conditions,
            "podIP": *random.one(&["", "10.0.0.7"]), "podIPs": ips, "message": *random.one(&TEXTS),
        },
    });
    if valid {
        pod["spec"]["affinity"] = Value::Null;
        pod["spec"]["schedulingGates"] = Value::Null;
        pod["spec"]["nodeName"] = "node-1".into();
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    } else if index.is_multiple_of(10) {
        // Rare by chance: a Pod that waits for what the policy requires.
        let term =
            json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
        let terms = json!({"nodeSelectorTerms": [term]});
        pod["metadata"]["annotations"][pps_core::INJECTED_ANNOTATION] = "p".into();
        pod["spec"]["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        pod["spec"]["schedulingGates"] = Value::Null;
        pod["spec"]["nodeName"] = Value::Null;
        pod["status"]["phase"] = "Pending".into();
    }
    pod
}

pub(super) fn node(random: &mut Random, index: u64) -> Value {
    let mut metadata = metadata(random, &format!("n{index}"));
    metadata["namespace"] = Value::Null;
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"phase": *random.one(&TEXTS)}})
}

pub(super) fn stateful_set(random: &mut Random, index: u64) -> Value {
    let mut metadata = metadata(random, &format!("s{index}"));
    metadata["annotations"]["kruise.io/auto-generate-persistent-pod-state"] =
        (*random.one(&TEXTS)).into();
    let labels = json!({"app": "a"});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
        "spec": {"replicas": *random.one(&[json!(null), json!(0), json!(3), json!(-1), json!(i32::MAX)]),
            "ordinals": *random.one(&[json!(null), json!({}), json!({"start": 5}), json!({"start": -5})]),
            "serviceName": "a", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "a"}]}}},
    })
}
