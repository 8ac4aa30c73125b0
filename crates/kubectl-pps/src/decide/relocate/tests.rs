use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use serde_json::{Value, json};

use super::*;
use crate::snapshot::{Node, Pps, Scope, Unseen, Workload};

mod again;
mod kept;

const HOST: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> Node {
    Node::read(json!({
        "metadata": {"name": name, "labels": {HOST: name, "topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }))
    .unwrap()
}

/// A Pod of the StatefulSet `db` with the affinity that the policy gives it for this node.
pub(super) fn pod(name: &str, node: Option<&str>, pinned_to: Option<&str>) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "prod", "uid": format!("uid-{name}"), "resourceVersion": "5",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    match node {
        Some(node) => pod["spec"]["nodeName"] = node.into(),
        None => pod["status"] = json!({"phase": "Pending"}),
    }
    if let Some(pinned_to) = pinned_to {
        pod["metadata"]["annotations"] = json!({"kruise.io/injected-persistent-pod-state": "db"});
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [pinned_to]}]}]}}});
    }
    pod
}

pub(super) fn state(node: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {HOST: node}, "annotations": {"ip": "10.0.0.7"}})
}

pub(super) fn pps(states: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "db", "namespace": "prod", "uid": "uid-p", "resourceVersion": "9"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
            "requiredPersistentTopology": {"nodeTopologyKeys": [HOST]},
            "persistentPodAnnotations": [{"key": "ip"}],
        },
        "status": {"podStates": states},
    })
}

