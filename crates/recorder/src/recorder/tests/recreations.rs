//! Pods of operators that are created again and again.

use super::*;
use crate::demand::{Naming, ReplicasPath};
use crate::facts::Incarnation;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

fn kind() -> GroupKind {
    GroupKind {
        group: "a.io".into(),
        kind: "Shard".into(),
    }
}

/// The world, and its clock in Unix seconds.
struct Operated {
    world: World,
    now: i64,
    pods: u32,
}

impl Operated {
    /// A workload `w` of a custom kind, and the PPS `p` with this spec.
    fn with_spec(change: &Value) -> Self {
        let mut world = World::new();
        let kinds = |update| Fact::Workloads(kind(), update);
        world.recorder.apply(Fact::KindWatched(kind()));
        world.recorder.apply(kinds(Update::Begin(0)));
        let mut operated = Self {
            world,
            now: 1_767_225_600,
            pods: 0,
        };
        operated.workload(1);
        let recorder = &mut operated.world.recorder;
        recorder.apply(kinds(Update::Done));
        let mut spec = spec("w");
        spec["targetRef"] = json!({"apiVersion": "a.io/v1", "kind": "Shard", "name": "w"});
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        operated.world.object("p", &spec, &json!({}));
        operated.pass(0);
        operated
    }

    fn new() -> Self {
        Self::with_spec(&json!({}))
    }

    fn workload(&mut self, generation: i64) {
        let spec = json!({"replicas": 2});
        let fact = WorkloadFact {
            api_version: "a.io/v1".into(),
            uid: "uid-w".into(),
            demand: Demand::read(&spec, &Naming::Custom(ReplicasPath::default())),
            generation: Generation(Some(generation)),
            ..WorkloadFact::default()
        };
        let update = Update::Apply(key("w"), fact);
        self.world.recorder.apply(Fact::Workloads(kind(), update));
    }

    fn pass(&mut self, seconds: i64) {
        self.now += seconds;
        let now = std::time::Instant::now();
        self.world.recorder.pass_time(now, self.now);
        self.world.settle("p");
    }

    /// The operator creates the Pod `w-0`, with what differs from a healthy one.
    fn create(&mut self, change: impl Fn(&mut PodFact, &mut Incarnation)) -> String {
        self.create_named("w-0", change)
    }

    fn create_named(
        &mut self,
        name: &str,
        change: impl Fn(&mut PodFact, &mut Incarnation),
    ) -> String {
        self.pods += 1;
        let uid = format!("pod-{}", self.pods);
        let mut incarnation = Incarnation {
            uid: uid.clone(),
            created: self.now,
            is_disturbed: false,
        };
        let mut pod = ready_on("node-1");
        pod.injected = true;
        change(&mut pod, &mut incarnation);
        pod.incarnation = Some(Box::new(incarnation));
        self.world.pod(name, pod);
        self.world.settle("p");
        uid
    }

    fn delete(&mut self) {
        self.delete_named("w-0");
    }

    fn delete_named(&mut self, name: &str) {
        let update = Update::Delete(key(name));
        self.world.recorder.apply(Fact::Pods(update));
        self.world.settle("p");
    }

    /// Some Pods live for so long, one after the other.
    fn lives(&mut self, count: u32, seconds: i64) {
        for _ in 0..count {
            self.create(|_, _| {});
            self.pass(seconds);
            self.delete();
        }
    }

    fn is_looping(&mut self) -> bool {
        self.pass(0);
        let conditions = &self.world.tracked("p").observed.status.header.conditions;
        let is_looping = conditions[0].reason == "RecreationLoop";
        if is_looping {
            assert_eq!(conditions[0].status, "True");
        }
        is_looping
    }
}

#[test]
fn reports_a_pod_that_is_created_again_three_times_within_an_hour_each() {
    let mut operated = Operated::new();
    let mut notices = Vec::new();
    // Vitess takes a while for each turn; CloudNativePG pauses for hours between.
    for pause in [0, 5 * HOUR] {
        operated.lives(2, 55 * MINUTE);
        assert!(!operated.is_looping());
        operated.pass(pause);
        operated.lives(1, 55 * MINUTE);
        assert!(operated.is_looping());
        notices.extend(operated.world.recorder.take_work().notices);
        let [notice] = &notices[..] else {
            panic!("{notices:?}");
        };
        assert_eq!(
            (notice.reason, &*notice.subject.kind),
            (Reason::RecreationLoop, "Shard")
        );
        let words = "list annotations only, no topology (docs/operators.md): the operator has \
                     created Pod w-0 again 3 times";
        assert!(notice.message.starts_with(words), "{}", notice.message);
        assert_eq!(operated.world.states("p"), ["w-0"], "nothing is given up");

        // It ends when a Pod lives.
        operated.create(|_, _| {});
        operated.pass(HOUR - 1);
        assert!(operated.is_looping());
        operated.pass(1);
        assert!(!operated.is_looping());
        operated.delete();
    }
}

#[test]
fn a_replacement_that_the_watch_shows_as_a_change_counts() {
    let mut operated = Operated::new();
    for _ in 0..4 {
        assert!(!operated.is_looping());
        operated.create(|_, _| {});
        operated.pass(MINUTE);
    }
    assert!(operated.is_looping());
}

#[test]
fn the_way_out_ends_it() {
    let mut operated = Operated::new();
    operated.lives(3, MINUTE);
    assert!(operated.is_looping());
    let mut spec = spec("w");
    spec["targetRef"] = json!({"apiVersion": "a.io/v1", "kind": "Shard", "name": "w"});
    spec["requiredPersistentTopology"] = Value::Null;
    let status = operated.world.status("p");
    operated.world.object("p", &spec, &status);
    assert!(!operated.is_looping());
    operated.lives(5, MINUTE);
    assert!(!operated.is_looping());
}

