#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "tests may panic"
)]

use pps_core::INJECTED_ANNOTATION;
use pps_scheduler::{Exclusion, ExclusionKind};
use serde_json::{Value, json};

use super::{Advice, Fate, Forecast, PodForecast, Question, Why, forecast};
use crate::decide::command_line::CommandLine;
use crate::snapshot::{Namespaces, Node, Pod, Pps, Snapshot, Workload, forbidden};
use crate::{Failure, Outcome};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> Node {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "20"});
    let object = json!({"metadata": {"name": name, "labels": {ZONE: zone, HOSTNAME: name}},
        "spec": {}, "status": {"allocatable": amounts}});
    Node::read(object).unwrap()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}})
}

fn database(namespace: &str, replicas: u32) -> Workload {
    let object = json!({
        "metadata": {"name": "db", "namespace": namespace, "uid": "uid-db"},
        "spec": {"replicas": replicas, "serviceName": "db", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}}, "template": template()},
    });
    Workload::read(object, "apps/v1").unwrap()
}

fn pod(namespace: &str, name: &str, on: &str) -> Pod {
    let mut object = template();
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["annotations"] = json!({INJECTED_ANNOTATION: "db"});
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true}]);
    object["spec"]["nodeName"] = json!(on);
    object["status"] = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    Pod::read(object).unwrap()
}

fn pps(namespace: &str, key: &str, forgets: bool, states: &[(&str, &str, &str)]) -> Pps {
    let state = |(_, node, value): &(&str, &str, &str)| json!({"nodeName": node, "nodeTopologyLabels": {key: value}});
    let states: serde_json::Map<String, Value> = states
        .iter()
        .map(|one| (one.0.to_owned(), state(one)))
        .collect();
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "db", "namespace": namespace, "uid": "uid-pps", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
            "requiredPersistentTopology": {"nodeTopologyKeys": [key]},
            "nodeDeletionPolicy": if forgets { "Forget" } else { "Keep" }},
        "status": {"podStates": states, "targetUID": "uid-db"},
    });
    Pps::read(object).unwrap()
}

/// Nodes n1 and n2 in zone a, n3 in zone b. db-0 runs on n1, db-1 on n3.
fn cluster(key: &str, forgets: bool) -> Snapshot {
    let mut snapshot = Snapshot::empty(Namespaces::One("shop".into()));
    let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")];
    snapshot.nodes = Some(nodes.map(|node| (node.name().to_owned(), node)).into());
    snapshot.workloads = vec![database("shop", 2)];
    snapshot.pods = vec![pod("shop", "db-0", "n1"), pod("shop", "db-1", "n3")];
    let value = |node: &'static str, zone: &'static str| if key == ZONE { zone } else { node };
    snapshot.pps = vec![pps(
        "shop",
        key,
        forgets,
        &[
            ("db-0", "n1", value("n1", "a")),
            ("db-1", "n3", value("n3", "b")),
        ],
    )];
    snapshot
}

#[test]
fn states_of_a_namespace_that_is_not_enabled_do_not_count() {
    let drain = || Question::Drain(["n1".to_owned()].into());
    let mut snapshot = cluster(HOSTNAME, false);
    let pinned = ask(&snapshot, drain());
    assert_eq!(
        (pinned.pods[0].then, pinned.not_enabled.len()),
        (Fate::Pending, 0)
    );
    let mut object = snapshot.pps[0].object().clone();
    object["status"]["conditions"] = json!([{"type": "Recording", "status": "False", "reason": "NamespaceNotEnabled", "message": "label it"}]);
    snapshot.pps = Pps::read(object).into_iter().collect();
    let free = ask(&snapshot, drain());
    assert_eq!(
        (free.pods[0].then, &free.pods[0].recorded_node),
        (Fate::Running, &None)
    );
    assert_eq!(free.not_enabled, ["shop".to_owned()].into());
    let style = crate::render::Style::PLAIN;
    let text =
        crate::render::forecast::forecast(&drain(), &free, style, false, &CommandLine::default());
    assert!(
        text.contains("kubectl label namespace shop persistent-pod-state/injection=enabled"),
        "{text}"
    );
}

fn ask(snapshot: &Snapshot, question: Question) -> Forecast {
    forecast(snapshot, &question).unwrap()
}

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).into()
}

