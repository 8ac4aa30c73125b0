use serde_json::{Value, json};

use super::super::tests::{pod, pps, snapshot, state};
use super::super::{Selected, decide, select};
use super::*;
use crate::snapshot::{BUILT, Pps, Unseen, Workload};

/// The Pods of `db`, which wants four, and their recorded nodes.
pub(in super::super) fn world(pods: &[Value], recorded: &[(&str, &str)]) -> Snapshot {
    let states: serde_json::Map<String, Value> =
        recorded.iter().map(|(pod, node)| ((*pod).to_owned(), state(node))).collect();
    let mut world = snapshot(pods, &[pps(&states.into())]);
    let mut set = world.workloads[0].object().clone();
    set["spec"]["replicas"] = 4.into();
    world.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    world
}

pub(super) fn named(pods: &[&str]) -> Vec<PodName> {
    pods.iter().map(|pod| ("prod".to_owned(), (*pod).to_owned())).collect()
}

pub(super) const ANYWHERE: Goal<'_> = Goal {
    destination: Some(Destination::Anywhere),
    any: &[],
    drop_annotations: false,
    force: false,
    node: None,
};

pub(super) fn not_ready(mut pod: Value) -> Value {
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    pod
}

pub(in super::super) fn relocation(world: &Snapshot, name: &str) -> Relocation {
    match decide(world, &ANYWHERE.of(&named(&[name])[0])).unwrap() {
        Decision::Move(relocation) => *relocation,
        Decision::Done(text) => panic!("{text}"),
    }
}

#[test]
fn a_node_stands_for_the_pods_that_are_on_it_and_those_that_wait_for_it() {
    let mut bare = pod("load-0", Some("node-9"), None);
    bare["metadata"]["ownerReferences"] = json!([]);
    let mut done = pod("db-9", Some("node-9"), None);
    done["status"]["phase"] = "Succeeded".into();
    let world = world(
        &[
            // It is recorded elsewhere by a move that was interrupted.
            pod("db-0", Some("node-9"), Some("node-9")),
            // What is recorded of it was emptied by a move that was interrupted.
            pod("db-1", None, Some("node-9")),
            // It was moved away, and is not recorded there yet.
            pod("db-2", Some("node-1"), None),
            bare,
            done,
        ],
        // db-3 is not created yet, and no db-7 is wanted.
        &[("db-0", "node-1"), ("db-2", "node-9"), ("db-3", "node-9"), ("db-7", "node-9")],
    );
    let selected = |pods: &[&str], others: &[&str]| Selected {
        pods: named(pods),
        others: named(others),
        ..Selected::default()
    };
    let mut lost = selected(&["db-1", "db-3"], &["load-0"]);
    lost.returning = named(&["db-0"]);
    assert_eq!(select(&world, "node-9").unwrap(), lost);
    assert_eq!(lost.notes("node-9", &Hand::default())[1], "Pod db-0 comes back without a move: not moved");
    let waiting = super::tests::world(&[pod("db-0", None, Some("node-9"))], &[("db-0", "node-9")]);
    assert_eq!(select(&waiting, "node-9").unwrap(), selected(&["db-0"], &[]));
    assert_eq!(select(&waiting, "node-7").unwrap(), Selected::default());
    // Its workload was unpinned, and the Pod waits all the same.
    let mut unpinned = waiting.clone();
    unpinned.pods = [pod("db-0", None, Some("node-9"))].into_iter().filter_map(Pod::read).collect();
    unpinned.pps.clear();
    let waits = select(&unpinned, "node-9").unwrap();
    assert_eq!(waits, Selected { unpinned: named(&["db-0"]), ..Selected::default() });
    assert_eq!(
        waits.notes("node-9", &Hand::default()),
        [
            "Pod db-0 waits for node-9 with what was injected, and no PersistentPodState names its workload any more; to have it \
             created again without that: kubectl delete pod db-0 -n prod"
        ]
    );
    // The label of a node may be another one than its name, and so may what is required.
    let mut rack = unpinned.clone();
    let node = json!({"metadata": {"name": "node-8", "labels": {"kubernetes.io/hostname": "node-9"}}});
    rack.nodes.as_mut().unwrap().insert("node-8".into(), Node::read(node).unwrap());
    assert_eq!(select(&rack, "node-8").unwrap().unpinned, named(&["db-0"]));
    let error = decide(&unpinned, &ANYWHERE.of(&named(&["db-0"])[0])).unwrap_err().to_string();
    assert!(error.starts_with("Pod db-0 waits for what was injected when it was created"), "{error}");
    let mut unseen = waiting;
    unseen.unseen = vec![crate::snapshot::Unseen {
        what: "list pods in namespace prod".into(),
        is_forbidden: true,
        why: String::new(),
    }];
    assert_eq!(select(&unseen, "node-9").unwrap_err().exit_code(), 2, "there may be more");
}

