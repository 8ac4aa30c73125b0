use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::facts::{GroupKind, WorkloadKey};

const S: Duration = Duration::from_secs(1);
/// How long a Pod waits.
const WAIT: Duration = Duration::from_mins(1);
/// One look less.
const ALMOST: Duration = Duration::from_secs(55);

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("n", name)
}

/// `w-0` of the workload `w`, whose PPS has the same name.
fn candidate(pod: &str) -> FallbackCandidate {
    let workload = pod.split('-').next().unwrap_or_default();
    FallbackCandidate {
        pod: key(pod),
        uid: format!("uid-{pod}"),
        workload: WorkloadKey {
            object: key(workload),
            kind: GroupKind::stateful_set(),
        },
        pps: key(workload),
        pps_uid: "uid".into(),
        state: PodState {
            node_name: "node-1".into(),
            ..PodState::default()
        },
        wait: WAIT,
        question: Question::GiveUp,
    }
}

/// Pods that wait, seen every five seconds.
struct World {
    fallbacks: Fallbacks,
    now: Instant,
    waiting: Vec<FallbackCandidate>,
    ready: Vec<&'static str>,
}

impl World {
    fn new(pods: &[&str]) -> Self {
        let mut world = Self {
            fallbacks: Fallbacks::default(),
            now: Instant::now(),
            waiting: pods.iter().map(|pod| candidate(pod)).collect(),
            ready: Vec::new(),
        };
        world.look(true);
        world
    }

    fn look(&mut self, sees: bool) {
        self.fallbacks
            .follow(self.waiting.iter().cloned(), sees, self.now);
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += 5 * S;
            self.look(true);
        }
    }

    fn take(&mut self) -> Option<FallbackCandidate> {
        let ready = &self.ready;
        let is_ready = |pod: &NamespacedName| ready.contains(&&*pod.name);
        self.fallbacks.take_due(is_ready, self.now)
    }

    fn due(&mut self) -> Option<String> {
        Some(self.take()?.pod.name.to_string())
    }

    /// The Pod whose turn it is gives its place up, and no longer waits.
    fn give_up(&mut self) -> Option<String> {
        let first = self.take()?;
        self.fallbacks.on_given_up(&first);
        self.waiting.retain(|other| other.pod != first.pod);
        Some(first.pod.name.to_string())
    }
}

#[test]
fn a_pod_waits_for_as_long_as_its_requirement_says() {
    let mut world = World::new(&["w-0"]);
    world.wait(ALMOST);
    assert_eq!(world.due(), None);
    world.wait(5 * S);
    assert_eq!(world.due().as_deref(), Some("w-0"));
    assert_eq!(world.due(), None, "it is being judged");
}

#[test]
fn time_counts_only_while_this_process_leads_and_all_watches_work() {
    let mut world = World::new(&["w-0"]);
    world.wait(WAIT / 2);
    // A watch is down for an hour.
    world.now += 5 * S;
    world.look(false);
    world.now += Duration::from_hours(1);
    world.look(true);
    assert_eq!(world.due(), None);
    world.wait(25 * S);
    assert_eq!(world.due(), None);
    world.wait(5 * S);
    assert!(world.due().is_some(), "what was counted before counts");
    // Another process leads for a moment.
    let mut world = World::new(&["w-0"]);
    world.wait(ALMOST);
    world.fallbacks.clear();
    world.wait(ALMOST);
    assert_eq!(world.due(), None);
}

#[test]
fn a_stopped_process_or_a_suspended_machine_counts_no_time() {
    for step in [31 * S, Duration::from_hours(1)] {
        let mut world = World::new(&["w-0"]);
        for _ in 0..20 {
            world.now += step;
            world.look(true);
        }
        assert_eq!(world.due(), None);
        world.wait(WAIT);
        assert!(world.due().is_some());
    }
    let mut world = World::new(&["w-0"]);
    for _ in 0..2 {
        world.now += 30 * S;
        world.look(true);
    }
    assert!(world.due().is_some(), "a busy process is none");
}