pub(super) fn snapshot(pods: &[Value], pps: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::empty(Scope::Namespace("prod".into()));
    snapshot.pods = pods.iter().cloned().filter_map(Pod::read).collect();
    snapshot.pps = pps.iter().cloned().filter_map(Pps::read).collect();
    let nodes = [node("node-1", "a"), node("node-2", "a"), node("node-3", "b")];
    snapshot.nodes = Some(nodes.into_iter().map(|node| (node.name().to_owned(), node)).collect());
    let set = json!({"metadata": {"name": "db", "namespace": "prod", "uid": "s"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": {"spec": {"containers": [{"name": "c"}]}}}});
    snapshot.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    snapshot
}

fn running() -> Snapshot {
    snapshot(&[pod("db-0", Some("node-1"), Some("node-1"))], &[pps(&json!({"db-0": state("node-1")}))])
}

fn request(destination: Option<Destination<'_>>) -> Request<'_> {
    Request {
        namespace: "prod",
        pod: "db-0",
        destination,
        any: &[],
        drop_annotations: false,
        force: false,
        node: None,
    }
}

fn relocation(snapshot: &Snapshot, request: &Request<'_>) -> Relocation {
    match decide(snapshot, request).unwrap() {
        Decision::Move(relocation) => *relocation,
        Decision::Done(text) => panic!("{text}"),
    }
}

fn after(relocation: &Relocation) -> Value {
    json!(relocation.wish.state(relocation.before.as_ref()))
}

#[test]
fn a_running_pod_goes_to_a_node_with_its_annotations() {
    let relocation = relocation(&running(), &request(Some(Destination::Node("node-3"))));
    assert_eq!(after(&relocation), state("node-3"));
    let present = relocation.present.as_ref().unwrap();
    assert_eq!((present.removal, present.is_left_over), (Removal::Evict, false));
    assert_eq!(relocation.forecast.as_ref().unwrap().may_land_on, ["node-3"]);
    assert_eq!((relocation.obstacle(), relocation.notes()), (None, vec![super::show::ADDRESS.to_owned()]));
    let without = Request { drop_annotations: true, ..request(Some(Destination::Node("node-3"))) };
    let without = super::tests::relocation(&running(), &without);
    assert_eq!(after(&without), json!({"nodeName": "node-3", "nodeTopologyLabels": {HOST: "node-3"}}));
}

#[test]
fn a_pod_that_goes_anywhere_keeps_annotations_and_an_entry_while_it_is_bound() {
    let anywhere = request(Some(Destination::Anywhere));
    let bound = relocation(&running(), &anywhere);
    assert_eq!(after(&bound), json!({"annotations": {"ip": "10.0.0.7"}}));
    let landing = bound.forecast.unwrap().landing();
    let mut all = [landing.favourites(), landing.others()].concat();
    all.sort();
    assert_eq!(all, ["node-1", "node-2", "node-3"]);
    let dropping = Request { drop_annotations: true, ..anywhere };
    assert_eq!(
        after(&relocation(&running(), &dropping)),
        json!({}),
        "the sidecar checks before it fills an empty entry"
    );

    let pending = snapshot(&[pod("db-0", None, Some("node-9"))], &[pps(&json!({"db-0": state("node-9")}))]);
    let pending = relocation(&pending, &dropping);
    assert_eq!((after(&pending), pending.present.unwrap().removal), (Value::Null, Removal::Delete));
}

#[test]
fn a_pod_that_was_created_with_the_new_state_is_not_deleted_again() {
    let anywhere = request(Some(Destination::Anywhere));
    for (states, pinned_to, destination) in [
        (json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}), None, anywhere),
        (json!({}), None, anywhere),
        (json!({"db-0": state("node-3")}), Some("node-3"), request(Some(Destination::Node("node-3")))),
    ] {
        let snapshot = snapshot(&[pod("db-0", None, pinned_to)], &[pps(&states)]);
        let relocation = relocation(&snapshot, &destination);
        assert!(!relocation.wish.changes(relocation.before.as_ref()), "{states}");
        assert_eq!(relocation.present.unwrap().removal, Removal::None, "{states}");
    }
}

#[test]
fn an_interrupted_move_goes_on_where_it_was() {
    let to = request(Some(Destination::Node("node-3")));
    // Annotated and recorded again, but not evicted yet.
    let mut annotated = pod("db-0", Some("node-1"), Some("node-1"));
    annotated["metadata"]["annotations"][RECORD_ANNOTATION] = "false".into();
    annotated["metadata"]["annotations"][MOVE_ANNOTATION] = "recorded".into();
    let begun = snapshot(&[annotated.clone()], &[pps(&json!({"db-0": state("node-3")}))]);
    let begun = relocation(&begun, &to);
    assert!(!begun.wish.changes(begun.before.as_ref()));
    let present = begun.present.unwrap();
    assert_eq!((present.removal, present.is_left_over), (Removal::Evict, true));
    // Evicted, and not gone yet.
    annotated["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let ending = snapshot(&[annotated], &[pps(&json!({"db-0": state("node-3")}))]);
    assert_eq!(relocation(&ending, &to).present.unwrap().removal, Removal::None);
    // Gone, and not created again yet.
    let gone = snapshot(&[], &[pps(&json!({"db-0": state("node-1")}))]);
    let gone = relocation(&gone, &to);
    assert_eq!((gone.present.as_ref(), after(&gone)), (None, state("node-3")));
    assert_eq!(gone.notes(), [super::show::ADDRESS]);
    // There.
    let done =
        snapshot(&[pod("db-0", Some("node-3"), Some("node-3"))], &[pps(&json!({"db-0": state("node-3")}))]);
    let Decision::Done(text) = decide(&done, &to).unwrap() else { panic!("it is there") };
    assert_eq!(text, "Pod db-0 is on node-3 already");
}

#[test]
fn an_unfinished_move_is_called_off_by_a_move_to_where_the_pod_is() {
    let back = request(Some(Destination::Node("node-1")));
    let mut annotated = pod("db-0", Some("node-1"), Some("node-1"));
    annotated["metadata"]["annotations"][RECORD_ANNOTATION] = "false".into();
    annotated["metadata"]["annotations"][MOVE_ANNOTATION] = "recorded".into();
    for recorded in ["node-1", "node-3"] {
        let mut snapshot = snapshot(&[annotated.clone()], &[pps(&json!({"db-0": state(recorded)}))]);
        let off = relocation(&snapshot, &back);
        let present = off.present.as_ref().unwrap();
        assert_eq!((present.removal, present.is_left_over), (Removal::Stay, true));
        assert_eq!((after(&off), off.obstacle()), (state("node-1"), None));
        // A user's own exemption is not the move's.
        let mut exempt = annotated.clone();
        exempt["metadata"]["annotations"].as_object_mut().unwrap().remove(MOVE_ANNOTATION);
        snapshot.pods = Pod::read(exempt).into_iter().collect();
        if recorded == "node-1" {
            assert!(matches!(decide(&snapshot, &back).unwrap(), Decision::Done(_)));
        } else {
            assert!(!relocation(&snapshot, &back).present.unwrap().is_left_over);
        }
    }
}

#[test]
fn a_pod_that_changes_while_the_user_is_asked_is_not_moved_as_decided() {
    let pending = snapshot(&[pod("db-0", None, Some("node-9"))], &[pps(&json!({"db-0": state("node-9")}))]);
    let pending = relocation(&pending, &request(Some(Destination::Anywhere)));
    let read = |pod: Value| Pod::read(pod).unwrap();
    assert_eq!(pending.overtaken_by(Some(&read(pod("db-0", None, None)))), None);
    let bound = pending.overtaken_by(Some(&read(pod("db-0", Some("node-1"), None))));
    assert_eq!(bound.as_deref(), Some("Pod db-0 has got node node-1 meanwhile"));
    let mut again = pod("db-0", None, None);
    again["metadata"]["uid"] = "other".into();
    assert!(pending.overtaken_by(Some(&read(again))).unwrap().contains("created again"));
    assert!(pending.overtaken_by(None).unwrap().contains("gone"));
    let gone = snapshot(&[], &[pps(&json!({"db-0": state("node-1")}))]);
    let gone = relocation(&gone, &request(Some(Destination::Anywhere)));
    assert_eq!(gone.overtaken_by(None), None);
    assert!(gone.overtaken_by(Some(&read(pod("db-0", None, None)))).is_some());
    // What it is created with is recorded already.
    let written = snapshot(&[], &[pps(&json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}))]);
    let written = relocation(&written, &request(Some(Destination::Anywhere)));
    assert_eq!(written.overtaken_by(Some(&read(pod("db-0", None, None)))), None);
    let waiting = snapshot(&[pod("db-0", None, None)], &[pps(&json!({}))]);
    let waiting = relocation(&waiting, &request(Some(Destination::Anywhere)));
    assert_eq!(waiting.overtaken_by(Some(&read(pod("db-0", Some("node-1"), None)))), None);
}

#[test]
fn a_pod_that_is_not_created_again_is_not_moved() {
    let seventh = Request { pod: "db-7", ..request(Some(Destination::Anywhere)) };
    for pods in [vec![], vec![pod("db-7", Some("node-1"), None)]] {
        let snapshot = snapshot(&pods, &[pps(&json!({"db-7": state("node-1")}))]);
        let error = decide(&snapshot, &seventh).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(
            error.to_string().starts_with("StatefulSet db wants 1 Pod, and db-7 is not one of them"),
            "{error}"
        );
    }
}

#[test]
fn what_is_in_the_way_is_named_for_each_node() {
    let mut snapshot = running();
    for name in ["node-1", "node-2", "node-3"] {
        let mut object = snapshot.nodes.as_ref().unwrap()[name].object().clone();
        object["spec"] = json!({"unschedulable": true});
        snapshot.nodes.as_mut().unwrap().insert(name.into(), Node::read(object).unwrap());
    }
    let anywhere = relocation(&snapshot, &request(Some(Destination::Anywhere))).obstacle().unwrap();
    assert!(anywhere.starts_with("no node can take Pod db-0:\n- "), "{anywhere}");
    assert!(["node-1", "node-2", "node-3"].iter().all(|node| anywhere.contains(node)), "{anywhere}");
    let to = relocation(&snapshot, &request(Some(Destination::Node("node-2")))).obstacle().unwrap();
    assert!(to.starts_with("node node-2 cannot take Pod db-0:\n- "), "{to}");
}

#[test]
fn the_next_pod_is_made_from_the_present_template() {
    let mut snapshot = running();
    let mut set = snapshot.workloads[0].object().clone();
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    snapshot.workloads = Workload::read(set.clone(), "apps/v1").into_iter().collect();
    let anywhere = request(Some(Destination::Anywhere));
    assert!(relocation(&snapshot, &anywhere).obstacle().unwrap().contains("disk"));
    // Unless the update strategy keeps the former one for it.
    set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 1}});
    let mut obstacle = |set: &Value| {
        snapshot.workloads = Workload::read(set.clone(), "apps/v1").into_iter().collect();
        relocation(&snapshot, &anywhere).obstacle()
    };
    assert_eq!(obstacle(&set), None);
    set["spec"]["updateStrategy"]["type"] = "OnDelete".into();
    assert!(obstacle(&set).is_some(), "it has no partition");
    set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 0}});
    assert!(obstacle(&set).is_some());
}

