use kubectl_pps::decide::status::{Concern, Drift};
use kubectl_pps::render::Style;
use kubectl_pps::snapshot::Resource;
use kubectl_pps::{Failure, Outcome};
use serde_json::json;

use crate::world::{
    Answered, HOSTNAME, IP, World, ZONE, injected, preferred, ready, required, said,
};
use crate::{assert_fits, assert_golden};

const NARROW: Style = Style {
    has_color: false,
    width: Some(80),
};

fn ask(world: &mut World, workload: Option<&str>) -> Answered {
    world.snapshot.sort();
    world.status(workload).unwrap()
}

/// A workload of which each Pod has another problem.
fn troubled() -> World {
    let mut world = World::new();
    let mut spec = required(&[ZONE]);
    spec["preferredPersistentTopology"] =
        preferred(HOSTNAME)["preferredPersistentTopology"].clone();
    spec["persistentPodAnnotations"] = json!([{"key": IP, "valueFrom": "PodIPsCSV"}]);
    world.workload("db", 6, &spec);
    world.ready_pod("db", 0, "node-0");
    world.record("db", "db-0", "node-0");
    world.pending_pod("db", 1, &[(ZONE, "b")]);
    world.record("db", "db-1", "node-9");
    world.ready_pod("db", 2, "node-1");
    world.record("db", "db-2", "node-0");
    let mut moved = ready("node-3", 3);
    moved["metadata"] = json!({"annotations": {"kruise.io/record-persistent-pod-state": "false", "kruise.io/persistent-pod-state-move": "recorded"}});
    world.pod("db", 3, &moved);
    world.record("db", "db-3", "node-1");
    world.ready_pod("db", 4, "node-2");
    world.record("db", "db-4", "node-2");
    world.change_pps(
        "db",
        &json!({"status": {"podStates": {"db-4": {"annotations": {IP: "10.9.9.9"}}}}}),
    );
    world.record("db", "db-7", "node-2");
    world.bare_workload("web", 1, &json!({}));
    world
}

