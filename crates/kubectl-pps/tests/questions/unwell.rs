//! What `status` and `explain` say of Pods that look well, or wait for something that does not
//! come.

use kubectl_pps::Outcome;
use kubectl_pps::decide::explain::Verdict;
use kubectl_pps::decide::status::Drift;
use serde_json::json;

use crate::world::{Answered, Explained, HOSTNAME, World, ZONE, injected, ready, required};

/// 2026-11-23T01:00:00Z
const NOW: i64 = 1_795_395_600;

fn ask(world: &mut World) -> Answered {
    world.snapshot.sort();
    world.snapshot.read_at = Some(NOW);
    world.status(None).unwrap()
}

#[test]
fn a_pod_that_has_long_been_ready_and_has_no_recorded_node_is_not_well() {
    let world_since = |time: &str| {
        let mut world = World::new();
        world.workload("db", 1, &required(&[HOSTNAME]));
        let mut pod = ready("node-1", 1);
        pod["status"]["conditions"][0]["lastTransitionTime"] = json!(time);
        world.pod("db", 0, &pod);
        world
    };
    let answer = ask(&mut world_since("2026-11-23T00:59:45Z"));
    assert_eq!(
        (answer.outcome(), answer.advice.len()),
        (Outcome::Well, 0),
        "the sidecar needs a moment"
    );
    assert_eq!(
        answer.pods[0].drift[0],
        Drift::Unrecorded { lasting: false }
    );

    let mut world = world_since("2026-11-23T00:59:30Z");
    let answer = ask(&mut world);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let text = "db-0 is Ready without a recorded node, and would start anywhere. To see why";
    assert_eq!(answer.lines(), [(text, "kubectl pps check")]);
    // What a move has emptied.
    world.change_pps(
        "db",
        &json!({"status": {"podStates": {"db-0": {"annotations": {"a": "b"}}}}}),
    );
    let answer = ask(&mut world);
    assert_eq!(answer.outcome(), Outcome::NotWell);

    let condition = json!({"type": "Recording", "status": "False", "reason": "TopologyKeyMissing", "message": "m"});
    world.change_pps("db", &json!({"status": {"conditions": [condition]}}));
    let answer = ask(&mut world);
    assert_eq!(
        (answer.outcome(), answer.advice.len()),
        (Outcome::NotWell, 0),
        "the condition says why"
    );
}

#[test]
fn a_pod_that_is_long_not_recorded_is_explained_as_not_well() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    let mut pod = ready("node-1", 1);
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-11-23T00:59:30Z");
    world.pod("db", 0, &pod);
    for state in [json!(null), json!({"annotations": {"a": "b"}})] {
        world.change_pps("db", &json!({"status": {"podStates": {"db-0": state}}}));
        assert_eq!(ask(&mut world).outcome(), Outcome::NotWell);
        let answer = explained(&world);
        assert_eq!(
            (answer.verdict, answer.outcome()),
            (Verdict::NotRecorded, Outcome::NotWell)
        );
        let says = "db-0 runs on node-1 and is not recorded, although it has long been Ready.";
        assert_eq!(
            (answer.answer.as_str(), answer.commands()),
            (says, vec!["kubectl pps check"])
        );
    }
    world.snapshot.read_at = Some(NOW - 20);
    let answer = explained(&world);
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Running, Outcome::Well),
        "a moment"
    );
}

#[test]
fn a_pending_pod_that_no_scheduler_has_looked_at_is_not_well() {
    let world_since = |time: &str| {
        let mut world = World::new();
        world.workload("db", 1, &required(&[HOSTNAME]));
        world.pod("db", 0, &json!({"metadata": {"creationTimestamp": time}}));
        world
    };
    assert_eq!(
        ask(&mut world_since("2026-11-23T00:59:55Z")).outcome(),
        Outcome::Well
    );
    let answer = ask(&mut world_since("2026-11-23T00:50:00Z"));
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(answer.pods[0].message.as_deref(), Some(""));
    assert_eq!(
        answer.lines(),
        [("db-0 is Pending", "kubectl pps explain db-0")]
    );
}

