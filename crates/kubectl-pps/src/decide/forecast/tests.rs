#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tests may panic")]

use pps_core::{INJECTED_ANNOTATION, TargetReference};
use pps_scheduler::ExclusionKind;
use serde_json::{Value, json};

use super::{Forecast, Note, Question, Step, Then, Why, forecast};
use crate::decide::command_line::CommandLine;
use crate::snapshot::{Node, Pod, Pps, Scope, Snapshot, Workload, WorkloadKey, forbidden};
use crate::{Failure, Outcome};

mod drains;
mod recorded;
mod rooms;
mod specs;
mod waiting;

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
    object["status"] =
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    Pod::read(object).unwrap()
}

fn pps(namespace: &str, key: &str, forgets: bool, states: &[(&str, &str, &str)]) -> Pps {
    let state =
        |(_, node, value): &(&str, &str, &str)| json!({"nodeName": node, "nodeTopologyLabels": {key: value}});
    let states: serde_json::Map<String, Value> =
        states.iter().map(|one| (one.0.to_owned(), state(one))).collect();
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
    let mut snapshot = Snapshot::empty(Scope::Namespace("shop".into()));
    let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")];
    snapshot.nodes = Some(nodes.map(|node| (node.name().to_owned(), node)).into());
    snapshot.workloads = vec![database("shop", 2)];
    snapshot.pods = vec![pod("shop", "db-0", "n1"), pod("shop", "db-1", "n3")];
    let value = |node: &'static str, zone: &'static str| if key == ZONE { zone } else { node };
    snapshot.pps = vec![pps(
        "shop",
        key,
        forgets,
        &[("db-0", "n1", value("n1", "a")), ("db-1", "n3", value("n3", "b"))],
    )];
    snapshot
}

fn ask(snapshot: &Snapshot, question: Question) -> Forecast {
    forecast(snapshot, &question, None, &CommandLine::default()).unwrap()
}

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).into()
}

/// The Pods of a workload in namespace shop are moved so.
fn moves<const N: usize>(pods: [&str; N], flags: &str) -> Step {
    Step::Move { namespace: "shop".into(), pods: names(pods), flags: flags.into() }
}

fn cordon<const N: usize>(nodes: [&str; N]) -> Step {
    Step::Cordon { nodes: names(nodes) }
}

fn drain(node: &str) -> Question {
    Question::Drain(vec![node.into()])
}

#[test]
fn a_drained_pod_returns_to_its_zone_and_the_others_are_not_touched() {
    let answer = ask(&cluster(ZONE, false), drain("n1"));
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!(
        (pod.pod.as_str(), pod.node_now.as_deref(), pod.node_then.as_deref()),
        ("db-0", Some("n1"), Some("n2"))
    );
    assert_eq!(
        (pod.then, pod.as_recorded, pod.recorded_node.as_deref()),
        (Then::Running, Some(true), Some("n1"))
    );
    assert_eq!(pod.may_land_on, ["n2"]);
    assert_eq!(pod.why, Why::AsRecorded(vec!["zone=a".into()]));
    assert_eq!((answer.outcome(), answer.notes.len()), (Outcome::Well, 0));
}

#[test]
fn a_pod_that_requires_its_node_would_be_pending_and_the_reasons_are_counted() {
    let answer = ask(&cluster(HOSTNAME, false), drain("n1"));
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.then, pod.node_then.as_deref()), (Then::Pending, None));
    assert_eq!(pod.without_its_state, ["n2", "n3"]);
    let first = &pod.excluded_by[0];
    assert_eq!((first.nodes, first.from_pps, first.what), (2, true, ExclusionKind::RequiredAffinity));
    assert_eq!(
        (first.names.as_slice(), pod.excluded_by[1].what),
        (&names(["n2", "n3"])[..], ExclusionKind::Cordon)
    );
    assert_eq!(pod.why, Why::Excluded { by_former_state: false });
    assert_eq!(answer.outcome(), Outcome::NotWell);
}

#[test]
fn a_state_that_would_be_forgotten_after_the_grace_period_is_named() {
    let answer = ask(&cluster(HOSTNAME, true), Question::WithoutNodes(vec!["n1".into()]));
    assert_eq!(answer.pods[0].then, Then::Pending);
    let [forgotten] = answer.forgotten.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((forgotten.pps.as_str(), forgotten.pods.as_slice()), ("db", &["db-0".to_owned()][..]));
    assert!(ask(&cluster(HOSTNAME, false), Question::WithoutNodes(vec!["n1".into()])).forgotten.is_empty());
}

#[test]
fn a_lost_zone_takes_all_its_nodes_away() {
    let answer = ask(&cluster(ZONE, false), Question::ZoneDown("b".into()));
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.pod.as_str(), pod.then), ("db-1", Then::Pending));
    let [reason] = pod.excluded_by.as_slice() else { panic!("{pod:#?}") };
    assert_eq!((reason.from_pps, reason.names.as_slice()), (true, &names(["n1", "n2"])[..]));
    assert_eq!(pod.without_its_state, ["n1", "n2"]);
}