#[test]
fn another_pod_or_another_place_begins_again() {
    let changes: [fn(&mut FallbackCandidate); 4] = [
        |one| one.uid = "other".into(),
        |one| one.pps_uid = "other".into(),
        |one| one.state.node_name = "node-2".into(),
        |one| {
            let labels = &mut one.state.node_topology_labels;
            labels.insert("zone".into(), "b".into());
        },
    ];
    for change in changes {
        let mut world = World::new(&["w-0"]);
        world.wait(WAIT);
        change(&mut world.waiting[0]);
        world.look(true);
        assert_eq!(world.due(), None);
        world.wait(WAIT);
        assert!(world.due().is_some());
    }
    // An annotation that is recorded is no other place.
    let mut world = World::new(&["w-0"]);
    world.wait(WAIT);
    world.waiting[0]
        .state
        .annotations
        .insert("ip".into(), "1".into());
    world.look(true);
    assert!(world.due().is_some());
    // A Pod that did not wait for a moment.
    let mut world = World::new(&["w-0"]);
    world.wait(ALMOST);
    let pod = world.waiting.remove(0);
    world.wait(5 * S);
    world.waiting.push(pod);
    world.wait(5 * S);
    assert_eq!(world.due(), None);
}

#[test]
fn one_pod_of_a_workload_falls_back_at_a_time_and_the_next_one_when_it_is_ready() {
    let mut world = World::new(&["w-1", "w-10", "w-2", "x-0"]);
    let elsewhere = &mut world.waiting[3];
    elsewhere.pod.namespace = "m".into();
    elsewhere.pps.namespace = "m".into();
    world.look(true);
    world.wait(5 * S);
    world.waiting.push(candidate("w-0"));
    world.wait(WAIT);
    // The longest waiting first; of equals the first by ordinal. Another workload does not wait.
    let first: Vec<_> = [world.take(), world.take(), world.take()]
        .into_iter()
        .flatten()
        .collect();
    let names: Vec<_> = first.iter().map(|one| one.pod.name.to_string()).collect();
    assert_eq!(names, ["x-0", "w-1"], "{names:?}");
    for one in &first {
        world.fallbacks.on_given_up(one);
        world.waiting.retain(|other| other.pod != one.pod);
    }
    world.wait(ALMOST);
    assert_eq!(world.due(), None, "w-1 is not Ready");
    world.ready.push("w-1");
    assert_eq!(world.give_up().as_deref(), Some("w-2"));
    world.wait(5 * S);
    assert_eq!(world.due(), None, "w-2 is not Ready");
    world.ready = vec!["w-2"];
    assert_eq!(world.due(), None, "w-1 is not Ready any more");
    world.ready = vec!["w-1", "w-2"];
    assert_eq!(world.give_up().as_deref(), Some("w-10"));
}

#[test]
fn pods_that_become_ready_only_together_do_not_wait_forever() {
    let mut world = World::new(&["w-0", "w-1", "w-2"]);
    world.wait(WAIT);
    for pod in ["w-0", "w-1", "w-2"] {
        assert_eq!(world.give_up().as_deref(), Some(pod));
        world.wait(ALMOST);
        assert_eq!(world.due(), None);
        world.wait(5 * S);
    }
}

#[test]
fn a_pod_that_keeps_its_place_lets_others_go_and_is_judged_again_later() {
    let mut world = World::new(&["w-0", "w-1"]);
    world.wait(WAIT);
    let pinned = world.take().unwrap();
    assert_eq!(&*pinned.pod.name, "w-0");
    world.fallbacks.on_kept(&pinned, None, world.now);
    let second = world.take().unwrap();
    assert_eq!(&*second.pod.name, "w-1");
    world.fallbacks.on_kept(&second, Some(120 * S), world.now);
    assert_eq!(world.due(), None);
    world.wait(30 * S);
    assert_eq!(world.take().unwrap(), pinned);
    world.fallbacks.on_kept(&pinned, None, world.now);
    world.wait(55 * S);
    assert_eq!(world.due(), None, "twice as long");
    world.wait(5 * S);
    assert!(world.due().is_some());
}

