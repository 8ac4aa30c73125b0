//! What is decided again, and Pods that are created again.

use super::*;

#[test]
fn a_plan_that_has_changed_meanwhile_is_another_one() {
    let to = request(Some(Destination::Node("node-3")));
    let shown = relocation(&running(), &to);
    assert_eq!(shown.changed(&relocation(&running(), &to)), None);
    // Somebody has pinned the workload to zones while the user was asked.
    let mut zones = pps(&json!({"db-0": state("node-1")}));
    zones["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] = json!(["topology.kubernetes.io/zone"]);
    let zones = snapshot(&[pod("db-0", Some("node-1"), Some("node-1"))], &[zones]);
    let changed = shown.changed(&relocation(&zones, &to)).unwrap();
    assert_eq!(
        changed,
        "what would be recorded of Pod db-0 has changed meanwhile, and is now node-3, zone=b, ip=10.0.0.7"
    );
}

#[test]
fn a_pending_pod_that_keeps_an_annotation_which_is_dropped_is_created_again() {
    let emptied = || pps(&json!({"db-0": {"annotations": {"ip": "10.0.0.7"}}}));
    let mut waiting = pod("db-0", None, None);
    waiting["metadata"]["annotations"] =
        json!({"kruise.io/injected-persistent-pod-state": "db", "ip": "10.0.0.7"});
    let waiting = snapshot(&[waiting], &[emptied()]);
    let anywhere = request(Some(Destination::Anywhere));
    let removal = |request: &Request<'_>| relocation(&waiting, request).present.unwrap().removal;
    assert_eq!(removal(&anywhere), Removal::None);
    assert_eq!(removal(&Request { drop_annotations: true, ..anywhere }), Removal::Delete);
}

#[test]
fn a_pending_pod_of_a_former_template_is_created_again() {
    let of_revision = |own: &str, partition: u64| {
        let mut waiting = pod("db-0", None, None);
        waiting["metadata"]["labels"] = json!({"controller-revision-hash": own});
        let mut world = snapshot(&[waiting], &[pps(&json!({}))]);
        let mut set = world.workloads[0].object().clone();
        set["status"] = json!({"updateRevision": "db-new"});
        set["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        world.workloads = Workload::read(set, "apps/v1").into_iter().collect();
        relocation(&world, &request(Some(Destination::Anywhere))).present.unwrap().removal
    };
    assert_eq!(of_revision("db-new", 0), Removal::None);
    assert_eq!(of_revision("db-old", 0), Removal::Delete);
    assert_eq!(of_revision("db-old", 1), Removal::None, "it would be made from the former template again");
}
