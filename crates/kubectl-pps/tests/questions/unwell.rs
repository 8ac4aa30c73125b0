//! What `status` and `explain` say of Pods that look well, or wait for something that does not come.

use kubectl_pps::Outcome;
use kubectl_pps::decide::explain::Fact;
use kubectl_pps::decide::status::Drift;
use serde_json::json;

use crate::world::{Answered, Explained, HOSTNAME, World, ZONE, injected, preferred, ready, required};

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
    assert_eq!((answer.outcome(), answer.advice.len()), (Outcome::Well, 0), "the sidecar needs a moment");
    assert_eq!(answer.pods[0].drift[0], Drift::Unrecorded { lasting: false });

    let mut world = world_since("2026-11-23T00:59:30Z");
    let answer = ask(&mut world);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let text = "db-0 is Ready, and its node is not recorded: it would start anywhere. To see why";
    assert_eq!(answer.lines(), [(text, "kubectl pps check")]);
    // What a move has emptied.
    world.change_pps("db", &json!({"status": {"podStates": {"db-0": {"annotations": {"a": "b"}}}}}));
    let answer = ask(&mut world);
    assert_eq!(answer.outcome(), Outcome::NotWell);

    let condition =
        json!({"type": "Recording", "status": "False", "reason": "TopologyKeyMissing", "message": "m"});
    world.change_pps("db", &json!({"status": {"conditions": [condition]}}));
    let answer = ask(&mut world);
    assert_eq!((answer.outcome(), answer.advice.len()), (Outcome::NotWell, 0), "the condition says why");
}

#[test]
fn a_pending_pod_that_no_scheduler_has_looked_at_is_not_well() {
    let world_since = |time: &str| {
        let mut world = World::new();
        world.workload("db", 1, &required(&[HOSTNAME]));
        world.pod("db", 0, &json!({"metadata": {"creationTimestamp": time}}));
        world
    };
    assert_eq!(ask(&mut world_since("2026-11-23T00:59:55Z")).outcome(), Outcome::Well);
    let answer = ask(&mut world_since("2026-11-23T00:50:00Z"));
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(answer.pods[0].message.as_deref(), Some(""));
    assert_eq!(answer.lines(), [("db-0 is Pending", "kubectl pps explain db-0")]);
}

#[test]
fn a_node_whose_label_is_not_its_name_is_known_by_its_label() {
    let mut world = World::new();
    world.change_node("node-3", &json!({"metadata": {"labels": {HOSTNAME: "h3.example"}}}));
    world.workload("db", 2, &required(&[HOSTNAME]));
    world.ready_pod("db", 0, "node-3");
    world.pending_pod("db", 1, &[(HOSTNAME, "h3.example")]);
    let state = json!({"nodeName": "node-3", "nodeTopologyLabels": {HOSTNAME: "h3.example"}});
    world.change_pps("db", &json!({"status": {"podStates": {"db-0": state, "db-1": state}}}));
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let answer = ask(&mut world);
    let begin = "db-0 is on a cordoned node, and must come back to it";
    assert!(answer.advice.iter().any(|one| one.text.starts_with(begin)), "{:?}", answer.advice);
    world.lose_node("node-3");
    let answer = ask(&mut world);
    let command = "kubectl pps move --node node-3 --anywhere";
    assert!(answer.advice.iter().any(|one| one.command == command), "{:?}", answer.advice);
}

