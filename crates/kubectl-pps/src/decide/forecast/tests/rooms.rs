//! Room for which the Pods of several namespaces compete.

use super::*;

/// Node n1 with a Pod of each of two namespaces, and node n2 with room for so many.
fn two_namespaces(room: &str) -> Snapshot {
    let mut snapshot = Snapshot::empty(Scope::All);
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
        let then: Vec<Then> = answer.pods.iter().map(|pod| pod.then).collect();
        (then, answer.outcome())
    };
    assert_eq!(then("2"), (vec![Then::Running, Then::Running], Outcome::Well));
    assert_eq!(then("1"), (vec![Then::Running, Then::Pending], Outcome::NotWell));
}

#[test]
fn a_pod_that_would_have_no_node_takes_no_room() {
    let mut snapshot = two_namespaces("1");
    snapshot.pps = vec![pps("one", HOSTNAME, false, &[("db-0", "n1", "n1")])];
    let answer = ask(&snapshot, drain("n1"));
    let then: Vec<Then> = answer.pods.iter().map(|pod| pod.then).collect();
    assert_eq!(then, [Then::Pending, Then::Running], "{answer:#?}");
}

#[test]
fn pods_of_a_namespace_that_was_not_asked_for_are_said_once() {
    let mut snapshot = two_namespaces("2");
    snapshot.scope = Scope::Namespace("one".into());
    snapshot.workloads.truncate(1);
    let mut stray = pod("two", "job-x", "n1").object().clone();
    stray["metadata"]["ownerReferences"] = json!([]);
    snapshot.pods.push(Pod::read(stray).unwrap());
    let answer = ask(&snapshot, drain("n1"));
    let note = Note::OtherNamespaces { pods: 1, namespaces: names(["two"]) };
    assert!(answer.notes.contains(&note), "{:?}", answer.notes);
    let displaced: Vec<&str> = answer.not_simulated.iter().map(|pod| pod.pod.as_str()).collect();
    assert_eq!(displaced, ["job-x"]);
}

#[test]
fn room_is_not_promised_to_a_workload_that_another_namespace_may_need() {
    let snapshot = two_namespaces("1");
    let two = WorkloadKey {
        namespace: "two".into(),
        group: "apps".into(),
        kind: "StatefulSet".into(),
        name: "db".into(),
    };
    let answer = forecast(&snapshot, &drain("n1"), Some(&[two]), &CommandLine::default()).unwrap();
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.namespace.as_str(), pod.then), ("two", Then::Pending));
}

/// Its PersistentPodState is gone: `move` refuses such a Pod.
#[test]
fn a_pod_that_waits_for_what_was_injected_is_to_be_deleted() {
    let mut snapshot = cluster(HOSTNAME, false);
    snapshot.pps.clear();
    let mut waiting = pod("shop", "db-0", "").object().clone();
    waiting["status"] = json!({"phase": "Pending"});
    waiting["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1"]}]}]}}});
    snapshot.pods[0] = Pod::read(waiting).unwrap();
    let mut cordoned = node("n1", "a").object().clone();
    cordoned["spec"]["unschedulable"] = true.into();
    snapshot.nodes.as_mut().unwrap().insert("n1".into(), Node::read(cordoned).unwrap());
    let answer = ask(&snapshot, drain("n2"));
    let [pod] = answer.pods.as_slice() else { panic!("{answer:#?}") };
    assert_eq!((pod.pod.as_str(), pod.then, pod.already), ("db-0", Then::Pending, true));
    assert_eq!(
        (&pod.why, pod.without_its_state.as_slice()),
        (&Why::Excluded { by_former_state: true }, &names(["n3"])[..])
    );
    assert_eq!(answer.advice, [Step::Delete { namespace: "shop".into(), pods: names(["db-0"]) }]);
}