#[test]
fn any_label_that_the_template_does_not_require_was_injected() {
    let mut world = World::new();
    world.bare_workload("db", 1, &json!({"status": {"updateRevision": "db-1"}}));
    world.pps("db", "db", &required(&[HOSTNAME]));
    world.record("db", "db-0", "node-3");
    let mut pod = injected("db", &[("rack", "r1")]);
    pod["metadata"]["labels"] = json!({"controller-revision-hash": "db-1"});
    world.pod("db", 0, &pod);
    let answer = world.explain("db-0", &[]).unwrap();
    let begin = "db-0 is Pending: when it was created, its recorded state required rack=r1,";
    assert!(answer.answer.starts_with(begin), "{answer:?}");
    assert!(
        !answer.facts.join("\n").contains("Its own template"),
        "{answer:?}"
    );
}

#[test]
fn a_pod_whose_node_is_not_ready_is_told_so_at_once() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    let mut pod = ready("node-3", 1);
    pod["status"]["conditions"][0]["status"] = json!("False");
    world.pod("db", 0, &pod);
    world.record("db", "db-0", "node-3");
    world.change_node(
        "node-3",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
    );
    let answer = world.explain("db-0", &[]).unwrap();
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(
        answer.answer,
        "db-0 is on node-3, where it is recorded. node-3 has not been Ready, so nothing confirms \
         whether the Pod still runs."
    );
    let [delete] = answer.remedies.as_slice() else {
        panic!("{answer:#?}")
    };
    assert_eq!(
        delete.command.as_deref(),
        Some("kubectl delete node node-3")
    );
    assert!(
        delete
            .consequence
            .as_deref()
            .unwrap()
            .contains("be sure that the machine is off"),
        "{delete:?}"
    );
}

#[test]
fn a_pod_whose_whole_zone_is_down_is_not_well() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    let mut pod = ready("node-1", 1);
    pod["status"]["conditions"][0]["status"] = json!("False");
    world.pod("db", 0, &pod);
    world.record("db", "db-0", "node-1");
    let taint = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"});
    let down = json!({"spec": {"taints": [taint]}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    for node in ["node-1", "node-3"] {
        world.change_node(node, &down);
    }
    let answer = ask(&mut world);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(
        answer.lines(),
        [(
            "db-0 is on a node that is not Ready",
            "kubectl pps explain db-0"
        )]
    );
}

/// `db-0` was made from a template that asks for more than a node has.
fn of_another_template(workload: &serde_json::Value) -> World {
    let mut world = World::new();
    let mut patch = json!({"status": {"updateRevision": "db-1"}});
    json_patch::merge(&mut patch, workload);
    world.bare_workload("db", 1, &patch);
    world.pps("db", "db", &required(&[HOSTNAME]));
    world.record("db", "db-0", "node-3");
    let mut pod = injected("db", &[(HOSTNAME, "node-3")]);
    json_patch::merge(
        &mut pod,
        &json!({
            "metadata": {"labels": {"controller-revision-hash": "db-2"}},
            "spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "5"}}}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]},
        }),
    );
    world.pod("db", 0, &pod);
    world
}

fn explained(world: &World) -> Explained {
    world.explain("db-0", &[]).unwrap()
}

#[test]
fn a_pod_of_another_template_is_told_to_be_created_again() {
    let mut world = of_another_template(&json!({}));
    let answer = explained(&world);
    assert_eq!(
        answer.remedies[0].command.as_deref(),
        Some("kubectl delete pod db-0"),
        "{answer:?}"
    );
    // Its successor would be Pending as well: the template is not why.
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let answer = explained(&world);
    let has_deletion = |answer: &Explained| {
        answer
            .remedies
            .iter()
            .any(|one| one.command.as_deref() == Some("kubectl delete pod db-0"))
    };
    assert!(!has_deletion(&answer), "{answer:?}");
    // The successor may go elsewhere, though not where the present Pod could.
    let moves = answer
        .remedies
        .iter()
        .find(|one| one.text.starts_with("Move it"))
        .unwrap();
    assert_eq!(moves.landing.favourites().len(), 3, "{moves:?}");
}

#[test]
fn nothing_is_said_of_a_template_that_a_successor_would_have_as_well() {
    let same = json!({"status": {"updateRevision": "db-2"}});
    let held_back = json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}});
    // The controller has not seen the latest template yet.
    let unobserved = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}});
    for workload in [same, held_back, unobserved] {
        let answer = explained(&of_another_template(&workload));
        assert!(
            !answer.commands().contains(&"kubectl delete pod db-0"),
            "{workload}: {answer:?}"
        );
    }
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    assert!(
        explained(&of_another_template(&on_delete))
            .commands()
            .contains(&"kubectl delete pod db-0")
    );
}
