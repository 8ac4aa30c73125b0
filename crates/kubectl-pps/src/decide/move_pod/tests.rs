use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use serde_json::{Value, json};

use super::*;
use crate::snapshot::{Node, Pps, Scope, Workload, forbidden};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.io/rack";

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

fn state(node: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {HOST: node}, "annotations": {"ip": "10.0.0.7"}})
}

fn pps(states: &Value) -> Value {
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

fn snapshot(pods: &[Value], pps: &[Value]) -> Snapshot {
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
    Request { namespace: "prod", pod: "db-0", destination, any: &[], drop_annotations: false, node: None }
}

fn to(node: &str) -> Request<'_> {
    request(Some(Destination::Node(node)))
}

fn anywhere() -> Request<'static> {
    request(Some(Destination::Anywhere))
}

fn planned(snapshot: &Snapshot, request: &Request<'_>) -> PodMove {
    match decide(snapshot, request).unwrap() {
        Decision::Move(one) => *one,
        Decision::Done => panic!("nothing is to be done"),
    }
}

fn refused(snapshot: &Snapshot, request: &Request<'_>) -> Refusal {
    decide(snapshot, request).unwrap_err()
}

fn after(one: &PodMove) -> Value {
    json!(one.new_state.of(one.before.as_ref()))
}

fn removal(one: &PodMove) -> Removal {
    one.present.as_ref().unwrap().removal
}

/// The nodes that could take the Pod.
fn takers(one: &PodMove) -> Vec<String> {
    let landing = Landing::of(one.forecast.as_ref().unwrap());
    let mut all = [landing.favourites(), landing.others()].concat();
    all.sort();
    all
}

/// With a mark of a move.
fn marked(mut pod: Value) -> Value {
    pod["metadata"]["annotations"][RECORD_ANNOTATION] = "false".into();
    pod["metadata"]["annotations"][MOVE_ANNOTATION] = "recorded".into();
    pod
}

fn with_workload(snapshot: &mut Snapshot, change: &Value) {
    let mut set = snapshot.workloads[0].object().clone();
    json_patch::merge(&mut set, change);
    snapshot.workloads = Workload::read(set, "apps/v1").into_iter().collect();
}

fn with_node(snapshot: &mut Snapshot, node: &str, change: &Value) {
    let mut object = snapshot.node(node).unwrap().object().clone();
    json_patch::merge(&mut object, change);
    snapshot.nodes.as_mut().unwrap().insert(node.into(), Node::read(object).unwrap());
}

fn cordon(snapshot: &mut Snapshot, nodes: &[&str]) {
    for node in nodes {
        with_node(snapshot, node, &json!({"spec": {"unschedulable": true}}));
    }
}

#[test]
fn a_running_pod_goes_to_a_node_with_its_annotations() {
    let one = planned(&running(), &to("node-3"));
    assert_eq!(after(&one), state("node-3"));
    assert_eq!((removal(&one), one.present.as_ref().unwrap().is_marked), (Removal::Evict, false));
    assert_eq!(one.forecast.as_ref().unwrap().may_land_on, ["node-3"]);
    assert_eq!(one.obstacle, None);
    let without = planned(&running(), &Request { drop_annotations: true, ..to("node-3") });
    assert_eq!(after(&without), json!({"nodeName": "node-3", "nodeTopologyLabels": {HOST: "node-3"}}));
    let gone = snapshot(&[pod("db-0", Some("node-9"), None)], &[pps(&json!({"db-0": state("node-9")}))]);
    let gone = planned(&gone, &anywhere()).present.unwrap();
    assert_eq!((gone.is_stranded, gone.removal), (true, Removal::Evict));
}

#[test]
fn a_pod_that_goes_anywhere_keeps_annotations_and_an_entry_while_it_is_bound() {
    let bound = planned(&running(), &anywhere());
    assert_eq!(after(&bound), json!({"annotations": {"ip": "10.0.0.7"}}));
    assert_eq!(takers(&bound), ["node-1", "node-2", "node-3"]);
    let dropping = Request { drop_annotations: true, ..anywhere() };
    let emptied = planned(&running(), &dropping);
    assert_eq!(after(&emptied), json!({}), "the sidecar checks before it fills an empty entry");
    let pending = snapshot(&[pod("db-0", None, Some("node-9"))], &[pps(&json!({"db-0": state("node-9")}))]);
    let pending = planned(&pending, &dropping);
    assert_eq!((after(&pending), removal(&pending)), (Value::Null, Removal::Delete));
}

