//! Definitions that do not have the compact form, and hide or prune it.

use super::*;

#[test]
fn what_the_definition_would_prune_is_not_sent() {
    let mut server = Server::new(100);
    server.ready(0..100);
    let write = server.write().unwrap();
    assert_eq!(write.form.moves_to(), Some(StoredForm::Compact));
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::CompactFormRefused);
    assert!(
        server
            .world
            .recorder
            .take_work()
            .statuses
            .contains(&key("p"))
    );
    assert_eq!(moves(&server.settle()), [None]);
    assert_eq!(server.status["podStates"].as_object().unwrap().len(), 100);
    server.world.recorder.retry_exceeded();
    assert_eq!(
        moves(&server.settle()),
        [Some(StoredForm::Compact)],
        "tried again now and then"
    );
}

#[test]
fn what_was_pruned_all_the_same_is_written_back_at_once() {
    let mut server = Server::new(100);
    server.ready(0..100);
    let write = server.write().unwrap();
    server.prunes = true;
    server.store(&write);
    let version = server.world.version.to_string();
    server.world.recorder.on_status_done(
        &key("p"),
        "uid-p",
        StatusOutcome::StoredWithoutCompactForm {
            resource_version: &version,
        },
    );
    assert!(
        server
            .world
            .recorder
            .take_work()
            .statuses
            .contains(&key("p"))
    );
    let write = server.write().unwrap();
    assert_eq!(
        (
            write.form.moves_to(),
            write.patch["metadata"]["resourceVersion"].as_str()
        ),
        (Some(StoredForm::Plain), Some(&*version))
    );
    server.accept(&write);
    assert_eq!(server.status["podStates"].as_object().unwrap().len(), 100);
}

#[test]
fn states_that_a_definition_hides_are_kept_and_written_back() {
    // The watch of the definitions may be faster or slower than that of the objects.
    for definition_is_known in [true, false] {
        let mut server = Server::with(100);
        let (packed, known) = (server.status["packed"].clone(), server.known());
        // The Pods are gone, so that nobody could record them again.
        for pod in 0..100 {
            server
                .world
                .recorder
                .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
        }
        server.settle();
        server.status.as_object_mut().unwrap().remove("packed");
        server.world.version -= 1;
        if definition_is_known {
            server
                .world
                .recorder
                .change_compact_form(|form| form.is_kept = Some(false));
        }
        server.relist(Claims::Yes);
        assert_eq!(server.form(), &Form::Pruned([].into()));
        assert_eq!(server.known(), known, "no state is dropped");
        let writes = server.settle();
        if definition_is_known {
            assert_eq!(moves(&writes), [Some(StoredForm::Plain)]);
            assert_eq!(server.status["podStates"], known);
            // The API server may go on to say who has written the compact form.
            server.relist(Claims::Yes);
            assert!(server.settle().is_empty());
            assert_eq!(server.form(), &Form::Plain);
        } else {
            // What the dry run of that write would show is not known here.
            assert_eq!(moves(&writes), [Some(StoredForm::Compact)]);
            assert_eq!(server.status["packed"], packed);
        }
    }
}

#[test]
fn a_definition_that_comes_back_shows_the_states_again() {
    let mut server = Server::with(100);
    let whole = server.status.clone();
    server.world.recorder.limit_objects(4 * 1024);
    server.status.as_object_mut().unwrap().remove("packed");
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    server.world.recorder.take_work();
    server.relist(Claims::Yes);
    // They are too many for podStates: any write would end what the API server still has.
    server.world.pod("w-3", ready_on("node-1"));
    assert!(server.write().is_none());
    let notices = server.world.recorder.take_work().notices;
    assert!(
        notices
            .iter()
            .any(|notice| notice.reason == Reason::UnreadableObject),
        "{notices:?}"
    );
    assert!(
        !server.world.tracked("p").progress.dirty.is_clean(),
        "and nothing is forgotten"
    );
    server.status = whole;
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(true));
    server.relist(Claims::Yes);
    assert_eq!(moves(&server.settle()), [None]);
    assert_eq!(
        recorded_state(&server.status, "w-3")
            .unwrap()
            .unwrap()
            .node_name,
        "node-1"
    );
}

