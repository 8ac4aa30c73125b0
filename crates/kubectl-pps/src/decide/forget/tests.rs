use pps_core::INJECTED_ANNOTATION;
use serde_json::{Value, json};

use super::*;
use crate::snapshot::{Pps, Unseen};

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

#[test]
fn only_what_the_sidecar_would_not_record_again_is_dropped() {
    let names: Vec<String> = ["db-0", "db-1", "db-2", "db-3", "db-00"].map(str::to_owned).into();
    let drops = decide(&snapshot(), Which::Pods(&names)).unwrap();
    assert_eq!((dropped(&drops), drops.count()), (vec!["db-1", "db-2"], 2));
    assert_eq!(drops.ready, [("prod".to_owned(), "db-0".to_owned())]);
    assert_eq!(drops.pending, [("prod".to_owned(), "db-1".to_owned())]);
    assert_eq!(drops.unrecorded, ["db-3"], "an empty entry is none");
    assert_eq!(
        drops.unknown,
        [("db-00".to_owned(), vec!["db-0".to_owned(), "db-1".to_owned(), "db-3".to_owned()])]
    );
    assert!(!drops.is_mistaken());
    assert!(decide(&snapshot(), Which::Pods(&names[4..])).unwrap().is_mistaken());
    assert!(!drops.is_complete());
    let notes = drops.notes(&Hand::default()).join("\n");
    for expected in [
        "to move it: kubectl pps move db-0 --anywhere -n prod",
        "to have it created again: kubectl delete pod db-1 -n prod",
        "nothing is recorded of Pod db-3",
        "there is no Pod db-00, and nothing is recorded of one; similar names: db-0",
    ] {
        assert!(notes.contains(expected), "{notes}");
    }
    let mut exempt = snapshot();
    exempt.pods = vec![pod("db-0", true, &json!({pps_core::RECORD_ANNOTATION: "false"}))];
    assert_eq!(dropped(&decide(&exempt, Which::Pods(&names[..1])).unwrap()), ["db-0"]);
}

#[test]
fn what_belongs_to_a_pod_that_has_become_ready_meanwhile_is_kept() {
    let names: Vec<String> = ["db-1", "db-2"].map(str::to_owned).into();
    let which = Which::Pods(&names);
    let shown = decide(&snapshot(), which).unwrap();
    let confirmed = |now: &Snapshot| {
        let mut drops = shown.clone();
        let notes = drops.confirm(&decide(now, which).unwrap(), &Hand::default());
        (drops, notes)
    };
    assert_eq!(confirmed(&snapshot()), (shown.clone(), Vec::new()), "nothing has changed");

    let mut now = snapshot();
    now.pods = vec![pod("db-1", true, &json!({})), pod("db-2", false, &json!({INJECTED_ANNOTATION: "db"}))];
    let (drops, notes) = confirmed(&now);
    assert_eq!(dropped(&drops), ["db-2"]);
    let [kept, pending] = notes.as_slice() else { panic!("{notes:?}") };
    assert_eq!(
        kept,
        "Pod db-1 in namespace prod has become Ready meanwhile, so what is recorded of it stays"
    );
    assert!(pending.starts_with("Pod db-2 is Pending and waits for the former place"), "{pending}");
    now.pods = vec![pod("db-1", true, &json!({})), pod("db-2", true, &json!({}))];
    assert!(confirmed(&now).0.objects.is_empty());
    // What is gone, or recorded elsewhere, is found out by the write.
    now = snapshot();
    now.pps.clear();
    assert_eq!(confirmed(&now), (shown.clone(), Vec::new()));
}

#[test]
fn a_node_stands_for_all_that_was_recorded_on_it() {
    let drops = decide(&snapshot(), Which::Node("node-1")).unwrap();
    assert_eq!(dropped(&drops), ["db-1", "web-0"]);
    assert_eq!(drops.ready.len(), 1);
    let none = decide(&snapshot(), Which::Node("node-7")).unwrap();
    assert!(none.objects.is_empty() && none.is_complete());
}

