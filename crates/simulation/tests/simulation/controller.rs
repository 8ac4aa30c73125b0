//! StatefulSets create, delete and replace Pods as in Kubernetes.

use pps_simulation::{EventKind, Phase, Scenario, run};
use serde_json::json;

use crate::worlds::{last, node, nodes, places, play, pod, scenario, stateful_set, texts, with};

const KINDS: [EventKind; 2] = [EventKind::Scheduled, EventKind::Deleted];

fn small_node(name: &str, pods: u32) -> serde_json::Value {
    with(
        node(name, "a"),
        "status.allocatable.pods",
        json!(pods.to_string()),
    )
}

/// The Pods of these events, in order.
fn order(texts: &[String]) -> Vec<String> {
    texts
        .iter()
        .map(|text| text.split(' ').next().unwrap().replace("Pod/", ""))
        .collect()
}

#[test]
fn ordered_ready_creates_one_pod_at_a_time_and_waits_for_each() {
    let objects = vec![small_node("n1", 1), stateful_set("db", 4)];
    let result = play(objects, json!([{"do": "rollOut"}]));
    assert_eq!(
        places(last(&result)),
        [
            "db-0 n1",
            "db-1 Pending",
            "db-2 NotCreated",
            "db-3 NotCreated"
        ]
    );
    let waits = texts(last(&result), &[EventKind::Pending]);
    assert_eq!(waits, ["Pod/db-1 stays Pending: no node can take it"]);
}

#[test]
fn parallel_creates_all_pods_at_once() {
    let set = with(
        stateful_set("db", 3),
        "spec.podManagementPolicy",
        json!("Parallel"),
    );
    let result = play(vec![small_node("n1", 1), set], json!([{"do": "rollOut"}]));
    assert_eq!(
        places(last(&result)),
        ["db-0 n1", "db-1 Pending", "db-2 Pending"]
    );
}

#[test]
fn pods_wait_until_there_is_room() {
    let objects = vec![small_node("n1", 1), stateful_set("db", 2)];
    let more = small_node("n2", 1);
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "addNode", "object": more}]),
    );
    assert_eq!(places(&result.steps[1]), ["db-0 n1", "db-1 Pending"]);
    assert_eq!(places(last(&result)), ["db-0 n1", "db-1 n2"]);
}

#[test]
fn scaling_down_deletes_the_highest_ordinals_first() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut objects = nodes(2);
        objects.push(with(
            stateful_set("db", 4),
            "spec.podManagementPolicy",
            json!(policy),
        ));
        let actions = json!([{"do": "rollOut"}, {"do": "scale", "workload": "db", "replicas": 1}]);
        let result = play(objects, actions);
        assert_eq!(places(last(&result)).len(), 1);
        assert_eq!(
            order(&texts(last(&result), &KINDS)),
            ["db-3", "db-2", "db-1"],
            "{policy}"
        );
    }
}

#[test]
fn an_ordered_set_does_not_scale_down_while_a_pod_is_pending() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "cordon", "node": "n1"}, {"do": "deletePod", "pod": "db-0"},
        {"do": "scale", "workload": "db", "replicas": 1}, {"do": "uncordon", "node": "n1"},
    ]);
    let result = play(vec![node("n1", "a"), stateful_set("db", 2)], actions);
    assert_eq!(places(&result.steps[4]), ["db-0 Pending", "db-1 n1"]);
    assert_eq!(places(last(&result)), ["db-0 n1"]);
}

#[test]
fn a_rolling_update_replaces_pods_from_the_highest_ordinal_down_to_the_partition() {
    let mut objects = nodes(2);
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    objects.push(with(
        stateful_set("db", 3),
        "spec.updateStrategy",
        partition,
    ));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "rollingUpdate", "workload": "db"}, {"do": "deletePod", "pod": "db-0"}]),
    );
    assert_eq!(
        order(&texts(&result.steps[2], &KINDS)),
        ["db-2", "db-2", "db-1", "db-1"]
    );
    let revision = |name: &str| {
        let manifest = pod(last(&result), name).manifest.clone().unwrap();
        manifest.before["metadata"]["labels"]["controller-revision-hash"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        ["db-0", "db-1", "db-2"].map(revision),
        ["db-0", "db-1", "db-1"]
    );
}