#[test]
fn a_node_that_the_scheduler_would_not_choose_is_an_obstacle() {
    let mut object = pps(&json!({"db-0": state("node-1")}));
    object["spec"]["requiredPersistentTopology"] =
        json!({"nodeTopologyKeys": ["topology.kubernetes.io/zone"]});
    let load = |node: &str| {
        let mut load = pod("load-0", Some(node), None);
        load["metadata"]["ownerReferences"] = json!([]);
        load["spec"]["containers"] =
            json!([{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "6Gi"}}}]);
        load
    };
    let snapshot = snapshot(&[pod("db-0", Some("node-3"), None), load("node-1")], &[object]);
    let refused = relocation(&snapshot, &request(Some(Destination::Node("node-1")))).obstacle().unwrap();
    assert!(refused.contains("the scheduler would not choose node node-1 but node-2"), "{refused}");
}

#[test]
fn a_preference_is_no_promise() {
    let mut object = pps(&json!({"db-0": state("node-1")}));
    object["spec"]["requiredPersistentTopology"] =
        json!({"nodeTopologyKeys": ["topology.kubernetes.io/zone"]});
    let snapshot = snapshot(&[pod("db-0", Some("node-3"), None)], &[object]);
    let relocation = relocation(&snapshot, &request(Some(Destination::Node("node-1"))));
    let notes = relocation.notes().join("\n");
    assert!(
        notes.contains("does not require the node itself: the scheduler may choose node-1, node-2"),
        "{notes}"
    );
}