#[test]
fn a_pod_whose_place_was_given_up_is_created_again_before_anything_else() {
    let mut world = World::new(&["w-0", "w-1"]);
    world.waiting[1].question = Question::CreateAgain;
    world.look(true);
    assert_eq!(world.give_up().as_deref(), Some("w-1"));
    world.wait(ALMOST);
    assert_eq!(
        world.due(),
        None,
        "its place was given up a period ago at most"
    );
}

#[test]
fn a_pod_that_is_created_with_its_former_place_again_is_not_evicted_again_at_once() {
    let mut world = World::new(&["w-0"]);
    world.waiting[0].question = Question::CreateAgain;
    world.look(true);
    let evicted = world.take().unwrap();
    world.fallbacks.on_given_up(&evicted);
    // The eviction did not arrive: the same Pod is evicted by the next turn.
    world.wait(5 * S);
    world.wait(5 * S);
    let again = world.take().unwrap();
    world.fallbacks.on_given_up(&again);
    world.waiting[0].uid = "successor".into();
    world.wait(ALMOST);
    assert_eq!(world.take(), None, "its template may require the place");
    world.wait(5 * S);
    assert!(world.take().is_some());
}

#[test]
fn an_answer_of_a_former_term_ends_no_judgement_of_this_one() {
    let mut world = World::new(&["w-0", "w-1"]);
    world.wait(WAIT);
    let former = world.take().unwrap();
    world.fallbacks.clear();
    world.waiting.retain(|other| other.pod != former.pod);
    world.wait(WAIT + 5 * S);
    assert_eq!(world.due().as_deref(), Some("w-1"));
    world.fallbacks.on_kept(&former, None, world.now);
    world.waiting.push(former);
    world.wait(WAIT + 5 * S);
    assert_eq!(world.due(), None, "w-1 is being judged");
}

#[test]
fn no_more_than_a_few_pods_are_judged_at_once() {
    let pods: Vec<String> = (0..20).map(|n| format!("w{n}-0")).collect();
    let names: Vec<&str> = pods.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.wait(WAIT);
    assert!(world.take().is_some());
    assert_eq!(world.take(), None, "one of a namespace");
    for (number, pod) in world.waiting.iter_mut().enumerate() {
        pod.pod.namespace = format!("n{number}").into();
        pod.pps.namespace = pod.pod.namespace.clone();
    }
    world.fallbacks.clear();
    world.look(true);
    world.wait(WAIT);
    let judged: Vec<_> = std::iter::from_fn(|| world.take()).collect();
    assert_eq!(judged.len(), JUDGED_AT_ONCE);
    world.fallbacks.on_given_up(&judged[0]);
    assert!(world.take().is_some());
}

/// The user of `busy` deletes its Pods all the time. They are judged without waiting.
#[test]
fn pods_of_one_namespace_do_not_hold_up_those_of_others() {
    let mut world = World::new(&["w-0"]);
    world.wait(WAIT);
    let mut judged = Vec::new();
    for turn in 0..4 {
        for pod in 0..3 {
            let mut busy = candidate(&format!("b{pod}-0"));
            busy.uid = format!("uid-{turn}-{pod}");
            busy.question = Question::CreateAgain;
            busy.pod.namespace = "busy".into();
            busy.pps.namespace = "busy".into();
            world.waiting.retain(|other| other.pod != busy.pod);
            world.waiting.push(busy);
        }
        world.now += 5 * S;
        world.look(true);
        let first = world.take().unwrap();
        world.fallbacks.on_kept(&first, None, world.now);
        judged.push(first.pod.namespace.to_string());
    }
    assert!(judged[..2].contains(&"n".to_owned()), "{judged:?}");
}

