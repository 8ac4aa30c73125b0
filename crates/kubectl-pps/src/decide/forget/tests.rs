use serde_json::{Value, json};

use super::*;
use crate::snapshot::{Namespaces, Pod, Pps, forbidden};

fn pps(name: &str, states: &Value) -> Pps {
    Pps::read(json!({
        "metadata": {"name": name, "namespace": "prod", "uid": "u", "resourceVersion": "1"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}},
        "status": {"podStates": states},
    }))
    .unwrap()
}

fn pod(name: &str, is_ready: bool, annotations: &Value) -> Pod {
    let ready = if is_ready { "True" } else { "False" };
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "prod", "uid": name, "annotations": annotations, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name.rsplit_once('-').unwrap().0, "uid": "u",
                "controller": true}]},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    if is_ready {
        pod["spec"]["nodeName"] = "node-1".into();
    }
    Pod::read(pod).unwrap()
}

fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::empty(Namespaces::One("prod".into()));
    let on = |node: &str| json!({"nodeName": node});
    snapshot.pps = vec![
        pps(
            "db",
            &json!({"db-0": on("node-1"), "db-1": on("node-1"), "db-2": on("node-2"), "db-3": {}}),
        ),
        pps("web", &json!({"web-0": on("node-1")})),
    ];
    snapshot.pods = vec![
        pod("db-0", true, &json!({})),
        pod(
            "db-1",
            false,
            &json!({"kruise.io/injected-persistent-pod-state": "db"}),
        ),
        pod("db-3", true, &json!({})),
    ];
    snapshot
}

fn dropped(drops: &Drops) -> Vec<&str> {
    drops
        .objects
        .values()
        .flatten()
        .map(|(pod, _)| pod.as_str())
        .collect()
}

fn names(pods: &[NamespacedName]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.name).collect()
}

fn on(world: &Snapshot, node: &str) -> Drops {
    decide(world, &[], Some(node)).unwrap()
}

#[test]
fn only_states_that_the_sidecar_would_not_record_again_are_dropped() {
    let pods: Vec<String> = ["db-0", "db-1", "db-2", "db-3", "db-00"]
        .map(str::to_owned)
        .into();
    let world = snapshot();
    let drops = decide(&world, &pods, None).unwrap();
    assert_eq!((dropped(&drops), drops.count()), (vec!["db-1", "db-2"], 2));
    assert_eq!(
        (names(&drops.ready), names(&drops.pending)),
        (vec!["db-0"], vec!["db-1"])
    );
    assert_eq!(
        drops.unrecorded,
        ["db-3", "db-00"],
        "an empty entry is none"
    );
    assert!(!drops.is_complete());
    let mut exempt = snapshot();
    exempt.pods = vec![pod(
        "db-0",
        true,
        &json!({pps_core::RECORD_ANNOTATION: "false"}),
    )];
    assert_eq!(
        dropped(&decide(&exempt, &pods[..1], None).unwrap()),
        ["db-0"]
    );
}

#[test]
fn a_ready_pod_away_from_its_home_gets_a_new_one() {
    let mut world = snapshot();
    let mut object = pps("db", &json!({"db-0": {"nodeName": "node-9"}}))
        .object()
        .clone();
    for (policy, expected) in [("Always", &[][..]), ("IfNotPresent", &["db-0"])] {
        object["spec"]["recordingPolicy"] = policy.into();
        world.pps = Pps::read(object.clone()).into_iter().collect();
        assert_eq!(
            dropped(&decide(&world, &["db-0".to_owned()], None).unwrap()),
            expected,
            "{policy}"
        );
    }
}

#[test]
fn the_state_of_a_pod_that_has_changed_meanwhile_is_kept() {
    let pods: Vec<String> = ["db-1", "db-2"].map(str::to_owned).into();
    let before = snapshot();
    let shown = decide(&before, &pods, None).unwrap();
    let retained = |now: &Snapshot| {
        let mut drops = shown.clone();
        drops.retain(&decide(now, &pods, None).unwrap());
        drops
    };
    assert_eq!(retained(&before), shown);
    let mut now = snapshot();
    now.pods = vec![pod("db-1", true, &json!({}))];
    assert_eq!(dropped(&retained(&now)), ["db-2"]);
    now.pods.push(pod("db-2", true, &json!({})));
    assert!(retained(&now).objects.is_empty());
    now = snapshot();
    now.pps[0] = pps("db", &json!({"db-1": {"nodeName": "node-7"}}));
    assert!(
        retained(&now).objects.is_empty(),
        "other states are recorded now"
    );
}

