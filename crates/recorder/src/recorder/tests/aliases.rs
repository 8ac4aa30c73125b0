//! Aliases, through which the policy finds a PPS of another name than its workload's.

use super::*;

fn second() -> String {
    workload("w").second_name().name.to_string()
}

/// What the sidecar makes for a workload: one write, if any.
fn write(world: &mut World) -> Option<GeneratedPps> {
    let write = world.recorder.decide_generated(&workload("w"));
    world.recorder.on_generated_done(&workload("w"), true);
    write
}

/// The alias of a PPS, as the API server has stored it.
fn alias(world: &mut World, of: &str, uid: &str, manager: &str) {
    let metadata = json!({
        "uid": "uid-alias", "creationTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
        "managedFields": [{"manager": manager, "fieldsV1": {"f:spec": {"f:targetRef": {}}}}],
        "ownerReferences": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": of, "uid": uid}],
    });
    let spec = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": of}});
    world.object_with(&second(), &metadata, &spec, &json!({}));
}

#[test]
fn a_pps_of_another_name_gets_an_alias() {
    let mut world = World::new();
    // No workload is needed: the policy looks for the PPS when the first Pod is created.
    world.object("p", &spec("w"), &json!({}));
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    let Some(GeneratedPps::Create {
        key: name,
        body,
        is_alias: true,
    }) = write(&mut world)
    else {
        panic!()
    };
    assert_eq!(*name.name, *second());
    assert_eq!(
        body,
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "PersistentPodState",
            "metadata": {
                "name": second(), "namespace": "n",
                "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
                "ownerReferences": [
                    {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "p", "uid": "uid-p"},
                ],
            },
            "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "p"}},
        })
    );
    alias(&mut world, "p", "uid-p", "pps-sidecar");
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    assert_eq!(write(&mut world), None);

    // It is no PPS to record in.
    assert_eq!(
        world.recorder.decide_status(&key(&second()), NOW).write,
        None
    );
    assert_eq!(world.recorder.counts().persistent_pod_states, 1);

    // Deleted by hand: made again.
    world.recorder.apply_pps(Update::Delete(key(&second())));
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    assert!(matches!(
        write(&mut world),
        Some(GeneratedPps::Create { is_alias: true, .. })
    ));
}

#[test]
fn a_pps_that_a_get_finds_has_no_alias() {
    for name in ["w".to_owned(), second()] {
        let mut world = World::new();
        world.object(&name, &spec("w"), &json!({}));
        world.object("p", &spec("w"), &json!({}));
        assert_eq!(write(&mut world), None, "{name}");
    }
}

#[test]
fn an_alias_that_is_not_needed_any_longer_is_deleted() {
    let mut world = World::new();
    world.object("p", &spec("w"), &json!({}));
    alias(&mut world, "p", "uid-p", "pps-sidecar");
    assert_eq!(write(&mut world), None);
    world.recorder.take_work();
    world.object("w", &spec("w"), &json!({}));
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    let Some(GeneratedPps::Delete {
        key: name,
        uid,
        is_alias: true,
        ..
    }) = write(&mut world)
    else {
        panic!()
    };
    assert_eq!(
        (&*name.name, uid.as_str()),
        (second().as_str(), "uid-alias")
    );

    // Nothing targets the workload, and a list after a gap shows the alias.
    let mut world = World::new();
    world.object("p", &spec("w"), &json!({}));
    alias(&mut world, "p", "uid-p", "pps-sidecar");
    assert_eq!(write(&mut world), None);
    world.recorder.apply_pps(Update::Delete(key("p")));
    assert!(matches!(
        write(&mut world),
        Some(GeneratedPps::Delete { is_alias: true, .. })
    ));
}

#[test]
fn an_alias_that_points_elsewhere_is_made_again() {
    for (of, uid) in [("q", "uid-q"), ("p", "uid-of-an-earlier-p")] {
        let mut world = World::new();
        world.object("p", &spec("w"), &json!({}));
        alias(&mut world, of, uid, "pps-sidecar");
        assert!(matches!(
            write(&mut world),
            Some(GeneratedPps::Delete { is_alias: true, .. })
        ));
        world.recorder.apply_pps(Update::Delete(key(&second())));
        assert!(
            world
                .recorder
                .take_work()
                .generated
                .contains(&workload("w"))
        );
        assert!(matches!(
            write(&mut world),
            Some(GeneratedPps::Create { is_alias: true, .. })
        ));
    }
}

