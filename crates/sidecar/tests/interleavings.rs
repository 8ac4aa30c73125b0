//! Random interleavings of what happens in a cluster, against the index: watches that tell late, in
//! pieces and anew, writes that are refused, lost or answered late, processes that end at any moment.
//!
//! Each decision of the index is compared with what follows from all that it was told, computed anew by a
//! plain model; and when everything is told and written, the outcome is compared with the cluster itself.
//!
//! `PROPTEST_CASES=20000` runs more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

#[path = "interleavings/cluster.rs"]
mod cluster;
#[path = "interleavings/events.rs"]
mod events;
#[path = "interleavings/model.rs"]
mod model;
#[path = "interleavings/run.rs"]
mod run;
#[path = "interleavings/view.rs"]
mod view;

use std::collections::BTreeMap;

use pps_core::pps::{PodState, RetentionPolicy};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use self::cluster::{Choice, Cluster, NODES, Name, OBJECTS, PODS, Pod, WORKLOADS};
use self::events::{Event, choice, event};
use self::model::{demand, running, spec_of, status_of};
use self::run::Run;

/// As many cases as take a few seconds, unless the environment says how many.
fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    config
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn what_is_recorded_follows_from_the_cluster(
        choices in vec(choice(), OBJECTS.len()),
        is_settled in proptest::bool::weighted(0.8),
        events in vec(event(), 0..90),
    ) {
        let mut run = Run::new(Cluster::new(&choices));
        if is_settled {
            run.settle();
        }
        for event in &events {
            run.happen(event);
        }
        run.settle();
        assert_rest(&mut run);

        // The grace period of all nodes that are missing ends.
        for node in run.missing() {
            run.overdue(node);
        }
        run.settle();
        assert_rest(&mut run);
        assert_forgotten(&run);

        // All of it told anew says nothing new; nor does a new process find anything to do.
        for stream in 0..6 {
            run.relist(stream);
        }
        run.settle_without_writing(false);
        run.restart();
        run.settle_without_writing(true);
    }
}

