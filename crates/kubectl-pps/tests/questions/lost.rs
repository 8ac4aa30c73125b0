//! What `explain` says of Pods of nodes that are lost, and of Pods that the policy refuses.

use kubectl_pps::Outcome;
use kubectl_pps::decide::explain::{Fact, Verdict};
use kubectl_pps::snapshot::Resource;
use serde_json::json;

use crate::world::{Explained, HOSTNAME, World, ZONE, injected, ready, required};

/// 2026-11-23T01:00:00Z
const NOW: i64 = 1_795_395_600;

fn explained(world: &mut World, refusals: Option<&[String]>) -> Explained {
    world.snapshot.read_at = Some(NOW);
    world.explain("db-0", refusals).unwrap()
}

/// `node-3` has lost its power: Kubernetes deletes its Pod, and nothing confirms that it has ended.
fn without_power(key: &str) -> World {
    let mut world = World::new();
    world.workload("db", 1, &required(&[key]));
    world.record("db", "db-0", "node-3");
    let mut pod = injected("db", &[(key, if key == HOSTNAME { "node-3" } else { "b" })]);
    json_patch::merge(&mut pod, &ready("node-3", 1));
    json_patch::merge(
        &mut pod,
        &json!({"metadata": {"deletionTimestamp": "2026-11-23T00:50:30Z"},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    world.pod("db", 0, &pod);
    let unreachable = |effect: &str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
    let down = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-23T00:44:10Z"});
    world.change_node(
        "node-3",
        &json!({"spec": {"taints": [unreachable("NoSchedule"), unreachable("NoExecute")]}, "status": {"conditions": [down]}}),
    );
    world
}

#[test]
fn a_pod_that_cannot_end_because_its_node_has_no_power_is_told_what_ends_it() {
    let answer = explained(&mut without_power(HOSTNAME), None);
    assert_eq!((answer.verdict, answer.outcome()), (Verdict::NotRunning, Outcome::NotWell));
    assert_eq!(
        answer.answer,
        "db-0 is being deleted, and its node node-3 has not been Ready since 2026-11-23T00:44:10Z, so nothing confirms that the \
         Pod has stopped. It ends when node-3 is back, or when its Node object is deleted."
    );
    let [back, delete] = answer.remedies.as_slice() else { panic!("{answer:#?}") };
    assert_eq!(back.text, "Bring node-3 back under its name");
    assert!(back.consequence.as_deref().unwrap().contains("finds the data"), "{back:?}");
    assert_eq!(delete.command.as_deref(), Some("kubectl delete node node-3"));
    let consequence = delete.consequence.as_deref().unwrap();
    for words in [
        "the former process may still run",
        "node-3's local disk",
        "the new Pod would be Pending: its recorded state requires kubernetes.io/hostname=node-3",
    ] {
        assert!(consequence.contains(words), "{words:?}: {consequence}");
    }
    // It is not Ready for so short a time that it has no taint yet.
    let mut world = without_power(HOSTNAME);
    world.change_node("node-3", &json!({"spec": {"taints": null}}));
    assert_eq!(explained(&mut world, None).remedies, answer.remedies);
    let consequence = explained(&mut without_power(ZONE), None).remedies[1].consequence.clone().unwrap();
    assert!(consequence.contains("the new Pod would start on node-1"), "{consequence}");
}

#[test]
fn a_pod_that_should_have_ended_is_not_well_although_nodes_may_not_be_read() {
    let mut world = without_power(HOSTNAME);
    world.forbid(Resource::Nodes);
    let answer = explained(&mut world, None);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let begin = "db-0 is being deleted on node-3, and should have been gone by 2026-11-23T00:50:30Z";
    assert!(answer.answer.starts_with(begin), "{}", answer.answer);
    // It still has time.
    let pod = world.snapshot.pods.pop().unwrap();
    let mut object = pod.object().clone();
    object["metadata"]["deletionTimestamp"] = json!("2026-11-23T01:00:20Z");
    world.snapshot.pods.push(kubectl_pps::snapshot::Pod::read(object).unwrap());
    let answer = explained(&mut world, None);
    assert_eq!((answer.verdict, answer.outcome()), (Verdict::Terminating, Outcome::Well));
}

#[test]
fn a_pod_that_waits_for_a_forgotten_node_is_told_what_is_missing() {
    let forget = |policy: &str| {
        let mut world = World::new();
        let mut spec = required(&[HOSTNAME]);
        spec["nodeDeletionPolicy"] = json!(policy);
        world.workload("db", 1, &spec);
        world.pending_pod("db", 0, &[(HOSTNAME, "node-9")]);
        world
    };
    let missing = |answer: &Explained| {
        let facts = &answer.explanation.facts;
        facts.iter().position(|fact| matches!(fact, Fact::IsForgotten { .. }))
    };
    // The state was dropped.
    let answer = explained(&mut forget("Forget"), None);
    assert_eq!(missing(&answer), Some(0), "it comes first");
    assert_eq!(answer.commands(), ["kubectl delete pod db-0"]);
    // It is dropped soon.
    let mut world = forget("Forget");
    world.record("db", "db-0", "node-9");
    assert!(missing(&explained(&mut world, None)).is_some());
    // The node is there, or nothing is forgotten.
    let mut world = forget("Forget");
    world.node("node-9", "a");
    assert_eq!(missing(&explained(&mut world, None)), None);
    assert_eq!(missing(&explained(&mut forget("Keep"), None)), None);
}

#[test]
fn a_pod_that_the_policy_refuses_is_told_how_to_start_meanwhile() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-0", "node-3");
    let refused = |name: &str| {
        [
            format!(
                "create Pod db-0 in StatefulSet db failed error: admission webhook \"{name}\" denied the request: cannot look up"
            ),
            format!(
                "create Pod db-0 in StatefulSet db failed error: Internal error occurred: failed calling webhook \"{name}\": EOF"
            ),
        ]
    };
    for policy in ["persistent-pod-state", "persistent-pod-state-custom-workloads"] {
        for refusal in refused(&format!("clusterwide-{policy}.kubewarden.admission")) {
            let answer = explained(&mut world, Some(&[refusal]));
            assert_eq!(answer.verdict, Verdict::Refused);
            assert_eq!(
                answer.commands(),
                [
                    "kubectl pps check",
                    "kubectl label namespace shop persistent-pod-state/injection=disabled --overwrite",
                ]
            );
            let consequence = answer.remedies[1].consequence.as_deref().unwrap();
            assert!(consequence.contains("persistent-pod-state/injection=enabled"), "{consequence}");
        }
    }
    // Somebody else refuses it.
    for refusal in refused("clusterwide-no-root.kubewarden.admission") {
        assert_eq!(explained(&mut world, Some(&[refusal])).commands(), [""; 0]);
    }
}

/// `db-0` must come back to zone `b`, where `db-1` runs: two Pods are more than `maxSkew` if fewer than three zones count.
fn spread(policy: &str) -> World {
    let mut world = World::new();
    world.workload("db", 2, &required(&[ZONE]));
    world.node("node-4", "c");
    let labels = json!({"matchLabels": {"app": "db"}});
    let constraint = json!({"topologyKey": ZONE, "maxSkew": 1, "minDomains": 3, "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": policy, "labelSelector": labels});
    world.record("db", "db-0", "node-3");
    let mut pod = injected("db", &[(ZONE, "b")]);
    pod["spec"]["topologySpreadConstraints"] = json!([constraint]);
    pod["status"] =
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    world.pod("db", 0, &pod);
    world.ready_pod("db", 1, "node-1");
    for (ordinal, node) in [(2, "node-0"), (3, "node-4")] {
        world.ready_pod("db", ordinal, node);
    }
    world
}

#[test]
fn a_spread_constraint_that_wants_more_zones_than_the_recorded_one_is_named() {
    let answer = explained(&mut spread("Honor"), None);
    assert_eq!(answer.outcome(), Outcome::NotWell);
    let begin =
        "Set nodeAffinityPolicy: Ignore in the template's spread constraint over topology.kubernetes.io/zone";
    let remedy = answer.remedies.iter().find(|one| one.text.starts_with(begin)).unwrap();
    assert!(
        remedy.text.contains("wants 3 domains, and topology.kubernetes.io/zone=b leaves one"),
        "{remedy:?}"
    );
    assert_eq!(remedy.may_land_on, ["node-3"]);
    // Kubernetes' scheduler counts all zones then.
    let answer = explained(&mut spread("Ignore"), None);
    assert_eq!(
        (answer.verdict, answer.may_land_on.as_slice()),
        (Verdict::Unscheduled, &["node-3".to_owned()][..])
    );
    // One that runs would be Pending if it were created again.
    let mut world = spread("Honor");
    let pod = world.snapshot.pods.remove(0);
    let mut object = pod.object().clone();
    json_patch::merge(&mut object, &ready("node-3", 1));
    world.snapshot.pods.push(kubectl_pps::snapshot::Pod::read(object).unwrap());
    let mut workload = world.snapshot.workloads[0].object().clone();
    let constraints =
        world.snapshot.pods.last().unwrap().object()["spec"]["topologySpreadConstraints"].clone();
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = constraints;
    world.snapshot.workloads[0] = kubectl_pps::snapshot::Workload::read(workload, "apps/v1").unwrap();
    let answer = explained(&mut world, None);
    assert_eq!(answer.verdict, Verdict::Running);
    assert!(answer.remedies.iter().any(|one| one.text.starts_with(begin)), "{answer:#?}");
}