#[test]
fn pods_that_do_not_run_are_moved_first_and_each_takes_room_for_the_next() {
    let large = |mut pod: Value| {
        pod["spec"]["containers"] =
            json!([{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]);
        pod
    };
    let mut world = world(
        &[
            large(pod("db-0", Some("node-1"), Some("node-1"))),
            large(not_ready(pod("db-1", Some("node-2"), Some("node-2")))),
            large(pod("db-2", Some("node-9"), Some("node-9"))),
            large(pod("db-3", None, Some("node-9"))),
        ],
        &[("db-0", "node-1"), ("db-1", "node-2"), ("db-2", "node-9"), ("db-3", "node-9")],
    );
    let mut set = world.workloads[0].object().clone();
    set["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]);
    world.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    let all = named(&["db-0", "db-1", "db-2", "db-3"]);
    let plan = decide_all(&world, &all, &ANYWHERE).unwrap();
    assert_eq!(plan.pods(), named(&["db-3", "db-1", "db-0"]));
    let landing = |index: usize| plan.moves[index].forecast.as_ref().unwrap().may_land_on.clone();
    assert_eq!(landing(0), ["node-3"], "the others are full");
    assert_eq!(landing(1), ["node-2"]);
    // The three nodes are taken by then.
    let [(pod, why)] = plan.refused.as_slice() else { panic!("{:?}", plan.refused) };
    assert_eq!(pod.1, "db-2");
    assert!(why.to_string().starts_with("no node can take Pod db-2:"), "{why}");
    let hand = Hand { context: Some("blue".into()), ..Hand::default() };
    let refusal = plan.refusal(&ANYWHERE, &hand).unwrap();
    let expected = "nothing was changed\nto move the others: kubectl pps move db-3 db-1 db-0 --anywhere -n prod --context blue";
    assert!(refusal.to_string().ends_with(expected), "{refusal}");
    assert_eq!(refusal.exit_code(), 1);
    // A user who empties a node is told which Pods stay.
    assert!(plan.may_leave_some());
    assert_eq!(plan.question(), "Move these 3 Pods, and leave 1 where it is?");
    assert_eq!(plan.outcome(), Outcome::NotWell);
    let [left] = plan.left().try_into().unwrap();
    let expected = "Pod db-2 in namespace prod is left where it is: no node can take it: ";
    assert!(left.starts_with(expected) && !left.contains('\n'), "{left}");
    let unread = Failure::Unreadable(String::new());
    let refused = vec![(all[0].clone(), unread)];
    assert!(!Several { refused, ..plan.clone() }.may_leave_some(), "it is not known");
    assert!(!Several { moves: Vec::new(), ..plan.clone() }.may_leave_some(), "there is nothing to do");
    let forced = decide_all(&world, &all, &Goal { force: true, ..ANYWHERE }).unwrap();
    assert_eq!((forced.moves.len(), forced.refused.len()), (4, 0));
}

#[test]
fn pods_that_stay_for_the_same_reason_share_a_line() {
    let why = |pod: &str| {
        Failure::Refused(format!("no node can take Pod {pod}:\n- Pod db-10 is in the way\n- no room"))
    };
    let refused = named(&["db-1", "db-2"]).into_iter().map(|pod| (pod.clone(), why(&pod.1))).collect();
    let plan = Several { refused, ..Several::default() };
    assert_eq!(
        plan.left(),
        [
            "Pods db-1, db-2 in namespace prod are left where they are: no node can take them: Pod db-10 is in the way; no room"
        ]
    );
    let other = Failure::Refused("PersistentPodState db: damaged".into());
    let plan = Several { refused: vec![(named(&["db-1"])[0].clone(), other)], ..Several::default() };
    assert_eq!(
        plan.left(),
        ["Pod db-1 in namespace prod is left where it is: PersistentPodState db: damaged"]
    );
}

#[test]
fn the_plan_says_what_is_done_and_in_which_order() {
    let world = world(
        &[
            pod("db-0", Some("node-1"), Some("node-1")),
            pod("db-1", Some("node-9"), Some("node-9")),
            pod("db-2", None, Some("node-9")),
        ],
        &[("db-0", "node-1"), ("db-1", "node-9"), ("db-2", "node-9")],
    );
    let plan = decide_all(&world, &named(&["db-0", "db-1", "db-2"]), &ANYWHERE).unwrap();
    let rows: Vec<String> = plan.rows().iter().map(|row| row[1..4].join(" | ")).collect();
    assert_eq!(
        rows,
        [
            "db-2 | no node: it is Pending | node-9, hostname=node-9, ip=10.0.0.7",
            "db-1 | node-9, which does not exist any more | node-9, hostname=node-9, ip=10.0.0.7",
            "db-0 | node-1 | node-1, hostname=node-1, ip=10.0.0.7",
        ]
    );
    assert!(plan.rows()[0][4].starts_with("probably on "), "{:?}", plan.rows());
    assert_eq!(
        plan.steps(false),
        [
            "the recorded nodes are dropped until the Pods are Ready again; recorded annotations stay",
            "Pods that have a node are evicted, the others deleted, and created again",
            "a Ready Pod is evicted only when all other Pods of its workload are Ready and recorded",
        ]
    );
    assert_eq!(
        plan.steps(true)[2],
        "a Ready Pod is evicted only when the Pods of its workload that were moved before it are Ready and recorded"
    );
    let hand = Hand::default();
    assert_eq!(plan.notes(Some("node-9"), &hand), [super::super::show::ADDRESS], "once");
    assert_eq!(plan.moves[1].return_note(&hand), None, "its node is gone");
    let own = plan.moves[2].return_note(&hand).unwrap();
    assert_eq!(
        own,
        "node-1 takes Pods, so it may get what leaves it again; to prevent that, run this first: kubectl cordon node-1"
    );
    let mut alone = plan.moves[2].clone();
    alone.forecast.as_mut().unwrap().others.iter_mut().for_each(|(_, why)| why.push("full".into()));
    alone.forecast.as_mut().unwrap().may_land_on = vec!["node-1".into()];
    let own = alone.return_note(&hand).unwrap();
    assert_eq!(own, "node-1 is the only node that can take the Pod now, so it comes back to it");
    let stays = &plan.moves[0].forecast.as_ref().unwrap().may_land_on[0];
    let note = plan.notes(Some(stays), &hand).join("\n");
    assert!(note.ends_with(&format!("run this first: kubectl cordon {stays}")), "{note}");
    let unasked = Goal { destination: None, ..ANYWHERE };
    assert_eq!(decide_all(&world, &named(&["db-0"]), &unasked).unwrap_err().exit_code(), 2);
}

#[test]
fn a_move_goes_on_if_the_pod_has_lost_its_node_and_not_if_it_has_got_one() {
    let bound = world(&[pod("db-1", Some("node-9"), Some("node-9"))], &[("db-1", "node-9")]);
    let mut again = pod("db-1", None, Some("node-9"));
    again["metadata"]["uid"] = "other".into();
    let pending = world(&[again], &[("db-1", "node-9")]);
    let decided = |world: &Snapshot| decide(world, &ANYWHERE.of(&named(&["db-1"])[0]));
    let (evicted, deleted) = (relocation(&bound, "db-1"), relocation(&pending, "db-1"));
    assert!(
        matches!(also(&evicted, decided(&pending), false), Ok(Also::Go(_))),
        "it was deleted with its node"
    );
    assert!(matches!(also(&evicted, decided(&bound), false), Ok(Also::Go(_))));
    let error = also(&deleted, decided(&bound), false).unwrap_err();
    assert_eq!(error.to_string(), "Pod db-1 has got node node-9 meanwhile: it was left alone");
    let mut back = world(&[pod("db-1", Some("node-9"), Some("node-9"))], &[("db-1", "node-9")]);
    let node = Node::read(json!({"metadata": {"name": "node-9"}})).unwrap();
    back.nodes.as_mut().unwrap().insert("node-9".into(), node);
    let error = also(&evicted, decided(&back), false).unwrap_err();
    assert_eq!(error.to_string(), "node node-9 of Pod db-1 has come back meanwhile: it was left alone");
    let mut other = pod("db-1", Some("node-1"), Some("node-1"));
    other["metadata"]["uid"] = "other".into();
    let other = world(&[other], &[("db-1", "node-1")]);
    assert!(also(&evicted, decided(&other), false).is_err(), "another Pod");
    let done = also(&evicted, Ok(Decision::Done("it is there".into())), false);
    assert!(matches!(done, Ok(Also::Skip(text)) if text == "it is there"));
}

#[test]
fn pods_that_do_not_run_are_moved_in_the_order_in_which_they_are_created() {
    let mut ended = pod("db-10", Some("node-1"), Some("node-1"));
    ended["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
    let world = world(
        &[
            pod("db-0", None, Some("node-1")),
            ended,
            pod("db-3", Some("node-2"), None),
            pod("db-1", Some("node-3"), None),
        ],
        &[("db-2", "node-1")],
    );
    let all = named(&["db-3", "db-1", "db-2", "db-0"]);
    let plan = decide_all(&world, &all, &ANYWHERE).unwrap();
    assert_eq!(
        plan.pods(),
        named(&["db-0", "db-2", "db-3", "db-1"]),
        "db-2 waits for db-0; Ready ones as named"
    );
    let mut marked = pod("db-1", Some("node-3"), Some("node-3"));
    marked["metadata"]["annotations"]["kruise.io/record-persistent-pod-state"] = "false".into();
    marked["metadata"]["annotations"]["kruise.io/persistent-pod-state-move"] = "recorded".into();
    let world = super::tests::world(&[pod("db-3", Some("node-2"), None), marked], &[]);
    let plan = decide_all(&world, &named(&["db-3", "db-1"]), &ANYWHERE).unwrap();
    assert_eq!(plan.pods(), named(&["db-1", "db-3"]), "the move of db-1 was not finished: db-3 waits for it");
}

#[test]
fn the_plan_for_any_number_of_pods_builds_one_index() {
    let pods: Vec<String> = (0..50).map(|number| format!("db-{number}")).collect();
    let states: Vec<(&str, &str)> = pods.iter().map(|pod| (pod.as_str(), "node-9")).collect();
    let mut world = world(&[pod("db-0", Some("node-9"), None)], &states);
    let mut set = world.workloads[0].object().clone();
    set["spec"]["replicas"] = 50.into();
    world.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    let selected = select(&world, "node-9").unwrap();
    let before = BUILT.get();
    assert_eq!(decide_all(&world, &selected.pods, &ANYWHERE).unwrap().moves.len(), 50);
    assert_eq!(BUILT.get() - before, 1);
}

#[test]
fn a_pod_that_comes_back_by_itself_is_left_alone() {
    let pods = [pod("db-0", Some("node-2"), Some("node-2")), pod("db-1", None, Some("node-2"))];
    // db-2 is not created yet.
    let mut world = world(&pods, &[("db-0", "node-2"), ("db-1", "node-2"), ("db-2", "node-2")]);
    assert_eq!(select(&world, "node-2").unwrap().pods, named(&["db-0"]));
    let mut shut = world.node("node-2").unwrap().object().clone();
    shut["spec"] = json!({"unschedulable": true});
    world.nodes.as_mut().unwrap().insert("node-2".into(), Node::read(shut).unwrap());
    assert_eq!(select(&world, "node-2").unwrap().pods, named(&["db-0", "db-1", "db-2"]));
}

#[test]
fn a_ready_pod_is_not_evicted_beside_pods_that_nobody_knows() {
    let mut blind = world(&[pod("db-0", Some("node-1"), None)], &[]);
    blind.workloads.clear();
    blind.unseen.push(Unseen {
        what: "list statefulsets.apps in namespace prod".into(),
        is_forbidden: true,
        why: String::new(),
    });
    let one = &named(&["db-0"])[0];
    let Err(Failure::Unreadable(why)) = decide(&blind, &ANYWHERE.of(one)) else { panic!("it is decided") };
    assert!(why.starts_with("you have no permission to list statefulsets.apps in namespace prod"), "{why}");
    let forced = decide(&blind, &Goal { force: true, ..ANYWHERE }.of(one));
    let Ok(Decision::Move(forced)) = forced else { panic!("{forced:?}") };
    let note = "StatefulSet db was not read: Pods of it that do not exist are not waited for";
    assert!(forced.notes().contains(&note.to_owned()), "{:?}", forced.notes());
    // Nothing is lost by the move of one that serves nobody.
    blind.pods = vec![Pod::read(not_ready(pod("db-0", Some("node-1"), None))).unwrap()];
    assert!(relocation(&blind, "db-0").notes().is_empty());
    // No list has workloads of other kinds.
    let mut other = world(&[], &[]);
    let mut own = pod("db-0", Some("node-1"), None);
    own["metadata"]["ownerReferences"][0]["kind"] = "Database".into();
    own["metadata"]["ownerReferences"][0]["apiVersion"] = "example.io/v1".into();
    other.pods = Pod::read(own).into_iter().collect();
    let mut object = pps(&json!({}));
    object["spec"]["targetRef"] = json!({"apiVersion": "example.io/v1", "kind": "Database", "name": "db"});
    other.pps = Pps::read(object).into_iter().collect();
    let notes = relocation(&other, "db-0").notes();
    assert!(notes.contains(&note.replace("StatefulSet", "Database")), "{notes:?}");
}
