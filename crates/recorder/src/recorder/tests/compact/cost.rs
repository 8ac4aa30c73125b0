//! What the compact form costs: buckets that are rendered, states of both forms beside each other,
//! and sizes.

use super::*;
use crate::ledger::capacity::Sizes;
use crate::ledger::entry_change::RENDERED;

/// How many texts of buckets are rendered meanwhile.
fn rendered(act: impl FnOnce()) -> usize {
    let before = RENDERED.get();
    act();
    RENDERED.get() - before
}

fn sizes(server: &Server) -> Sizes {
    server.world.tracked("p").progress.capacity.sizes
}

/// Another writer puts the states of these Pods into `podStates`, as they are.
fn overlay(server: &mut Server, pods: usize) {
    let states = server.world.states("p").into_iter().take(pods);
    let plain: serde_json::Map<String, Value> = states
        .map(|pod| {
            let state = json!(recorded_state(&server.status, &pod).unwrap());
            (pod, state)
        })
        .collect();
    server.status["podStates"] = plain.into();
    server.report(Claims::Yes);
}

/// A Pod with an annotation that the compact form makes longer.
fn incompressible(pod: u64, ready: bool) -> PodFact {
    let value = "é".repeat(200) + &pod.to_string();
    PodFact {
        annotations: vec![("ip".into(), value.into())],
        ready,
        ..ready_on("node-1")
    }
}

#[test]
fn states_that_the_compact_form_makes_no_smaller_are_rendered_once() {
    let status = {
        let mut server = Server::new(60);
        for pod in 0..60 {
            server
                .world
                .pod(&format!("w-{pod}"), incompressible(pod, true));
        }
        assert_eq!(moves(&server.settle()), [None]);
        server.status
    };
    // A new process, which has nothing to write.
    let mut server = Server::new(60);
    server.world.recorder.apply_pps(Update::Delete(key("p")));
    for pod in 0..60 {
        server
            .world
            .pod(&format!("w-{pod}"), incompressible(pod, true));
    }
    server.status = status;
    server.report(Claims::No);
    assert!(rendered(|| assert!(server.write().is_none())) > 0);
    let repeated = rendered(|| {
        for turn in 0..20 {
            server.world.pod("w-7", incompressible(7, turn % 2 == 1));
            assert!(server.write().is_none());
        }
    });
    assert_eq!(repeated, 0, "an event of a Pod that changes no state");
    let repeated = rendered(|| {
        for _ in 0..20 {
            server.world.version += 1;
            server.report(Claims::No);
            assert!(server.write().is_none());
        }
    });
    assert_eq!(repeated, 0, "an event of the object that changes no state");
    server.world.recorder.take_work();
    server.world.recorder.retry_exceeded();
    assert!(
        server.world.recorder.take_work().statuses.is_empty(),
        "nothing was refused"
    );
    // Some states that are others are examined with the next event of the object, and many at once.
    server.ready(0..20);
    assert_eq!(moves(&server.settle()), [None]);
    server.world.version += 1;
    server.report(Claims::No);
    assert!(rendered(|| assert!(server.write().is_none())) > 0);
    server.ready(20..60);
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Compact)]);
}

#[test]
fn an_event_of_a_compact_object_that_changes_no_state_renders_no_bucket() {
    let mut server = Server::with(300);
    let repeated = rendered(|| {
        for _ in 0..20 {
            server.world.version += 1;
            server.report(Claims::Yes);
            assert!(server.write().is_none());
        }
    });
    assert_eq!(repeated, 0);
}

#[test]
fn states_beside_the_compact_form_are_folded_in_by_themselves() {
    for pods in [COMPACT_UNTIL - 1, COMPACT_UNTIL, 1000] {
        let mut server = Server::with(1000);
        let (compact, known) = (sizes(&server), server.known());
        overlay(&mut server, pods);
        let both = sizes(&server);
        let plain = server.status["podStates"].to_string().len();
        assert!(
            (both.stored - compact.stored).abs_diff(plain) <= plain / 50,
            "{both:?} {compact:?} {plain}"
        );
        assert_eq!(both.plain, compact.plain);
        let writes = server.settle();
        assert_eq!(server.known(), known);
        if pods < COMPACT_UNTIL {
            assert!(writes.is_empty(), "a few cost little");
            // The bucket of all of them is written for another reason.
            server.world.pod("w-1", ready_on("node-3"));
            server.settle();
        } else {
            assert_eq!(moves(&writes), [Some(StoredForm::Compact)]);
            assert_eq!(server.status.get("podStates"), None);
        }
        let stored = server.status["packed"]["buckets"].to_string().len() - 1;
        let rest = server.status["podStates"]
            .as_object()
            .map_or(0, |_| server.status["podStates"].to_string().len());
        assert!(
            sizes(&server).stored.abs_diff(stored + rest) <= 2 + rest / 50,
            "{:?} {stored} {rest}",
            sizes(&server)
        );
    }
}

#[test]
fn states_beside_the_compact_form_stay_if_the_api_server_does_not_take_them() {
    let mut server = Server::with(100);
    overlay(&mut server, 100);
    let write = server.write().unwrap();
    assert_eq!(
        write.form.moves_to(),
        Some(StoredForm::Compact),
        "the dry run is made for this write, too"
    );
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::CompactFormRefused);
    assert!(server.settle().is_empty());
    server.world.recorder.retry_exceeded();
    assert!(server.write().is_some());
    server
        .world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::TooLarge);
    assert!(
        server.write().is_none(),
        "a refused write is not repeated at once"
    );
    server.world.recorder.retry_exceeded();
    assert_eq!(moves(&server.settle()), [Some(StoredForm::Compact)]);
    assert_eq!(server.status.get("podStates"), None);
}

#[test]
fn a_bucket_that_becomes_empty_is_removed_before_states_are_folded_in() {
    let mut server = Server::with(120);
    overlay(&mut server, 120);
    for pod in 100..120 {
        server
            .world
            .recorder
            .apply(Fact::Pods(Update::Delete(key(&format!("w-{pod}")))));
    }
    server.world.workload("w", "uid-w", 100, &[]);
    server.settle();
    assert_eq!(server.buckets(), ["ordinals-0"]);
    server.world.pod("w-1", ready_on("node-2"));
    server.report(Claims::Yes);
    server.settle();
    assert_eq!(server.status.get("podStates"), None);
}
