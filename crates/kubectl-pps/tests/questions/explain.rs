use kubectl_pps::args::Output;
use kubectl_pps::decide::explain::Verdict;
use kubectl_pps::render::{self, Style};
use kubectl_pps::snapshot::{Pod, Resource};
use kubectl_pps::{Failure, Outcome};
use serde_json::{Value, json};

use crate::status::{ENABLE, disable};
use crate::world::{Explained, HOSTNAME, World, ZONE, injected, preferred, ready, required, said};
use crate::{assert_fits, assert_golden};

fn ask(world: &mut World, pod: &str) -> Explained {
    world.snapshot.sort();
    world.explain(pod, &[]).unwrap()
}

fn shown(answer: &Explained) -> String {
    let text = answer.text(Style {
        has_color: false,
        width: Some(80),
    });
    assert_fits(&text, 80);
    text
}

#[test]
fn nothing_is_injected_into_a_pod_of_a_namespace_that_is_not_enabled() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[HOSTNAME]));
    world.ready_pod("db", 0, "node-0");
    world.record("db", "db-0", "node-1");
    world.ready_pod("db", 1, "node-2");
    disable(&mut world, &["db"]);
    let text = shown(&ask(&mut world, "db-0"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("2026-11-22T19:00:00Z: the namespace is not enabled."),
        "{text}"
    );
    let says = "db-0 runs on node-0. It is recorded on node-1.";
    assert!(text.starts_with(says), "its state does not count: {text}");
    assert_eq!(ask(&mut world, "db-0").commands(), [ENABLE]);
    let unrecorded = ask(&mut world, "db-1");
    let says = format!("db-1 runs on node-2 and is not recorded: NamespaceNotEnabled: {ENABLE};");
    assert!(
        unrecorded.answer.starts_with(&says),
        "{}",
        unrecorded.answer
    );
}

/// A Pod that waits for `node-3`.
fn pinned() -> World {
    let mut world = World::new();
    world.workload("db", 1, &required(&[HOSTNAME]));
    world.record("db", "db-0", "node-3");
    world.pending_pod("db", 0, &[(HOSTNAME, "node-3")]);
    world
}

#[test]
fn a_pod_whose_node_is_cordoned_waits_for_it_or_is_let_go() {
    let mut world = pinned();
    world.change_node(
        "node-3",
        &json!({"spec": {"unschedulable": true,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}),
    );
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Pinned, Outcome::NotWell)
    );
    assert_eq!(
        answer.commands(),
        [
            "kubectl uncordon node-3",
            "kubectl pps move db-0 --anywhere"
        ]
    );
    assert_golden("pending-cordoned.txt", &shown(&answer));
    assert_golden(
        "pending-cordoned.json",
        &render::for_programs(Output::Json, "Explanation", &*answer).unwrap(),
    );
}

/// A Pod that requires zone `b` for ten minutes, all of whose nodes are gone.
fn bounded() -> World {
    let mut world = World::new();
    let mut spec = required(&[ZONE, HOSTNAME]);
    spec["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
    world.workload("db", 1, &spec);
    let labels = json!({HOSTNAME: "node-3", ZONE: "b"});
    let state = json!({"nodeName": "node-3", "nodeTopologyLabels": labels});
    world.change_pps("db", &json!({"status": {"podStates": {"db-0": state}}}));
    world.pending_pod("db", 0, &[(ZONE, "b"), (HOSTNAME, "node-3")]);
    let since = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "m", "lastTransitionTime": "2026-01-01T10:00:00Z"}]);
    let mut pod = world.snapshot.pods.pop().unwrap().object().clone();
    pod["status"]["conditions"] = since;
    world.snapshot.pods.push(Pod::read(pod).unwrap());
    world
}