/// The Pods of a workload in namespace shop are moved so.
fn moves<const N: usize>(pods: [&str; N], flags: &str) -> Advice {
    Advice::Move {
        namespace: "shop".into(),
        pods: names(pods),
        flags: flags.into(),
    }
}

fn cordon<const N: usize>(nodes: [&str; N]) -> Advice {
    Advice::Cordon {
        nodes: names(nodes),
    }
}

/// The first reason that excludes each node.
fn excluded(pod: &PodForecast) -> Vec<(&str, ExclusionKind)> {
    pod.excluded
        .iter()
        .map(|verdict| (verdict.node.as_str(), verdict.exclusions[0].kind()))
        .collect()
}

fn drain(node: &str) -> Question {
    Question::Drain([node.to_owned()].into())
}

fn loss(node: &str) -> Question {
    Question::WithoutNodes([node.to_owned()].into())
}

#[test]
fn a_drained_pod_returns_to_its_zone_and_the_others_are_not_touched() {
    let answer = ask(&cluster(ZONE, false), drain("n1"));
    let [pod] = answer.pods.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!(
        (
            pod.pod.as_str(),
            pod.node_now.as_deref(),
            pod.node_then.as_deref()
        ),
        ("db-0", Some("n1"), Some("n2"))
    );
    assert_eq!(
        (pod.then, pod.as_recorded, pod.recorded_node.as_deref()),
        (Fate::Running, Some(true), Some("n1"))
    );
    assert_eq!(pod.may_land_on, ["n2"]);
    assert_eq!(pod.why, Why::AsRecorded(vec!["zone=a".into()]));
    assert_eq!(
        (answer.outcome(), answer.problems.len()),
        (Outcome::Well, 0)
    );
}

#[test]
fn a_pod_that_requires_its_node_would_be_pending_and_the_reasons_are_counted() {
    let answer = ask(&cluster(HOSTNAME, false), drain("n1"));
    let [pod] = answer.pods.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!((pod.then, pod.node_then.as_deref()), (Fate::Pending, None));
    assert_eq!(pod.without_its_state, ["n2", "n3"]);
    let expected = [
        ("n1", ExclusionKind::Cordon),
        ("n2", ExclusionKind::RequiredAffinity),
        ("n3", ExclusionKind::RequiredAffinity),
    ];
    assert_eq!(excluded(pod), expected);
    assert_eq!(pod.why, Why::Excluded);
    assert_eq!(answer.outcome(), Outcome::NotWell);
}

#[test]
fn a_state_that_would_be_forgotten_after_the_grace_period_is_named() {
    let style = crate::render::Style::PLAIN;
    let line = "\nAfter the grace period, nodeDeletionPolicy: Forget would drop the recorded \
                states of db-0.\n";
    for (forgets, question, is_forgotten) in [
        (true, loss("n1"), true),
        (true, Question::ZoneDown("a".into()), true),
        (false, loss("n1"), false),
        (true, drain("n1"), false),
    ] {
        let answer = ask(&cluster(HOSTNAME, forgets), question.clone());
        let pod = &answer.pods[0];
        assert_eq!(
            (pod.then, pod.forgotten),
            (Fate::Pending, is_forgotten),
            "{question:?}"
        );
        let text = crate::render::forecast::forecast(
            &question,
            &answer,
            style,
            false,
            &CommandLine::default(),
        );
        assert_eq!(text.contains(line), is_forgotten, "{text}");
    }
}

#[test]
fn a_pod_whose_requirement_ends_is_said_to_fall_back_if_another_node_could_take_it() {
    let bounded = |replaced: &str| {
        let mut cluster = cluster(HOSTNAME, false);
        let mut object = cluster.pps[0].object().clone();
        object["spec"]["requiredPersistentTopology"]["fallbackAfterSeconds"] = json!(600);
        cluster.pps = vec![Pps::read(object).unwrap()];
        if let Some(nodes) = &mut cluster.nodes {
            nodes.retain(|name, _| name == replaced || name == "n1");
        }
        ask(&cluster, loss("n1"))
    };
    let answer = bounded("n3");
    assert_eq!(answer.pods[0].falls_back_after, Some(600));
    let text = crate::render::forecast::forecast(
        &loss("n1"),
        &answer,
        crate::render::Style::PLAIN,
        false,
        &CommandLine::default(),
    );
    assert!(
        text.contains("would take db-0 elsewhere, one Pod of a workload at a time"),
        "{text}"
    );
    let nowhere = bounded("n1");
    assert_eq!(nowhere.pods[0].falls_back_after, None, "{nowhere:#?}");
}

