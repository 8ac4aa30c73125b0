use serde_json::{Value, json};

use super::*;
use crate::snapshot::{Pps, Scope, forbidden};

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
        "metadata": {"name": name, "namespace": "prod", "uid": name, "annotations": annotations},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    if is_ready {
        pod["spec"]["nodeName"] = "node-1".into();
    }
    Pod::read(pod).unwrap()
}

fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::empty(Scope::Namespace("prod".into()));
    let on = |node: &str| json!({"nodeName": node});
    snapshot.pps = vec![
        pps("db", &json!({"db-0": on("node-1"), "db-1": on("node-1"), "db-2": on("node-2"), "db-3": {}})),
        pps("web", &json!({"web-0": on("node-1")})),
    ];
    snapshot.pods = vec![
        pod("db-0", true, &json!({})),
        pod("db-1", false, &json!({"kruise.io/injected-persistent-pod-state": "db"})),
        pod("db-3", true, &json!({})),
    ];
    snapshot
}

fn dropped(drops: &Drops) -> Vec<&str> {
    drops.objects.values().flatten().map(|(pod, _)| pod.as_str()).collect()
}

fn concerns(drops: &Drops) -> Vec<(Concern, &str)> {
    drops.concerns.iter().map(|(concern, (_, pod))| (*concern, pod.as_str())).collect()
}

#[test]
fn only_states_that_the_sidecar_would_not_record_again_are_dropped() {
    let names: Vec<String> = ["db-0", "db-1", "db-2", "db-3", "db-00"].map(str::to_owned).into();
    let world = snapshot();
    let drops = decide(&world, Which::Pods(&names)).unwrap();
    assert_eq!((dropped(&drops), drops.count()), (vec!["db-1", "db-2"], 2));
    assert_eq!(concerns(&drops), [(Concern::Ready, "db-0"), (Concern::Pending, "db-1")]);
    assert_eq!(drops.unrecorded, ["db-3"], "an empty entry is none");
    let similar = ["db-0", "db-1", "db-3"].map(str::to_owned).into();
    assert_eq!(drops.unknown, [("db-00".to_owned(), similar)]);
    assert!(!drops.is_mistaken() && !drops.is_complete());
    assert!(decide(&world, Which::Pods(&names[4..])).unwrap().is_mistaken());
    let mut exempt = snapshot();
    exempt.pods = vec![pod("db-0", true, &json!({pps_core::RECORD_ANNOTATION: "false"}))];
    assert_eq!(dropped(&decide(&exempt, Which::Pods(&names[..1])).unwrap()), ["db-0"]);
}

#[test]
fn the_state_of_a_pod_that_has_changed_meanwhile_is_kept() {
    let names: Vec<String> = ["db-1", "db-2"].map(str::to_owned).into();
    let which = Which::Pods(&names);
    let before = snapshot();
    let shown = decide(&before, which).unwrap();
    let confirmed = |now: &Snapshot| shown.clone().confirmed_by(decide(now, which).unwrap());
    assert_eq!(confirmed(&before), Drops { concerns: BTreeSet::new(), ..shown.clone() });

    let mut now = snapshot();
    let injected = json!({"kruise.io/injected-persistent-pod-state": "db"});
    now.pods = vec![pod("db-1", true, &json!({})), pod("db-2", false, &injected)];
    let drops = confirmed(&now);
    assert_eq!(dropped(&drops), ["db-2"]);
    assert_eq!(concerns(&drops), [(Concern::Ready, "db-1"), (Concern::Pending, "db-2")]);
    now.pods = vec![pod("db-1", true, &json!({})), pod("db-2", true, &json!({}))];
    assert!(confirmed(&now).objects.is_empty());
    now = snapshot();
    now.pps[0] = pps("db", &json!({"db-1": {"nodeName": "node-7"}}));
    assert!(confirmed(&now).objects.is_empty(), "other states are recorded now");
}

#[test]
fn a_node_stands_for_all_states_that_name_it() {
    let world = snapshot();
    let drops = decide(&world, Which::Node("node-1")).unwrap();
    assert_eq!(dropped(&drops), ["db-1", "web-0"]);
    assert_eq!(concerns(&drops), [(Concern::Ready, "db-0"), (Concern::Pending, "db-1")]);
    let none = decide(&world, Which::Node("node-7")).unwrap();
    assert!(none.objects.is_empty() && none.is_complete());
}

#[test]
fn a_pod_that_runs_and_is_not_ready_is_a_concern() {
    let mut running = pod("db-1", false, &json!({})).object().clone();
    running["spec"]["nodeName"] = "node-1".into();
    let mut world = snapshot();
    world.pods = vec![Pod::read(running).unwrap()];
    let names = ["db-1".to_owned()];
    let drops = decide(&world, Which::Pods(&names)).unwrap();
    assert_eq!((dropped(&drops), drops.is_complete()), (vec!["db-1"], true));
    assert_eq!(concerns(&drops), [(Concern::NotReady, "db-1")]);
}

#[test]
fn nothing_is_dropped_while_it_is_not_known_whether_pods_run() {
    for what in ["list pods in namespace prod", "list persistentpodstates.apps.kruise.io in namespace prod"] {
        let mut snapshot = snapshot();
        snapshot.unread = vec![forbidden(what)];
        assert_eq!(decide(&snapshot, Which::Node("node-1")), Err(&forbidden(what)));
    }
}

#[test]
fn an_object_that_cannot_be_read_does_not_hold_up_the_others() {
    let mut snapshot = snapshot();
    let mut damaged = snapshot.pps[0].object().clone();
    damaged["status"]["packed"] = json!({"version": 7});
    snapshot.pps[0] = Pps::read(damaged).unwrap();
    let drops = decide(&snapshot, Which::Node("node-1")).unwrap();
    assert_eq!((dropped(&drops), drops.is_complete()), (vec!["web-0"], false));
    assert_eq!(drops.unreadable[0].0, "db");
}

#[test]
fn a_pod_on_a_node_that_is_gone_is_not_recorded_again() {
    let mut snapshot = snapshot();
    snapshot.nodes = Some(BTreeMap::new());
    let drops = decide(&snapshot, Which::Node("node-1")).unwrap();
    assert_eq!((dropped(&drops), drops.is_complete()), (vec!["db-0", "db-1", "web-0"], true));
    assert!(concerns(&drops).contains(&(Concern::Stranded, "db-0")));
    // Where nodes may not be read, a Ready Pod counts as recorded.
    snapshot.nodes = None;
    assert!(concerns(&decide(&snapshot, Which::Node("node-1")).unwrap()).contains(&(Concern::Ready, "db-0")));
}