#[test]
fn a_requirement_with_an_end_says_when_it_ends_and_what_is_given_up() {
    let mut world = bounded();
    world.lose_node("node-1");
    world.lose_node("node-3");
    let text = shown(&ask(&mut world, "db-0"));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "It falls back not before 2026-01-01T10:10:00Z (fallbackAfterSeconds: 600), if no \
                node there can take it until then: it gives up topology.kubernetes.io/zone=b and \
                node node-3.";
    assert!(text.contains(says), "{text}");
    // The zone has another node.
    let mut world = bounded();
    world.lose_node("node-3");
    let text = shown(&ask(&mut world, "db-0"));
    assert!(text.contains("it gives up node node-3"), "{text}");
    // Its node takes it.
    let mut world = bounded();
    let text = shown(&ask(&mut world, "db-0"));
    assert!(text.contains("node-3 could take it where it was"), "{text}");
    // No node takes it.
    for node in ["node-0", "node-1", "node-2", "node-3"] {
        world.lose_node(node);
    }
    let text = shown(&ask(&mut world, "db-0"));
    assert!(
        text.contains("no other node could take it, either"),
        "{text}"
    );
}

#[test]
fn a_pod_whose_node_is_gone_waits_for_it_or_is_let_go() {
    let mut world = pinned();
    world.lose_node("node-3");
    let answer = ask(&mut world, "db-0");
    assert_eq!(answer.verdict, Verdict::Pinned);
    assert_eq!(answer.commands(), ["kubectl pps move db-0 --anywhere"]);
    let text = shown(&answer);
    assert!(
        text.starts_with("db-0 is Pending: its recorded state requires"),
        "{text}"
    );
    assert!(
        text.contains("Bring a node with kubernetes.io/hostname=node-3 back"),
        "{text}"
    );
}

#[test]
fn a_pod_whose_node_is_full_needs_room_or_is_let_go() {
    let mut world = pinned();
    world.bare_workload("big", 1, &json!({}));
    let mut big = ready("node-3", 9);
    big["spec"]["containers"] =
        json!([{"name": "main", "resources": {"requests": {"cpu": "3500m"}}}]);
    world.pod("big", 0, &big);
    let answer = ask(&mut world, "db-0");
    let text = shown(&answer);
    assert!(text.contains("Free capacity on node-3"), "{text}");
    assert_eq!(answer.commands(), ["kubectl pps move db-0 --anywhere"]);
}

#[test]
fn a_pod_whose_node_is_tainted_needs_the_taint_away_or_is_let_go() {
    let mut world = pinned();
    world.change_node(
        "node-3",
        &json!({"spec": {"taints": [{"key": "disk", "value": "bad", "effect": "NoSchedule"}]}}),
    );
    let answer = ask(&mut world, "db-0");
    shown(&answer);
    assert_eq!(
        answer.commands(),
        [
            "kubectl taint nodes node-3 disk:NoSchedule-",
            "kubectl pps move db-0 --anywhere"
        ]
    );
    // A taint that the Pod tolerates stays.
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let tolerations = json!({"spec": {"tolerations": [{"key": "disk", "operator": "Exists"}]}});
    let mut pod = world.snapshot.pods[0].object().clone();
    json_patch::merge(&mut pod, &tolerations);
    world.snapshot.pods[0] = kubectl_pps::snapshot::Pod::read(pod).unwrap();
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        answer.commands(),
        [
            "kubectl uncordon node-3",
            "kubectl pps move db-0 --anywhere"
        ]
    );
    world.change_node("node-3", &json!({"spec": {"unschedulable": null}}));
    // Kubernetes itself sets this one, and again if a user removes it.
    world.change_node(
        "node-3",
        &json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}),
    );
    let answer = ask(&mut world, "db-0");
    assert_eq!(answer.commands(), ["kubectl pps move db-0 --anywhere"]);
    assert!(
        answer.remedies[0]
            .text
            .starts_with("Remove the cause of node-3's taint"),
        "{:?}",
        answer.remedies
    );
}

