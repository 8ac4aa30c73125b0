//! What `status` and `explain` answer a user who may not read everything: nothing unread is stated
//! as absent.

use kubectl_pps::decide::explain::{Cause, Verdict};
use kubectl_pps::snapshot::{Resource, Unread};
use kubectl_pps::{Failure, Outcome};
use serde_json::json;

use crate::world::{Answered, Explained, HOSTNAME, World, ZONE, injected, ready, required, said};

fn explained(world: &World, pod: &str) -> Result<Explained, Failure> {
    world.explain(pod, &[])
}

fn ask(world: &World, workload: Option<&str>) -> Answered {
    world.status(workload).unwrap()
}

/// `db-0` came back to `node-3`, and the user may not read why.
fn came_back() -> World {
    let mut world = World::new();
    world.bare_workload("db", 1, &json!({}));
    let mut pod = injected("db", &[(HOSTNAME, "node-3")]);
    json_patch::merge(&mut pod, &ready("node-3", 1));
    world.pod("db", 0, &pod);
    world.forbid(Resource::PersistentPodStates);
    world
}

/// What would deny that a PersistentPodState exists, or say what follows from that.
const DENIALS: [&str; 6] = [
    "No PersistentPodState",
    "is not recorded",
    "Nothing is recorded",
    "The scheduler chose",
    "If it were deleted now",
    "nothing was recorded then",
];

fn assert_nothing_is_denied(answer: &Explained) {
    let all = serde_json::to_string(&**answer).unwrap();
    for denial in DENIALS {
        assert!(!all.contains(denial), "{denial:?} is in {all}");
    }
    let note = "you have no permission to list persistentpodstates.apps.kruise.io in namespace \
                shop, so it is not known which states are recorded, nor where a new Pod would \
                start";
    assert_eq!(answer.notes.last().map(String::as_str), Some(note));
}

#[test]
fn a_persistentpodstate_that_may_not_be_read_is_not_denied() {
    let mut world = came_back();
    let answer = explained(&world, "db-0").unwrap();
    assert_nothing_is_denied(&answer);
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Running, Outcome::Incomplete)
    );
    assert_eq!(answer.answer, "db-0 runs on node-3.");
    assert_eq!(
        answer.facts,
        [
            "Whether a PersistentPodState governs StatefulSet db is not known.",
            "Injected from PersistentPodState db when the Pod was created, 2026-11-22T19:00:00Z: \
             requires kubernetes.io/hostname=node-3.",
        ]
    );
    // Its node was deleted.
    world.lose_node("node-3");
    let answer = explained(&world, "db-0").unwrap();
    assert_nothing_is_denied(&answer);
    assert!(
        !answer.answer.contains("nothing creates the Pod again"),
        "{}",
        answer.answer
    );
    // No such thing concerns a Pod whose name is new each time.
    let mut pod = ready("node-1", 2);
    pod["metadata"] = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]});
    world.pod("web", 0, &pod);
    let answer = explained(&world, "web-0").unwrap();
    assert!(
        answer
            .facts
            .iter()
            .any(|fact| fact.starts_with("No PersistentPodState concerns it")),
        "{answer:?}"
    );
    assert_eq!(answer.outcome(), Outcome::Well);
}

#[test]
fn what_keeps_a_pending_pod_is_what_it_was_created_with_if_what_is_recorded_may_not_be_read() {
    let mut world = World::new();
    world.bare_workload("db", 1, &json!({}));
    world.pending_pod("db", 0, &[(HOSTNAME, "node-3")]);
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    world.forbid(Resource::PersistentPodStates);
    let answer = explained(&world, "db-0").unwrap();
    assert_nothing_is_denied(&answer);
    let begin = "db-0 is Pending: when it was created, its recorded state required \
                 kubernetes.io/hostname=node-3";
    assert!(answer.answer.starts_with(begin), "{}", answer.answer);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(
        answer.remedies[0].command.as_deref(),
        Some("kubectl uncordon node-3")
    );
    assert!(
        answer
            .remedies
            .iter()
            .all(|one| one.command.as_deref() != Some("kubectl delete pod db-0"))
    );
}