#[test]
fn nothing_is_written_to_an_object_whose_states_are_hidden_from_a_new_process() {
    for is_kept in [None, Some(false)] {
        let mut server = Server::new(100);
        server.world.recorder.ledger.compact_form.is_kept = is_kept;
        server.world.recorder.apply_pps(Update::Delete(key("p")));
        server.ready(0..100);
        server.world.recorder.take_work();
        server.report(Claims::Yes);
        assert!(server.write().is_none());
        assert_eq!(server.world.recorder.counts().unreadable_objects, 1);
        let reported = server.world.recorder.take_work().notices;
        assert_eq!(
            reported.len(),
            usize::from(is_kept.is_some()),
            "not before it is certain: {reported:?}"
        );
        server
            .world
            .recorder
            .change_compact_form(|form| form.is_kept = Some(true));
        // Nothing was hidden after all.
        server.relist(Claims::Yes);
        assert_eq!(server.world.recorder.counts().unreadable_objects, 0);
        assert_eq!(moves(&server.settle()), [Some(StoredForm::Compact)]);
    }
    // Without that mark it is an object like any other.
    let mut server = Server::new(100);
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    server.world.recorder.apply_pps(Update::Delete(key("p")));
    server.report(Claims::No);
    server.ready(0..3);
    assert_eq!(moves(&server.settle()), [None]);
}

/// A process that starts under a definition that hides the states of an object. The object has 60
/// Pods, and 30 of them run.
fn started_under_a_definition_that_hides_states(claims: Claims) -> (Server, Value) {
    let whole = Server::with(60).status;
    let mut server = Server::new(60);
    server.world.recorder.ledger.compact_form.is_kept = Some(false);
    server.world.recorder.apply_pps(Update::Delete(key("p")));
    server.ready(0..30);
    server.status = whole.clone();
    server.status.as_object_mut().unwrap().remove("packed");
    server.report(claims);
    assert!(server.write().is_none());
    (server, whole)
}

#[test]
fn a_definition_that_comes_back_makes_nothing_readable_before_a_list_shows_it() {
    for claims in [Claims::Yes, Claims::Unknown] {
        let (mut server, whole) = started_under_a_definition_that_hides_states(claims);
        let hidden = server.status.clone();
        server
            .world
            .recorder
            .change_compact_form(|form| form.is_kept = Some(true));
        assert!(
            server.write().is_none(),
            "{claims:?}: what was shown is not all that is stored"
        );
        // A list that began before the API server used the definition, for example the first one.
        server.world.recorder.apply_pps(Update::Begin(0));
        server.status = hidden;
        server.report(claims);
        server.world.recorder.apply_pps(Update::Done);
        assert!(server.write().is_none(), "{claims:?}");
        assert_eq!(server.world.recorder.counts().unreadable_objects, 1);
        server.status = whole;
        server.relist(claims);
        assert_eq!(server.world.recorder.counts().unreadable_objects, 0);
        server.settle();
        assert_eq!(
            recorded_state(&server.status, "w-45")
                .unwrap()
                .unwrap()
                .node_name,
            "node-2"
        );
    }
}

#[test]
fn objects_are_listed_again_when_the_definition_is_known_or_changes() {
    let relists = |server: &mut Server| server.world.recorder.take_work().relist_objects.is_some();
    let mut server = Server::new(1);
    server.world.recorder.ledger.compact_form.is_kept = None;
    server.world.recorder.take_work();
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(true));
    assert!(
        !relists(&mut server),
        "the first list is enough where nothing is hidden"
    );
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    assert!(relists(&mut server));
    let (mut server, _) = started_under_a_definition_that_hides_states(Claims::Yes);
    server.world.recorder.ledger.compact_form.is_kept = None;
    server.world.recorder.take_work();
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(true));
    assert!(relists(&mut server), "the first one");
    // The definition was known first; what the API server shows may be older.
    let mut server = Server::new(60);
    server.world.recorder.apply_pps(Update::Delete(key("p")));
    server.world.recorder.take_work();
    server.report(Claims::Yes);
    assert!(server.write().is_none() && relists(&mut server));
    server.relist(Claims::Yes);
    assert!(server.write().is_some(), "nothing is stored, then");
}