/// Binds the claim of a Pod without a node to a volume on nodes with one of these values.
fn bind_volume(world: &mut World, key: &str, values: &Value) {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]);
    let pod = world.snapshot.pods.pop().unwrap();
    let mut object = pod.object().clone();
    object["spec"]["volumes"] = volumes;
    world
        .snapshot
        .pods
        .push(kubectl_pps::snapshot::Pod::read(object).unwrap());
    world.snapshot.claims.push(json!({"kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-0", "namespace": "shop"}, "spec": {"volumeName": "pv-7"}, "status": {"phase": "Bound"}}));
    let terms = json!([{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]);
    world.snapshot.volumes.push(
        json!({"kind": "PersistentVolume", "metadata": {"name": "pv-7"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}),
    );
}

#[test]
fn a_pod_whose_volume_is_elsewhere_is_not_told_that_a_move_helps() {
    let mut world = pinned();
    world.lose_node("node-3");
    bind_volume(&mut world, HOSTNAME, &json!(["node-3"]));
    let answer = ask(&mut world, "db-0");
    assert_eq!(answer.verdict, Verdict::Unschedulable);
    assert_eq!(answer.commands(), [""; 0], "{:?}", answer.remedies);
    shown(&answer);
}

#[test]
fn a_pod_with_a_new_volume_elsewhere_is_told_to_drop_its_state() {
    // Whether or not the recorded node still exists, waiting for it does not help.
    for is_lost in [false, true] {
        let mut world = pinned();
        if is_lost {
            world.lose_node("node-3");
        }
        bind_volume(&mut world, HOSTNAME, &json!(["node-1"]));
        let answer = ask(&mut world, "db-0");
        assert_eq!(answer.verdict, Verdict::Pinned);
        let says = "Volume pv-7 of claim data-db-0 is elsewhere, and waiting does not help: the \
                    node affinity of the volume excludes the recorded \
                    kubernetes.io/hostname=node-3.";
        assert!(answer.answer.contains(says), "{}", answer.answer);
        assert_eq!(
            answer.commands(),
            ["kubectl pps forget db-0 && kubectl delete pod db-0"],
            "{:?}",
            answer.remedies
        );
        let remedy = &answer.remedies[0];
        assert_eq!(remedy.landing.favourites(), ["node-1"]);
        shown(&answer);
    }
}

#[test]
fn a_volume_that_may_be_at_the_recorded_place_contradicts_nothing() {
    // The zone of the volume may be that of the recorded node, which is gone.
    for (key, values) in [
        (
            "topology.kubernetes.io/zone",
            json!(["a", "b", "c", "zone-a", "zone-b"]),
        ),
        (HOSTNAME, json!(["node-3", "node-1"])),
    ] {
        let mut world = pinned();
        world.lose_node("node-3");
        bind_volume(&mut world, key, &values);
        let answer = ask(&mut world, "db-0");
        assert!(!answer.answer.contains("is elsewhere"), "{}", answer.answer);
        let forget = "kubectl pps forget db-0 && kubectl delete pod db-0";
        assert!(
            !answer.commands().contains(&forget),
            "{:?}",
            answer.remedies
        );
    }
}

#[test]
fn a_pod_that_nothing_recorded_keeps_is_told_what_else_does() {
    let mut world = World::new();
    world.bare_workload("web", 1, &json!({}));
    world.pending_pod("web", 0, &[]);
    for node in ["node-0", "node-1", "node-2", "node-3"] {
        world.change_node(node, &json!({"spec": {"unschedulable": true}}));
    }
    let answer = ask(&mut world, "web-0");
    assert_eq!(answer.verdict, Verdict::Unschedulable);
    let text = shown(&answer);
    assert!(
        text.contains("No PersistentPodState governs StatefulSet web"),
        "{text}"
    );
    assert!(!text.contains("kubectl pps move"), "{text}");
}

#[test]
fn a_pod_with_an_outdated_state_is_told_to_be_created_again() {
    let mut world = pinned();
    world.lose_node("node-3");
    world.change_pps("db", &json!({"status": {"podStates": {"db-0": null}}}));
    world.record("db", "db-0", "node-1");
    let answer = ask(&mut world, "db-0");
    assert!(
        answer.commands().contains(&"kubectl delete pod db-0"),
        "{:?}",
        answer.remedies
    );
    shown(&answer);
}

#[test]
fn without_the_right_to_read_nodes_the_scheduler_and_the_pin_are_told() {
    let mut world = pinned();
    world.forbid(Resource::Nodes);
    let answer = ask(&mut world, "db-0");
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let says = "db-0 is Pending: its recorded state requires kubernetes.io/hostname=node-3. The \
                scheduler says: 0/4 nodes are available: 4 node(s) didn't match.";
    assert_eq!(answer.answer, says);
    let text = shown(&answer);
    assert!(
        text.contains("you have no permission to list nodes"),
        "{text}"
    );
}

#[test]
fn a_pod_that_waits_although_nodes_could_take_it_is_told_what_the_scheduler_says() {
    let mut world = World::new();
    world.bare_workload("web", 1, &json!({}));
    world.pending_pod("web", 0, &[]);
    let answer = ask(&mut world, "web-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Unscheduled, Outcome::NotWell)
    );
    let says = ", as far as is known here. The scheduler says: 0/4 nodes are available: 4 node(s) \
                didn't match.";
    assert!(answer.answer.ends_with(says), "{}", answer.answer);
    shown(&answer);
}

#[test]
fn a_running_pod_is_told_whether_it_would_come_back() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[HOSTNAME]));
    world.record("db", "db-0", "node-3");
    let mut pod = injected("db", &[(HOSTNAME, "node-3")]);
    json_patch::merge(&mut pod, &ready("node-3", 5));
    world.pod("db", 0, &pod);
    world.ready_pod("db", 1, "node-1");
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Running, Outcome::Well)
    );
    let text = shown(&answer);
    assert!(text.contains("it would come back to node-3"), "{text}");
    assert!(
        text.contains("Its recorded state requires kubernetes.io/hostname=node-3."),
        "{text}"
    );
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let text = shown(&ask(&mut world, "db-0"));
    assert!(text.contains("the new Pod would be Pending"), "{text}");
}