#[test]
fn on_delete_replaces_no_pod_by_itself() {
    let mut objects = nodes(2);
    objects.push(with(
        stateful_set("db", 2),
        "spec.updateStrategy",
        json!({"type": "OnDelete"}),
    ));
    let actions = json!([{"do": "rollOut"}, {"do": "rollingUpdate", "workload": "db"}, {"do": "deletePod", "pod": "db-1"}]);
    let result = play(objects, actions);
    assert_eq!(texts(&result.steps[2], &KINDS), [""; 0]);
    let before = &pod(last(&result), "db-1").manifest.as_ref().unwrap().before;
    assert_eq!(
        before["metadata"]["labels"]["controller-revision-hash"],
        "db-1"
    );
}

#[test]
fn a_pod_has_the_identity_that_the_controller_gives_it() {
    let set = with(stateful_set("db", 1), "spec.ordinals", json!({"start": 5}));
    let set = with(set, "metadata.uid", json!("u"));
    let claims = json!([{"metadata": {"name": "data"}}]);
    let set = with(set, "spec.volumeClaimTemplates", claims);
    let result = play(vec![node("n1", "a"), set], json!([{"do": "rollOut"}]));
    let before = &pod(last(&result), "db-5").manifest.as_ref().unwrap().before;
    assert_eq!(
        before["metadata"],
        json!({
            "name": "db-5", "generateName": "db-", "namespace": "default",
            "labels": {
                "app": "db", "controller-revision-hash": "db-0",
                "statefulset.kubernetes.io/pod-name": "db-5", "apps.kubernetes.io/pod-index": "5",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(before["spec"]["hostname"], "db-5");
    assert_eq!(before["spec"]["subdomain"], "db");
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-5"}}]);
    assert_eq!(before["spec"]["volumes"], volume);
}

#[test]
fn a_pod_that_the_policy_refuses_is_not_created() {
    let scenario = Scenario {
        settings: json!({"onLookupFailure": "maybe"}),
        ..scenario(
            vec![node("n1", "a"), stateful_set("db", 2)],
            json!([{"do": "rollOut"}]),
        )
    };
    let result = run(&scenario);
    assert_eq!(places(last(&result)), ["db-0 Refused", "db-1 NotCreated"]);
    let refusal = pod(last(&result), "db-0").refusal.clone().unwrap();
    assert_eq!(refusal.code, 500);
    let text = &texts(last(&result), &[EventKind::Refused])[0];
    assert!(
        text.contains(&refusal.message) && text.contains("FailedCreate"),
        "{text}"
    );
    let without = Scenario {
        with_pps: false,
        ..scenario
    };
    assert_eq!(places(last(&run(&without))), ["db-0 n1", "db-1 n1"]);
}

#[test]
fn another_pod_of_the_name_prevents_the_creation() {
    let other = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}, "spec": {"nodeName": "n1"},
    });
    let objects = vec![node("n1", "a"), stateful_set("db", 1), other];
    let result = run(&scenario(objects, json!([{"do": "rollOut"}])));
    assert_eq!(pod(last(&result), "db-0").phase, Phase::Refused);
    assert_eq!(result.problems, []);
}

#[test]
fn a_deleted_stateful_set_that_a_user_applies_is_created() {
    let mut objects = nodes(2);
    objects.push(stateful_set("db", 1));
    let actions = json!([
        {"do": "rollOut"}, {"do": "deleteWorkload", "workload": "db"},
        {"do": "changeSpec", "object": with(stateful_set("db", 2), "spec.serviceName", json!("other"))},
    ]);
    let result = play(objects, actions);
    let workload = &last(&result).world.workloads[0];
    assert_eq!(
        (workload.exists, workload.replicas, workload.ready),
        (true, 2, 2)
    );
    let created = texts(last(&result), &[EventKind::Created]);
    assert_eq!(created[0], "StatefulSet/db is created (replicas: 2)");
    assert_eq!(texts(last(&result), &[EventKind::Changed]), [""; 0]);
}
