//! Objects that are larger than the limits.

use pps_core::limits::MAX_TOPOLOGY_KEYS;

use super::*;

fn spec_with_keys(count: usize) -> Value {
    let mut spec = spec("w");
    let keys: Vec<String> = (0..count)
        .map(|number| format!("example.io/key-{number}"))
        .collect();
    spec["requiredPersistentTopology"] = json!({"nodeTopologyKeys": keys});
    spec
}

#[test]
fn an_object_beyond_the_limits_keeps_its_states_and_adds_no_keys() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    let (status, revision) = (
        world.status("p"),
        world.recorder.cluster.interest.revision(),
    );
    world.object("p", &spec_with_keys(20_000), &status);
    assert_eq!(
        world.recorder.cluster.interest.revision(),
        revision,
        "nothing is listed again"
    );
    world.pod("w-0", ready_on("node-2"));
    world.workload("w", "uid-w", 0, &[]);
    world.settle("p");
    let condition = &world.status("p")["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("LimitExceeded"))
    );
    assert!(
        condition["message"].as_str().unwrap().contains("20000"),
        "{condition}"
    );
    assert_eq!(world.status("p")["podStates"]["w-0"], state("node-1", "a"));

    let status = world.status("p");
    world.object("p", &spec("w"), &status);
    world.settle("p");
    assert_eq!(world.status("p")["podStates"]["w-0"]["nodeName"], "node-2");
}

#[test]
fn a_condition_lists_a_bounded_number_of_missing_keys() {
    let mut world = World::new();
    world.workload("w", "uid-w", 1, &[]);
    world.object("p", &spec_with_keys(MAX_TOPOLOGY_KEYS), &json!({}));
    world.recorder.apply(Fact::Nodes(Update::Begin(u64::MAX)));
    world.node("node-1", &[("zone", "a")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    world.pod("w-0", ready_on("node-1"));
    let message = world.patch("p").unwrap()["conditions"][0]["message"].take();
    let message = message.as_str().unwrap();
    assert!(
        message.contains("node-1") && message.contains(" and 44 more: "),
        "{message}"
    );
}

#[test]
fn what_is_missing_is_kept_once_for_all_pods() {
    let mut world = World::new();
    world.workload("w", "uid-w", 300, &[]);
    world.object("p", &spec_with_keys(MAX_TOPOLOGY_KEYS), &json!({}));
    world.recorder.apply(Fact::Nodes(Update::Begin(u64::MAX)));
    world.node("node-1", &[("zone", "a")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    for number in 0..300 {
        world.pod(&format!("w-{number}"), ready_on("node-1"));
    }
    world.settle("p");
    let missing = &world.tracked("p").progress.missing_labels;
    let kept: usize = missing.iter().map(|pod| size_of_val(pod) + pod.len()).sum();
    assert_eq!(missing.len(), 300);
    assert!(kept < 300 * 32, "{kept} bytes");
}