#[test]
fn a_lost_zone_takes_all_its_nodes_away() {
    let answer = ask(&cluster(ZONE, false), Question::ZoneDown("b".into()));
    let [pod] = answer.pods.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!((pod.pod.as_str(), pod.then), ("db-1", Fate::Pending));
    assert_eq!(pod.without_its_state, ["n1", "n2"]);
}

#[test]
fn a_question_about_what_does_not_exist_is_refused() {
    let snapshot = cluster(ZONE, false);
    for (question, expected) in [
        (drain("n9"), "there is no node n9"),
        (drain("nowhere"), "there is no node nowhere"),
        (
            Question::ZoneDown("c".into()),
            "no node is in zone c: there are a, b",
        ),
    ] {
        let failure = forecast(&snapshot, &question).unwrap_err();
        assert!(
            failure.exit_code() == 2 && failure.to_string().starts_with(expected),
            "{failure}"
        );
    }
    let mut blind = cluster(ZONE, false);
    blind.nodes = None;
    blind.unread = vec![forbidden("list nodes")];
    let failure = forecast(&blind, &drain("n1")).unwrap_err();
    assert_eq!(failure, Failure::Unread(forbidden("list nodes")));
    assert_eq!(
        (failure.to_string().as_str(), failure.exit_code()),
        ("you have no permission to list nodes", 2)
    );
}

#[test]
fn pods_of_other_namespaces_take_room_and_the_namespaces_are_simulated_one_after_the_other() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.namespaces = Namespaces::All;
    snapshot.workloads.push(database("other", 1));
    snapshot.pods.push(pod("other", "db-0", "n1"));
    let mut stray = pod("third", "job-x", "n1").object().clone();
    stray["metadata"]["ownerReferences"] = json!([]);
    snapshot.pods.push(Pod::read(stray).unwrap());
    let answer = ask(&snapshot, drain("n1"));
    let places: Vec<(&str, &str)> = answer
        .pods
        .iter()
        .map(|pod| (pod.namespace.as_str(), pod.pod.as_str()))
        .collect();
    assert_eq!(places, [("other", "db-0"), ("shop", "db-0")]);
    assert_eq!(answer.pods[0].why, Why::NotRecorded);
    assert_eq!(answer.not_simulated, ["third/job-x"]);

    let mut full = cluster(ZONE, false);
    let small = json!({"metadata": {"name": "n2", "labels": {ZONE: "a", HOSTNAME: "n2"}}, "status": {"allocatable": {"pods": "1"}}});
    full.nodes
        .as_mut()
        .unwrap()
        .insert("n2".into(), Node::read(small).unwrap());
    full.pods.push(pod("other", "db-0", "n2"));
    let answer = ask(&full, drain("n1"));
    assert_eq!(answer.pods[0].then, Fate::Pending);
    assert!(
        excluded(&answer.pods[0]).contains(&("n2", ExclusionKind::Resources)),
        "{answer:#?}"
    );
}

#[test]
fn a_budget_that_refuses_an_eviction_is_named() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.budgets = vec![json!({"metadata": {"name": "db", "namespace": "shop"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}}})];
    let answer = ask(&snapshot, drain("n1"));
    let [pod] = answer.pods.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!(
        (pod.then, pod.node_then.as_deref()),
        (Fate::NotEvicted, Some("n1"))
    );
    assert!(
        matches!(&pod.why, Why::Protected(why) if why.starts_with("PodDisruptionBudget db ")),
        "{pod:#?}"
    );
    assert_eq!(answer.outcome(), Outcome::NotWell);
}

#[test]
fn what_happens_anyway_is_not_taken_for_an_effect() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.workloads = vec![database("shop", 3)];
    let mut waiting = pod("shop", "db-2", "").object().clone();
    waiting["spec"] = json!({"nodeSelector": {"disk": "ssd"}, "containers": []});
    waiting["status"] = json!({"phase": "Pending"});
    snapshot.pods.push(Pod::read(waiting).unwrap());
    let answer = ask(&snapshot, drain("n2"));
    let [pod] = answer.pods.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!(
        (pod.pod.as_str(), pod.then, pod.already),
        ("db-2", Fate::Pending, true)
    );
    assert_eq!((answer.problems.len(), answer.advice.len()), (0, 0));
    // "Nothing would be touched" must not sound like an all-clear.
    assert_eq!(answer.outcome(), Outcome::NotWell);
    snapshot.namespaces = Namespaces::All;
    assert_eq!(
        ask(&snapshot, drain("n2")).pods.len(),
        1,
        "it may wait for this node"
    );
}