#[test]
fn objects_move_only_when_the_definition_is_in_use() {
    let mut server = Server::new(100);
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    server.ready(0..100);
    server.settle();
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(true));
    assert!(
        server.settle().is_empty(),
        "the API server does not store it yet"
    );
    server.world.recorder.take_work();
    server.relist(Claims::No);
    assert!(
        server
            .world
            .recorder
            .take_work()
            .statuses
            .contains(&key("p"))
    );
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Compact)]);
}

#[test]
fn a_process_that_starts_after_the_states_were_written_back_reads_them() {
    let mut server = Server::with(60);
    server.status.as_object_mut().unwrap().remove("packed");
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    server.prunes = true;
    server.relist(Claims::Yes);
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
    let mut fresh = Server::new(60);
    fresh.world.recorder.ledger.compact_form.is_kept = Some(false);
    fresh.world.recorder.apply_pps(Update::Delete(key("p")));
    fresh.status = server.status;
    // The API server goes on to say that the compact form was written.
    fresh.report(Claims::Yes);
    assert_eq!(
        (
            fresh.world.recorder.counts().unreadable_objects,
            fresh.world.states("p").len()
        ),
        (0, 60)
    );
    fresh.world.pod("w-3", ready_on("node-1"));
    assert!(fresh.write().is_some());
}

#[test]
fn a_pod_that_another_client_has_recorded_does_not_show_that_nothing_is_hidden() {
    for claims in [Claims::Yes, Claims::Unknown] {
        let mut server = Server::with(60);
        server.status.as_object_mut().unwrap().remove("packed");
        server.status["podStates"] = json!({"w-3": {"nodeName": "node-1"}});
        if matches!(claims, Claims::Yes) {
            // As OpenKruise's definition does.
            server.status["recorded"].take();
        }
        let mut fresh = Server::new(60);
        fresh.world.recorder.ledger.compact_form.is_kept = Some(false);
        fresh.world.recorder.apply_pps(Update::Delete(key("p")));
        fresh.ready(0..30);
        fresh.status = server.status;
        fresh.report(claims);
        assert_eq!(
            fresh.world.recorder.counts().unreadable_objects,
            1,
            "{claims:?}"
        );
        assert!(fresh.write().is_none());
    }
}

#[test]
fn hidden_states_are_known_without_managed_fields() {
    let mut server = Server::with(100);
    for pod in 50..100 {
        server
            .world
            .recorder
            .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
    }
    server.settle();
    server.prunes = true;
    server.status.as_object_mut().unwrap().remove("packed");
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    for claims in [Claims::Unknown, Claims::No] {
        server.relist(claims);
        assert_eq!(server.world.states("p").len(), 100, "{claims:?}");
    }
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
    assert_eq!(server.status["podStates"].as_object().unwrap().len(), 100);
}

#[test]
fn states_that_are_only_in_memory_outlive_events() {
    let mut server = Server::new(60);
    server.ready(0..60);
    let write = server.write().unwrap();
    server.prunes = true;
    server.store(&write);
    let version = server.world.version.to_string();
    server.world.recorder.on_status_done(
        &key("p"),
        "uid-p",
        StatusOutcome::StoredWithoutCompactForm {
            resource_version: &version,
        },
    );
    server.report(Claims::No);
    assert_eq!(server.world.states("p").len(), 60);
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
}

#[test]
fn no_message_tells_to_delete_an_object_that_may_have_states() {
    let (mut server, _) = started_under_a_definition_that_hides_states(Claims::Yes);
    let hidden = server.world.recorder.take_work().notices;
    let mut server = Server::with(60);
    server.status["packed"]["version"] = 2.into();
    server.report(Claims::Yes);
    let newer = server.world.recorder.take_work().notices;
    for (notices, advice) in [
        (
            hidden,
            "apply this product's definition of PersistentPodState again",
        ),
        (newer, "correct PersistentPodState p: "),
    ] {
        let [notice] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert!(notice.message.starts_with(advice), "{}", notice.message);
        assert!(
            !notice
                .message
                .replace("do not change or delete", "")
                .contains("delete"),
            "{}",
            notice.message
        );
    }
}

#[test]
fn a_client_that_removes_the_compact_form_is_believed() {
    let mut server = Server::with(60);
    server.status.as_object_mut().unwrap().remove("packed");
    server.report(Claims::No);
    assert_eq!(server.known(), Value::Null);
    assert_eq!(
        moves(&server.settle()),
        [Some(StoredForm::Compact)],
        "of the Pods that run"
    );
}