#[test]
fn a_preference_does_not_keep_a_pod_from_another_node() {
    let mut world = World::new();
    world.workload("db", 1, &preferred(HOSTNAME));
    world.record("db", "db-0", "node-3");
    world.ready_pod("db", 0, "node-3");
    world.change_node("node-3", &json!({"spec": {"unschedulable": true}}));
    let answer = ask(&mut world, "db-0");
    let text = shown(&answer);
    assert!(
        text.contains("it would not come back to node-3 (cordoned)"),
        "{text}"
    );
}

#[test]
fn a_pod_that_runs_where_it_must_not_is_misplaced() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-0", "node-0");
    world.ready_pod("db", 0, "node-3");
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::Misplaced, Outcome::NotWell)
    );
    shown(&answer);
}

#[test]
fn a_pod_that_was_refused_shows_the_refusal() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[ZONE]));
    world.ready_pod("db", 0, "node-0");
    let refusal = "create Pod db-1 in StatefulSet db failed error: admission webhook \"pps\" \
                   denied the request: PersistentPodState db cannot be read";
    let refusals = [refusal.to_owned()];
    let answer = world.explain("db-1", &refusals).unwrap();
    assert_eq!(answer.verdict, Verdict::Refused);
    assert!(
        answer
            .answer
            .ends_with("PersistentPodState db cannot be read"),
        "{}",
        answer.answer
    );
    let answer = world.explain("db-1", &[]).unwrap();
    assert_eq!(answer.verdict, Verdict::NotCreated);
}

#[test]
fn a_pod_that_waits_for_another_one_names_it() {
    let mut world = World::new();
    world.bare_workload(
        "db",
        3,
        &json!({"spec": {"podManagementPolicy": "OrderedReady"}}),
    );
    world.pps("db", "db", &required(&[ZONE]));
    world.pending_pod("db", 0, &[]);
    let answer = ask(&mut world, "db-2");
    assert_eq!(answer.commands(), ["kubectl pps explain db-0"]);
    shown(&answer);
    // A Pod that is deleted may be Ready until it ends.
    world.snapshot.pods.clear();
    world.ready_pod("db", 0, "node-0");
    let mut terminating = ready("node-1", 1);
    terminating["metadata"] = json!({"deletionTimestamp": "2026-11-23T00:50:30Z"});
    world.pod("db", 1, &terminating);
    let answer = ask(&mut world, "db-2");
    assert_eq!(answer.commands(), ["kubectl pps explain db-1"]);
    assert!(
        answer
            .answer
            .ends_with("creates one Pod after the other, and waits for db-1."),
        "{answer:?}"
    );
}