/// What can happen to the three Pods of one workload.
#[derive(Clone, Debug)]
enum Step {
    /// So many seconds pass, and the watches work at their end or not.
    Pass(u64, bool),
    MakeReady(usize, bool),
    /// The Pod that is due is judged: it gives its place up and starts elsewhere, or keeps it.
    GiveUp,
    Keep,
    /// The controller creates the Pod again, which waits for its place from the beginning.
    CreateAgain(usize),
    BeginTerm,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => Just(Step::Pass(5, true)),
        2 => (1_u64..100, any::<bool>()).prop_map(|(seconds, sees)| Step::Pass(seconds, sees)),
        2 => (0_usize..3, any::<bool>()).prop_map(|(pod, ready)| Step::MakeReady(pod, ready)),
        3 => Just(Step::GiveUp),
        1 => Just(Step::Keep),
        1 => (0_usize..3).prop_map(Step::CreateAgain),
        1 => Just(Step::BeginTerm),
    ]
}

/// The rules once more, without anything that the product computes: when each Pod has been seen.
#[derive(Default)]
struct Model {
    /// The time that counts.
    counted: u64,
    saw_before: bool,
    /// For each Pod: since which counted time it waits; none if it runs.
    waits_since: [Option<u64>; 3],
    ready: [bool; 3],
    given_up: [bool; 3],
    last: Option<u64>,
}

impl Model {
    fn may_give_up(&self, pod: usize) -> bool {
        let wait = WAIT.as_secs();
        let has_waited = self.waits_since[pod].is_some_and(|since| self.counted - since >= wait);
        let are_ready = (0..3).all(|other| !self.given_up[other] || self.ready[other]);
        has_waited && (are_ready || self.last.is_none_or(|last| self.counted - last >= wait))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_pod_gives_up_its_place_too_early_or_beside_another(steps in vec(step(), 0..200)) {
        const PODS: [&str; 3] = ["w-0", "w-1", "w-2"];
        let mut world = World::new(&PODS);
        let mut model = Model { saw_before: true, waits_since: [Some(0); 3], ..Model::default() };
        let mut uids = 0;
        for step in steps {
            match step {
                Step::Pass(seconds, sees) => {
                    world.now += Duration::from_secs(seconds);
                    world.look(sees);
                    if sees && model.saw_before && seconds <= 30 {
                        model.counted += seconds;
                    }
                    model.saw_before = sees;
                }
                Step::MakeReady(pod, ready) => {
                    let runs = model.waits_since[pod].is_none();
                    model.ready[pod] = ready && runs;
                    world.ready = (0..3).filter(|pod| model.ready[*pod]).map(|pod| PODS[pod]).collect();
                }
                Step::GiveUp | Step::Keep => {
                    let Some(due) = world.take() else { continue };
                    let pod = PODS.iter().position(|name| **name == *due.pod.name).unwrap();
                    prop_assert!(model.may_give_up(pod), "{} at {}", due.pod, model.counted);
                    if matches!(step, Step::GiveUp) {
                        world.fallbacks.on_given_up(&due);
                        world.waiting.retain(|other| other.pod != due.pod);
                        model.waits_since[pod] = None;
                        model.given_up[pod] = true;
                        model.last = Some(model.counted);
                    } else {
                        world.fallbacks.on_kept(&due, None, world.now);
                    }
                }
                Step::CreateAgain(pod) => {
                    uids += 1;
                    world.waiting.retain(|other| *other.pod.name != *PODS[pod]);
                    let new = FallbackCandidate { uid: uids.to_string(), ..candidate(PODS[pod]) };
                    world.waiting.push(new);
                    model.ready[pod] = false;
                    world.ready.retain(|ready| *ready != PODS[pod]);
                    world.look(model.saw_before);
                    model.waits_since[pod] = Some(model.counted);
                }
                Step::BeginTerm => {
                    world.fallbacks.clear();
                    world.look(true);
                    model = Model { saw_before: true, ready: model.ready, counted: model.counted,
                        waits_since: model.waits_since.map(|since| since.map(|_| model.counted)),
                        ..Model::default() };
                }
            }
        }
    }
}