#[test]
fn a_pod_that_was_created_with_the_new_state_is_not_deleted_again() {
    for (states, pinned_to, request) in [
        (json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}), None, anywhere()),
        (json!({}), None, anywhere()),
        (json!({"db-0": state("node-3")}), Some("node-3"), to("node-3")),
    ] {
        let one = planned(&snapshot(&[pod("db-0", None, pinned_to)], &[pps(&states)]), &request);
        assert_eq!((one.changes_state(), removal(&one)), (false, Removal::Unneeded), "{states}");
    }
    // It keeps an annotation that is dropped.
    let mut waiting = pod("db-0", None, None);
    waiting["metadata"]["annotations"] =
        json!({"kruise.io/injected-persistent-pod-state": "db", "ip": "10.0.0.7"});
    let waiting = snapshot(&[waiting], &[pps(&json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}))]);
    assert_eq!(removal(&planned(&waiting, &anywhere())), Removal::Unneeded);
    let dropping = Request { drop_annotations: true, ..anywhere() };
    assert_eq!(removal(&planned(&waiting, &dropping)), Removal::Delete);
}

#[test]
fn a_pending_pod_of_a_former_template_is_created_again() {
    let of_revisions = |own: &str, partition: u64, current: Option<&str>| {
        let mut waiting = pod("db-0", None, None);
        waiting["metadata"]["labels"] = json!({"controller-revision-hash": own});
        let mut world = snapshot(&[waiting], &[pps(&json!({}))]);
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        let status = json!({"updateRevision": "db-new", "currentRevision": current});
        let change = json!({"status": status, "spec": {"updateStrategy": strategy}});
        with_workload(&mut world, &change);
        removal(&planned(&world, &anywhere()))
    };
    let of_revision = |own, partition| of_revisions(own, partition, None);
    let held_back = |own| of_revisions(own, 1, Some("db-old"));
    assert_eq!((held_back("db-old"), held_back("db-new")), (Removal::Unneeded, Removal::Delete));
    assert_eq!(of_revision("db-new", 0), Removal::Unneeded);
    assert_eq!(of_revision("db-old", 0), Removal::Delete);
    assert_eq!(
        of_revision("db-old", 1),
        Removal::Unneeded,
        "it would be made from the former template again"
    );
}

#[test]
fn an_interrupted_move_goes_on_where_it_was() {
    // Marked and recorded again, but not evicted yet.
    let own = marked(pod("db-0", Some("node-1"), Some("node-1")));
    let begun = snapshot(std::slice::from_ref(&own), &[pps(&json!({"db-0": state("node-3")}))]);
    let begun = planned(&begun, &to("node-3"));
    let present = begun.present.as_ref().unwrap();
    assert_eq!((begun.changes_state(), present.removal, present.is_marked), (false, Removal::Evict, true));
    // Evicted, and not gone yet.
    let mut ending = own;
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let ending = snapshot(&[ending], &[pps(&json!({"db-0": state("node-3")}))]);
    assert_eq!(removal(&planned(&ending, &to("node-3"))), Removal::Unneeded);
    // Gone, and not created again yet.
    let gone = planned(&snapshot(&[], &[pps(&json!({"db-0": state("node-1")}))]), &to("node-3"));
    assert_eq!((gone.present.as_ref(), after(&gone)), (None, state("node-3")));
    // There.
    let there = [pod("db-0", Some("node-3"), Some("node-3"))];
    let done = snapshot(&there, &[pps(&json!({"db-0": state("node-3")}))]);
    assert!(matches!(decide(&done, &to("node-3")).unwrap(), Decision::Done));
}

