//! Generated PPS objects.

use super::*;

#[test]
fn generates_an_object_with_the_workloads_name() {
    let mut world = World::new();
    world.workload("w", "uid-1", 3, ASK);
    let again = world.recorder.decide_generated(&workload("w"));
    let Some(GeneratedPps::Create {
        key: object, body, ..
    }) = again.clone()
    else {
        panic!("{again:?}")
    };
    assert_eq!(object, key("w"));
    // The garbage collector would delete that of a workload that is gone, again and again.
    assert!(again.is_some_and(|create| create.depends_on_workload()));
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(
        body["spec"],
        json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        }),
        "only fields that annotations set"
    );
    assert_eq!(
        world.recorder.decide_generated(&workload("w")),
        None,
        "a write is in flight"
    );
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.recorder.on_generated_done(&workload("w"), true);
    assert_eq!(
        world.recorder.decide_generated(&workload("w")),
        None,
        "a retention policy that a user set stays"
    );
}

#[test]
fn decides_again_after_a_change_during_a_write() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-1", 3, &[]);
    assert!(matches!(
        world.recorder.decide_generated(&workload("w")),
        Some(GeneratedPps::Delete { .. })
    ));
    world.recorder.take_work();

    // The object is deleted and the annotations are back before the answer arrives.
    world.recorder.apply_pps(Update::Delete(key("w")));
    world.workload("w", "uid-1", 3, ASK);
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    assert_eq!(world.recorder.decide_generated(&workload("w")), None);
    world.recorder.on_generated_done(&workload("w"), true);
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    assert!(matches!(
        world.recorder.decide_generated(&workload("w")),
        Some(GeneratedPps::Create { .. })
    ));
    world.recorder.on_generated_done(&workload("w"), true);
    assert!(
        world.recorder.take_work().generated.is_empty(),
        "nothing changed meanwhile"
    );
}

#[test]
fn generated_object_follows_annotations_and_owner() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));

    world.workload("w", "uid-2", 3, ASK);
    let again = world.recorder.decide_generated(&workload("w"));
    let Some(GeneratedPps::Update { patch, .. }) = again else {
        panic!("{again:?}")
    };
    assert_eq!(
        patch,
        json!({"metadata": {"uid": "uid-w", "resourceVersion": "101", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "uid-2", "controller": true},
        ]}}),
        "only the owner differs"
    );
    world.recorder.on_generated_done(&workload("w"), true);

    world.workload("w", "uid-2", 3, &[]);
    let gone = world.recorder.decide_generated(&workload("w"));
    assert!(matches!(gone, Some(GeneratedPps::Delete { uid, .. }) if uid == "uid-w"));
    world.recorder.on_generated_done(&workload("w"), true);

    world.workload("w", "uid-2", 3, ASK);
    world.recorder.apply_pps(Update::Delete(key("w")));
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    assert!(matches!(
        world.recorder.decide_generated(&workload("w")),
        Some(GeneratedPps::Create { .. })
    ));
}

#[test]
fn never_changes_a_foreign_object() {
    let mut world = World::new();
    world.workload("w", "uid-1", 3, ASK);
    world.object("theirs", &spec("w"), &json!({}));
    let alias = world.recorder.decide_generated(&workload("w"));
    assert!(
        matches!(alias, Some(GeneratedPps::Create { is_alias: true, .. })),
        "it serves the workload already"
    );

    world.workload("v", "uid-3", 3, ASK);
    world.object("v", &spec("somebody"), &json!({}));
    world.recorder.take_work();
    assert_eq!(world.recorder.decide_generated(&workload("v")), None);
    let notices = world.recorder.take_work().notices;
    assert_eq!(
        (notices.len(), notices[0].reason),
        (1, Reason::NameConflict)
    );
    assert_eq!(world.recorder.decide_generated(&workload("v")), None);
    assert!(
        world.recorder.take_work().notices.is_empty(),
        "users are warned once"
    );

    world.workload("v", "uid-3", 3, &[]);
    assert_eq!(
        world.recorder.decide_generated(&workload("v")),
        None,
        "it is not deleted either"
    );
}

#[test]
fn workloads_of_two_kinds_with_one_name_get_an_object_each() {
    let mut world = World::new();
    let (metadata, mut spec) = generated("w", "uid-1");
    spec["targetRef"]["apiVersion"] = "apps.kruise.io/v1beta1".into();
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-2", 3, ASK);
    let Some(GeneratedPps::Create { key: object, .. }) =
        world.recorder.decide_generated(&workload("w"))
    else {
        panic!()
    };
    assert!(
        object.name.starts_with("w-") && object.name.len() == "w-00000000".len(),
        "{object}"
    );
}

#[test]
fn leaves_a_copy_of_a_generated_object_alone() {
    let mut world = World::new();
    let (mut metadata, spec) = generated("w", "uid-1");
    // What kubectl leaves of an exported object that is applied again: the label and the owner.
    metadata["managedFields"] = json!([
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:targetRef": {}}}},
        {"manager": "pps-sidecar", "operation": "Update", "fieldsV1": {"f:status": {"f:podStates": {}}}},
    ]);
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-1", 3, &[]);
    assert_eq!(
        world.recorder.decide_generated(&workload("w")),
        None,
        "it is not deleted"
    );
    world.workload(
        "w",
        "uid-1",
        3,
        &[ASK[0], ("kruise.io/required-persistent-topology", "host")],
    );
    assert_eq!(
        world.recorder.decide_generated(&workload("w")),
        None,
        "it is not changed"
    );
}

