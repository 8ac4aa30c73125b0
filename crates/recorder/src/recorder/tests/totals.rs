//! What is counted for metrics.

use super::*;
use crate::facts::PendingPod;
use crate::ledger::BoundPod;
use crate::record::Placement;

fn unbound(injected: bool) -> PodFact {
    PodFact {
        owner: Some("uid-w".into()),
        injected,
        ..PodFact::default()
    }
}

fn bound(node: &str, injected: bool) -> PodFact {
    PodFact {
        ready: false,
        injected,
        ..ready_on(node)
    }
}

/// Where one Pod was bound; none if none was.
fn bound_pod(world: &mut World) -> Option<BoundPod> {
    let mut counts = world.recorder.take_work().bound_pods;
    let (bound, pods) = counts.pop_first()?;
    assert_eq!((pods, counts.len()), (1, 0));
    Some(bound)
}

#[test]
fn counts_where_a_pod_is_bound_once() {
    let mut world = World::with_workload();
    world.pod("w-0", unbound(false));
    world.pod("w-0", bound("node-1", false));
    world.pod("w-0", ready_on("node-1"));
    let unrecorded = BoundPod {
        placement: Placement::Unrecorded,
        is_injected: false,
    };
    assert_eq!(bound_pod(&mut world), Some(unrecorded));
    world.settle("p");

    for (node, is_injected, placement) in [
        ("node-1", true, Placement::RecordedNode),
        ("node-2", false, Placement::Elsewhere),
    ] {
        world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
        world.pod("w-0", unbound(is_injected));
        world.pod("w-0", bound(node, is_injected));
        world.pod(
            "w-0",
            PodFact {
                terminating: true,
                ..bound(node, is_injected)
            },
        );
        let expected = BoundPod {
            placement,
            is_injected,
        };
        assert_eq!(bound_pod(&mut world), Some(expected));
    }
}

#[test]
fn counts_no_pod_that_a_list_shows_bound_and_none_without_a_pps() {
    let mut world = World::with_workload();
    world.workload("other", "uid-other", 1, &[]);
    world.pod("w-0", ready_on("node-1"));
    world.pod(
        "other-0",
        PodFact {
            owner: Some("uid-other".into()),
            ..unbound(false)
        },
    );
    world.pod(
        "other-0",
        PodFact {
            owner: Some("uid-other".into()),
            ..ready_on("node-1")
        },
    );
    assert_eq!(bound_pod(&mut world), None);
}

/// A custom kind may say any number.
#[test]
fn totals_do_not_overflow() {
    let mut world = World::with_workload();
    world.workload("w", "uid-w", u64::MAX, &[]);
    world.workload("v", "uid-v", u64::MAX, &[]);
    world.object("q", &spec("v"), &json!({}));
    let totals = world.recorder.counts();
    assert_eq!(
        (totals.desired_states, totals.missing_states),
        (u64::MAX, u64::MAX)
    );
}

#[test]
fn totals_are_what_the_workloads_want_and_what_is_not_recorded() {
    let mut world = World::with_workload();
    world.workload("v", "uid-v", 1, &[]);
    world.object("q", &spec("v"), &json!({}));
    world.pod(
        "v-0",
        PodFact {
            owner: Some("uid-v".into()),
            ..ready_on("node-1")
        },
    );
    // As many states as one workload does not need any longer are missing elsewhere.
    world.pod(
        "v-1",
        PodFact {
            owner: Some("uid-v".into()),
            injected: true,
            ..ready_on("node-1")
        },
    );
    world.settle("q");
    let totals = world.recorder.counts();
    assert_eq!(
        (
            totals.desired_states,
            totals.missing_states,
            totals.injected_pods
        ),
        (4, 3, 1)
    );
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("v-1"))));
    let totals = world.recorder.counts();
    assert_eq!(
        (
            totals.desired_states,
            totals.missing_states,
            totals.injected_pods
        ),
        (4, 2, 0)
    );

    // A second PPS for the workload does not count it again.
    world.object("second", &spec("w"), &json!({}));
    assert_eq!(world.recorder.counts().desired_states, 4);
}

#[test]
fn unschedulable_pods_are_those_that_a_pps_pins() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
    ]}}});
    let waiting = |pps: &str, affinity: &Value, since| PodFact {
        pending: Some(Box::new(PendingPod {
            uid: "uid".into(),
            resource_version: "7".into(),
            pps: pps.into(),
            required_affinity: serde_json::from_value(affinity.clone()).unwrap(),
            is_unschedulable: true,
            unschedulable_since: since,
        })),
        ..unbound(true)
    };
    let mut world = World::with_workload();
    let preferred = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "v"},
        "preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": ["zone"]}}],
    });
    world.object("preferred", &preferred, &json!({}));
    world.pod("w-0", waiting("p", &json!({}), Some(1)));
    world.pod("w-1", waiting("preferred", &affinity, Some(2)));
    world.pod("w-2", waiting("p", &affinity, None));
    assert_eq!(world.recorder.counts().unschedulable_pods, 0);
    world.pod("w-2", waiting("p", &affinity, Some(4)));
    world.pod("w-3", waiting("deleted", &affinity, Some(3)));
    let totals = world.recorder.counts();
    assert_eq!(
        (totals.unschedulable_pods, totals.unschedulable_since),
        (2, Some(3))
    );
    world.pod("w-3", bound("node-1", true));
    let totals = world.recorder.counts();
    assert_eq!(
        (totals.unschedulable_pods, totals.unschedulable_since),
        (1, Some(4))
    );
}
