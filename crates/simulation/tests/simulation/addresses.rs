//! Fixed addresses.

use pps_simulation::{EventKind, Phase, run};
use serde_json::{Value, json};

use crate::worlds::{
    HOSTNAME, last, node, object, play, pod, pps, scenario, stateful_set, texts, with,
};

fn world(annotations: &Value) -> Vec<Value> {
    let spec = json!({"persistentPodAnnotations": annotations});
    vec![
        node("n1", "a"),
        node("n2", "a"),
        stateful_set("db", 2),
        pps("db", spec),
    ]
}

fn address(step: &pps_simulation::Step, name: &str) -> String {
    pod(step, name).ip.clone().unwrap()
}

#[test]
fn without_a_fixed_address_a_pod_gets_another_one() {
    let objects = vec![node("n1", "a"), stateful_set("db", 1)];
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}]),
    );
    assert_eq!(address(&result.steps[1], "db-0"), "10.1.0.1");
    assert_eq!(address(last(&result), "db-0"), "10.1.0.2");
}

#[test]
fn a_pod_keeps_the_address_that_kube_ovn_has_written() {
    let objects = world(&json!([{"key": "ovn.kubernetes.io/ip_address"}]));
    let actions = json!([{"do": "rollOut"}, {"do": "drain", "node": "n1"}]);
    let result = play(objects, actions);
    let before = &result.steps[1];
    let moved = before
        .world
        .pods
        .iter()
        .find(|pod| pod.node.as_deref() == Some("n1"))
        .unwrap();
    let after = pod(last(&result), &moved.name);
    assert_eq!(after.node.as_deref(), Some("n2"));
    assert_eq!(after.ip, moved.ip);
    assert_eq!(
        after.came_home,
        Some(true),
        "its state has an address and no topology"
    );
    let text = texts(last(&result), &[EventKind::Scheduled]).join("; ");
    let expected = "runs on n2 and has the address 10.1.0.1, as recorded";
    assert!(text.contains(expected), "{text}");
    let state = &object(last(&result), "db").states[&moved.name];
    assert_eq!(
        Some(&state.annotations["ovn.kubernetes.io/ip_address"]),
        moved.ip.as_ref()
    );
}

#[test]
fn calico_reads_an_annotation_that_is_made_from_the_addresses() {
    let objects =
        world(&json!([{"key": "cni.projectcalico.org/ipAddrs", "valueFrom": "PodIPsJSON"}]));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-1"}]),
    );
    assert_eq!(
        address(&result.steps[1], "db-1"),
        address(last(&result), "db-1")
    );
    let annotations =
        &pod(last(&result), "db-1").manifest.as_ref().unwrap().after["metadata"]["annotations"];
    assert_eq!(
        annotations["cni.projectcalico.org/ipAddrs"],
        format!("[\"{}\"]", address(last(&result), "db-1"))
    );
    assert_eq!(pod(last(&result), "db-1").came_home, Some(true));
}

#[test]
fn a_pod_does_not_start_while_another_one_has_its_address() {
    let fixed = json!({"ovn.kubernetes.io/ip_address": "10.9.9.9"});
    let set = with(
        stateful_set("db", 2),
        "spec.template.metadata.annotations",
        fixed,
    );
    let objects = vec![
        node("n1", "a"),
        set,
        pps(
            "db",
            json!({"requiredPersistentTopology": {"keys": [HOSTNAME]}}),
        ),
    ];
    let result = run(&scenario(
        objects,
        json!([{"do": "rollOut"}, {"do": "scale", "workload": "db", "replicas": 2}]),
    ));
    let stuck = pod(last(&result), "db-1");
    assert_eq!(
        (stuck.phase, stuck.node.as_deref(), &stuck.ip),
        (Phase::Pending, Some("n1"), &None)
    );
    let text = &texts(&result.steps[1], &[EventKind::Pending])[0];
    assert!(
        text.starts_with(
            "Pod/db-1 stays Pending: it asks for the address 10.9.9.9, which another Pod has"
        ),
        "{text}"
    );
    assert_eq!(
        object(last(&result), "db").states.len(),
        1,
        "it is not Ready"
    );
}

#[test]
fn an_address_that_the_plugin_cannot_read_prevents_the_start() {
    let fixed = json!({"cni.projectcalico.org/ipAddrs": "10.9.9.9"});
    let set = with(
        stateful_set("db", 1),
        "spec.template.metadata.annotations",
        fixed,
    );
    let result = play(vec![node("n1", "a"), set], json!([{"do": "rollOut"}]));
    let text = &texts(last(&result), &[EventKind::Pending])[0];
    assert!(
        text.contains("Calico cannot read its annotation cni.projectcalico.org/ipAddrs: 10.9.9.9"),
        "{text}"
    );
}
