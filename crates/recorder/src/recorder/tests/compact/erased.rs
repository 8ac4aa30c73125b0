//! The compact form is erased by a full update of the status: the client's type has no field for
//! it.

use super::*;

/// OpenKruise's manager updates the status. Its type has these two fields.
fn update_by_openkruise(server: &mut Server, states: &Value) {
    server.status = json!({"observedGeneration": 1, "podStates": states});
}

/// An object with 300 states whose Pods are gone, so that nobody could record them again.
fn recorded() -> (Server, Value) {
    let mut server = Server::with(300);
    for pod in 0..300 {
        server
            .world
            .recorder
            .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
    }
    server.settle();
    let known = server.known();
    (server, known)
}

#[test]
fn states_that_a_full_update_has_erased_are_written_back() {
    let (mut server, mut known) = recorded();
    update_by_openkruise(&mut server, &json!({"w-7": {"nodeName": "node-9"}}));
    server.report(Claims::No);
    known["w-7"] = json!({"nodeName": "node-9"});
    assert_eq!(
        server.known(),
        known,
        "what the client has written takes precedence"
    );
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Compact)]);
    assert_eq!((server.known(), server.stored()), (known.clone(), known));
    assert_eq!(
        (&server.status["targetUID"], &server.status["recorded"]),
        (&json!("uid-w"), &json!(300))
    );
    assert_eq!(server.status["conditions"][0]["reason"], "AllRecorded");
    server.report(Claims::Yes);
    assert!(server.settle().is_empty());
}

#[test]
fn erased_states_outlive_conflicts_and_lists_until_they_are_written_back() {
    let (mut server, known) = recorded();
    // A write of the sidecar's is on its way, and meets the update.
    server.world.workload("w", "uid-w", 400, &[]);
    assert!(server.write().is_some());
    update_by_openkruise(&mut server, &Value::Null);
    server.report(Claims::No);
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    assert_eq!(server.known(), known);
    // So does the write that gives the states back; another client adds a condition.
    assert!(server.write().is_some());
    server.status["conditions"] = json!([{"type": "Theirs", "status": "True", "reason": "R",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    server.relist(Claims::No);
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    server.relist(Claims::No);
    assert_eq!(server.known(), known);
    // And the form that a small object has.
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_off = true);
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Plain)]);
    assert_eq!(server.status["podStates"], known);
}

#[test]
fn an_erased_object_names_the_workload_whose_states_it_has() {
    let (mut server, known) = recorded();
    // The workload is gone as well, and its states are retained.
    let mut retained = spec("w");
    retained["persistentPodStateRetentionPolicy"] = "Retain".into();
    server.world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    update_by_openkruise(&mut server, &json!({}));
    let metadata = json!({"uid": "uid-p", "creationTimestamp": "2026-01-01T00:00:00Z"});
    server
        .world
        .object_with("p", &metadata, &retained, &server.status.clone());
    server.settle();
    assert_eq!(
        (server.known(), &server.status["targetUID"]),
        (known, &json!("uid-w"))
    );
}

#[test]
fn an_erased_object_that_fits_only_in_the_compact_form_gets_it_although_it_is_off() {
    let (mut server, known) = recorded();
    let compact = server.world.recorder.counts().largest_object_bytes;
    server.world.recorder.limit_objects(2 * compact);
    server
        .world
        .recorder
        .change_compact_form(|form| form.is_off = true);
    server.settle();
    update_by_openkruise(&mut server, &json!({}));
    server.report(Claims::No);
    assert_eq!(moves(&server.settle())[0], Some(StoredForm::Compact));
    assert_eq!(server.stored(), known);
}

#[test]
fn a_process_that_never_saw_the_states_records_what_runs() {
    let mut server = Server::new(300);
    server.world.recorder.apply_pps(Update::Delete(key("p")));
    update_by_openkruise(&mut server, &json!({"w-7": {"nodeName": "node-2"}}));
    server.report(Claims::No);
    assert_eq!(server.world.recorder.counts().unreadable_objects, 0);
    server.ready(0..3);
    assert_eq!(moves(&server.settle()), [None]);
    assert_eq!(server.world.states("p"), ["w-0", "w-1", "w-2", "w-7"]);
}

#[test]
fn what_a_client_drops_by_name_is_not_written_back() {
    let (mut server, _) = recorded();
    let text = server.status["packed"]["buckets"]["ordinals-200"].take();
    assert!(text.is_string());
    server.status["packed"]["buckets"]
        .as_object_mut()
        .unwrap()
        .remove("ordinals-200");
    server.report(Claims::Yes);
    assert_eq!(server.world.states("p").len(), 200);
    server.settle();
    assert_eq!(server.buckets(), ["ordinals-0", "ordinals-100"]);
}
