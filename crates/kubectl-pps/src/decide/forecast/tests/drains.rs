//! Drains that do not end.

use super::*;

/// `db` has as many Pods as these nodes, and a budget that needs all but one.
fn with_budget(key: &str, nodes: &[&'static str]) -> Snapshot {
    let mut snapshot = cluster(key, false);
    snapshot.workloads = vec![database("shop", u32::try_from(nodes.len()).unwrap())];
    let names: Vec<String> = (0..nodes.len()).map(|ordinal| format!("db-{ordinal}")).collect();
    snapshot.pods = names.iter().zip(nodes).map(|(name, node)| pod("shop", name, node)).collect();
    let zone = |node: &'static str| if node == "n3" { "b" } else { "a" };
    let value = |node| if key == ZONE { zone(node) } else { node };
    let states: Vec<(&str, &str, &str)> =
        names.iter().zip(nodes).map(|(name, node)| (name.as_str(), *node, value(node))).collect();
    snapshot.pps = vec![pps("shop", key, false, &states)];
    snapshot.budgets = vec![json!({"metadata": {"name": "db", "namespace": "shop"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}})];
    snapshot
}

#[test]
fn a_drain_that_a_budget_and_a_required_node_block_is_told_the_way_out() {
    let answer = ask(&with_budget(HOSTNAME, &["n1", "n1", "n3"]), drain("n1"));
    let then: Vec<Then> = answer.pods.iter().map(|pod| pod.then).collect();
    assert_eq!(
        (then.as_slice(), answer.outcome()),
        (&[Then::Pending, Then::NotEvicted][..], Outcome::NotWell)
    );
    assert_eq!(answer.advice, [cordon(["n1"]), moves(["db-0", "db-1"], "--anywhere")]);
    // Two nodes at a time.
    let both = Question::Drain(vec!["n1".into(), "n3".into()]);
    let answer = ask(&with_budget(HOSTNAME, &["n1", "n3"]), both);
    assert_eq!(answer.advice, [cordon(["n1", "n3"]), moves(["db-0", "db-1"], "--anywhere")]);
    // A required value has to be given up for the Pod that is kept as well: `move` refuses one command
    // without that.
    let answer = ask(&with_budget(ZONE, &["n3", "n3", "n1"]), drain("n3"));
    assert_eq!(answer.advice, [cordon(["n3"]), moves(["db-0", "db-1"], "--anywhere --any zone")]);
    // Where the Pods find another node, the drain ends.
    let answer = ask(&with_budget(ZONE, &["n1", "n1", "n3"]), drain("n1"));
    assert_eq!((answer.advice.len(), answer.outcome()), (0, Outcome::Well));
}

#[test]
fn a_drain_is_not_forecast_without_what_is_recorded() {
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.pps.clear();
    let what = "list persistentpodstates.apps.kruise.io in namespace shop".to_owned();
    snapshot.unread = vec![forbidden(&what)];
    let failure = forecast(&snapshot, &drain("n1"), None, &CommandLine::default()).unwrap_err();
    assert_eq!(failure, Failure::Unreadable(format!("you have no permission to {what}")));
}