#[test]
fn a_pod_that_is_not_wanted_has_at_most_a_state() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-5", "node-0");
    let answer = ask(&mut world, "db-5");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::NotWanted, Outcome::Well)
    );
    shown(&answer);
    // Without a state there is nothing to explain.
    world.bare_workload("web", 2, &json!({}));
    for (pod, who) in [
        (
            "db-7",
            "StatefulSet db (replicas: 1) does not want one; similar names: db-5",
        ),
        ("web-2", "StatefulSet web (replicas: 2) does not want one"),
        ("other-0", "no workload wants one"),
    ] {
        let refused = world.explain(pod, &[]).unwrap_err();
        let expected = format!("there is no Pod {pod} in namespace shop, and {who}");
        assert_eq!(said(&refused), (expected, 2));
    }
    world.forbid(Resource::PersistentPodStates);
    assert_eq!(
        ask(&mut world, "web-2").outcome(),
        Outcome::Incomplete,
        "it may have a state"
    );
}

#[test]
fn an_unknown_pod_is_refused_with_similar_names() {
    let mut world = pinned();
    let refused = world.explain("dbb-0", &[]).unwrap_err();
    let expected =
        "there is no Pod dbb-0 in namespace shop, and no workload wants one; similar names: db-0";
    assert_eq!(said(&refused), (expected.into(), 2));
    // The Pods of other namespaces only take room.
    world.snapshot.unread.push(kubectl_pps::snapshot::Unread {
        resource: Resource::Pods,
        namespace: None,
        why: None,
    });
    let refused = world.explain("dbb-0", &[]).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("there is no Pod dbb-0 in namespace shop"),
        "{refused}"
    );
    world.forbid(Resource::Pods);
    world.snapshot.pods.clear();
    assert!(matches!(
        world.explain("db-0", &[]),
        Err(Failure::UnreadPod { .. })
    ));
}

#[test]
fn an_unfinished_move_is_told() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    let mut pod = ready("node-0", 1);
    pod["metadata"] = json!({"annotations": {"kruise.io/record-persistent-pod-state": "false", "kruise.io/persistent-pod-state-move": "recorded"}});
    world.pod("db", 0, &pod);
    let answer = ask(&mut world, "db-0");
    let text = shown(&answer);
    assert!(
        text.contains("Its move is unfinished.") && !text.contains("A move of this Pod"),
        "{text}"
    );
    world.snapshot.pods.clear();
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T20:00:00Z");
    world.pod("db", 0, &pod);
    let answer = ask(&mut world, "db-0");
    let says = |fact: &String| fact.starts_with("A move of this Pod is not finished");
    assert!(answer.facts.iter().any(says), "{:?}", answer.facts);
}

#[test]
fn no_new_pod_is_promised_where_none_is_wanted() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    for ordinal in 0..2 {
        let mut pod = ready("node-0", ordinal);
        pod["metadata"] = json!({"deletionTimestamp": "2026-11-22T20:00:00Z"});
        world.pod("db", ordinal, &pod);
    }
    let nothing = "nothing creates the Pod again.";
    assert!(
        ask(&mut world, "db-0")
            .answer
            .ends_with("the new Pod is created when it is gone.")
    );
    assert!(ask(&mut world, "db-1").answer.ends_with(nothing));
    world.lose_node("node-0");
    assert!(ask(&mut world, "db-1").answer.ends_with(nothing));
    world.snapshot.workloads.clear();
    assert!(ask(&mut world, "db-0").answer.ends_with(nothing));
}