#[test]
fn pods_that_wait_for_a_lost_node_and_are_not_recorded_any_more_are_to_be_created_again() {
    let mut world = World::new();
    world.bare_workload("db", 2, &json!({}));
    for ordinal in 0..2 {
        world.pending_pod("db", ordinal, &[(HOSTNAME, "node-9")]);
    }
    let answer = ask(&mut world);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let text = "2 Pods (db-0, db-1) wait for a node that is gone; to have them created again, for any node";
    assert_eq!(
        answer.lines()[1..],
        [(text, "kubectl delete pod db-0 db-1")],
        "and no move, which moves nothing"
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
    let answer = world.explain("db-0", None).unwrap();
    let begin = "db-0 is Pending: when it was created, its recorded state required rack=r1,";
    assert!(answer.answer.starts_with(begin), "{answer:?}");
    assert!(!answer.facts.join("\n").contains("Its own template"), "{answer:?}");
}

#[test]
fn a_pod_whose_node_is_not_ready_is_told_so_at_once() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    let mut pod = ready("node-3", 1);
    pod["status"]["conditions"][0]["status"] = json!("False");
    world.pod("db", 0, &pod);
    world.record("db", "db-0", "node-3");
    world.change_node("node-3", &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    let answer = world.explain("db-0", None).unwrap();
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let begin = "db-0 is not Ready, and neither is its node. It is on node-3, where it is recorded.";
    assert_eq!(answer.answer, begin);
    assert_eq!(answer.facts[0], "node-3 has not been Ready, so nothing confirms whether the Pod still runs.");
    let [back, delete] = answer.remedies.as_slice() else { panic!("{answer:#?}") };
    assert_eq!(back.text, "Bring node-3 back under its name");
    assert_eq!(
        back.consequence.as_deref(),
        Some("The Pod, or a new Pod on node-3, then finds the data on its local disk.")
    );
    assert_eq!(delete.command.as_deref(), Some("kubectl delete node node-3"));
    assert!(delete.consequence.as_deref().unwrap().contains("be sure that the machine is off"), "{delete:?}");
}

#[test]
fn pods_whose_whole_zone_takes_no_pods_are_named_like_those_of_one_node() {
    let mut world = World::new();
    world.workload("db", 3, &required(&[ZONE]));
    for (ordinal, node) in [(0, "node-1"), (1, "node-3"), (2, "node-0")] {
        world.ready_pod("db", ordinal, node);
        world.record("db", &format!("db-{ordinal}"), node);
    }
    let cordoned = json!({"spec": {"unschedulable": true}});
    world.change_node("node-1", &cordoned);
    assert_eq!(ask(&mut world).lines(), [("", ""); 0], "node-3 is of the same zone");
    world.change_node("node-3", &cordoned);
    let answer = ask(&mut world);
    let text = "2 Pods (db-0, db-1) must come back to zone=b, and all nodes there are cordoned: they would be Pending if they \
                were created again now";
    assert_eq!(answer.lines(), [(text, "kubectl pps explain db-0")]);
    assert_eq!(answer.outcome(), Outcome::Well, "they run");

    // Another zone, with a single Pod.
    let taint = json!({"spec": {"taints": [{"key": "disk", "value": "bad", "effect": "NoSchedule"}]}});
    world.change_node("node-0", &taint);
    world.change_node("node-2", &taint);
    let text = "db-2 must come back to zone=a, and all nodes there have taints that keep new Pods out: it would be Pending if \
                it were created again now";
    assert_eq!(ask(&mut world).lines()[1], (text, "kubectl pps explain db-2"));
    world.change_node("node-2", &cordoned);
    world.change_node("node-2", &json!({"spec": {"taints": null}}));
    let texts_now: Vec<String> = ask(&mut world).advice.into_iter().map(|one| one.text).collect();
    assert!(
        texts_now[1].contains("zone=a, and all nodes there are cordoned, not Ready or tainted:"),
        "{texts_now:?}"
    );
    world.change_node("node-0", &cordoned);
    let texts_now: Vec<String> = ask(&mut world).advice.into_iter().map(|one| one.text).collect();
    let begin = "3 Pods (db-0, db-1, db-2) must come back to their places, and all nodes there are cordoned:";
    assert!(texts_now[0].starts_with(begin), "{texts_now:?}");
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
    let begin = "db-0 must come back to zone=b, and no node there is Ready:";
    assert!(answer.advice[0].text.starts_with(begin), "{:?}", answer.advice);
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
    world.explain("db-0", None).unwrap()
}

#[test]
fn a_pod_of_another_template_is_told_to_be_created_again() {
    let mut world = of_another_template(&json!({}));
    let answer = explained(&world);
    assert!(answer.explanation.is_kept_by_template, "{answer:?}");
    assert_eq!(answer.remedies[0].command.as_deref(), Some("kubectl delete pod db-0"), "{answer:?}");
    // Its successor would be Pending as well: the template is not why.
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let answer = explained(&world);
    assert!(!answer.explanation.is_kept_by_template, "{answer:?}");
    let has_deletion = |answer: &Explained| {
        answer.remedies.iter().any(|one| one.command.as_deref() == Some("kubectl delete pod db-0"))
    };
    assert!(!has_deletion(&answer), "{answer:?}");
    // The successor may go elsewhere, though not where the present Pod could.
    let moves = answer.remedies.iter().find(|one| one.text.starts_with("Move it")).unwrap();
    assert_eq!(moves.may_land_on.len(), 3, "{moves:?}");
}

#[test]
fn nothing_is_said_of_a_template_that_a_successor_would_have_as_well() {
    let same = json!({"status": {"updateRevision": "db-2"}});
    let held_back =
        json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}});
    // The controller has not seen the latest template yet.
    let unobserved = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}});
    for workload in [same, held_back, unobserved] {
        let answer = explained(&of_another_template(&workload));
        let is_told =
            answer.explanation.is_kept_by_template || answer.commands().contains(&"kubectl delete pod db-0");
        assert!(!is_told, "{workload}: {answer:?}");
    }
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    assert!(explained(&of_another_template(&on_delete)).explanation.is_kept_by_template);
}