#[test]
fn a_change_of_the_workload_ends_it_and_begins_the_count() {
    let mut operated = Operated::new();
    operated.lives(3, MINUTE);
    assert!(operated.is_looping());
    operated.workload(2);
    assert!(!operated.is_looping());
    // A rollout at each change of the spec.
    for generation in 3..9 {
        operated.workload(generation);
        operated.lives(2, MINUTE);
        assert!(!operated.is_looping());
    }
}

/// Ends a Pod.
type End = fn(&mut Operated);

#[test]
fn other_ends_of_a_pod_start_the_count_again() {
    let ends: [(&str, End); 5] = [
        ("a drain, preemption, failure or restart", |operated| {
            operated.create(|_, incarnation| incarnation.is_disturbed = true);
            operated.delete();
        }),
        ("a long life", |operated| operated.lives(1, HOUR)),
        ("a move of the plugin", |operated| {
            operated.create(|pod, _| pod.exempt = true);
            operated.delete();
        }),
        ("a node that is gone", |operated| {
            operated.create(|pod, _| pod.node = Some("node-9".into()));
            operated.delete();
        }),
        ("an eviction of the sidecar", |operated| {
            let uid = operated.create(|_, _| {});
            let eviction = eviction(&uid);
            operated.world.recorder.on_pod_evicted(&eviction);
            operated.delete();
        }),
    ];
    for (what, end) in ends {
        let mut operated = Operated::new();
        operated.lives(2, MINUTE);
        end(&mut operated);
        operated.lives(2, MINUTE);
        assert!(!operated.is_looping(), "{what}");
        operated.lives(1, MINUTE);
        assert!(operated.is_looping(), "{what}");
    }
}

/// Some operators restart a whole group when one of its Pods fails.
#[test]
fn a_failed_pod_starts_the_count_of_its_group_again() {
    let mut operated = Operated::new();
    for _ in 0..5 {
        operated.create(|_, _| {});
        operated.create_named("w-1", |_, incarnation| incarnation.is_disturbed = true);
        operated.pass(MINUTE);
        operated.delete_named("w-1");
        operated.delete();
        assert!(!operated.is_looping());
    }
    operated.lives(2, MINUTE);
    assert!(operated.is_looping());
}

#[test]
fn a_loop_is_forgotten_a_day_after_its_last_pod() {
    let mut operated = Operated::new();
    operated.lives(3, MINUTE);
    operated.pass(24 * HOUR - 1);
    assert!(operated.is_looping());
    operated.pass(1);
    assert!(!operated.is_looping());
    operated.lives(2, MINUTE);
    operated.pass(23 * HOUR);
    operated.lives(1, MINUTE);
    assert!(operated.is_looping(), "each end counts for a day");
}

/// A Pod is disturbed, and then it is not, while it is being deleted or while it lives.
fn recovers(operated: &mut Operated, terminating: bool) {
    operated.create(|_, incarnation| incarnation.is_disturbed = true);
    operated.pods -= 1;
    operated.create(|pod, _| pod.terminating = terminating);
    operated.delete();
}

#[test]
fn a_pod_that_failed_before_its_deletion_is_disturbed_to_its_end() {
    for (terminating, expected) in [(true, false), (false, true)] {
        let mut operated = Operated::new();
        operated.lives(2, MINUTE);
        recovers(&mut operated, terminating);
        assert_eq!(operated.is_looping(), expected, "{terminating}");
    }
    // The next Pod of the name is another one.
    let mut operated = Operated::new();
    operated.create(|_, incarnation| incarnation.is_disturbed = true);
    for _ in 0..3 {
        operated.create(|pod, _| pod.terminating = true);
        operated.delete();
    }
    assert!(operated.is_looping());
}

fn eviction(uid: &str) -> PodEviction {
    PodEviction {
        pod: key("w-0"),
        uid: uid.into(),
        workload: WorkloadKey {
            object: key("w"),
            kind: kind(),
        },
        ..PodEviction::default()
    }
}

#[test]
fn says_nothing_where_no_affinity_is_injected() {
    let annotations_only = json!({"requiredPersistentTopology": null});
    let mut operated = Operated::with_spec(&annotations_only);
    operated.lives(5, MINUTE);
    assert!(!operated.is_looping());
}

#[test]
fn says_nothing_about_a_pod_of_a_stateful_set() {
    let mut world = World::with_workload();
    for life in 0..5 {
        let now = 1_767_225_600 + i64::from(life) * MINUTE;
        world.recorder.pass_time(std::time::Instant::now(), now);
        let incarnation = Incarnation {
            uid: life.to_string(),
            created: now,
            is_disturbed: false,
        };
        world.pod(
            "w-0",
            PodFact {
                incarnation: Some(Box::new(incarnation)),
                ..ready_on("node-1")
            },
        );
        world.settle("p");
    }
    let conditions = &world.tracked("p").observed.status.header.conditions;
    assert_eq!(conditions[0].reason, "WaitingForPods");
}

#[test]
fn a_loop_of_many_names_takes_bounded_memory() {
    let mut operated = Operated::new();
    for pod in 0..500 {
        let incarnation = Incarnation {
            created: operated.now,
            ..Incarnation::default()
        };
        let name = format!("w-{pod}");
        let pod = PodFact {
            incarnation: Some(Box::new(incarnation)),
            ..ready_on("node-1")
        };
        operated.world.pod(&name, pod);
        let update = Update::Delete(key(&name));
        operated.world.recorder.apply(Fact::Pods(update));
    }
    let recreations = &operated.world.tracked("p").progress.recreations;
    assert_eq!(recreations.followed(), 100);
}