#[test]
fn changes_only_fields_that_annotations_name_or_named() {
    let mut world = World::new();
    let (metadata, mut spec) = generated("w", "uid-1");
    // A user has added annotations to persist; the sidecar owns only the required topology.
    spec["persistentPodAnnotations"] = json!([{"key": "theirs"}]);
    world.object_with("w", &metadata, &spec, &json!({}));
    let preferred = ("kruise.io/preferred-persistent-topology", "host");
    world.workload("w", "uid-1", 3, &[ASK[0], preferred]);
    let Some(GeneratedPps::Update { patch, .. }) = world.recorder.decide_generated(&workload("w"))
    else {
        panic!()
    };
    assert_eq!(
        patch["spec"],
        json!({
            "requiredPersistentTopology": null,
            "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": ["host"]}}],
        })
    );
}

#[test]
fn a_mistake_in_an_annotation_neither_changes_nor_deletes_what_was_generated() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    let many = (0..100)
        .map(|number| format!("k{number}"))
        .collect::<Vec<_>>()
        .join(",");
    for (value, word) in [
        ("no key", "\"no key\" is no label key"),
        (&many, "lists 100 keys; list at most 64"),
    ] {
        world.recorder.take_work();
        world.workload(
            "w",
            "uid-1",
            3,
            &[ASK[0], ("kruise.io/required-persistent-topology", value)],
        );
        assert_eq!(world.recorder.decide_generated(&workload("w")), None);
        let notices = world.recorder.take_work().notices;
        assert_eq!(
            (notices.len(), notices[0].reason),
            (1, Reason::InvalidAnnotation)
        );
        assert!(notices[0].message.contains(word), "{}", notices[0].message);
    }
}

#[test]
fn neither_changes_nor_deletes_a_generated_object_that_cannot_be_read() {
    for annotations in [ASK, &[]] {
        let mut world = World::new();
        world.workload("w", "uid-w", 3, annotations);
        let (metadata, spec) = generated("w", "uid-old");
        world.object_with("w", &metadata, &spec, &json!({}));
        let readable = world.tracked("w").observed.clone();
        let unreadable = crate::facts::PpsFact {
            unreadable: Some("spec: invalid".into()),
            resource_version: "1000".into(),
            ..readable
        };
        world
            .recorder
            .apply_pps(Update::Apply(key("w"), Box::new(unreadable)));
        assert_eq!(world.recorder.decide_generated(&workload("w")), None);
    }
}

#[test]
fn the_end_of_a_requirement_follows_its_annotation_and_else_stays_a_users() {
    const FALLBACK: &str = "kruise.io/required-persistent-topology-fallback-after-seconds";
    let end = (FALLBACK, "600");
    let bounded = |seconds: u64| {
        json!({"requiredPersistentTopology":
            {"keys": null, "nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": seconds}})
    };
    let removed = json!({"requiredPersistentTopology":
        {"keys": null, "nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": null}});
    let all = [ASK[0], ASK[1], end];
    for (annotations, seconds, is_own, expected) in [
        (&all[..], None, false, Some(bounded(600))),
        (&all, Some(900), false, Some(bounded(600))),
        (&all, Some(600), true, None),
        (ASK, Some(900), false, None),
        (ASK, Some(600), true, Some(removed)),
        (
            &[
                ASK[0],
                end,
                ("kruise.io/preferred-persistent-topology", "zone"),
            ],
            Some(900),
            false,
            Some(
                json!({"requiredPersistentTopology": null, "preferredPersistentTopology":
                [{"weight": 100, "preference": {"nodeTopologyKeys": ["zone"]}}]}),
            ),
        ),
    ] {
        let mut world = World::new();
        let (mut metadata, mut spec) = generated("w", "uid-1");
        if let Some(seconds) = seconds {
            spec["requiredPersistentTopology"]["fallbackAfterSeconds"] = seconds.into();
        }
        if is_own {
            metadata["managedFields"][0]["fieldsV1"]["f:spec"]["f:requiredPersistentTopology"] =
                json!({"f:nodeTopologyKeys": {}, "f:fallbackAfterSeconds": {}});
        }
        world.object_with("w", &metadata, &spec, &json!({}));
        world.workload("w", "uid-1", 3, annotations);
        let patch = match world.recorder.decide_generated(&workload("w")) {
            Some(GeneratedPps::Update { patch, .. }) => Some(patch["spec"].clone()),
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(patch, expected, "{annotations:?} {seconds:?} {is_own}");
    }
}

/// A merge patch would leave `keys`, which both versions accept in place of `nodeTopologyKeys`,
/// beside them.
#[test]
fn a_topology_of_the_other_spelling_is_replaced() {
    let mut world = World::new();
    let (metadata, mut spec) = generated("w", "uid-1");
    spec["requiredPersistentTopology"] = json!({"keys": ["zone"]});
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-1", 3, ASK);
    assert_eq!(
        world.recorder.decide_generated(&workload("w")),
        None,
        "it is the same"
    );
    let asked = [
        ASK[0],
        ("kruise.io/required-persistent-topology", "zone,host"),
    ];
    world.workload("w", "uid-1", 3, &asked);
    let Some(GeneratedPps::Update { patch, .. }) = world.recorder.decide_generated(&workload("w"))
    else {
        panic!()
    };
    let topology = json!({"keys": null, "nodeTopologyKeys": ["zone", "host"]});
    assert_eq!(
        patch["spec"],
        json!({"requiredPersistentTopology": topology})
    );
}