#[test]
fn a_question_about_what_does_not_exist_is_refused() {
    let snapshot = cluster(ZONE, false);
    for (question, expected) in [
        (drain("n9"), "there is no node n9; similar names: n1, n2, n3"),
        (drain("nowhere"), "there is no node nowhere; kubectl get nodes lists the nodes"),
        (Question::ZoneDown("c".into()), "no node is in zone c: there are a, b"),
        (
            Question::Spec(vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})]),
            "the file has Pod/x: ",
        ),
    ] {
        let Err(Failure::Usage(text)) = forecast(&snapshot, &question, None, &CommandLine::default()) else {
            panic!("{question:?}")
        };
        assert!(text.starts_with(expected), "{text}");
    }
    let mut blind = cluster(ZONE, false);
    blind.nodes = None;
    blind.unread = vec![forbidden("list nodes")];
    let Err(Failure::Unreadable(text)) = forecast(&blind, &drain("n1"), None, &CommandLine::default()) else {
        panic!()
    };
    assert_eq!(text, "a forecast needs the nodes: you have no permission to list nodes");
}

#[test]
fn pods_of_other_namespaces_take_room_and_the_namespaces_are_simulated_one_after_the_other() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.scope = Scope::All;
    snapshot.workloads.push(database("other", 1));
    snapshot.pods.push(pod("other", "db-0", "n1"));
    let mut stray = pod("third", "job-x", "n1").object().clone();
    stray["metadata"]["ownerReferences"] = json!([]);
    snapshot.pods.push(Pod::read(stray).unwrap());
    let answer = ask(&snapshot, drain("n1"));
    let places: Vec<(&str, &str)> =
        answer.pods.iter().map(|pod| (pod.namespace.as_str(), pod.pod.as_str())).collect();
    assert_eq!(places, [("other", "db-0"), ("shop", "db-0")]);
    assert_eq!(answer.pods[0].why, Why::NotRecorded);
    let [displaced] = answer.not_simulated.as_slice() else { panic!("{answer:#?}") };
    assert_eq!(
        (displaced.namespace.as_str(), displaced.pod.as_str(), displaced.has_pps),
        ("third", "job-x", false)
    );

    let mut full = cluster(ZONE, false);
    let small = json!({"metadata": {"name": "n2", "labels": {ZONE: "a", HOSTNAME: "n2"}}, "status": {"allocatable": {"pods": "1"}}});
    full.nodes.as_mut().unwrap().insert("n2".into(), Node::read(small).unwrap());
    full.pods.push(pod("other", "db-0", "n2"));
    let answer = ask(&full, drain("n1"));
    assert_eq!(answer.pods[0].then, Then::Pending);
    let full = answer.pods[0].excluded_by.iter().find(|reason| reason.what == ExclusionKind::Resources);
    assert_eq!(full.map(|reason| reason.names.clone()), Some(names(["n2"])));
}

#[test]
fn a_budget_that_refuses_an_eviction_is_named() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.budgets = vec![json!({"metadata": {"name": "db", "namespace": "shop"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}}})];
    let answer = ask(&snapshot, drain("n1"));
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.then, pod.node_then.as_deref()), (Then::NotEvicted, Some("n1")));
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
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.pod.as_str(), pod.then, pod.already), ("db-2", Then::Pending, true));
    assert_eq!((answer.notes.len(), answer.advice.len()), (0, 0));
    // "Nothing would be touched" must not sound like an all-clear.
    assert_eq!(answer.outcome(), Outcome::NotWell);
    snapshot.scope = Scope::All;
    assert_eq!(ask(&snapshot, drain("n2")).pods.len(), 1, "it may wait for this node");
}

#[test]
fn a_forecast_is_complete_without_what_it_can_leave_out() {
    let mut snapshot = cluster(ZONE, false);
    let unseen = |what: &str| forbidden(what);
    snapshot.unread = vec![unseen("list persistentvolumes"), unseen("list pods")];
    let answer = ask(&snapshot, drain("n1"));
    assert_eq!((answer.unread.len(), answer.outcome()), (2, Outcome::Well));
    snapshot.unread.push(unseen("list statefulsets.apps.kruise.io in namespace shop"));
    assert_eq!(ask(&snapshot, drain("n1")).outcome(), Outcome::Well, "nothing names one");
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
    assert!(answer.notes.iter().any(|note| matches!(note, Note::Problem { name, .. } if name == "huge")));
    assert_eq!((answer.pods.len(), answer.outcome()), (1, Outcome::Incomplete));
    let many = (0..5001).map(|index| (format!("m{index}"), node(&format!("m{index}"), "a")));
    snapshot.nodes.as_mut().unwrap().extend(many);
    let Err(Failure::Refused(text)) = forecast(&snapshot, &drain("n1"), None, &CommandLine::default()) else {
        panic!()
    };
    assert_eq!(text, "the cluster has 5004 nodes: at most 5000 are simulated");
}