#[test]
fn reports_a_pps_whose_alias_somebody_elses_object_prevents() {
    let taken = |world: &mut World| world.object(&second(), &spec("another"), &json!({}));
    let foreign = |world: &mut World| alias(world, "q", "uid-q", "kubectl");
    for prevent in [&taken as &dyn Fn(&mut World), &foreign] {
        let mut world = World::new();
        world.workload("w", "uid-w", 0, &[]);
        world.object("p", &spec("w"), &json!({}));
        prevent(&mut world);
        world.settle("p");
        world.recorder.take_work();
        assert_eq!(write(&mut world), None);
        let work = world.recorder.take_work();
        let [notice] = &work.notices[..] else {
            panic!("{:?}", work.notices)
        };
        assert_eq!(notice.reason, Reason::NameConflict);
        for word in ["PersistentPodState p", "under the name w", &second()] {
            assert!(notice.message.contains(word), "{word}: {}", notice.message);
        }
        assert!(work.statuses.contains(&key("p")));
        let condition = &world.patch("p").unwrap()["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("NameConflict"))
        );
        world.accept("p");

        world.recorder.apply_pps(Update::Delete(key(&second())));
        assert!(
            world
                .recorder
                .take_work()
                .generated
                .contains(&workload("w"))
        );
        assert!(matches!(
            write(&mut world),
            Some(GeneratedPps::Create { is_alias: true, .. })
        ));
        assert_eq!(world.patch("p").unwrap()["conditions"][0]["status"], "True");
    }
}

#[test]
fn a_second_kind_waits_for_its_name_until_the_alias_is_gone() {
    let mut world = World::new();
    world.workload("w", "uid-w", 0, ASK);
    let (metadata, mut other) = generated("w", "uid-1");
    other["targetRef"]["apiVersion"] = "apps.kruise.io/v1beta1".into();
    world.object_with("w", &metadata, &other, &json!({}));
    world.object("p", &spec("w"), &json!({}));
    alias(&mut world, "p", "uid-p", "pps-sidecar");
    assert_eq!(write(&mut world), None);
    world.recorder.apply_pps(Update::Delete(key("p")));
    assert!(matches!(
        write(&mut world),
        Some(GeneratedPps::Delete { is_alias: true, .. })
    ));
    world.recorder.take_work();
    world.recorder.apply_pps(Update::Delete(key(&second())));
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    let Some(GeneratedPps::Create {
        key: name,
        is_alias: false,
        ..
    }) = write(&mut world)
    else {
        panic!()
    };
    assert_eq!(*name.name, *second());
}

#[test]
fn a_refused_alias_shows_in_the_condition_until_it_exists() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1", "w-2"] {
        world.pod(name, ready_on("node-1"));
    }
    let Some(GeneratedPps::Create {
        key: alias,
        body,
        is_alias: true,
    }) = world.recorder.decide_generated(&workload("w"))
    else {
        panic!("no alias")
    };
    world
        .recorder
        .on_alias_refused(&alias, &workload("w"), "exceeded quota".into());
    world.recorder.on_generated_done(&workload("w"), true);
    world.settle("p");
    let condition = &world.status("p")["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("NameConflict"), &json!("exceeded quota"))
    );
    // Another attempt has begun, but the alias is not there yet.
    assert!(world.recorder.decide_generated(&workload("w")).is_some());
    assert_eq!(world.patch("p"), None);

    world.object_with(&alias.name, &body["metadata"], &body["spec"], &json!({}));
    world.recorder.on_generated_done(&workload("w"), true);
    assert_eq!(world.recorder.decide_generated(&workload("w")), None);
    world.settle("p");
    assert_eq!(world.status("p")["conditions"][0]["reason"], "AllRecorded");
}