#[test]
fn a_recorded_place_that_is_not_injected_any_more_is_named() {
    let state = json!({"nodeName": "node-3", "nodeTopologyLabels": {HOSTNAME: "node-3"}});
    let world_of = |replicas: u64, spec: &serde_json::Value| {
        let mut world = World::new();
        world.workload("db", replicas, spec);
        world.change_pps("db", &json!({"status": {"podStates": {"db-0": state}}}));
        world
    };
    let mut world = world_of(0, &required(&[ZONE]));
    let text = "db-0 is recorded without the labels that are required now: it would start anywhere";
    let answer = ask(&mut world);
    assert_eq!(answer.lines(), [(text, "kubectl pps explain db-0")]);
    assert_eq!(answer.outcome(), Outcome::Well, "it is not wanted");
    let would_require = |world: &World| {
        let explained = explained(world);
        explained.explanation.facts.iter().find_map(|fact| match fact {
            Fact::WouldRequire { required, .. } => Some(required.len()),
            _ => None,
        })
    };
    assert_eq!(would_require(&world), Some(0));
    assert_eq!(explained(&world).commands(), ["kubectl pps forget db-0"]);
    // One that is wanted and waits for a node.
    let mut world = world_of(1, &required(&[ZONE]));
    assert_eq!(ask(&mut world).outcome(), Outcome::NotWell);
    assert_eq!(would_require(&world), Some(0));
    let now = json!({"metadata": {"creationTimestamp": "2026-11-23T00:59:55Z"}});
    world.pod("db", 0, &now);
    let answer = ask(&mut world);
    assert_eq!(
        (answer.outcome(), answer.lines()),
        (Outcome::NotWell, vec![(text, "kubectl pps explain db-0")])
    );
    // It has what was injected before, and is recorded there once it is Ready.
    let mut world = world_of(1, &required(&[ZONE]));
    let mut pod = injected("db", &[(HOSTNAME, "node-3")]);
    json_patch::merge(&mut pod, &now);
    world.pod("db", 0, &pod);
    assert_eq!(ask(&mut world).lines(), [("", ""); 0]);

    for spec in [required(&[HOSTNAME]), required(&[ZONE, HOSTNAME]), preferred(ZONE)] {
        let answer = ask(&mut world_of(0, &spec));
        assert_eq!((answer.outcome(), answer.lines()), (Outcome::Well, Vec::new()), "{spec}");
    }
    assert_eq!(would_require(&world_of(0, &required(&[ZONE, HOSTNAME]))), Some(1));
    let mut world = world_of(0, &required(&[HOSTNAME]));
    world.change_pps(
        "db",
        &json!({"status": {"podStates": {"db-0": {"nodeName": null, "nodeTopologyLabels": null}}}}),
    );
    assert_eq!(explained(&world).facts, [""; 0], "an empty entry has nothing");
}