#[test]
fn a_table_of_80_columns_shows_what_is_wrong_and_the_next_commands() {
    let mut world = troubled();
    let answer = ask(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let text = answer.text(&world, NARROW, false);
    assert_fits(&text, 80);
    assert_golden("status.txt", &text);
    let coloured = answer.text(
        &world,
        Style {
            has_color: true,
            ..NARROW
        },
        false,
    );
    assert!(
        coloured.contains("\u{1b}[38;5;1mPending\u{1b}[39m"),
        "{coloured}"
    );
    assert_golden("status-wide.txt", &answer.text(&world, Style::PLAIN, true));
    assert_golden("status.json", answer.json());
}

#[test]
fn all_namespaces_have_a_line_for_each_workload() {
    let mut world = troubled();
    world.workload("web", 1, &required(&[HOSTNAME]));
    world.ready_pod("web", 0, "node-0");
    world.record("web", "web-0", "node-0");
    let text = ask(&mut world, None).summary(&world, NARROW);
    assert_fits(&text, 80);
    assert_golden("status-all.txt", &text);
}

#[test]
fn problems_alone_are_shown_with_the_same_outcome() {
    let mut world = troubled();
    let mut answer = ask(&mut world, None);
    answer.retain_problems();
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_golden("status-problems.txt", &answer.text(&world, NARROW, false));
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    world.ready_pod("db", 0, "node-0");
    world.record("db", "db-0", "node-0");
    let mut answer = ask(&mut world, None);
    answer.retain_problems();
    let text = answer.text(&world, NARROW, false);
    assert_eq!(
        text,
        "Workloads with a PersistentPodState: 1; there is no Pod to show.\n"
    );
}

#[test]
fn a_selector_chooses_workloads_that_a_persistentpodstate_governs() {
    let mut world = troubled();
    world.workload("cache", 1, &required(&[ZONE]));
    world.ready_pod("cache", 0, "node-1");
    // What the API server answers to the selector: `web` has no PersistentPodState.
    world
        .snapshot
        .workloads
        .retain(|workload| workload.name() != "db");
    let answer = world.selected("tier=back").unwrap();
    assert_eq!(
        answer
            .pods
            .iter()
            .map(|row| row.pod.as_str())
            .collect::<Vec<_>>(),
        ["cache-0"]
    );
    assert_eq!((answer.governed, answer.lines()), (1, vec![]));
    world.snapshot.workloads.clear();
    let refused = world.selected("tier=back").unwrap_err();
    assert_eq!(
        refused,
        Failure::NoSelectedWorkload {
            selector: "tier=back".into()
        }
    );
    assert_eq!(
        said(&refused),
        ("no StatefulSet has the labels tier=back".into(), 2)
    );
    world.forbid(Resource::StatefulSets);
    assert!(matches!(
        world.selected("tier=back"),
        Err(Failure::Unread(_))
    ));
}

pub(crate) const ENABLE: &str =
    "kubectl label namespace shop persistent-pod-state/injection=enabled --overwrite";

/// The sidecar says of these objects that their namespace is not in scope.
pub(crate) fn disable(world: &mut World, objects: &[&str]) {
    let message = format!("{ENABLE}; until then nothing is recorded, dropped or injected");
    let condition = json!([{"type": "Recording", "status": "False", "reason": "NamespaceNotEnabled", "message": message}]);
    for object in objects {
        world.change_pps(object, &json!({"status": {"conditions": condition}}));
    }
}

#[test]
fn a_namespace_out_of_scope_is_one_line_with_the_command() {
    let mut world = World::new();
    for name in ["db", "web"] {
        world.workload(name, 1, &required(&[HOSTNAME]));
        world.ready_pod(name, 0, "node-0");
    }
    world.record("db", "db-0", "node-1");
    disable(&mut world, &["db", "web"]);
    let answer = ask(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let text = answer.text(&world, Style::PLAIN, false);
    assert_eq!(
        text.matches("Namespace shop is not enabled").count(),
        1,
        "{text}"
    );
    assert_eq!(
        answer
            .lines()
            .iter()
            .map(|(_, command)| *command)
            .collect::<Vec<_>>(),
        [ENABLE]
    );
    assert_eq!(
        answer.json().matches("NamespaceNotEnabled").count(),
        2,
        "programs see each object"
    );
    assert!(
        !text.contains("If this lasts"),
        "that nothing is recorded is no riddle: {text}"
    );
}

#[test]
fn a_pod_away_from_its_home_is_well_and_says_where_it_goes() {
    let mut world = World::new();
    let mut spec = preferred(HOSTNAME);
    spec["recordingPolicy"] = "IfNotPresent".into();
    world.workload("db", 1, &spec);
    world.ready_pod("db", 0, "node-2");
    world.record("db", "db-0", "node-1");
    let answer = ask(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::Well);
    let home = Drift::Away {
        home: "node-1".into(),
    };
    assert_eq!(
        (&answer.pods[0].drift, answer.pods[0].concern),
        (&vec![home], Some(Concern::Away))
    );
    let text = answer.text(&world, Style::PLAIN, false);
    assert!(text.contains("away from its home node-1"), "{text}");
    let advice = "db-0 is away from home, and would go home if created again";
    assert_eq!(answer.lines(), [(advice, "kubectl pps explain db-0")]);
    // It is no move, also where the Pod is exempt.
    let answer = world.explain("db-0", &[]).unwrap();
    let says =
        "db-0 runs on node-2, away from its home node-1, where it goes when it is created again.";
    assert_eq!(
        (answer.answer.as_str(), answer.outcome()),
        (says, Outcome::Well)
    );
    assert!(answer.remedies.is_empty());
}

#[test]
fn a_workload_whose_pods_are_where_they_are_recorded_is_well() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    world.pod("db", 0, &{
        let mut pod = injected("db", &[(HOSTNAME, "node-0")]);
        json_patch::merge(&mut pod, &ready("node-0", 1));
        pod
    });
    world.record("db", "db-0", "node-0");
    let answer = ask(&mut world, Some("sts/db"));
    assert_eq!(answer.outcome(), Outcome::Well);
    assert_eq!(answer.lines(), []);
}

#[test]
fn a_workload_without_a_persistentpodstate_is_told_how_to_get_one() {
    let mut world = troubled();
    world.ready_pod("web", 0, "node-1");
    let answer = ask(&mut world, Some("web"));
    assert_eq!(answer.outcome(), Outcome::Well);
    assert_eq!(
        (answer.pods[0].pod.as_str(), answer.pods[0].drift.as_slice()),
        ("web-0", &[][..])
    );
    let text = answer.text(&world, NARROW, false);
    assert!(
        text.contains(
            "kubectl annotate statefulset web kruise.io/auto-generate-persistent-pod-state=true"
        ),
        "{text}"
    );
    let mut empty = World::new();
    let answer = ask(&mut empty, None);
    let text = answer.text(&world, NARROW, false);
    assert!(
        text.contains("kubectl annotate statefulset NAME kruise.io/auto"),
        "{text}"
    );
}

#[test]
fn an_empty_namespace_has_nothing_to_show() {
    let answer = ask(&mut World::new(), None);
    assert!(answer.is_empty());
    assert!(!ask(&mut troubled(), None).is_empty());
}

#[test]
fn a_pod_that_is_bound_to_a_deleted_node_is_not_well() {
    let mut world = World::new();
    world.workload("db", 3, &required(&[HOSTNAME]));
    for (ordinal, node) in [(0, "node-0"), (1, "node-3"), (2, "node-3")] {
        world.ready_pod("db", ordinal, node);
        world.record("db", &format!("db-{ordinal}"), node);
    }
    world.lose_node("node-3");
    let answer = ask(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    assert_eq!(
        answer.pods[1].drift[0],
        Drift::NodeGone {
            node: "node-3".into()
        }
    );
    world.forbid(Resource::Nodes);
    assert_eq!(
        ask(&mut world, None).outcome(),
        Outcome::Well,
        "it is not known"
    );
}

#[test]
fn a_pending_pod_shows_what_it_was_created_with_after_its_state_was_forgotten() {
    let mut world = World::new();
    let mut spec = required(&[HOSTNAME]);
    spec["persistentPodAnnotations"] = json!([{"key": IP}]);
    world.workload("db", 2, &spec);
    world.pending_pod("db", 0, &[(HOSTNAME, "node-9")]);
    world.ready_pod("db", 1, "node-1");
    let answer = ask(&mut world, None);
    assert_eq!(answer.pods[0].required[HOSTNAME], "node-9");
    assert_eq!(answer.pods[0].drift, [Drift::Changed { recorded: false }]);
}

#[test]
fn a_requirement_with_an_end_says_for_how_long() {
    let mut world = World::new();
    let mut spec = required(&[ZONE]);
    spec["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
    world.workload("db", 1, &spec);
    world.pending_pod("db", 0, &[(ZONE, "b")]);
    world.record("db", "db-0", "node-3");
    let answer = ask(&mut world, None);
    assert_eq!(answer.pods[0].fallback_after_seconds, Some(600));
    let text = answer.text(&world, NARROW, false);
    assert!(text.contains("zone=b for 600 s"), "{text}");
}

#[test]
fn a_pod_that_could_not_come_back_is_named() {
    let dedicated = json!({"key": "dedicated", "value": "gpu", "effect": "NoExecute"});
    let soft = json!({"key": "full", "effect": "PreferNoSchedule"});
    let concerns = |closed: &[&str], patch: &serde_json::Value| {
        let mut world = World::new();
        for (workload, key) in [("db", HOSTNAME), ("tolerant", HOSTNAME), ("web", ZONE)] {
            world.workload(workload, 1, &required(&[key]));
            let mut pod = ready("node-3", 1);
            if workload == "tolerant" {
                pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
            }
            world.pod(workload, 0, &pod);
            world.record(workload, &format!("{workload}-0"), "node-3");
        }
        for node in closed {
            world.change_node(node, patch);
        }
        let answer = ask(&mut world, None);
        assert_eq!(answer.outcome(), Outcome::Well, "they run");
        answer
            .pods
            .iter()
            .filter(|row| row.concern == Some(Concern::CannotReturn))
            .count()
    };
    assert_eq!(
        concerns(&["node-3"], &json!({"spec": {"taints": [soft]}})),
        0
    );
    for patch in [
        json!({"spec": {"unschedulable": true}}),
        json!({"spec": {"taints": [soft, dedicated]}}),
    ] {
        assert_eq!(
            concerns(&["node-3"], &patch),
            1,
            "web-0 may start elsewhere in its zone: {patch}"
        );
        assert_eq!(concerns(&["node-3", "node-1"], &patch), 2, "{patch}");
    }
}

#[test]
fn a_pod_in_place_of_a_workload_is_told_where_to_ask() {
    let world = troubled();
    for text in ["db-2", "pod/db-2"] {
        let refused = world.status(Some(text)).unwrap_err();
        let expected = "db-2 is a Pod, not a workload: kubectl pps explain db-2";
        assert_eq!(said(&refused), (expected.into(), 2));
    }
}

#[test]
fn a_right_to_read_workloads_that_nothing_names_is_not_missed() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.ready_pod("db", 0, "node-1");
    world.forbid(Resource::KruiseStatefulSets);
    assert_eq!(ask(&mut world, None).outcome(), Outcome::Well);
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1"});
    world.change_pps("db", &json!({"spec": {"targetRef": target}}));
    assert_eq!(ask(&mut world, None).outcome(), Outcome::Incomplete);
}

#[test]
fn an_unknown_workload_is_refused_with_similar_names() {
    let world = troubled();
    let refused = |text: &str| world.status(Some(text)).unwrap_err();
    for text in ["dv", "deployment/db"] {
        let expected = format!("there is no StatefulSet {text} in namespace shop");
        let expected =
            expected + ", and no PersistentPodState names such a workload; similar names: db";
        assert_eq!(said(&refused(text)), (expected, 2));
    }
    assert!(world.status(Some("statefulsets.apps/db")).is_ok());
}

#[test]
fn without_the_right_to_read_nodes_there_is_an_answer_with_a_note() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[ZONE]));
    world.ready_pod("db", 0, "node-1");
    world.record("db", "db-0", "node-1");
    world.ready_pod("db", 1, "node-2");
    world.forbid(Resource::Nodes);
    let answer = ask(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::Well);
    let notes = &answer.unread;
    assert!(
        notes[0].starts_with("you have no permission to list nodes, "),
        "{notes:?}"
    );
}

#[test]
fn a_condition_that_is_not_true_is_shown_with_its_reason() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    let condition = json!({"type": "Recording", "status": "False", "reason": "TopologyKeyMissing",
        "message": "label the node, or remove the key from the spec: node node-1 of Pod db-0 has no label zone"});
    world.change_pps("db", &json!({"status": {"conditions": [condition]}}));
    world.ready_pod("db", 0, "node-1");
    let answer = ask(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let text = answer.text(&world, NARROW, false);
    assert_fits(&text, 80);
    assert!(
        text.contains("problem: PersistentPodState db: TopologyKeyMissing: label the node"),
        "{text}"
    );
    assert!(
        !text.contains("kubectl pps check"),
        "the message says what to do: {text}"
    );
}
