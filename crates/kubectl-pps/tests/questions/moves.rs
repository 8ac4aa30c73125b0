use kubectl_pps::Outcome;
use kubectl_pps::decide::explain::Verdict;
use kubectl_pps::render::Style;
use serde_json::json;

use crate::world::{Explained, HOSTNAME, World, ZONE, injected, ready, required};

fn ask(world: &mut World) -> Explained {
    world.snapshot.sort();
    world.explain("db-0", &[]).unwrap()
}

/// A move that was interrupted, with this node recorded.
fn unfinished(recorded: &str) -> World {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    let mut pod = ready("node-2", 1);
    pod["metadata"] = json!({"annotations": {"kruise.io/record-persistent-pod-state": "false", "kruise.io/persistent-pod-state-move": "recorded"}});
    world.pod("db", 0, &pod);
    if !recorded.is_empty() {
        world.record("db", "db-0", recorded);
    }
    world
}

#[test]
fn an_unfinished_move_is_finished_where_it_goes_or_called_off() {
    for (recorded, commands) in [
        (
            "node-0",
            &[
                "kubectl pps move db-0 --to node-0",
                "kubectl pps move db-0 --to node-2",
            ][..],
        ),
        (
            "",
            &[
                "kubectl pps move db-0 --anywhere",
                "kubectl pps move db-0 --to node-2",
            ],
        ),
        ("node-2", &["kubectl pps move db-0 --to node-2"]),
    ] {
        let mut world = unfinished(recorded);
        let answer = ask(&mut world);
        assert_eq!(answer.commands(), commands, "{recorded:?}");
        assert_eq!(
            (answer.verdict, answer.outcome()),
            (Verdict::UnfinishedMove, Outcome::NotWell)
        );
        assert!(
            answer.answer.ends_with(". Its move is unfinished."),
            "{}",
            answer.answer
        );
        let shown = world.status(None).unwrap();
        assert_eq!(shown.outcome(), Outcome::NotWell, "{recorded:?}");
        assert_eq!(
            shown.lines(),
            [(
                "db-0 is left by an unfinished move",
                "kubectl pps explain db-0"
            )]
        );
    }
}

#[test]
fn a_running_pod_that_a_move_has_left_without_a_place_is_not_well() {
    for entry in [json!(null), json!({}), json!({"annotations": {"a": "b"}})] {
        let mut world = unfinished("");
        world.change_pps("db", &json!({"status": {"podStates": {"db-0": entry}}}));
        assert_eq!(
            world.status(None).unwrap().outcome(),
            Outcome::NotWell,
            "{entry}"
        );
    }
    // A user's own exemption is nobody's move.
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    let mut pod = ready("node-2", 1);
    pod["metadata"] = json!({"annotations": {"kruise.io/record-persistent-pod-state": "false"}});
    world.pod("db", 0, &pod);
    let asked = ask(&mut world);
    assert!(asked.remedies.is_empty(), "{asked:?}");
    let fact = "The sidecar does not record the Pod (annotation \
                kruise.io/record-persistent-pod-state: \"false\").";
    assert!(asked.facts.contains(&fact.to_owned()), "{asked:?}");
    let answer = world.status(None).unwrap();
    assert_eq!((answer.outcome(), answer.advice.len()), (Outcome::Well, 0));
}

#[test]
fn what_was_injected_for_another_pin_is_not_taken_for_the_template() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    world.record("db", "db-0", "node-1");
    let mut pod = injected("db", &[(ZONE, "b")]);
    json_patch::merge(&mut pod, &ready("node-1", 1));
    world.pod("db", 0, &pod);
    let facts = ask(&mut world).facts.join("\n");
    assert!(facts.contains(&format!("requires {ZONE}=b.")), "{facts}");
    assert!(
        facts.contains(&format!(
            "A Pod of this name that is created now would require {HOSTNAME}=node-1"
        )),
        "{facts}"
    );
}

#[test]
fn after_another_pin_a_pending_pod_still_waits_for_what_it_was_created_with() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-0", "node-3");
    world.pending_pod("db", 0, &[(HOSTNAME, "node-3")]);
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let answer = ask(&mut world);
    let begin = "db-0 is Pending: when it was created, its recorded state required \
                 kubernetes.io/hostname=node-3.";
    assert!(answer.answer.starts_with(begin), "{}", answer.answer);
    assert!(
        answer
            .remedies
            .iter()
            .any(|one| one.command.as_deref() == Some("kubectl delete pod db-0"))
    );
}

#[test]
fn a_workload_of_no_pods_is_not_called_one_without_a_persistentpodstate() {
    let mut world = World::new();
    world.workload("db", 0, &required(&[ZONE]));
    let answer = world.status(None).unwrap();
    assert_eq!((answer.is_empty(), answer.advice.len()), (false, 0));
    let text = answer.text(&world, Style::PLAIN, false);
    assert_eq!(
        text,
        "Workloads with a PersistentPodState: 1; there is no Pod to show.\n"
    );
}

#[test]
fn a_pod_is_let_go_no_further_than_it_has_to() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE, HOSTNAME]));
    world.record("db", "db-0", "node-3");
    world.pending_pod("db", 0, &[(ZONE, "b"), (HOSTNAME, "node-3")]);
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let mut remedy = |node: &str| {
        world.change_node(node, &json!({"spec": {"unschedulable": true}}));
        let last = ask(&mut world).remedies.last().unwrap().clone();
        (last.text, last.command.unwrap())
    };
    let (text, command) = remedy("node-3");
    assert_eq!(command, "kubectl pps move db-0 --anywhere");
    assert!(
        text.ends_with("it would start on node-1, the only node that could take it"),
        "{text}"
    );
    let (text, command) = remedy("node-1");
    assert_eq!(command, "kubectl pps move db-0 --anywhere --any zone");
    assert!(text.contains("node-0") && text.contains("node-2"), "{text}");
}