#[test]
fn a_forecast_is_complete_without_what_it_can_leave_out() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.unread = vec![forbidden("list pods")];
    let answer = ask(&snapshot, drain("n1"));
    assert_eq!((answer.unread.len(), answer.outcome()), (1, Outcome::Well));
    snapshot.unread.push(forbidden(
        "list statefulsets.apps.kruise.io in namespace shop",
    ));
    assert_eq!(
        ask(&snapshot, drain("n1")).outcome(),
        Outcome::Well,
        "nothing names one"
    );
}

#[test]
fn a_forecast_without_the_budgets_or_claims_is_incomplete() {
    for what in [
        "list persistentvolumeclaims in namespace shop",
        "list poddisruptionbudgets.policy in namespace shop",
    ] {
        let mut snapshot = cluster(ZONE, false);
        snapshot.unread = vec![forbidden(what)];
        let answer = ask(&snapshot, drain("n1"));
        assert_eq!(
            (answer.incomplete, answer.outcome()),
            (true, Outcome::Incomplete),
            "{what}"
        );
        let mut pinned = cluster(HOSTNAME, false);
        pinned.unread = snapshot.unread;
        assert_eq!(
            ask(&pinned, drain("n1")).outcome(),
            Outcome::NotWell,
            "{what}"
        );
    }
}

#[test]
fn what_is_too_large_to_be_simulated_is_said() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.workloads.push({
        let mut huge = database("shop", 30_000).object().clone();
        huge["metadata"]["name"] = json!("huge");
        Workload::read(huge, "apps/v1").unwrap()
    });
    let answer = ask(&snapshot, drain("n1"));
    assert!(
        answer
            .problems
            .iter()
            .any(|(object, _)| object == "StatefulSet huge")
    );
    assert_eq!(
        (answer.pods.len(), answer.outcome()),
        (1, Outcome::Incomplete)
    );
    let many = (0..5001).map(|index| (format!("m{index}"), node(&format!("m{index}"), "a")));
    snapshot.nodes.as_mut().unwrap().extend(many);
    let failure = forecast(&snapshot, &drain("n1")).unwrap_err();
    let expected = "the cluster has 5004 nodes: at most 5000 are simulated";
    assert_eq!(
        (failure.to_string().as_str(), failure.exit_code()),
        (expected, 1)
    );
}

#[test]
fn an_answer_without_pods_is_no_all_clear_while_other_namespaces_lose_theirs() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.namespaces = Namespaces::One("empty".into());
    let answer = ask(&snapshot, drain("n1"));
    assert!(answer.pods.is_empty());
    assert_eq!(answer.outcome(), Outcome::Incomplete);
    assert_eq!(
        (answer.other_namespaces, answer.not_simulated),
        (["shop".to_owned()].into(), names([]))
    );
}

#[test]
fn a_pod_that_its_recorded_state_keeps_gets_advice() {
    assert_eq!(
        ask(&cluster(HOSTNAME, false), drain("n1")).advice,
        [cordon(["n1"]), moves(["db-0"], "--anywhere")]
    );
    assert_eq!(ask(&cluster(ZONE, false), drain("n1")).advice, []);
}