#[test]
fn an_unfinished_move_is_called_off_by_a_move_to_where_the_pod_is() {
    let own = marked(pod("db-0", Some("node-1"), Some("node-1")));
    for recorded in ["node-1", "node-3"] {
        let mut world = snapshot(std::slice::from_ref(&own), &[pps(&json!({"db-0": state(recorded)}))]);
        let off = planned(&world, &to("node-1"));
        let present = off.present.as_ref().unwrap();
        assert_eq!((present.removal, present.is_marked), (Removal::Stay, true));
        assert!(present.is_recorded_unmarked);
        assert_eq!((after(&off), off.obstacle), (state("node-1"), None));
        // A user's own exemption is not the move's, and stays.
        let mut exempt = own.clone();
        exempt["metadata"]["annotations"].as_object_mut().unwrap().remove(MOVE_ANNOTATION);
        world.pods = Pod::read(exempt).into_iter().collect();
        if recorded == "node-1" {
            assert!(matches!(decide(&world, &to("node-1")).unwrap(), Decision::Done));
        } else {
            let present = planned(&world, &to("node-1")).present.unwrap();
            assert_eq!((present.is_marked, present.is_recorded_unmarked), (false, false));
        }
    }
}

#[test]
fn a_move_covers_no_more_than_what_was_shown() {
    let states = json!({"db-0": state("node-9")});
    let of = |pods: &[Value], request: &Request<'_>| planned(&snapshot(pods, &[pps(&states)]), request);
    let bound = || pod("db-0", Some("node-1"), None);
    let mut again = bound();
    again["metadata"]["uid"] = "other".into();
    let evicted = of(&[bound()], &anywhere());
    assert!(evicted.covers(&of(&[bound()], &anywhere())));
    assert!(!evicted.covers(&of(&[again], &anywhere())), "another Pod would be evicted");
    assert!(!evicted.covers(&of(&[bound()], &to("node-3"))), "another state would be recorded");
    assert!(evicted.covers(&of(&[], &anywhere())), "less is to be done");
    let pending = of(&[pod("db-0", None, Some("node-9"))], &anywhere());
    assert!(!pending.covers(&evicted), "it has got a node");
    let absent = of(&[], &anywhere());
    assert!(absent.covers(&pending) && !absent.covers(&evicted));
    // Its node is gone, and comes back.
    let stranded = of(&[pod("db-0", Some("node-9"), None)], &anywhere());
    let mut back = snapshot(&[pod("db-0", Some("node-9"), None)], &[pps(&states)]);
    back.nodes.as_mut().unwrap().insert("node-9".into(), node("node-9", "a"));
    assert!(!stranded.covers(&planned(&back, &anywhere())));
}

#[test]
fn pods_that_serve_nobody_are_moved_first_and_by_ordinal() {
    let ready = |name: &str| pod(name, Some("node-1"), None);
    let pods = [ready("db-0"), pod("db-1", None, Some("node-9")), ready("db-2")];
    let mut world = snapshot(&pods, &[pps(&json!({"db-3": state("node-9")}))]);
    with_workload(&mut world, &json!({"spec": {"replicas": 4}}));
    let mut moves: Vec<PodMove> =
        ["db-2", "db-3", "db-0", "db-1"].map(|pod| planned(&world, &Request { pod, ..anywhere() })).into();
    order(&mut moves);
    let names: Vec<&str> = moves.iter().map(|one| one.pod.as_str()).collect();
    assert_eq!(names, ["db-1", "db-3", "db-2", "db-0"], "Ready Pods in the order of the command line");
}

#[test]
fn others_of_a_workload_that_are_down_or_not_recorded_are_named() {
    let ready = |name: &str| pod(name, Some("node-1"), None);
    let mut not_ready = ready("db-1");
    not_ready["status"]["conditions"][0]["status"] = "False".into();
    let mut exempt = ready("db-4");
    exempt["metadata"]["annotations"] = json!({RECORD_ANNOTATION: "false"});
    let unwanted = ready("db-9");
    let pods = [ready("db-0"), not_ready, marked(ready("db-2")), ready("db-3"), exempt, unwanted];
    let mut world = snapshot(&pods, &[pps(&json!({"db-2": state("node-1")}))]);
    with_workload(&mut world, &json!({"spec": {"replicas": 7}}));
    let next = planned(&world, &anywhere());
    let expected = Others {
        not_ready: vec!["db-1".into()],
        missing: 2,
        moving: vec!["db-2".into()],
        is_workload_unread: false,
        unrecorded: vec!["db-3".into()],
    };
    assert_eq!(others(&world, &next, &[]), Some(expected));
    let first: Vec<PodName> =
        ["db-1", "db-2", "db-3", "db-5", "db-6"].map(|pod| ("prod".to_owned(), pod.to_owned())).into();
    assert_eq!(others(&world, &next, &first), None, "the same command moves them before");
    let down = planned(&world, &Request { pod: "db-1", ..anywhere() });
    assert_eq!(others(&world, &down, &[]), None, "nobody loses anything");
}

