//! Pods that have no node when the event happens.

use super::*;

/// The same with db-2, which has no node, and which no scheduler has looked at. n2 would be its best node.
fn with_waiting(states: &[(&str, &str, &str)]) -> Snapshot {
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.workloads = vec![database("shop", 3)];
    let all: Vec<_> = [("db-0", "n1", "n1"), ("db-1", "n3", "n3")].iter().chain(states).copied().collect();
    snapshot.pps = vec![pps("shop", HOSTNAME, false, &all)];
    let mut waiting = pod("shop", "db-2", "").object().clone();
    waiting["status"] = json!({"phase": "Pending"});
    if states.is_empty() {
        waiting["metadata"]["annotations"] = json!({});
    }
    for (_, _, value) in states {
        let term = json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [value]}]});
        let required = json!({"nodeSelectorTerms": [term]});
        waiting["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            required;
    }
    snapshot.pods.push(Pod::read(waiting).unwrap());
    snapshot
}

fn of<'a>(answer: &'a Forecast, name: &str) -> &'a super::super::PodForecast {
    answer.pods.iter().find(|pod| pod.pod == name).unwrap_or_else(|| panic!("{answer:#?}"))
}

#[test]
fn a_pod_without_a_node_gets_none_that_is_drained_or_lost() {
    let lost = Question::WithoutNodes(vec!["n2".into()]);
    for question in [drain("n2"), lost] {
        let answer = ask(&with_waiting(&[]), question);
        let waiting = of(&answer, "db-2");
        assert_eq!((waiting.then, waiting.already, waiting.as_recorded), (Then::Running, false, None));
        assert_eq!(
            (waiting.may_land_on.as_slice(), waiting.node_now.as_deref()),
            (&["n1".to_owned(), "n3".to_owned()][..], None)
        );
        assert_eq!(waiting.why, Why::GetsNode);
        assert_eq!(
            (answer.pods.len(), answer.advice.len(), answer.outcome()),
            (1, 0, Outcome::Well),
            "{answer:#?}"
        );
    }
}

#[test]
fn a_budget_protects_no_pod_that_has_no_node() {
    let mut snapshot = with_waiting(&[]);
    snapshot.budgets = vec![json!({"metadata": {"name": "db", "namespace": "shop"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "db"}}}})];
    assert_eq!(of(&ask(&snapshot, drain("n2")), "db-2").then, Then::Running);
}

#[test]
fn a_pod_of_which_nothing_is_recorded_is_not_said_to_be_kept_by_it() {
    let mut snapshot = with_waiting(&[]);
    for name in ["n1", "n3"] {
        let mut shut = snapshot.node(name).unwrap().object().clone();
        shut["spec"]["unschedulable"] = json!(true);
        snapshot.nodes.as_mut().unwrap().insert(name.into(), Node::read(shut).unwrap());
    }
    let answer = ask(&snapshot, drain("n2"));
    let waiting = of(&answer, "db-2");
    assert_eq!((waiting.then, waiting.already), (Then::Pending, true));
    assert_eq!(waiting.why, Why::Excluded { by_former_state: false });
    assert_eq!((waiting.without_its_state.len(), answer.advice.len()), (0, 0));
    assert!(waiting.excluded_by.iter().all(|reason| !reason.from_pps));
}

#[test]
fn a_pod_without_a_node_that_is_recorded_waits_for_its_place() {
    let answer = ask(&with_waiting(&[("db-2", "n2", "n2")]), drain("n2"));
    let waiting = of(&answer, "db-2");
    assert_eq!(
        (waiting.then, waiting.without_its_state.as_slice()),
        (Then::Pending, &["n1".to_owned(), "n3".to_owned()][..])
    );
    assert_eq!(answer.advice, [cordon(["n2"]), moves(["db-2"], "--anywhere")]);
}

#[test]
fn what_is_replaced_meanwhile_leaves_the_node_as_well() {
    // db-0 ends on n1, and is created again: on n1, if that were not drained.
    let mut snapshot = with_waiting(&[]);
    let mut ending = snapshot.pods[0].object().clone();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    snapshot.pods[0] = Pod::read(ending).unwrap();
    snapshot.pps = vec![pps("shop", HOSTNAME, false, &[("db-1", "n3", "n3")])];
    let answer = ask(&snapshot, drain("n1"));
    let replaced = of(&answer, "db-0");
    assert_eq!((replaced.node_now.as_deref(), replaced.then), (Some("n1"), Then::Running));
    assert_eq!(replaced.why, Why::NotRecorded);
    assert_ne!(replaced.node_then.as_deref(), Some("n1"));
}