#[test]
fn advice_moves_no_pod_that_needs_no_move() {
    // db-0 and db-1 have to come back to n1, and web-0 to any node of its zone.
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.pods = vec![pod("shop", "db-0", "n1"), pod("shop", "db-1", "n1")];
    snapshot.pps = vec![pps(
        "shop",
        HOSTNAME,
        false,
        &[("db-0", "n1", "n1"), ("db-1", "n1", "n1")],
    )];
    let rename = |object: &Value| -> Value {
        let text = object
            .to_string()
            .replace("\"db", "\"web")
            .replace("uid-db", "uid-web");
        serde_json::from_str(&text).unwrap()
    };
    let set = rename(snapshot.workloads[0].object());
    snapshot.workloads.extend(Workload::read(set, "apps/v1"));
    snapshot
        .pods
        .extend(Pod::read(rename(snapshot.pods[0].object())));
    let zones = pps("shop", ZONE, false, &[("db-0", "n1", "a")]);
    snapshot.pps.extend(Pps::read(rename(zones.object())));
    let answer = ask(&snapshot, drain("n1"));
    let then: Vec<(&str, Fate)> = answer
        .pods
        .iter()
        .map(|pod| (pod.pod.as_str(), pod.then))
        .collect();
    assert_eq!(
        then[..3],
        [
            ("db-0", Fate::Pending),
            ("db-1", Fate::Pending),
            ("web-0", Fate::Running)
        ]
    );
    assert_eq!(
        answer.advice,
        [cordon(["n1"]), moves(["db-0", "db-1"], "--anywhere")]
    );
}

