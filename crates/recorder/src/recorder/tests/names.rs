//! Workloads of custom kinds that list the names of their Pods: definitions shaped after Strimzi's
//! `StrimziPodSet`, which has no number of Pods, and `CloudNativePG`'s Cluster, which has one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::demand::{Naming, ReplicasPath};
use crate::facts::WatchState;
use crate::living_pods::LivingPods;

const PERIOD: Duration = Duration::from_mins(10);
const TICK: Duration = Duration::from_secs(5);
/// One tick less than the period.
const ALMOST: Duration = Duration::from_secs(595);

fn kind() -> GroupKind {
    GroupKind {
        group: "a.io".into(),
        kind: "Listed".into(),
    }
}

/// A `StrimziPodSet` with Pods of these names.
fn pod_set(names: &[&str]) -> Value {
    let pods: Vec<Value> = names
        .iter()
        .map(|name| json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": []}}))
        .collect();
    json!({"spec": {"pods": pods}, "status": {"pods": pods.len()}})
}

/// A Cluster of `CloudNativePG` that wants so many instances and lists these.
fn cluster(instances: u64, names: &[&str]) -> Value {
    json!({"spec": {"instances": instances}, "status": {"instances": names.len(), "instanceNames": names}})
}

fn demand(object: &Value) -> Demand {
    let (names, replicas) = if object["spec"].get("instances").is_some() {
        ("status.instanceNames", ".spec.instances")
    } else {
        ("spec.pods[*].metadata.name", ".spec.replicas")
    };
    let naming = Naming::Listed {
        names: names.parse().unwrap(),
        replicas: ReplicasPath::new(replicas),
    };
    Demand::read_with_status(&object["spec"], &object["status"], &naming)
}

fn fact(object: &Value) -> WorkloadFact {
    WorkloadFact {
        api_version: "a.io/v1".into(),
        uid: "uid-w".into(),
        demand: demand(object),
        ..WorkloadFact::default()
    }
}

fn spec_of_listed() -> Value {
    let mut spec = spec("w");
    spec["targetRef"] = json!({"apiVersion": "a.io/v1", "kind": "Listed", "name": "w"});
    spec
}

/// The world, and the leader's clock.
struct Listed {
    world: World,
    now: Instant,
}

impl Listed {
    /// The workload `w` is this one, and its Pods run and are recorded in the PPS `p`.
    fn running(object: &Value, pods: &[&str]) -> Self {
        let mut world = World::new();
        world.recorder.apply(Fact::KindWatched(kind()));
        let workloads = |update| Fact::Workloads(kind(), update);
        world.recorder.apply(workloads(Update::Begin(0)));
        world
            .recorder
            .apply(workloads(Update::Apply(key("w"), fact(object))));
        world.recorder.apply(workloads(Update::Done));
        for pod in pods {
            world.pod(pod, ready_on("node-1"));
        }
        world.object("p", &spec_of_listed(), &json!({}));
        world.settle("p");
        assert_eq!(world.states("p"), pods);
        Self {
            world,
            now: Instant::now(),
        }
    }

    fn apply(&mut self, object: &Value) {
        let update = Update::Apply(key("w"), fact(object));
        self.world.recorder.apply(Fact::Workloads(kind(), update));
    }

    fn delete(&mut self, pod: &str) {
        let update = Update::Delete(key(pod));
        self.world.recorder.apply(Fact::Pods(update));
    }

    /// Time passes, as the sidecar reports it, and each write is stored.
    fn pass(&mut self, time: Duration) -> Vec<String> {
        let end = self.now + time;
        while self.now < end {
            self.world.settle("p");
            self.now += TICK;
            self.world.recorder.pass_time(self.now, 0);
        }
        self.world.settle("p");
        self.world.states("p")
    }

    /// What the condition of type Recording says.
    fn condition(&mut self) -> String {
        self.world.settle("p");
        let conditions = &self.world.tracked("p").observed.status.header.conditions;
        format!("{} {}", conditions[0].reason, conditions[0].message)
    }

    fn expect_unknown(&mut self, words: &str) {
        let condition = self.condition();
        assert!(condition.starts_with("ReplicasUnknown "), "{condition}");
        assert!(condition.contains(words), "{words} in {condition}");
    }
}

#[test]
fn drops_a_name_in_the_middle_ten_minutes_after_a_scale_down() {
    let cases = [
        (pod_set(&["w-0", "w-1", "w-2"]), pod_set(&["w-0", "w-2"])),
        (
            cluster(3, &["w-0", "w-1", "w-2"]),
            cluster(2, &["w-0", "w-2"]),
        ),
    ];
    for (before, after) in cases {
        let mut listed = Listed::running(&before, &["w-0", "w-1", "w-2"]);
        assert!(listed.condition().starts_with("AllRecorded"));
        assert_eq!(listed.world.status("p")["desired"], 3);
        listed.apply(&after);
        assert_eq!(
            listed.pass(2 * PERIOD),
            ["w-0", "w-1", "w-2"],
            "the Pod lives"
        );
        listed.expect_unknown("Pod w-1 of the workload is not among the names");
        listed.delete("w-1");
        assert_eq!(listed.pass(PERIOD), ["w-0", "w-1", "w-2"]);
        assert!(listed.condition().starts_with("AllRecorded"));
        assert_eq!(listed.pass(2 * TICK), ["w-0", "w-2"]);
        assert_eq!(listed.world.status("p")["desired"], 2);
    }
}

#[test]
fn keeps_a_listed_name_whose_pod_is_missing_for_hours() {
    for object in [pod_set(&["w-1", "w-7"]), cluster(2, &["w-1", "w-7"])] {
        let mut listed = Listed::running(&object, &["w-1", "w-7"]);
        listed.delete("w-7");
        assert_eq!(listed.pass(12 * PERIOD), ["w-1", "w-7"]);
        assert!(listed.condition().starts_with("AllRecorded"));
    }
}

#[test]
fn a_name_that_comes_back_within_ten_minutes_starts_the_time_again() {
    let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
    for _ in 0..3 {
        // Strimzi takes a Pod out of its list to re-create its volume.
        listed.delete("w-1");
        listed.apply(&pod_set(&["w-0"]));
        assert_eq!(listed.pass(ALMOST), ["w-0", "w-1"]);
        listed.apply(&pod_set(&["w-0", "w-1"]));
        assert_eq!(listed.pass(TICK), ["w-0", "w-1"]);
    }
    listed.apply(&pod_set(&["w-0"]));
    assert_eq!(listed.pass(PERIOD + 2 * TICK), ["w-0"]);
}

#[test]
fn a_name_that_is_listed_between_two_decisions_starts_the_time_again() {
    let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
    listed.delete("w-1");
    listed.apply(&pod_set(&["w-0"]));
    assert_eq!(listed.pass(ALMOST), ["w-0", "w-1"]);
    // Other writes keep the next decision waiting.
    listed.apply(&pod_set(&["w-0", "w-1"]));
    listed.now += TICK;
    listed.world.recorder.pass_time(listed.now, 0);
    listed.apply(&pod_set(&["w-0"]));
    assert_eq!(listed.pass(PERIOD), ["w-0", "w-1"]);
    assert_eq!(listed.pass(2 * TICK), ["w-0"]);
}

#[test]
fn replaces_the_states_of_renamed_pods() {
    let mut listed = Listed::running(&pod_set(&["a-0", "a-1"]), &["a-0", "a-1"]);
    listed.apply(&pod_set(&["b-5", "b-6"]));
    for (old, new) in [("a-0", "b-5"), ("a-1", "b-6")] {
        listed.delete(old);
        listed.world.pod(new, ready_on("node-2"));
    }
    assert_eq!(listed.pass(PERIOD), ["a-0", "a-1", "b-5", "b-6"]);
    assert_eq!(listed.pass(2 * TICK), ["b-5", "b-6"]);
}

#[test]
fn drops_nothing_while_the_status_is_empty_after_a_restore() {
    let names = ["w-1", "w-2", "w-3"];
    let mut listed = Listed::running(&cluster(3, &names), &names);
    for pod in names {
        listed.delete(pod);
    }
    for restored in [
        json!({"spec": {"instances": 3}}),
        json!({"spec": {"instances": 3}, "status": {}}),
        cluster(3, &[]),
        // The operator has found one of the volumes so far.
        cluster(3, &["w-2"]),
    ] {
        listed.apply(&restored);
        assert_eq!(listed.pass(3 * PERIOD), names, "{restored}");
        assert!(listed.condition().starts_with("ReplicasUnknown"));
    }
    listed.apply(&cluster(3, &["w-2", "w-3", "w-4"]));
    assert_eq!(listed.pass(PERIOD), names, "the time begins only now");
    assert_eq!(listed.pass(2 * TICK), ["w-2", "w-3"]);
}

#[test]
fn drops_nothing_by_names_that_are_not_those_of_pods() {
    let names = ["w-0", "w-1"];
    let mut listed = Listed::running(&pod_set(&names), &names);
    for pod in names {
        listed.delete(pod);
    }
    // The path leads to the names of nodes.
    listed.apply(&pod_set(&["a", "b"]));
    assert_eq!(listed.pass(3 * PERIOD), names);
    listed.expect_unknown("no name at spec.pods[*].metadata.name is that of a Pod");
    // With the name of one recorded state, the list is one of Pods.
    listed.apply(&pod_set(&["a", "b", "w-1"]));
    assert_eq!(listed.pass(PERIOD + 2 * TICK), ["w-1"]);
    assert!(listed.condition().starts_with("WaitingForPods"));
}

#[test]
fn the_drop_of_the_last_listed_state_casts_doubt_on_the_others() {
    let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
    listed.world.pod("w-1", ready_on("node-2"));
    listed.world.settle("p");
    let mut spec = spec_of_listed();
    spec["nodeDeletionPolicy"] = "Forget".into();
    let status = listed.world.status("p");
    listed.world.object("p", &spec, &status);
    listed.apply(&pod_set(&["w-0", "v-0"]));
    listed.delete("w-0");
    listed.delete("w-1");
    let recorder = &mut listed.world.recorder;
    recorder.apply(Fact::Nodes(Update::Delete("node-1".into())));
    listed.world.confirm_gone();
    assert!(listed.world.patch("p").is_some());
    listed.world.recorder.take_work();
    listed.world.accept("p");
    assert_eq!(listed.world.states("p"), ["w-1"]);
    let work = listed.world.recorder.take_work();
    assert!(work.statuses.contains(&key("p")));
    listed.expect_unknown("no name at spec.pods[*].metadata.name");
}

/// A drop was decided while a new Pod of a listed name lived, and that Pod is gone again.
#[test]
fn no_living_pod_and_no_recorded_name_refute_a_drop() {
    let mut listed = Listed::running(&pod_set(&["w-0"]), &["w-0"]);
    listed.delete("w-0");
    listed.apply(&pod_set(&["v-0"]));
    let pending = PodFact {
        ready: false,
        ..ready_on("node-1")
    };
    listed.world.pod("v-0", pending);
    listed.world.settle("p");
    listed.world.recorder.pass_time(listed.now, 0);
    listed.world.recorder.pass_time(listed.now + PERIOD, 0);
    let decision = listed.world.recorder.decide_status(&key("p"), NOW);
    let check = decision.write.unwrap().loss_check.unwrap();
    let mut living = LivingPods::default();
    let refuted = check.refuted_by_living(Some(living));
    assert!(refuted.iter().map(|pod| &**pod).eq(["w-0"]));
    living.add(&check.with_living_pods().unwrap().demand, "v-0");
    assert!(check.refuted_by_living(Some(living)).is_empty());
}

/// A backup has no UID of a workload: its states are for the next one of the name.
#[test]
fn states_without_the_uid_of_a_workload_outlive_its_first_empty_status() {
    let names = ["w-1", "w-2"];
    let mut listed = Listed::running(&cluster(2, &names), &names);
    for pod in names {
        listed.delete(pod);
    }
    let deletion = Fact::Workloads(kind(), Update::Delete(key("w")));
    listed.world.recorder.apply(deletion);
    assert_eq!(listed.pass(TICK), [""; 0]);
    let restored = names.map(|pod| (pod.to_owned(), state("node-1", "a")));
    let restored = json!({"podStates": BTreeMap::from(restored)});
    listed.world.object("p", &spec_of_listed(), &restored);
    assert_eq!(listed.pass(2 * PERIOD), names);
    for created in [json!({"spec": {"instances": 2}}), cluster(2, &names)] {
        listed.apply(&created);
        assert_eq!(listed.pass(2 * PERIOD), names, "{created}");
    }
    assert_eq!(listed.world.status("p")["targetUID"], "uid-w");
}

#[test]
fn drops_nothing_by_names_of_the_wrong_type_or_too_many() {
    let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
    listed.delete("w-1");
    let mut unnamed = pod_set(&["w-0"]);
    unnamed["spec"]["pods"][0]["metadata"] = json!({});
    let numbered = json!({"spec": {"pods": 1}});
    let many: Vec<String> = (0..=10_000).map(|number| format!("x-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (object, words) in [
        (
            unnamed,
            "something else than names of Pods at spec.pods[*].metadata.name",
        ),
        (numbered, "something else than names"),
        (pod_set(&many), "more than 10000 names"),
        (
            pod_set(&[]),
            "no name of a Pod at spec.pods[*].metadata.name",
        ),
    ] {
        listed.apply(&object);
        assert_eq!(listed.pass(2 * PERIOD), ["w-0", "w-1"], "{words}");
        listed.expect_unknown(words);
    }
    listed.apply(&pod_set(&["w-0"]));
    assert_eq!(listed.pass(PERIOD + 2 * TICK), ["w-0"]);
}

#[test]
fn ten_thousand_names_are_wanted() {
    let names: Vec<String> = (0..10_000).map(|number| format!("w-{number:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pods = ["w-00003", "w-09999"];
    let mut listed = Listed::running(&pod_set(&names), &pods);
    for pod in pods {
        listed.delete(pod);
    }
    assert_eq!(listed.pass(2 * PERIOD), pods);
    assert_eq!(listed.world.status("p")["desired"], 10_000);
    listed.apply(&pod_set(&names[..9_999]));
    assert_eq!(listed.pass(PERIOD + 2 * TICK), ["w-00003"]);
}

#[test]
fn doubt_a_broken_watch_and_a_new_leader_start_the_time_again() {
    let interruptions: [fn(&mut Listed); 3] = [
        |listed| {
            // A Pod that is not listed lives for a moment.
            listed.world.pod("w-9", ready_on("node-1"));
            listed.pass(TICK);
            listed.delete("w-9");
        },
        |listed| {
            for state in [WatchState::Down, WatchState::Up] {
                let fact = Fact::KindState(kind(), state);
                listed.world.recorder.apply(fact);
                listed.pass(TICK);
            }
        },
        |listed| listed.world.recorder.begin_term(),
    ];
    for interrupt in interruptions {
        let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
        listed.delete("w-1");
        listed.apply(&pod_set(&["w-0"]));
        listed.pass(ALMOST);
        interrupt(&mut listed);
        assert!(listed.pass(ALMOST).contains(&"w-1".into()));
        listed.pass(PERIOD + 2 * TICK);
        assert!(!listed.world.states("p").contains(&"w-1".into()));
    }
}

#[test]
fn reads_names_and_living_pods_before_a_drop() {
    let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
    listed.delete("w-1");
    let after = pod_set(&["w-0"]);
    listed.apply(&after);
    listed.world.settle("p");
    listed.world.recorder.pass_time(listed.now, 0);
    listed.world.recorder.pass_time(listed.now + PERIOD, 0);
    let decision = listed.world.recorder.decide_status(&key("p"), NOW);
    let check = decision.write.unwrap().loss_check.unwrap();
    assert!(check.unwanted().map(|pod| &**pod).eq(["w-1"]));
    let nothing = BTreeMap::new();
    let refuted = |object: &Value| {
        let refuted = check.refuted(Some(&fact(object)), &nothing, &BTreeMap::new());
        !refuted.is_empty()
    };
    assert!(refuted(&pod_set(&["w-0", "w-1"])), "it is listed again");
    assert!(refuted(&pod_set(&[])), "no names at all");
    assert!(!refuted(&after));
    let living = |pods: &[&str]| {
        let mut living = LivingPods::default();
        for pod in pods {
            living.add(&check.with_living_pods().unwrap().demand, pod);
        }
        !check.refuted_by_living(Some(living)).is_empty()
    };
    assert!(
        living(&["w-0", "w-8"]),
        "another Pod lives and is not listed"
    );
    assert!(!living(&["w-0"]));
    assert!(!check.refuted_by_living(None).is_empty(), "not read");
}

#[test]
fn other_retention_policies_keep_what_is_not_listed() {
    for policy in ["WhenDeleted", "Retain"] {
        let mut listed = Listed::running(&pod_set(&["w-0", "w-1"]), &["w-0", "w-1"]);
        let mut spec = spec("w");
        spec["targetRef"] = json!({"apiVersion": "a.io/v1", "kind": "Listed", "name": "w"});
        spec["persistentPodStateRetentionPolicy"] = policy.into();
        let status = listed.world.status("p");
        listed.world.object("p", &spec, &status);
        listed.delete("w-1");
        listed.apply(&pod_set(&["w-0"]));
        assert_eq!(listed.pass(3 * PERIOD), ["w-0", "w-1"], "{policy}");
    }
}
