//! What has to be known, and which recorded states count.

use super::*;

/// Without one of these lists, no Pod would be touched, its state would be dropped, or it would be Pending.
#[test]
fn nothing_is_forecast_without_the_pods_and_the_workloads() {
    let openkruise = "list statefulsets.apps.kruise.io in namespace shop";
    let mut snapshot = cluster(HOSTNAME, false);
    for what in ["list pods in namespace shop", "list statefulsets.apps in namespace shop", openkruise] {
        if what == openkruise {
            let mut named = snapshot.pps[0].object().clone();
            named["metadata"]["name"] = json!("named");
            named["spec"]["targetRef"]["apiVersion"] = json!("apps.kruise.io/v1beta1");
            snapshot.pps.extend(Pps::read(named));
        }
        snapshot.unread = vec![forbidden(what)];
        let failure = forecast(&snapshot, &drain("n1"), None, &CommandLine::default()).unwrap_err();
        assert_eq!(failure, Failure::Unreadable(format!("you have no permission to {what}")));
    }
    // The file names one: whether it exists is not known.
    snapshot.pps.pop();
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop"}, "spec": {}});
    let failure =
        forecast(&snapshot, &Question::Spec(vec![object]), None, &CommandLine::default()).unwrap_err();
    assert_eq!(failure, Failure::Unreadable(format!("you have no permission to {openkruise}")));
}

/// Another PersistentPodState of this name, for the same workload or for OpenKruise's, and with this state of
/// `db-0`.
fn not_governing(name: &str, api_version: &str, node: &str) -> Pps {
    let mut other = pps("shop", HOSTNAME, false, &[("db-0", node, node)]).object().clone();
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
            snapshot.pps = vec![pps("shop", ZONE, false, &[("db-0", "n3", "b"), ("db-1", "n3", "b")])];
            snapshot.pps.push(not_governing(name, api_version, "n1"));
            snapshot.sort();
            let answer = ask(&snapshot, Question::ZoneDown("b".into()));
            assert_eq!(answer.pods[0].recorded_node.as_deref(), Some("n3"), "{api_version} {name}");
            let pods = ["db-0", "db-1"];
            assert_eq!(answer.advice, [moves(pods, "--anywhere --any zone")], "{api_version} {name}");
            assert_eq!(answer.forgotten, [], "{api_version} {name}");
        }
    }
}

/// The simulation knows no such workload, and drops what is recorded of its Pods: nothing follows from that.
#[test]
fn a_state_is_said_to_be_forgotten_only_if_the_spec_does_that() {
    let mut snapshot = cluster(HOSTNAME, false);
    let mut custom = pps("shop", HOSTNAME, false, &[("web-0", "n1", "n1")]).object().clone();
    custom["metadata"]["name"] = json!("web");
    custom["spec"]["targetRef"] = json!({"apiVersion": "example.io/v1", "kind": "Database", "name": "web"});
    snapshot.pps.extend(Pps::read(custom));
    assert_eq!(ask(&snapshot, drain("n1")).forgotten, []);
    // It was recorded for an earlier StatefulSet, and is dropped with or without this.
    let mut earlier = cluster(HOSTNAME, false);
    let mut object = earlier.pps[0].object().clone();
    object["status"]["targetUID"] = json!("uid-former");
    earlier.pps = Pps::read(object).into_iter().collect();
    let mut ordered = earlier.workloads[0].object().clone();
    ordered["spec"]["podManagementPolicy"] = json!("OrderedReady");
    earlier.workloads = Workload::read(ordered, "apps/v1").into_iter().collect();
    // db-1 is created only once db-0 is Ready.
    let mut waiting = pod("shop", "db-0", "").object().clone();
    waiting["status"] = json!({"phase": "Pending"});
    waiting["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    earlier.pods = Pod::read(waiting).into_iter().collect();
    assert_eq!(ask(&earlier, drain("n2")).forgotten, []);
}
