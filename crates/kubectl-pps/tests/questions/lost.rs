//! What `explain` says of Pods of nodes that are lost, and of Pods that the policy refuses.

use kubectl_pps::Outcome;
use kubectl_pps::decide::explain::Verdict;
use serde_json::{Value, json};

use crate::world::{Explained, HOSTNAME, World, ZONE, injected, ready, required};

/// 2026-11-23T01:00:00Z
const NOW: i64 = 1_795_395_600;

fn explained(world: &mut World, refusals: &[String]) -> Explained {
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
    let unreachable =
        |effect: &str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
    let down =
        json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-23T00:44:10Z"});
    world.change_node(
        "node-3",
        &json!({"spec": {"taints": [unreachable("NoSchedule"), unreachable("NoExecute")]}, "status": {"conditions": [down]}}),
    );
    world
}

#[test]
fn a_pod_that_cannot_end_because_its_node_has_no_power_is_told_what_ends_it() {
    let answer = explained(&mut without_power(HOSTNAME), &[]);
    assert_eq!(
        (answer.verdict, answer.outcome()),
        (Verdict::NotRunning, Outcome::NotWell)
    );
    assert_eq!(
        answer.answer,
        "db-0 is being deleted, and its node node-3 has not been Ready since \
         2026-11-23T00:44:10Z, so nothing confirms that the Pod has stopped. It ends when node-3 \
         is back, or when its Node object is deleted."
    );
    let [delete] = answer.remedies.as_slice() else {
        panic!("{answer:#?}")
    };
    assert!(
        delete.text.starts_with("Bring node-3 back under its name."),
        "{delete:?}"
    );
    assert_eq!(
        delete.command.as_deref(),
        Some("kubectl delete node node-3")
    );
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
    assert_eq!(explained(&mut world, &[]).remedies, answer.remedies);
    let consequence = explained(&mut without_power(ZONE), &[]).remedies[0]
        .consequence
        .clone()
        .unwrap();
    assert!(
        consequence.contains("the new Pod would start on node-1"),
        "{consequence}"
    );
}

#[test]
fn a_pod_that_the_policy_refuses_is_told_how_to_start_meanwhile() {
    let mut world = World::new();
    world.workload("db", 1, &required(&[ZONE]));
    world.record("db", "db-0", "node-3");
    let refused = |name: &str| {
        [
            format!(
                "create Pod db-0 in StatefulSet db failed error: admission webhook \"{name}\" \
                 denied the request: cannot look up"
            ),
            format!(
                "create Pod db-0 in StatefulSet db failed error: Internal error occurred: failed \
                 calling webhook \"{name}\": EOF"
            ),
        ]
    };
    for policy in [
        "persistent-pod-state",
        "persistent-pod-state-custom-workloads",
    ] {
        for refusal in refused(&format!("clusterwide-{policy}.kubewarden.admission")) {
            let answer = explained(&mut world, &[refusal]);
            assert_eq!(answer.verdict, Verdict::Refused);
            assert_eq!(
                answer.commands(),
                [
                    "kubectl pps check",
                    "kubectl label namespace shop persistent-pod-state/injection=disabled \
                     --overwrite",
                ]
            );
            let consequence = answer.remedies[1].consequence.as_deref().unwrap();
            assert!(
                consequence.contains("persistent-pod-state/injection=enabled"),
                "{consequence}"
            );
        }
    }
    // Somebody else refuses it.
    for refusal in refused("clusterwide-no-root.kubewarden.admission") {
        assert_eq!(explained(&mut world, &[refusal]).commands(), [""; 0]);
    }
}

#[test]
fn a_refusal_counts_until_the_pod_is_created() {
    let mut world = World::new();
    world.workload("db", 2, &required(&[ZONE]));
    let refused = |pod: &str, at: &str| {
        let message =
            format!("create Pod {pod} in StatefulSet db failed error: admission webhook denied it");
        json!({"reason": "FailedCreate", "message": message, "lastTimestamp": at})
    };
    let created = |what: &str, at: &str| {
        let message = format!("{what} in StatefulSet db successful");
        json!({"reason": "SuccessfulCreate", "message": message, "lastTimestamp": at})
    };
    let verdict = |events: &[Value]| {
        world
            .explain_with("db-0", &json!({"items": events}))
            .unwrap()
            .verdict
    };
    let (early, late) = ("2026-11-23T00:30:00Z", "2026-11-23T00:40:00Z");
    for newer in [
        "create Pod db-0",
        "(combined from similar events): create Pod db-0",
    ] {
        let events = [refused("db-0", early), created(newer, late)];
        assert_eq!(
            verdict(&events),
            Verdict::NotCreated,
            "it has run since: {newer}"
        );
        assert_eq!(
            verdict(&[created(newer, early), refused("db-0", late)]),
            Verdict::Refused
        );
        assert_eq!(
            verdict(&[created(newer, late), refused("db-0", late)]),
            Verdict::NotCreated
        );
    }
    for other in [
        "create Pod db-1",
        "create Claim data-db-0 Pod db-0",
        "create Pod db-00",
    ] {
        assert_eq!(
            verdict(&[created(other, late), refused("db-0", early)]),
            Verdict::Refused,
            "{other}"
        );
    }
    assert_eq!(verdict(&[refused("db-1", late)]), Verdict::NotCreated);
    let mut again = refused("db-0", early);
    again["series"] = json!({"lastObservedTime": "2026-11-23T00:50:00.000000Z"});
    assert_eq!(
        verdict(&[again, created("create Pod db-0", late)]),
        Verdict::Refused
    );
}
