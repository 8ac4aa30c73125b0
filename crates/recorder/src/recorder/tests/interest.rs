//! Keys that specs name: an object is not decided before its keys have been listed.

use serde_json::{Value, json};

use super::{ASK, World, ready_on, spec};
use crate::cluster::Fact;
use crate::facts::store::Update;

#[test]
fn records_again_after_a_spec_change() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    let revision = world.recorder.cluster.interest.revision();
    world.recorder.apply(Fact::Nodes(Update::Begin(revision)));
    world.node("node-1", &[("zone", "a")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    let mut wider = spec("w");
    wider["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["host"]});
    let status = world.status("p");
    world.object("p", &wider, &status);
    assert_eq!(
        world.pod_states("p"),
        Value::Null,
        "the node's new label is not known yet"
    );
    assert_eq!(world.recorder.cluster.interest.revision(), revision + 1);
    world
        .recorder
        .apply(Fact::Nodes(Update::Begin(revision + 1)));
    world.node("node-1", &[("zone", "a"), ("host", "node-1")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": {"host": "node-1", "zone": null}}})
    );
}

/// Or else everybody who may annotate a workload, also out of scope, could make the Pods be listed
/// again.
#[test]
fn annotations_of_a_workload_name_keys_only_through_the_pps_that_is_generated() {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, ASK);
    assert_eq!(
        world.recorder.cluster.interest.revision(),
        0,
        "nothing is listed again"
    );
    assert!(
        world
            .recorder
            .cluster
            .interest
            .pick([("zone", "a")])
            .is_empty()
    );
}

#[test]
fn forgets_keys_that_no_spec_names_any_longer() {
    let mut world = World::with_workload();
    let kept = |world: &World, keys: &[&str]| {
        let picked = world
            .recorder
            .cluster
            .interest
            .pick(keys.iter().map(|key| (*key, "value")));
        picked
            .into_iter()
            .map(|(key, _)| key.to_string())
            .collect::<Vec<_>>()
    };
    for round in 0..50 {
        let keys: Vec<Value> = (0..100)
            .map(|number| json!({"key": format!("{round}-{number}")}))
            .collect();
        world.object(
            "many",
            &json!({"targetRef": spec("v")["targetRef"], "persistentPodAnnotations": keys}),
            &json!({}),
        );
    }
    assert_eq!(kept(&world, &["0-0", "ip", "49-0"]), ["49-0", "ip"]);

    // A key that is named again is listed again.
    let revision = world.recorder.cluster.interest.revision();
    let spec =
        json!({"targetRef": spec("v")["targetRef"], "persistentPodAnnotations": [{"key": "0-0"}]});
    world.object("many", &spec, &json!({}));
    assert_eq!(world.recorder.cluster.interest.revision(), revision + 1);
    assert_eq!(kept(&world, &["0-0"]), ["0-0"]);
}

#[test]
fn new_keys_of_one_object_do_not_delay_others() {
    let mut world = World::with_workload();
    world.settle("p");
    let relist_all = |world: &mut World| {
        let interest = &world.recorder.cluster.interest;
        let revision = interest.revision();
        world.recorder.apply(Fact::Nodes(Update::Begin(revision)));
        world.node("node-1", &[]);
        world.recorder.apply(Fact::Nodes(Update::Done));
        world.recorder.apply(Fact::Pods(Update::Begin(revision)));
        world.recorder.apply(Fact::Pods(Update::Done));
    };
    relist_all(&mut world);
    let many = json!({"targetRef": spec("v")["targetRef"], "persistentPodAnnotations": [{"key": "new"}],
        "requiredPersistentTopology": {"nodeTopologyKeys": ["new"]}});
    world.object("many", &many, &json!({}));

    world.pod("w-0", ready_on("node-1"));
    assert_eq!(
        world.pod_states("p")["w-0"]["nodeName"],
        "node-1",
        "other objects are recorded meanwhile"
    );
    world.accept("p");
    assert_eq!(world.patch("many"), None, "its keys are not listed yet");
    relist_all(&mut world);
    assert!(world.patch("many").is_some());
}
