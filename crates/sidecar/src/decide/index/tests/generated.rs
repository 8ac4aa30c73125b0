//! Generated PPS objects.

use super::*;

#[test]
fn generates_an_object_with_the_workloads_name() {
    let mut world = World::new();
    world.workload("w", "uid-1", 3, ASK);
    let Some(GeneratedPps::Apply { key: object, body, new: true }) =
        world.index.generated_pps(&workload("w"))
    else {
        panic!()
    };
    assert_eq!(object, key("w"));
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(
        body["spec"],
        json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        }),
        "only fields that annotations set"
    );
    assert_eq!(world.index.generated_pps(&workload("w")), None, "a write is in flight");
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.index.on_generated_pps_written(&workload("w"), true);
    assert_eq!(world.index.generated_pps(&workload("w")), None, "a retention policy that a user set stays");
}

#[test]
fn decides_again_after_a_change_during_a_write() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-1", 3, &[]);
    assert!(matches!(world.index.generated_pps(&workload("w")), Some(GeneratedPps::Delete { .. })));
    world.index.take_work();

    // The object is deleted and the annotations are back before the answer arrives.
    world.index.apply_objects(Update::Delete(key("w")));
    world.workload("w", "uid-1", 3, ASK);
    assert!(world.index.take_work().generated.contains(&workload("w")));
    assert_eq!(world.index.generated_pps(&workload("w")), None);
    world.index.on_generated_pps_written(&workload("w"), true);
    assert!(world.index.take_work().generated.contains(&workload("w")));
    assert!(matches!(world.index.generated_pps(&workload("w")), Some(GeneratedPps::Apply { new: true, .. })));
    world.index.on_generated_pps_written(&workload("w"), true);
    assert!(world.index.take_work().generated.is_empty(), "nothing changed meanwhile");
}

#[test]
fn generated_object_follows_annotations_and_owner() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));

    world.workload("w", "uid-2", 3, ASK);
    let again = world.index.generated_pps(&workload("w"));
    let Some(GeneratedPps::Apply { body, new: false, .. }) = again else { panic!("{again:?}") };
    assert_eq!(
        (&body["metadata"]["uid"], &body["metadata"]["ownerReferences"][0]["uid"]),
        (&json!("uid-w"), &json!("uid-2"))
    );
    world.index.on_generated_pps_written(&workload("w"), true);

    world.workload("w", "uid-2", 3, &[]);
    let gone = world.index.generated_pps(&workload("w"));
    assert!(matches!(gone, Some(GeneratedPps::Delete { uid, .. }) if uid == "uid-w"));
    world.index.on_generated_pps_written(&workload("w"), true);

    world.workload("w", "uid-2", 3, ASK);
    world.index.apply_objects(Update::Delete(key("w")));
    assert!(world.index.take_work().generated.contains(&workload("w")));
    assert!(matches!(world.index.generated_pps(&workload("w")), Some(GeneratedPps::Apply { new: true, .. })));
}

#[test]
fn never_changes_a_foreign_object() {
    let mut world = World::new();
    world.workload("w", "uid-1", 3, ASK);
    world.object("theirs", &spec("w"), &json!({}));
    assert_eq!(world.index.generated_pps(&workload("w")), None, "it serves the workload already");

    world.workload("v", "uid-3", 3, ASK);
    world.object("v", &spec("somebody"), &json!({}));
    world.index.take_work();
    assert_eq!(world.index.generated_pps(&workload("v")), None);
    let notices = world.index.take_work().notices;
    assert_eq!((notices.len(), notices[0].reason), (1, Reason::NameConflict));
    assert_eq!(world.index.generated_pps(&workload("v")), None);
    assert!(world.index.take_work().notices.is_empty(), "users are warned once");

    world.workload("v", "uid-3", 3, &[]);
    assert_eq!(world.index.generated_pps(&workload("v")), None, "it is not deleted either");
}

#[test]
fn workloads_of_two_kinds_with_one_name_get_an_object_each() {
    let mut world = World::new();
    let (metadata, mut spec) = generated("w", "uid-1");
    spec["targetRef"]["apiVersion"] = "apps.kruise.io/v1beta1".into();
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-2", 3, ASK);
    let Some(GeneratedPps::Apply { key: object, new: true, .. }) = world.index.generated_pps(&workload("w"))
    else {
        panic!()
    };
    assert!(object.name.starts_with("w-") && object.name.len() == "w-00000000".len(), "{object}");
}