#[test]
fn a_node_stands_for_all_states_that_name_it() {
    let world = snapshot();
    let drops = on(&world, "node-1");
    assert_eq!(dropped(&drops), ["db-1", "web-0"]);
    assert_eq!(
        (names(&drops.ready), names(&drops.pending)),
        (vec!["db-0"], vec!["db-1"])
    );
    let none = on(&world, "node-7");
    assert!(none.objects.is_empty() && none.is_complete());
}

#[test]
fn nothing_is_dropped_while_it_is_not_known_whether_pods_run() {
    for what in [
        "list pods in namespace prod",
        "list persistentpodstates.apps.kruise.io in namespace prod",
    ] {
        let mut snapshot = snapshot();
        snapshot.unread = vec![forbidden(what)];
        assert_eq!(
            decide(&snapshot, &[], Some("node-1")),
            Err(&forbidden(what))
        );
    }
}

#[test]
fn an_object_that_cannot_be_read_does_not_hold_up_the_others() {
    let mut snapshot = snapshot();
    let mut damaged = snapshot.pps[0].object().clone();
    damaged["status"]["packed"] = json!({"version": 7});
    snapshot.pps[0] = Pps::read(damaged).unwrap();
    let drops = on(&snapshot, "node-1");
    assert_eq!(
        (dropped(&drops), drops.is_complete()),
        (vec!["web-0"], false)
    );
    assert_eq!(drops.unreadable[0].pps, "db");
}

#[test]
fn a_pod_on_a_node_that_is_gone_is_not_recorded_again() {
    let mut snapshot = snapshot();
    snapshot.nodes = Some(BTreeMap::new());
    let drops = on(&snapshot, "node-1");
    assert_eq!(
        (dropped(&drops), drops.is_complete()),
        (vec!["db-0", "db-1", "web-0"], true)
    );
    // Where nodes may not be read, a Ready Pod counts as recorded.
    snapshot.nodes = None;
    assert_eq!(names(&on(&snapshot, "node-1").ready), ["db-0"]);
}

#[test]
fn the_state_of_a_ready_pod_is_dropped_where_nobody_records_it() {
    let mut world = snapshot();
    let mut object = world.pps[0].object().clone();
    object["metadata"]["name"] = "second".into();
    world.pps.extend(Pps::read(object.clone()));
    let drops = decide(&world, &["db-0".to_owned()], None).unwrap();
    let second = NamespacedName::new("prod", "second");
    assert_eq!(
        drops.objects.keys().collect::<Vec<_>>(),
        [&second],
        "the first one governs"
    );
    assert_eq!(names(&drops.ready), ["db-0"]);
    object["metadata"]["name"] = "db".into();
    for (reason, is_dropped) in [
        ("NamespaceNotEnabled", true),
        ("WorkloadNotFound", true),
        ("CapacityExceeded", false),
    ] {
        object["status"]["conditions"] =
            json!([{"type": "Recording", "status": "False", "reason": reason, "message": "m"}]);
        world.pps = Pps::read(object.clone()).into_iter().collect();
        let drops = decide(&world, &["db-0".to_owned()], None).unwrap();
        assert_eq!(dropped(&drops).is_empty(), !is_dropped, "{reason}");
    }
    object["status"]["conditions"] = json!([]);
    world.pps = Pps::read(object).into_iter().collect();
    let mut of_another = world.pods[0].object().clone();
    of_another["metadata"]["ownerReferences"][0]["name"] = "web".into();
    world.pods[0] = Pod::read(of_another).unwrap();
    assert_eq!(
        dropped(&decide(&world, &["db-0".to_owned()], None).unwrap()),
        ["db-0"]
    );
}