#[test]
fn the_nodes_that_cannot_take_a_pod_are_named() {
    let mut world = running();
    cordon(&mut world, &["node-1", "node-2", "node-3"]);
    let Some(Obstacle::NoNode { exclusions, way_out: None }) = planned(&world, &anywhere()).obstacle else {
        panic!("no node can take it")
    };
    let nodes: Vec<&str> = exclusions.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(nodes, ["node-1", "node-2", "node-3"]);
    let Some(Obstacle::Excluded { node, .. }) = planned(&world, &to("node-2")).obstacle else {
        panic!("node-2 cannot take it")
    };
    assert_eq!(node, "node-2");
}

#[test]
fn the_next_pod_is_made_from_the_present_template() {
    let has_obstacle = |strategy: &Value| {
        let mut world = running();
        let template = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
        with_workload(&mut world, &json!({"spec": {"template": template, "updateStrategy": strategy}}));
        planned(&world, &anywhere()).obstacle.is_some()
    };
    assert!(has_obstacle(&json!({})));
    // Unless the update strategy keeps the former one for it.
    assert!(!has_obstacle(&json!({"rollingUpdate": {"partition": 1}})));
    assert!(has_obstacle(&json!({"rollingUpdate": {"partition": 0}})));
    assert!(
        has_obstacle(&json!({"rollingUpdate": {"partition": 1}, "type": "OnDelete"})),
        "it has no partition"
    );
}

#[test]
fn a_node_that_the_scheduler_would_not_choose_is_an_obstacle_and_a_preference_is_none() {
    let mut object = pps(&json!({"db-0": state("node-1")}));
    object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": [ZONE]});
    let own = pod("db-0", Some("node-3"), None);
    let one = planned(&snapshot(std::slice::from_ref(&own), &[object.clone()]), &to("node-1"));
    assert_eq!((one.obstacle, one.forecast.unwrap().may_land_on.len()), (None, 2), "no promise");
    let mut load = pod("load-0", Some("node-1"), None);
    load["metadata"]["ownerReferences"] = json!([]);
    load["spec"]["containers"] =
        json!([{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "6Gi"}}}]);
    let one = planned(&snapshot(&[own, load], &[object]), &to("node-1"));
    let expected =
        Obstacle::NotChosen { node: "node-1".into(), pps: "db".into(), instead: vec!["node-2".into()] };
    assert_eq!(one.obstacle, Some(expected));
}