#[test]
fn a_pod_is_not_called_unwanted_by_workloads_that_may_not_be_read() {
    let mut world = World::new();
    world.pps("db", "db", &required(&[ZONE]));
    world.record("db", "db-0", "node-3");
    world.forbid(Resource::StatefulSets);
    let answer = explained(&world, "db-0").unwrap();
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Unknown, Outcome::Incomplete)
    );
    assert_eq!(answer.cause, Cause::NoWorkload { is_known: false });
    assert_eq!(answer.commands(), [""; 0]);
    let failure = explained(&world, "web-0").unwrap_err();
    let expected = "cannot explain Pod web-0: you have no permission to list statefulsets.apps in \
                    namespace shop";
    assert_eq!(said(&failure), (expected.into(), 2));
}

#[test]
fn a_pod_is_not_called_unwanted_by_openkruises_workloads_that_may_not_be_read() {
    let mut world = World::new();
    world.pps("db", "db", &required(&[ZONE]));
    world.change_pps(
        "db",
        &json!({"spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1"}}}),
    );
    world.record("db", "db-0", "node-3");
    world.forbid(Resource::KruiseStatefulSets);
    let answer = explained(&world, "db-0").unwrap();
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Unknown, Outcome::Incomplete)
    );
    assert_eq!(answer.commands(), [""; 0]);
    let failure = explained(&world, "db-1").unwrap_err();
    let is_openkruise = |unread: &Unread| unread.resource == Resource::KruiseStatefulSets;
    assert!(
        matches!(&failure, Failure::UnreadPod { unread, .. } if is_openkruise(unread)),
        "{failure}"
    );
}

#[test]
fn a_workload_whose_persistentpodstate_may_not_be_read_is_not_told_to_get_one() {
    let answer = ask(&came_back(), Some("db"));
    assert_eq!(
        (answer.unpinned.len(), answer.advice.len()),
        (0, 0),
        "{answer:?}"
    );
    assert_eq!(answer.pods[0].node.as_deref(), Some("node-3"));
    assert_eq!(answer.outcome(), Outcome::Incomplete);
    let failure = came_back().status(Some("web")).unwrap_err();
    let expected = "cannot find workload web: you have no permission to list \
                    persistentpodstates.apps.kruise.io";
    assert_eq!(said(&failure), (format!("{expected} in namespace shop"), 2));
}

#[test]
fn without_the_right_to_list_nodes_the_exit_code_is_that_of_what_was_found() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[HOSTNAME]));
    world.ready_pod("db", 0, "node-0");
    world.record("db", "db-0", "node-0");
    world.forbid(Resource::Nodes);
    world.pending_pod("db", 1, &[(HOSTNAME, "node-1")]);
    world.record("db", "db-1", "node-1");
    let answer = ask(&world, None);
    assert_eq!(
        (answer.outcome(), answer.unread.len()),
        (Outcome::NotWell, 1)
    );
    world.snapshot.pods.pop();
    world.ready_pod("db", 1, "node-1");
    assert_eq!(ask(&world, None).outcome(), Outcome::Well);
    // A list that has failed is no missing right.
    world.snapshot.unread[0].why = Some("500".into());
    assert_eq!(ask(&world, None).outcome(), Outcome::Incomplete);
}

#[test]
fn a_pod_whose_persistentpodstate_cannot_be_read_is_not_told_to_be_created_again() {
    let mut world = World::new();
    world.workload("db", 1, &json!({"preferredPersistentTopology": "no list"}));
    world.record("db", "db-0", "node-3");
    world.pending_pod("db", 0, &[(HOSTNAME, "node-3")]);
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let answer = explained(&world, "db-0").unwrap();
    assert_eq!(answer.commands(), ["kubectl uncordon node-3"]);
    let is_why = |fact: &String| fact.starts_with("PersistentPodState db: Unreadable: ");
    assert!(answer.facts.iter().any(is_why), "{answer:?}");
    world.snapshot.pods.clear();
    world.ready_pod("db", 0, "node-3");
    let answer = explained(&world, "db-0").unwrap();
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Running, Outcome::NotWell)
    );
}
