use kubectl_pps::decide::changes::{changes, waiting};
use kubectl_pps::decide::status::{Status, status};
use serde_json::json;

use crate::world::{HOSTNAME, World, ZONE, hand, ready, required};

fn ask(world: &mut World) -> Status {
    world.snapshot.sort();
    status(&world.snapshot, Some("db"), &hand()).unwrap()
}

fn texts(before: &Status, after: &Status) -> Vec<String> {
    changes(Some(before), after).into_iter().map(|change| format!("{} {}", change.pod, change.text)).collect()
}

/// Three Pods that are Ready, of this revision each.
fn rollout(revisions: [&str; 3]) -> World {
    let mut world = World::new();
    let object = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "updateRevision": "db-new"}});
    world.bare_workload("db", 3, &object);
    world.pps("db", "db", &required(&[ZONE]));
    for (ordinal, revision) in revisions.into_iter().enumerate() {
        let mut pod = ready("node-0", ordinal as u64);
        pod["metadata"] = json!({"labels": {"controller-revision-hash": format!("db-{revision}")}});
        world.pod("db", ordinal as u64, &pod);
        world.record("db", &format!("db-{ordinal}"), "node-0");
    }
    world
}

#[test]
fn a_rollout_is_finished_when_each_pod_is_ready_and_of_the_newest_revision() {
    assert_eq!(waiting(&ask(&mut rollout(["new", "new", "new"]))), None);
    let answer = ask(&mut rollout(["old", "old", "new"]));
    let still = waiting(&answer).unwrap();
    assert_eq!(
        (still.text.as_str(), still.pod),
        ("db-0 is not replaced yet; db-1 is not replaced yet", None)
    );
}

#[test]
fn a_change_that_the_controller_has_not_seen_is_waited_for() {
    let mut world = rollout(["new", "new", "new"]);
    world.snapshot.workloads.clear();
    let object = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "updateRevision": "db-new"}});
    world.bare_workload("db", 3, &object);
    let answer = ask(&mut world);
    let text = waiting(&answer).unwrap().text;
    assert_eq!(text, "the controller has not seen the latest change of StatefulSet db yet");
}

#[test]
fn the_first_pods_that_are_not_ready_are_named_with_the_cause() {
    let mut world = World::new();
    world.workload("db", 9, &required(&[ZONE]));
    world.ready_pod("db", 0, "node-0");
    world.pod("db", 1, &json!({"spec": {"nodeName": "node-1"}}));
    world.pending_pod("db", 4, &[]);
    world.pending_pod("db", 5, &[]);
    let answer = ask(&mut world);
    let still = waiting(&answer).unwrap();
    assert_eq!(
        still.text,
        "db-4 is Pending (0/4 nodes are available: 4 node(s) didn't match); db-5 is Pending; \
         db-2 does not exist; 5 more"
    );
    assert_eq!(still.pod.unwrap().pod, "db-4");
}

#[test]
fn a_pod_on_a_node_that_is_gone_is_not_ready_however_it_looks() {
    let mut world = rollout(["new", "new", "new"]);
    world.lose_node("node-0");
    let answer = ask(&mut world);
    let still = waiting(&answer).unwrap();
    assert!(still.text.starts_with("db-0 is bound to a node that is gone; db-1 is bound"), "{}", still.text);
    assert_eq!(still.pod.unwrap().pod, "db-0");
}

#[test]
fn a_workload_without_pods_is_not_ready_and_one_without_a_persistentpodstate_may_be() {
    let mut world = World::new();
    world.bare_workload("db", 1, &json!({}));
    assert_eq!(waiting(&ask(&mut world)).unwrap().text, "db-0 does not exist");
    world.ready_pod("db", 0, "node-0");
    assert_eq!(waiting(&ask(&mut world)), None);
}

#[test]
fn a_replaced_pod_is_deleted_and_created_again() {
    let before = ask(&mut rollout(["old", "old", "old"]));
    let mut world = rollout(["old", "old", "new"]);
    let pod = world.snapshot.pods.pop().unwrap();
    let mut object = pod.object().clone();
    object["metadata"]["uid"] = "another".into();
    world.snapshot.pods.push(kubectl_pps::snapshot::Pod::read(object).unwrap());
    let after = ask(&mut world);
    assert_eq!(
        texts(&before, &after),
        ["db-2 deleted", "db-2 created again with revision db-new: Ready, on node-0, recorded on node-0"]
    );
    let mut missing = rollout(["old", "old", "old"]);
    missing.snapshot.pods.pop();
    let missing = ask(&mut missing);
    assert_eq!(texts(&before, &missing), ["db-2 deleted"]);
    assert_eq!(texts(&missing, &after), ["db-2 created: Ready, on node-0, recorded on node-0"]);
}

#[test]
fn a_pod_that_stays_the_same_one_is_shown_with_what_differs() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    world.pod("db", 0, &json!({}));
    let before = ask(&mut world);
    world.snapshot.pods.clear();
    world.ready_pod("db", 0, "node-3");
    world.record("db", "db-0", "node-3");
    let after = ask(&mut world);
    assert_eq!(texts(&before, &after), ["db-0 Pending -> Ready, on node-3, recorded on node-3, IP 10.0.0.0"]);
    assert_eq!(texts(&after, &after), [""; 0]);
}