#[test]
fn a_move_that_is_not_possible_says_why() {
    let refusal = refused(&running(), &request(None));
    let Refusal::NoDestination { landing: Some(landing), knows_nodes: true, .. } = refusal else {
        panic!("{refusal:?}")
    };
    assert!(!landing.is_nowhere());
    let mut unread = running();
    unread.nodes = None;
    let refusal = refused(&unread, &request(None));
    assert!(matches!(refusal, Refusal::NoDestination { landing: None, knows_nodes: false, .. }));
    let similar = ["node-1", "node-2", "node-3"].map(str::to_owned).into();
    assert_eq!(refused(&running(), &to("node-7")), Refusal::NoNode { node: "node-7".into(), similar });
    assert!(matches!(refused(&snapshot(&[], &[]), &anywhere()), Refusal::NoPod { .. }));
    let bare = refused(&snapshot(&[pod("db-0", None, None)], &[]), &anywhere());
    assert!(matches!(bare, Refusal::NotGoverned { waits: false, .. }));
    let bare = refused(&snapshot(&[pod("db-0", None, Some("node-1"))], &[]), &anywhere());
    assert!(matches!(bare, Refusal::NotGoverned { waits: true, .. }));
    let mut free = pod("db-0", Some("node-1"), None);
    free["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(refused(&snapshot(&[free], &[]), &anywhere()), Refusal::NoController { pod: "db-0".into() });
    let mut damaged = pps(&json!({}));
    damaged["status"] = json!({"packed": {"version": 1, "buckets": {"ordinals-0": "7 db-* n\n"}}});
    let damaged = refused(&snapshot(&[pod("db-0", None, None)], &[damaged]), &anywhere());
    assert!(matches!(damaged, Refusal::UnreadablePps { .. }));
    for pods in [vec![], vec![pod("db-7", Some("node-1"), None)]] {
        let world = snapshot(&pods, &[pps(&json!({"db-7": state("node-1")}))]);
        let refusal = refused(&world, &Request { pod: "db-7", ..anywhere() });
        assert!(matches!(refusal, Refusal::NotWanted { replicas: 1, .. }), "{refusal:?}");
    }
    // A workload with a finalizer stays for a while, and so do its Pods.
    let mut deleted = running();
    with_workload(&mut deleted, &json!({"metadata": {"deletionTimestamp": "2026-11-23T00:00:00Z"}}));
    assert!(matches!(refused(&deleted, &anywhere()), Refusal::WorkloadTerminating { .. }));
    deleted.pods.clear();
    assert!(matches!(refused(&deleted, &anywhere()), Refusal::WorkloadTerminating { .. }));
    assert_eq!(select(&deleted, "node-1").unwrap().pods, [], "it comes back nowhere");
}

#[test]
fn nothing_is_decided_on_lists_that_could_not_be_read() {
    let mut world = running();
    world.nodes = None;
    world.unread = vec![forbidden("list nodes"), forbidden("list pods")];
    assert_eq!(planned(&world, &anywhere()).forecast, None);
    assert!(matches!(refused(&world, &to("node-2")), Refusal::UnreadNode { .. }));
    // To read the destination alone is enough.
    let own = node("node-2", "a");
    let alone = |name| Request { node: Some(&own), ..to(name) };
    assert_eq!(after(&planned(&world, &alone("node-2"))), state("node-2"));
    assert!(matches!(refused(&world, &alone("node-3")), Refusal::UnreadNode { .. }));
    let unread = vec![forbidden("list persistentpodstates.apps.kruise.io in namespace prod")];
    world.unread = unread.clone();
    assert!(matches!(refused(&world, &anywhere()), Refusal::Unread(_)));
    let blind = Snapshot { pps: Vec::new(), unread, ..running() };
    assert!(matches!(require_keys(&blind, &["zone".to_owned()]), Err(Refusal::Unread(_))));
    world.pods.clear();
    world.unread = vec![forbidden("list pods in namespace prod")];
    assert!(matches!(refused(&world, &anywhere()), Refusal::Unread(_)));
}

/// The Pod runs on node-1 in zone a, and requires these labels.
fn requiring(keys: &[&str]) -> Snapshot {
    let labels = json!({HOST: "node-1", ZONE: "a", RACK: "r1"});
    let labels: Value =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), labels.get(key)?.clone()))).collect();
    let mut object = pps(&json!({"db-0": {"nodeName": "node-1", "nodeTopologyLabels": labels}}));
    object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": keys});
    snapshot(&[pod("db-0", Some("node-1"), Some("node-1"))], &[object])
}