proptest! {
    #![proptest_config(config(80))]

    #[test]
    fn it_makes_no_difference_when_writes_are_made(
        choices in vec(choice(), OBJECTS.len()),
        events in vec(event(), 0..60),
    ) {
        let outcomes = [Schedule::AsItComes, Schedule::AtOnce, Schedule::AtTheEnd].map(|schedule| {
            let mut run = Run::new(Cluster::new(&choices));
            for event in &events {
                run.happen_as(schedule, event);
            }
            run.recover();
            run.settle();
            assert_rest(&mut run);
            outcome(&run)
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
        prop_assert_eq!(&outcomes[0], &outcomes[2]);
    }
}

/// When what happens is told and written.
#[derive(Clone, Copy, PartialEq)]
enum Schedule {
    AsItComes,
    AtOnce,
    AtTheEnd,
}

impl Run {
    fn happen_as(&mut self, schedule: Schedule, event: &Event) {
        match (schedule, event) {
            // What is watched at the end makes a difference.
            (Schedule::AsItComes, _) | (_, Event::TurnKind(_) | Event::ForbidKind(_)) => self.happen(event),
            (_, Event::World(world)) => {
                self.change(world);
                if schedule == Schedule::AtOnce {
                    self.settle();
                }
            }
            _ => {}
        }
    }

    /// Every workload gets the Pods that it wants, Ready on nodes that are there, and no others.
    fn recover(&mut self) {
        for node in NODES {
            if !self.cluster.nodes.contains_key(node) {
                self.put_node(node, Some(1), true);
            }
        }
        for (number, (name, workload)) in PODS.into_iter().enumerate() {
            let owner =
                self.cluster.workloads.get(&workload).filter(|workload| !workload.terminating).cloned();
            let wanted = owner.filter(|owner| {
                demand(workload, owner).wants(WORKLOADS[workload].2, name, 99)
                    == pps_core::demand::Wanted::Yes
            });
            self.remove_pod(name);
            if let Some(owner) = wanted {
                let pod = Pod {
                    owner: Some(owner.uid),
                    node: Some(NODES[number % NODES.len()]),
                    ready: true,
                    terminating: false,
                    ip: Some(7),
                    address: Some(7),
                };
                self.put_pod(name, pod);
            }
        }
    }

    /// What is due after a while in which nothing happened: nothing. A new process does not know what an
    /// earlier one has said of Pods that are no longer Ready.
    fn settle_without_writing(&mut self, is_new: bool) {
        let before = self.cluster.objects.clone();
        self.settle();
        for (name, object) in &self.cluster.objects {
            let mut expected = before[name].clone();
            let lacks = |condition: &Value| condition["reason"] == "TopologyKeyMissing";
            if is_new && expected.status["conditions"].as_array().is_some_and(|all| all.iter().any(lacks)) {
                expected.status["conditions"] = object.status["conditions"].clone();
                expected.version = object.version;
            }
            assert_eq!(*object, expected, "{name} was written at rest");
        }
    }
}

/// Entries, how many are desired, and of which workload.
type Outcome = (BTreeMap<String, PodState>, Option<i32>, Option<String>);

/// What is recorded in the objects that are in charge of a workload whose Pods are all Ready: of all names
/// that can be the workload's if the policy leaves no others, else of these Pods.
fn outcome(run: &Run) -> BTreeMap<Name, Outcome> {
    let objects = run.cluster.objects.iter();
    objects
        .filter_map(|(name, object)| {
            let wanted = model::wanted(run.view(), name)?;
            if !wanted.reasons.contains(&"Recording") {
                return None;
            }
            let status = status_of(&object.status);
            let all = spec_of(object).retention() == RetentionPolicy::WhenScaled && object.target != 2;
            let counts = |entry: &str| {
                PODS.iter().any(|(pod, workload)| *pod == entry && *workload == object.target)
                    && (all || run.cluster.pods.contains_key(entry))
            };
            let entries = status.pod_states.into_iter().filter(|(entry, _)| counts(entry)).collect();
            Some((*name, (entries, status.desired, status.target_uid)))
        })
        .collect()
}

/// When everything is told and written: what is known is what there is, nothing is left to write, and what is
/// recorded is what the cluster shows.
fn assert_rest(run: &mut Run) {
    run.assert_known();
    for (name, _) in OBJECTS {
        if run.cluster.objects.contains_key(name) {
            assert!(!run.ask(name), "{name} was to be written and nobody said so");
        }
    }
    for (name, object) in run.cluster.objects.iter().filter(|(_, object)| !object.terminating) {
        let Some(wanted) = model::wanted(run.view(), name) else {
            panic!("{name} is not decided at the end")
        };
        let (spec, states) = (spec_of(object), status_of(&object.status).pod_states);
        for entry in states.keys() {
            let known = run.cluster.ever_ready.contains(entry)
                || run.cluster.foreign.contains(&(object.uid.clone(), entry.clone()));
            assert!(known, "{name}: {entry} is invented");
        }
        if !wanted.reasons.contains(&"Recording") && !wanted.reasons.contains(&"TopologyKeyMissing") {
            continue;
        }
        let uid = &run.cluster.workloads[&object.target].uid;
        let ours = run.cluster.pods.iter().filter(|(_, pod)| pod.owner.as_ref() == Some(uid));
        for (pod_name, pod) in ours {
            let entry = states.get(*pod_name);
            if let Some(state) = running(run.view(), &spec, pod, entry) {
                assert_eq!(entry, Some(&state), "{name}: {pod_name}");
            }
        }
    }
}

/// After the grace period of all missing nodes no entry names one where the policy says Forget, but for those
/// that a Pod backs.
fn assert_forgotten(run: &Run) {
    for (name, object) in run.cluster.objects.iter().filter(|(_, object)| !object.terminating) {
        let wanted = model::wanted(run.view(), name).unwrap();
        assert!(
            wanted.questions.is_empty(),
            "{name}: {:?} was not asked or not acted upon",
            wanted.questions
        );
        let records = ["Recording", "TopologyKeyMissing", "WorkloadNotFound"]
            .iter()
            .any(|one| wanted.reasons.contains(one));
        if object.spec["nodeDeletionPolicy"] != "Forget" || !records {
            continue;
        }
        for (pod_name, state) in &status_of(&object.status).pod_states {
            let there = run.cluster.nodes.contains_key(state.node_name.as_str());
            let backed = run.cluster.pods.contains_key(pod_name.as_str());
            assert!(there || backed, "{name}: {pod_name} still names {}", state.node_name);
        }
    }
}

/// One of each, for the eye.
#[test]
fn a_choice_says_what_it_says() {
    let choice =
        Choice { target: 0, zone: true, host: true, ip: true, net: true, retention: 2, forget: true };
    let cluster = Cluster::new(&[choice; OBJECTS.len()]);
    let spec = spec_of(&cluster.objects["p"]);
    assert_eq!(spec.retention(), RetentionPolicy::Retain);
    assert_eq!(spec.topology_keys().collect::<Vec<_>>(), ["zone", "host"]);
}