#[test]
fn a_thousand_nodes_are_a_few_lines() {
    let mut world = pinned();
    for number in 10..1010 {
        world.node(
            &format!("node-{number}"),
            if number % 2 == 0 { "a" } else { "b" },
        );
    }
    world.lose_node("node-3");
    let answer = ask(&mut world, "db-0");
    let text = shown(&answer);
    assert!(text.lines().count() < 40, "{text}");
}

#[test]
fn a_pod_whose_node_was_deleted_is_not_well_and_its_pin_is_named() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[HOSTNAME]));
    world.record("db", "db-0", "node-3");
    world.ready_pod("db", 0, "node-3");
    world.pod("db", 1, &json!({}));
    world.lose_node("node-3");
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::NodeGone, Outcome::NotWell)
    );
    assert!(
        answer
            .answer
            .starts_with("db-0 is bound to node-3, which does not exist any more.")
    );
    assert_eq!(answer.commands(), ["kubectl pps move db-0 --anywhere"]);
    shown(&answer);
}

#[test]
fn a_pod_whose_node_was_deleted_starts_elsewhere_if_nothing_keeps_it() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-0", "node-3");
    world.ready_pod("db", 0, "node-3");
    world.lose_node("node-3");
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::NodeGone, Outcome::NotWell)
    );
    assert_eq!(answer.landing.favourites(), ["node-1"]);
    shown(&answer);
    let mut bare = ready("node-3", 7);
    bare["metadata"] = json!({"ownerReferences": null});
    world.pod("alone", 0, &bare);
    let answer = ask(&mut world, "alone-0");
    assert!(
        answer.answer.ends_with("; nothing creates the Pod again."),
        "{}",
        answer.answer
    );
}

#[test]
fn after_its_state_was_forgotten_a_pending_pod_still_requires_what_it_was_created_with() {
    let mut world = pinned();
    world.lose_node("node-3");
    world.change_pps("db", &json!({"status": {"podStates": {"db-0": null}}}));
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        answer.commands(),
        ["kubectl delete pod db-0"],
        "one way out, not two that do the same"
    );
    let text = shown(&answer);
    assert!(!text.contains("its recorded state requires"), "{text}");
}

#[test]
fn a_pin_to_a_zone_is_not_called_one_to_a_node() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-0", "node-3");
    world.ready_pod("db", 0, "node-3");
    let fact = ask(&mut world, "db-0").facts[0].clone();
    assert_eq!(
        fact,
        "If it were deleted now, it would probably start on node-1 or node-3. Its recorded state \
         requires topology.kubernetes.io/zone=b."
    );
    world.workload("web", 1, &json!({}));
    world.ready_pod("web", 0, "node-0");
    world.snapshot.pps.retain(|pps| pps.name() != "web");
    for node in ["node-1", "node-2"] {
        world.change_node(node, &json!({"spec": {"unschedulable": true}}));
    }
    let answer = ask(&mut world, "web-0");
    assert_eq!(answer.answer, "web-0 runs on node-0.");
    assert!(!answer.facts[0].contains("recorded"), "{}", answer.facts[0]);
}

#[test]
fn a_ready_pod_of_a_kind_that_is_not_watched_is_not_called_recorded_later() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    let condition = json!({"type": "Recording", "status": "False", "reason": "WorkloadKindNotWatched",
        "message": "add the kind to the whitelist"});
    world.change_pps("db", &json!({"status": {"conditions": [condition]}}));
    world.ready_pod("db", 0, "node-1");
    let answer = ask(&mut world, "db-0");
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::NotRecorded, Outcome::NotWell)
    );
    shown(&answer);
}

#[test]
fn a_right_to_read_workloads_that_nothing_names_is_not_missed() {
    let mut world = pinned();
    world.forbid(Resource::KruiseStatefulSets);
    assert_eq!(ask(&mut world, "db-0").notes, [""; 0]);
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1"});
    world.change_pps("db", &json!({"spec": {"targetRef": target}}));
    assert_eq!(ask(&mut world, "db-0").notes.len(), 1);
}
