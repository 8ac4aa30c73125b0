//! Writes that overlap with other writes, watches and re-creation.

use super::*;

#[test]
fn repeats_a_write_that_was_not_stored() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    let first = world.patch("p").unwrap();
    world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    assert_eq!(world.patch("p").unwrap(), first);
}

#[test]
fn sees_a_foreign_write_made_during_its_own() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    // Another writer empties the status while our write is in flight; ours ends in a conflict.
    world.object("p", &spec("w"), &json!({}));
    world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    let again = world.patch("p").unwrap();
    assert_eq!(
        (&again["podStates"]["w-0"], &again["desired"]),
        (&state("node-1", "a"), &json!(3))
    );
}

#[test]
fn accepts_its_own_write_from_the_watch_before_the_answer() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    world.recorder.take_work();
    let mut status = world.status("p");
    status["podStates"] = json!({"w-0": state("node-1", "a")});
    status["recorded"] = 1.into();
    world.object("p", &spec("w"), &status);
    world.recorder.on_status_done(
        &key("p"),
        "uid-p",
        StatusOutcome::Stored {
            resource_version: &world.version.to_string(),
        },
    );
    assert!(world.recorder.take_work().statuses.is_empty());
    assert_eq!(world.patch("p"), None);
}

#[test]
fn ignores_the_answer_for_an_object_recreated_meanwhile() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    world.recorder.apply_pps(Update::Delete(key("p")));
    world.object_with("p", &json!({"uid": "uid-new"}), &spec("w"), &json!({}));
    let write = world.recorder.decide_status(&key("p"), NOW).write.unwrap();
    assert_eq!(write.uid, "uid-new");
    world.recorder.take_work();
    world.recorder.on_status_done(
        &key("p"),
        "uid-p",
        StatusOutcome::Stored {
            resource_version: "999",
        },
    );
    world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    assert!(world.states("p").is_empty() && world.recorder.take_work().statuses.is_empty());
    world.recorder.on_status_done(
        &key("p"),
        "uid-new",
        StatusOutcome::Stored {
            resource_version: "1000",
        },
    );
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn trusts_a_list_whose_versions_are_lower() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    // etcd was restored from a backup of before.
    world.version = 50;
    world.object("p", &spec("w"), &json!({}));
    assert_eq!(world.patch("p"), None, "a single event may be late");
    world.recorder.apply_pps(Update::Begin(0));
    world.object("p", &spec("w"), &json!({}));
    world.recorder.apply_pps(Update::Done);
    let write = world.recorder.decide_status(&key("p"), NOW).write.unwrap();
    assert_eq!(write.patch["metadata"]["resourceVersion"], "52");
    assert_eq!(
        write.patch["status"]["podStates"],
        json!({"w-0": state("node-1", "a")})
    );
}

#[test]
fn a_list_that_was_read_before_a_write_does_not_undo_it() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    world.recorder.apply_pps(Update::Begin(0));
    world.object("p", &spec("w"), &json!({}));
    world.recorder.apply_pps(Update::Done);
    world.accept("p");
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn takes_a_read_unless_an_event_was_faster() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    let known = world
        .recorder
        .resource_version(&key("p"))
        .unwrap()
        .to_owned();
    let read = crate::facts::PpsFact {
        resource_version: "7".into(),
        status: crate::facts::PpsStatus::default(),
        ..world.tracked("p").observed.clone()
    };
    world
        .recorder
        .on_pps_read(&key("p"), "99", Some(Box::new(read.clone())));
    assert_eq!(
        world.states("p"),
        ["w-0"],
        "another version was known when the read began"
    );
    world
        .recorder
        .on_pps_read(&key("p"), &known, Some(Box::new(read)));
    let write = world.recorder.decide_status(&key("p"), NOW).write.unwrap();
    assert_eq!(write.patch["metadata"]["resourceVersion"], "7");
    world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    world.recorder.on_pps_read(&key("p"), "7", None);
    assert!(
        world.recorder.ledger.objects.get(&key("p")).is_none(),
        "there is no such object"
    );
}

#[test]
fn an_event_that_waits_for_the_answer_to_a_write_is_newer_than_a_read() {
    let mut world = World::with_workload();
    let known = world
        .recorder
        .resource_version(&key("p"))
        .unwrap()
        .to_owned();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    let mut changed = spec("w");
    changed["persistentPodAnnotations"] = json!([{"key": "other"}]);
    world.object("p", &changed, &json!({}));
    world.recorder.on_pps_read(&key("p"), &known, None);
    world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    let spec = &world.tracked("p").observed.spec;
    assert_eq!(spec.persistent_pod_annotations[0].key, "other");
}

#[test]
fn writes_nothing_to_an_object_that_cannot_be_read() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    let readable = world.tracked("p").observed.clone();
    let unreadable = crate::facts::PpsFact {
        resource_version: "1000".into(),
        spec: pps_core::Spec {
            target_ref: readable.spec.target_ref.clone(),
            ..pps_core::Spec::default()
        },
        status: crate::facts::PpsStatus::default(),
        unreadable: Some("missing field `key`".into()),
        ..readable.clone()
    };
    world
        .recorder
        .apply_pps(Update::Apply(key("p"), Box::new(unreadable)));
    world.pod("w-0", ready_on("node-2"));
    assert_eq!(world.patch("p"), None);
    assert_eq!(world.recorder.counts().unreadable_objects, 1);
    let notices = world.recorder.take_work().notices;
    assert!(
        notices
            .iter()
            .any(|notice| notice.reason == Reason::UnreadableObject),
        "{notices:?}"
    );

    let mended = crate::facts::PpsFact {
        resource_version: "1001".into(),
        ..readable
    };
    world
        .recorder
        .apply_pps(Update::Apply(key("p"), Box::new(mended)));
    assert_eq!(world.pod_states("p")["w-0"]["nodeName"], "node-2");
}

#[test]
fn an_event_of_one_object_concerns_others_of_its_workload_only_if_it_takes_precedence() {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    for name in ["p0", "p1", "p2", "p3"] {
        world.object(name, &spec("w"), &json!({}));
        world.settle(name);
    }
    let statuses = |world: &mut World| -> Vec<String> {
        world
            .recorder
            .take_work()
            .statuses
            .into_iter()
            .map(|key| key.name.to_string())
            .collect()
    };
    statuses(&mut world);
    let mut changed = spec("w");
    changed["nodeDeletionPolicy"] = "Forget".into();
    world.object("p2", &changed, &json!({}));
    assert_eq!(statuses(&mut world), ["p2"]);
    world.recorder.apply_pps(Update::Delete(key("p0")));
    assert_eq!(
        statuses(&mut world),
        ["p1", "p2", "p3"],
        "another one governs the workload"
    );
    // It names another workload, and leaves this one to the next.
    world.object("p1", &spec("v"), &json!({}));
    assert_eq!(statuses(&mut world), ["p1", "p2", "p3"]);
}