#[test]
fn a_pod_that_runs_and_is_not_ready_is_said_to_be_there() {
    let mut running = pod("db-1", false, &json!({})).object().clone();
    running["spec"]["nodeName"] = "node-1".into();
    let mut world = snapshot();
    world.pods = vec![Pod::read(running).unwrap()];
    let drops = decide(&world, Which::Pods(&["db-1".to_owned()])).unwrap();
    assert_eq!((dropped(&drops), drops.is_complete()), (vec!["db-1"], true));
    assert_eq!(
        drops.notes(&Hand::default()),
        [
            "Pod db-1 is bound to a node and not Ready: what is recorded of it is dropped until it is Ready again"
        ]
    );
}

#[test]
fn nothing_is_dropped_while_it_is_not_known_whether_pods_run() {
    for what in ["list pods in namespace prod", "list persistentpodstates.apps.kruise.io in namespace prod"] {
        let mut snapshot = snapshot();
        snapshot.unseen = vec![Unseen { what: what.into(), is_forbidden: true, why: String::new() }];
        let error = decide(&snapshot, Which::Node("node-1")).unwrap_err();
        assert_eq!((error.exit_code(), error.to_string()), (2, format!("you have no permission to {what}")));
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
    assert!(
        drops
            .notes(&Hand::default())
            .join("\n")
            .contains("PersistentPodState db: status.packed.version is 7")
    );
}

#[test]
fn a_pod_on_a_node_that_is_gone_is_not_recorded_again() {
    let mut snapshot = snapshot();
    snapshot.nodes = Some(std::collections::BTreeMap::new());
    let drops = decide(&snapshot, Which::Node("node-1")).unwrap();
    assert_eq!((dropped(&drops), drops.is_complete()), (vec!["db-0", "db-1", "web-0"], true));
    assert_eq!(drops.stranded, [("prod".to_owned(), "db-0".to_owned())]);
    let notes = drops.notes(&Hand::default()).join("\n");
    assert!(notes.contains("Pod db-0 is bound to a node that is gone: Kubernetes deletes it"), "{notes}");
    // Where nodes may not be read, a Ready Pod counts as recorded.
    snapshot.nodes = None;
    assert_eq!(decide(&snapshot, Which::Node("node-1")).unwrap().ready.len(), 1);
}

#[test]
fn pods_of_a_namespace_share_one_command() {
    let pods = |names: &[&str]| names.iter().map(|name| ("prod".to_owned(), (*name).to_owned())).collect();
    let drops = Drops {
        ready: pods(&["db-0", "db-1"]),
        pending: pods(&["a", "b", "c", "d", "e", "f", "g"]),
        ..Drops::default()
    };
    assert_eq!(
        drops.notes(&Hand { context: Some("blue".into()), ..Hand::default() }),
        [
            "Pods db-0, db-1 are Ready, so the sidecar would record them again within seconds; to move them: kubectl pps move \
             db-0 db-1 --anywhere -n prod --context blue",
            "Pods a, b, c, d, e, f and 1 more are Pending and wait for the former place, with which they were created; to have \
             them created again: kubectl delete pod a b c d e f g -n prod --context blue",
        ]
    );
}

#[test]
fn a_node_that_does_not_exist_is_said_to_be_none() {
    let mut snapshot = snapshot();
    let node = Node::read(json!({"metadata": {"name": "node-7"}})).unwrap();
    snapshot.nodes = Some([("node-7".to_owned(), node)].into());
    let own = Hand { own_namespace: Some("prod".into()), ..Hand::default() };
    assert_eq!(
        nothing_on(&snapshot, "node-77", Some(false), &own),
        "There is no node node-77 (similar names: node-7), and nothing is recorded on it in namespace prod; in all namespaces: \
         kubectl pps forget --node node-77 -A"
    );
    snapshot.scope = Scope::All;
    assert_eq!(nothing_on(&snapshot, "node-7", Some(true), &own), "Nothing is recorded on node node-7");
    assert_eq!(nothing_on(&snapshot, "node-8", None, &own), "Nothing is recorded on node node-8");
}
