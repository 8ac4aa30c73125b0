//! Keys that a spec names: nothing is decided before all that it needs is known.

use serde_json::{Value, json};

use super::{World, ready_on, spec};
use crate::facts::store::Update;

#[test]
fn a_changed_spec_is_recorded_again() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    let revision = world.index.interest.labels().revision();
    world.index.apply_nodes(Update::Begin(revision));
    world.node("node-1", &[("zone", "a")]);
    world.index.apply_nodes(Update::Done);
    let mut wider = spec("w");
    wider["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["host"]});
    let status = world.status("p");
    world.object("p", &wider, &status);
    assert_eq!(world.pod_states("p"), Value::Null, "not before the node's new label is known");
    assert!(world.index.take_work().relist.labels);
    world.index.apply_nodes(Update::Begin(revision + 1));
    world.node("node-1", &[("zone", "a"), ("host", "node-1")]);
    world.index.apply_nodes(Update::Done);
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": {"host": "node-1", "zone": null}}})
    );
}

#[test]
fn ever_new_keys_in_a_spec_do_not_pile_up() {
    let mut world = World::with_workload();
    let kept = |world: &World, keys: &[&str]| {
        let picked = world.index.interest.annotations().pick(keys.iter().map(|key| (*key, "value")));
        picked.into_iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>()
    };
    for round in 0..20 {
        let keys: Vec<Value> = (0..500).map(|number| json!({"key": format!("{round}-{number}")})).collect();
        world.object(
            "many",
            &json!({"targetRef": spec("v")["targetRef"], "persistentPodAnnotations": keys}),
            &json!({}),
        );
    }
    assert_eq!(kept(&world, &["0-0", "ip", "19-0"]), ["19-0", "ip"]);

    // One that is named again is read again.
    world.index.take_work();
    let spec = json!({"targetRef": spec("v")["targetRef"], "persistentPodAnnotations": [{"key": "0-0"}]});
    world.object("many", &spec, &json!({}));
    assert!(world.index.take_work().relist.annotations);
    assert_eq!(kept(&world, &["0-0"]), ["0-0"]);
}

#[test]
fn new_keys_of_one_object_hold_up_no_other() {
    let mut world = World::with_workload();
    world.settle("p");
    let list_anew = |world: &mut World| {
        let interest = &world.index.interest;
        let (labels, annotations) = (interest.labels().revision(), interest.annotations().revision());
        world.index.apply_nodes(Update::Begin(labels));
        world.node("node-1", &[]);
        world.index.apply_nodes(Update::Done);
        world.index.apply_pods(Update::Begin(annotations));
        world.index.apply_pods(Update::Done);
    };
    list_anew(&mut world);
    let many = json!({"targetRef": spec("v")["targetRef"], "persistentPodAnnotations": [{"key": "new"}],
        "requiredPersistentTopology": {"nodeTopologyKeys": ["new"]}});
    world.object("many", &many, &json!({}));
    let relist = world.index.take_work().relist;
    assert!(relist.labels && relist.annotations);

    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.pod_states("p")["w-0"]["nodeName"], "node-1", "it goes on");
    world.accept("p");
    assert_eq!(world.patch("many"), None, "what it names is not known yet");
    list_anew(&mut world);
    assert!(world.patch("many").is_some());
}