#[test]
fn a_move_that_is_not_possible_says_why() {
    let refused = |snapshot: &Snapshot, destination| decide(snapshot, &request(destination)).unwrap_err();
    let anywhere = Some(Destination::Anywhere);
    let text = |failure: Failure| (failure.exit_code(), failure.to_string());

    let (code, error) = text(refused(&running(), None));
    assert!(code == 2 && error.contains("--to NODE, or --anywhere"), "{error}");
    assert!(
        error.contains("With --anywhere, it would probably start on ") && error.contains("node-3"),
        "{error}"
    );
    let mut unseen = running();
    unseen.nodes = None;
    let (_, error) = text(refused(&unseen, None));
    assert!(error.ends_with("is not known: you have no permission to list nodes"), "{error}");
    let (code, error) = text(refused(&running(), Some(Destination::Node("node-7"))));
    assert_eq!((code, error.as_str()), (2, "there is no node node-7; similar names: node-1, node-2, node-3"));
    let (code, error) = text(refused(&snapshot(&[], &[]), anywhere));
    assert!(code == 2 && error.starts_with("there is no Pod db-0 in namespace prod"), "{error}");
    let (code, error) = text(refused(&snapshot(&[pod("db-0", None, None)], &[]), anywhere));
    assert!(code == 1 && error.contains("nothing pins Pod db-0"), "{error}");
    let mut bare = pod("db-0", Some("node-1"), None);
    bare["metadata"]["ownerReferences"] = json!([]);
    let (_, error) = text(refused(&snapshot(&[bare], &[]), anywhere));
    assert!(error.starts_with("Pod db-0 has no controller: nothing pins it"), "{error}");
    // One with a finalizer stays for a while, and so do its Pods.
    let mut deleted = running();
    let mut set = deleted.workloads[0].object().clone();
    set["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
    deleted.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    let ends = "StatefulSet db is being deleted, and nothing would create Pod db-0 again";
    assert_eq!(text(refused(&deleted, anywhere)), (1, ends.into()));
    deleted.pods.clear();
    assert_eq!(text(refused(&deleted, anywhere)), (1, ends.into()), "it does not exist already");
    assert_eq!(select(&deleted, "node-1").unwrap().pods, [], "it comes back nowhere");
    let mut damaged = pps(&json!({}));
    damaged["status"] = json!({"packed": {"version": 1, "buckets": {"ordinals-0": "7 db-* n\n"}}});
    let (code, error) = text(refused(&snapshot(&[pod("db-0", None, None)], &[damaged]), anywhere));
    assert!(code == 1 && error.contains("status.packed.buckets.ordinals-0 is damaged"), "{error}");
}

#[test]
fn what_could_not_be_read_is_said_where_it_matters() {
    let unseen = |what: &str| Unseen { what: what.into(), is_forbidden: true, why: String::new() };
    let mut snapshot = running();
    snapshot.nodes = None;
    snapshot.unseen = vec![unseen("list nodes"), unseen("list pods")];
    let relocation = relocation(&snapshot, &request(Some(Destination::Anywhere)));
    assert!(relocation.notes()[1].contains("no permission to list nodes"));
    let error = decide(&snapshot, &request(Some(Destination::Node("node-2")))).unwrap_err();
    let text = "you have no permission to list nodes, which is needed to know the labels of node node-2";
    assert_eq!(error, Failure::Unreadable(text.into()));
    // To get it is enough.
    let own = node("node-2", "a");
    let alone = Request { node: Some(&own), ..request(Some(Destination::Node("node-2"))) };
    assert_eq!(after(&super::tests::relocation(&snapshot, &alone)), state("node-2"));
    assert!(
        decide(&snapshot, &Request { node: Some(&own), ..request(Some(Destination::Node("node-3"))) })
            .is_err()
    );
    snapshot.unseen = vec![unseen("list persistentpodstates.apps.kruise.io in namespace prod")];
    assert_eq!(decide(&snapshot, &request(Some(Destination::Anywhere))).unwrap_err().exit_code(), 2);
    snapshot.pods.clear();
    snapshot.unseen = vec![unseen("list pods in namespace prod")];
    assert_eq!(decide(&snapshot, &request(Some(Destination::Anywhere))).unwrap_err().exit_code(), 2);
}

#[test]
fn a_state_is_shown_in_one_line() {
    let read = |state: Value| serde_json::from_value::<PodState>(state).unwrap();
    assert_eq!(describe(Some(&read(state("node-1")))), "node-1, hostname=node-1, ip=10.0.0.7");
    assert_eq!(describe(Some(&read(json!({"annotations": {"a/ip": "x"}})))), "ip=x, without a node");
    assert_eq!((describe(None), describe(Some(&PodState::default()))), ("nothing".into(), "nothing".into()));
}

#[test]
fn the_plan_says_what_becomes_of_the_place_and_of_a_node_that_is_gone() {
    let lines = |snapshot: &Snapshot, destination| -> Vec<String> {
        let plan = relocation(snapshot, &request(Some(destination))).plan();
        plan.iter().map(|(title, text)| format!("{title}: {text}")).collect()
    };
    let gone =
        snapshot(&[pod("db-0", Some("node-9"), Some("node-9"))], &[pps(&json!({"db-0": state("node-9")}))]);
    let [from, to, recorded, becomes, then] = &lines(&gone, Destination::Anywhere)[..] else { panic!() };
    assert_eq!(from, "from: node-9, which does not exist any more");
    assert!(to.starts_with("to: any node: probably on "), "{to}");
    assert_eq!(recorded, "recorded: node-9, hostname=node-9, ip=10.0.0.7");
    assert_eq!(
        becomes,
        "becomes: ip=10.0.0.7, without a node (PersistentPodState db); its node is recorded again once it is Ready"
    );
    assert!(then.contains("Kubernetes deletes it within about a minute"), "{then}");
    let present = relocation(&gone, &request(Some(Destination::Anywhere))).present.unwrap();
    assert_eq!((present.is_stranded, present.removal), (true, Removal::Evict));
    let ordinary = lines(&running(), Destination::Node("node-3"));
    assert_eq!(ordinary[0], "from: node-1");
    assert_eq!(ordinary[1], "to: node-3");
    assert_eq!(ordinary[3], "becomes: node-3, hostname=node-3, ip=10.0.0.7 (PersistentPodState db)");
    assert_eq!(ordinary[4], "then: the Pod is evicted, and its controller creates it again");
}