#[test]
fn only_the_workload_that_is_asked_about_is_shown() {
    let only = |kind: &str, name: &str| {
        let target = TargetReference { api_version: "apps/v1".into(), kind: kind.into(), name: name.into() };
        [WorkloadKey::of("shop", &target)]
    };
    let snapshot = cluster(ZONE, false);
    assert_eq!(
        forecast(&snapshot, &drain("n1"), Some(&only("StatefulSet", "db")), &CommandLine::default())
            .unwrap()
            .pods
            .len(),
        1
    );
    let other =
        forecast(&snapshot, &drain("n1"), Some(&only("Database", "web")), &CommandLine::default()).unwrap();
    assert_eq!(
        (other.pods.len(), other.notes),
        (0, vec![Note::NotSimulated { kind: "Database".into(), name: "web".into() }])
    );
}

#[test]
fn an_answer_without_pods_is_no_all_clear_while_other_namespaces_lose_theirs() {
    let mut snapshot = cluster(ZONE, false);
    snapshot.scope = Scope::Namespace("empty".into());
    let answer = ask(&snapshot, drain("n1"));
    assert!(answer.pods.is_empty());
    assert_eq!(answer.outcome(), crate::Outcome::Incomplete);
    assert_eq!(answer.notes, [Note::OtherNamespaces { pods: 1, namespaces: names(["shop"]) }]);
}

#[test]
fn the_pods_of_a_node_that_is_gone_already_start_elsewhere() {
    let mut snapshot = cluster(ZONE, false);
    let mut lost = snapshot.pods[1].object().clone();
    lost["spec"]["nodeName"] = json!("n4");
    lost["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    snapshot.pods[1] = Pod::read(lost).unwrap();
    let answer = ask(&snapshot, Question::WithoutNodes(vec!["n4".into()]));
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.pod.as_str(), pod.node_now.as_deref()), ("db-1", Some("n4")));
    assert_eq!((pod.then, pod.node_then.as_deref()), (Then::Running, Some("n3")));
    assert_eq!(answer.notes[0], Note::NodesGone(names(["n4"])));
    let Err(Failure::Usage(text)) = forecast(&snapshot, &drain("n4"), None, &CommandLine::default()) else {
        panic!()
    };
    assert!(text.contains("cannot be drained. 1 Pod is still bound to it: use --without-node n4"), "{text}");
}

#[test]
fn a_pod_that_its_recorded_state_keeps_gets_advice() {
    assert_eq!(
        ask(&cluster(HOSTNAME, false), drain("n1")).advice,
        [cordon(["n1"]), moves(["db-0"], "--anywhere")]
    );
    assert_eq!(ask(&cluster(ZONE, false), drain("n1")).advice, []);
    // A node that does not exist takes no Pods.
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.pps = vec![pps("shop", HOSTNAME, false, &[("db-0", "n4", "n4"), ("db-1", "n4", "n4")])];
    snapshot.pods = vec![pod("shop", "db-0", "n4"), pod("shop", "db-1", "n4")];
    let answer = ask(&snapshot, Question::WithoutNodes(vec!["n4".into()]));
    assert_eq!(answer.advice, [moves(["db-0", "db-1"], "--anywhere")]);
}

#[test]
fn advice_moves_no_pod_that_needs_no_move() {
    // db-0 and db-1 have to come back to n1, and web-0 to any node of its zone.
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.pods = vec![pod("shop", "db-0", "n1"), pod("shop", "db-1", "n1")];
    snapshot.pps = vec![pps("shop", HOSTNAME, false, &[("db-0", "n1", "n1"), ("db-1", "n1", "n1")])];
    let rename = |object: &Value| -> Value {
        let text = object.to_string().replace("\"db", "\"web").replace("uid-db", "uid-web");
        serde_json::from_str(&text).unwrap()
    };
    let set = rename(snapshot.workloads[0].object());
    snapshot.workloads.extend(Workload::read(set, "apps/v1"));
    snapshot.pods.extend(Pod::read(rename(snapshot.pods[0].object())));
    let zones = pps("shop", ZONE, false, &[("db-0", "n1", "a")]);
    snapshot.pps.extend(Pps::read(rename(zones.object())));
    let answer = ask(&snapshot, drain("n1"));
    let then: Vec<(&str, Then)> = answer.pods.iter().map(|pod| (pod.pod.as_str(), pod.then)).collect();
    assert_eq!(then[..3], [("db-0", Then::Pending), ("db-1", Then::Pending), ("web-0", Then::Running)]);
    assert_eq!(answer.advice, [cordon(["n1"]), moves(["db-0", "db-1"], "--anywhere")]);
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