#[test]
fn advice_names_the_required_value_that_has_to_be_given_up() {
    let answer = ask(&cluster(ZONE, false), Question::ZoneDown("b".into()));
    assert_eq!(answer.advice, [moves(["db-1"], "--anywhere --any zone")]);
    // A node of its zone is enough.
    let mut snapshot = cluster(HOSTNAME, false);
    let both = json!({"nodeName": "n1", "nodeTopologyLabels": {HOSTNAME: "n1", ZONE: "a"}});
    let mut object = snapshot.pps[0].object().clone();
    object["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] = json!([ZONE, HOSTNAME]);
    object["status"]["podStates"]["db-0"] = both;
    snapshot.pps = Pps::read(object).into_iter().collect();
    let answer = ask(&snapshot, drain("n1"));
    assert_eq!(answer.advice[1], moves(["db-0"], "--anywhere"));
}

/// `db` has as many Pods as these nodes, and a budget that needs all but one.
fn with_budget(key: &str, nodes: &[&'static str]) -> Snapshot {
    let mut snapshot = cluster(key, false);
    snapshot.workloads = vec![database("shop", u32::try_from(nodes.len()).unwrap())];
    let names: Vec<String> = (0..nodes.len())
        .map(|ordinal| format!("db-{ordinal}"))
        .collect();
    snapshot.pods = names
        .iter()
        .zip(nodes)
        .map(|(name, node)| pod("shop", name, node))
        .collect();
    let zone = |node: &'static str| if node == "n3" { "b" } else { "a" };
    let value = |node| if key == ZONE { zone(node) } else { node };
    let states: Vec<(&str, &str, &str)> = names
        .iter()
        .zip(nodes)
        .map(|(name, node)| (name.as_str(), *node, value(node)))
        .collect();
    snapshot.pps = vec![pps("shop", key, false, &states)];
    snapshot.budgets = vec![json!({"metadata": {"name": "db", "namespace": "shop"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}})];
    snapshot
}

#[test]
fn a_drain_that_a_budget_and_a_required_node_block_is_told_the_way_out() {
    let answer = ask(&with_budget(HOSTNAME, &["n1", "n1", "n3"]), drain("n1"));
    let then: Vec<Fate> = answer.pods.iter().map(|pod| pod.then).collect();
    assert_eq!(
        (then.as_slice(), answer.outcome()),
        (&[Fate::Pending, Fate::NotEvicted][..], Outcome::NotWell)
    );
    assert_eq!(
        answer.advice,
        [cordon(["n1"]), moves(["db-0", "db-1"], "--anywhere")]
    );
    // Two nodes at a time.
    let both = Question::Drain(["n1".to_owned(), "n3".to_owned()].into());
    let answer = ask(&with_budget(HOSTNAME, &["n1", "n3"]), both);
    assert_eq!(
        answer.advice,
        [cordon(["n1", "n3"]), moves(["db-0", "db-1"], "--anywhere")]
    );
    // A required value has to be given up for the Pod that is kept as well: `move` refuses one
    // command without that.
    let answer = ask(&with_budget(ZONE, &["n3", "n3", "n1"]), drain("n3"));
    assert_eq!(
        answer.advice,
        [
            cordon(["n3"]),
            moves(["db-0", "db-1"], "--anywhere --any zone")
        ]
    );
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
    let failure = forecast(&snapshot, &drain("n1")).unwrap_err();
    assert_eq!(
        failure.to_string(),
        format!("you have no permission to {what}")
    );
    assert_eq!(failure, Failure::Unread(forbidden(&what)));
}

/// Without one of these lists, no Pod would be touched, its state would be dropped, or it would be
/// Pending.
#[test]
fn nothing_is_forecast_without_the_pods_and_the_workloads() {
    let openkruise = "list statefulsets.apps.kruise.io in namespace shop";
    let mut snapshot = cluster(HOSTNAME, false);
    for what in [
        "list pods in namespace shop",
        "list statefulsets.apps in namespace shop",
        openkruise,
    ] {
        if what == openkruise {
            let mut named = snapshot.pps[0].object().clone();
            named["metadata"]["name"] = json!("named");
            named["spec"]["targetRef"]["apiVersion"] = json!("apps.kruise.io/v1beta1");
            snapshot.pps.extend(Pps::read(named));
        }
        snapshot.unread = vec![forbidden(what)];
        let failure = forecast(&snapshot, &drain("n1")).unwrap_err();
        assert_eq!(
            failure.to_string(),
            format!("you have no permission to {what}")
        );
        assert_eq!(failure, Failure::Unread(forbidden(what)));
    }
}

/// Another PersistentPodState of this name, for the same workload or for OpenKruise's, and with
/// this state of `db-0`.
fn not_governing(name: &str, api_version: &str, node: &str) -> Pps {
    let mut other = pps("shop", HOSTNAME, false, &[("db-0", node, node)])
        .object()
        .clone();
    other["metadata"]["name"] = json!(name);
    other["spec"]["targetRef"]["apiVersion"] = json!(api_version);
    Pps::read(other).unwrap()
}

#[test]
fn what_counts_is_recorded_in_the_governing_persistentpodstate() {
    for api_version in ["apps/v1", "apps.kruise.io/v1beta1"] {
        for name in ["aa", "zz"] {
            let mut snapshot = cluster(ZONE, false);
            snapshot.pods[0] = pod("shop", "db-0", "n3");
            snapshot.pps = vec![pps(
                "shop",
                ZONE,
                false,
                &[("db-0", "n3", "b"), ("db-1", "n3", "b")],
            )];
            snapshot.pps.push(not_governing(name, api_version, "n1"));
            snapshot.sort();
            let answer = ask(&snapshot, Question::ZoneDown("b".into()));
            assert_eq!(
                answer.pods[0].recorded_node.as_deref(),
                Some("n3"),
                "{api_version} {name}"
            );
            let pods = ["db-0", "db-1"];
            assert_eq!(
                answer.advice,
                [moves(pods, "--anywhere --any zone")],
                "{api_version} {name}"
            );
        }
    }
}

/// Node n1 with a Pod of each of two namespaces, and node n2 with room for so many.
fn two_namespaces(room: &str) -> Snapshot {
    let mut snapshot = Snapshot::empty(Namespaces::All);
    let small = json!({"metadata": {"name": "n2", "labels": {ZONE: "a", HOSTNAME: "n2"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": room}}});
    let nodes = [node("n1", "a"), Node::read(small).unwrap()];
    snapshot.nodes = Some(nodes.map(|node| (node.name().to_owned(), node)).into());
    snapshot.workloads = vec![database("one", 1), database("two", 1)];
    snapshot.pods = vec![pod("one", "db-0", "n1"), pod("two", "db-0", "n1")];
    snapshot
}

#[test]
fn no_two_namespaces_are_promised_the_same_room() {
    let then = |room: &str| {
        let answer = ask(&two_namespaces(room), drain("n1"));
        let then: Vec<Fate> = answer.pods.iter().map(|pod| pod.then).collect();
        (then, answer.outcome())
    };
    assert_eq!(
        then("2"),
        (vec![Fate::Running, Fate::Running], Outcome::Well)
    );
    assert_eq!(
        then("1"),
        (vec![Fate::Running, Fate::Pending], Outcome::NotWell)
    );
}

#[test]
fn a_pod_that_would_have_no_node_takes_no_room() {
    let mut snapshot = two_namespaces("1");
    snapshot.pps = vec![pps("one", HOSTNAME, false, &[("db-0", "n1", "n1")])];
    let answer = ask(&snapshot, drain("n1"));
    let then: Vec<Fate> = answer.pods.iter().map(|pod| pod.then).collect();
    assert_eq!(then, [Fate::Pending, Fate::Running], "{answer:#?}");
}

#[test]
fn pods_of_a_namespace_that_was_not_asked_for_are_said_once() {
    let mut snapshot = two_namespaces("2");
    snapshot.namespaces = Namespaces::One("one".into());
    snapshot.workloads.truncate(1);
    let mut stray = pod("two", "job-x", "n1").object().clone();
    stray["metadata"]["ownerReferences"] = json!([]);
    snapshot.pods.push(Pod::read(stray).unwrap());
    let answer = ask(&snapshot, drain("n1"));
    assert_eq!(answer.other_namespaces, ["two".to_owned()].into());
    assert_eq!(answer.not_simulated, ["two/job-x"]);
}

/// The same with db-2, which has no node, and which no scheduler has looked at. n2 would be its
/// best node.
fn with_waiting(states: &[(&str, &str, &str)]) -> Snapshot {
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.workloads = vec![database("shop", 3)];
    let all: Vec<_> = [("db-0", "n1", "n1"), ("db-1", "n3", "n3")]
        .iter()
        .chain(states)
        .copied()
        .collect();
    snapshot.pps = vec![pps("shop", HOSTNAME, false, &all)];
    let mut waiting = pod("shop", "db-2", "").object().clone();
    waiting["status"] = json!({"phase": "Pending"});
    if states.is_empty() {
        waiting["metadata"]["annotations"] = json!({});
    }
    for (_, _, value) in states {
        let term =
            json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [value]}]});
        let required = json!({"nodeSelectorTerms": [term]});
        waiting["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            required;
    }
    snapshot.pods.push(Pod::read(waiting).unwrap());
    snapshot
}

fn of<'a>(answer: &'a Forecast, name: &str) -> &'a PodForecast {
    answer
        .pods
        .iter()
        .find(|pod| pod.pod == name)
        .unwrap_or_else(|| panic!("{answer:#?}"))
}

#[test]
fn a_pod_without_a_node_gets_none_that_is_drained_or_lost() {
    let lost = loss("n2");
    for question in [drain("n2"), lost] {
        let answer = ask(&with_waiting(&[]), question);
        let waiting = of(&answer, "db-2");
        assert_eq!(
            (waiting.then, waiting.already, waiting.as_recorded),
            (Fate::Running, false, None)
        );
        assert_eq!(
            (waiting.may_land_on.as_slice(), waiting.node_now.as_deref()),
            (&["n1".to_owned(), "n3".to_owned()][..], None)
        );
        assert_eq!(waiting.why, Why::NotRecorded);
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
    assert_eq!(of(&ask(&snapshot, drain("n2")), "db-2").then, Fate::Running);
}

#[test]
fn a_pod_of_which_nothing_is_recorded_is_not_said_to_be_kept_by_it() {
    let mut snapshot = with_waiting(&[]);
    for name in ["n1", "n3"] {
        let mut shut = snapshot.node(name).unwrap().object().clone();
        shut["spec"]["unschedulable"] = json!(true);
        snapshot
            .nodes
            .as_mut()
            .unwrap()
            .insert(name.into(), Node::read(shut).unwrap());
    }
    let answer = ask(&snapshot, drain("n2"));
    let waiting = of(&answer, "db-2");
    assert_eq!((waiting.then, waiting.already), (Fate::Pending, true));
    assert_eq!(waiting.why, Why::Excluded);
    assert_eq!(
        (waiting.without_its_state.len(), answer.advice.len()),
        (0, 0)
    );
    assert!(
        waiting
            .excluded
            .iter()
            .all(|verdict| !verdict.exclusions.iter().any(Exclusion::from_pps))
    );
}

#[test]
fn a_pod_without_a_node_that_is_recorded_waits_for_its_place() {
    let answer = ask(&with_waiting(&[("db-2", "n2", "n2")]), drain("n2"));
    let waiting = of(&answer, "db-2");
    assert_eq!(
        (waiting.then, waiting.without_its_state.as_slice()),
        (Fate::Pending, &["n1".to_owned(), "n3".to_owned()][..])
    );
    assert_eq!(
        answer.advice,
        [cordon(["n2"]), moves(["db-2"], "--anywhere")]
    );
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
    assert_eq!(
        (replaced.node_now.as_deref(), replaced.then),
        (Some("n1"), Fate::Running)
    );
    assert_eq!(replaced.why, Why::NotRecorded);
    assert_ne!(replaced.node_then.as_deref(), Some("n1"));
}