fn way_out(snapshot: &Snapshot) -> Option<WayOut> {
    match planned(snapshot, &anywhere()).obstacle {
        Some(Obstacle::NoNode { way_out, .. }) => way_out,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_that_goes_anywhere_stays_in_its_zone() {
    for keys in [&[ZONE, HOST][..], &[ZONE]] {
        let one = planned(&requiring(keys), &anywhere());
        assert_eq!(after(&one), json!({"nodeTopologyLabels": {ZONE: "a"}}), "{keys:?}");
        assert_eq!((takers(&one), one.obstacle), (vec!["node-1".into(), "node-2".into()], None), "{keys:?}");
    }
}

#[test]
fn a_required_value_is_given_up_only_by_name() {
    let mut full = requiring(&[ZONE, HOST]);
    cordon(&mut full, &["node-1", "node-2"]);
    let expected = Some((vec!["zone=a".to_owned()], " --any zone".to_owned()));
    let found = |world: &Snapshot| way_out(world).map(|way_out| (way_out.values, way_out.flags));
    assert_eq!(found(&full), expected);
    assert_eq!(planned(&full, &anywhere()).gives_up(), []);
    for word in ["zone", ZONE] {
        let words = [word.to_owned()];
        let one = planned(&full, &Request { any: &words, ..anywhere() });
        assert_eq!((after(&one), &one.obstacle), (json!({}), &None), "{word}");
        assert_eq!((takers(&one), one.gives_up()), (vec!["node-3".into()], vec![(ZONE, "a")]));
    }
    // A user who names a node of another zone has given the zone up.
    assert_eq!(planned(&full, &to("node-3")).gives_up(), [(ZONE, "a")]);
    assert_eq!(planned(&full, &to("node-2")).gives_up(), []);
    // The same of a Pod that its controller is about to create.
    full.pods.clear();
    assert_eq!(found(&full), expected);
}

#[test]
fn as_few_values_as_possible_are_to_be_given_up() {
    let mut world = requiring(&[ZONE, RACK, HOST]);
    with_node(&mut world, "node-2", &json!({"metadata": {"labels": {RACK: "r2"}}}));
    with_node(&mut world, "node-3", &json!({"metadata": {"labels": {RACK: "r3"}}}));
    cordon(&mut world, &["node-1"]);
    assert_eq!(way_out(&world).unwrap().flags, " --any rack");
    cordon(&mut world, &["node-2"]);
    assert_eq!(way_out(&world).unwrap().flags, " --any rack --any zone");
    cordon(&mut world, &["node-3"]);
    assert_eq!(way_out(&world), None, "it would not help");
}

#[test]
fn a_word_that_names_no_label_or_several_is_refused() {
    let words = ["zone".to_owned()];
    let other = "failure-domain.beta.kubernetes.io/zone";
    let two = requiring(&[ZONE, other, HOST]);
    let keys = vec![other.to_owned(), ZONE.to_owned()];
    let refusal = refused(&two, &Request { any: &words, ..anywhere() });
    assert_eq!(refusal, Refusal::AmbiguousKey { word: "zone".into(), keys });
    let mut world = requiring(&[HOST]);
    let unknown = Refusal::UnknownKey { word: "zone".into(), keys: vec![HOST.into()] };
    assert_eq!(require_keys(&world, &words), Err(unknown));
    assert_eq!((require_keys(&two, &words), require_keys(&world, &[])), (Ok(()), Ok(())));
    // A PersistentPodState that governs nothing names none.
    let mut other = two.pps[0].object().clone();
    other["metadata"]["name"] = json!("later");
    world.pps.extend(Pps::read(other));
    assert!(require_keys(&world, &words).is_err());
}

#[test]
fn a_new_pod_is_followed_until_it_is_ready_and_recorded() {
    let one = planned(&running(), &anywhere());
    let read = |pod: Value| Pod::read(pod).unwrap();
    let stage = |pod: Value, state: Option<&PodState>| Stage::of(&one, Some(&read(pod)), state);
    let former = pod("db-0", Some("node-1"), None);
    assert_eq!(stage(former.clone(), None), Stage::Former);
    let mut ending = former.clone();
    ending["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
    assert_eq!(stage(ending, None), Stage::Terminating);
    assert_eq!(Stage::of(&one, None, None), Stage::Absent);
    let mut new = pod("db-0", None, None);
    new["metadata"]["uid"] = "other".into();
    assert_eq!(stage(new.clone(), None), Stage::Unscheduled);
    new["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "message": "0/3"}]);
    assert_eq!(stage(new.clone(), None), Stage::Unschedulable);
    new["spec"]["nodeName"] = "node-2".into();
    let at = |node: &str| PodState { node_name: node.into(), ..PodState::default() };
    assert_eq!(stage(new.clone(), Some(&at("node-2"))), Stage::NotReady);
    new["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    assert_eq!(stage(new.clone(), Some(&at(""))), Stage::Unrecorded);
    assert_eq!(stage(new.clone(), None), Stage::Unrecorded);
    assert_eq!(stage(new.clone(), Some(&at("node-2"))), Stage::Done);
    new["metadata"]["annotations"] = json!({RECORD_ANNOTATION: "false"});
    assert_eq!(stage(new.clone(), None), Stage::Done, "nobody wants it recorded");
    new["status"]["phase"] = "Failed".into();
    assert_eq!(stage(new, None), Stage::Absent, "it has ended, and a finalizer keeps it");
    // A Pod that waits with the new state is the new Pod itself.
    let waiting = snapshot(&[pod("db-0", None, None)], &[pps(&json!({}))]);
    let waiting = planned(&waiting, &anywhere());
    assert_eq!(Stage::of(&waiting, Some(&read(pod("db-0", None, None))), None), Stage::Unscheduled);
}
