//! Random interleavings of what can happen in a cluster, run against the recorder: watches deliver
//! late, in pieces and as new lists; writes conflict, get lost or are answered late; the process
//! can be killed at any moment.
//!
//! A plain model recomputes each decision of the recorder from everything delivered so far. Once
//! everything is delivered and written, the outcome is compared with the cluster itself.
//!
//! A failing test prints its seed and the smallest failing input. To replay it, or to run more
//! cases:
//!
//! ```console
//! $ PROPTEST_RNG_SEED=7 cargo test -p pps-sidecar --test interleavings
//! $ PROPTEST_CASES=20000 cargo test -p pps-sidecar --test interleavings
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic"
)]

#[path = "interleavings/cluster.rs"]
mod cluster;
#[path = "interleavings/ground_truth.rs"]
mod ground_truth;
#[path = "interleavings/model.rs"]
mod model;
#[path = "interleavings/simulation.rs"]
mod simulation;
#[path = "interleavings/snapshot.rs"]
mod snapshot;
#[path = "interleavings/states.rs"]
mod states;
#[path = "interleavings/steps.rs"]
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use pps_core::Spec;
use pps_core::pps::{NodeDeletionPolicy, PodState, RecordingPolicy, RetentionPolicy};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};

use self::cluster::{Cluster, NODES, Name, PODS, PPS_OBJECTS, Pod, SpecOptions, listed};
use self::model::{expected_status, is_away, running_state, wants};
use self::simulation::{Simulation, WATCHES};
use self::states::parse_status;
use self::steps::{ClusterChange, Step, race, spec_options, step};

/// Runs `cases` cases, unless `PROPTEST_CASES` says otherwise, from a printed seed. A test prints
/// it before it starts, and libtest shows what a failed test has printed.
fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(()),
    };
    println!(
        "to replay: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={}",
        config.cases
    );
    ProptestConfig {
        rng_seed: RngSeed::Fixed(seed),
        ..config
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn decisions_match_the_model_and_converge_on_the_cluster(
        options in vec(spec_options(), PPS_OBJECTS.len()),
        names in names(),
        start in start(),
        steps in vec(step(), 0..90),
    ) {
        let mut simulation = Simulation::new(names.cluster(&options));
        if start == Start::Running {
            simulation.recover_workloads();
        }
        if start != Start::Unsettled {
            simulation.settle();
        }
        for step in &steps {
            simulation.apply(step);
        }
        simulation.settle();
        assert_at_rest(&mut simulation);

        for node in simulation.missing_nodes() {
            simulation.end_grace_period(node);
        }
        simulation.settle();
        assert_at_rest(&mut simulation);
        assert_forgotten(&simulation);

        // Neither new lists of the same objects nor a new process cause a write.
        for watch in 0..WATCHES {
            simulation.relist(watch);
        }
        simulation.settle_without_writes(false);
        simulation.restart();
        simulation.settle_without_writes(true);
    }
}

proptest! {
    #![proptest_config(config(80))]

    #[test]
    fn the_outcome_does_not_depend_on_when_writes_are_made(
        options in vec(spec_options(), PPS_OBJECTS.len()),
        names in names(),
        steps in vec(step(), 0..60),
    ) {
        // The first node that is recorded does depend on the timing.
        let options = options.iter().map(|options| SpecOptions { home: false, ..*options });
        let options: Vec<SpecOptions> = options.collect();
        let steps: Vec<Step> = steps.into_iter().map(without_home).collect();
        let timings = [WriteTiming::Interleaved, WriteTiming::AfterEachChange, WriteTiming::AtTheEnd];
        let outcomes = timings.map(|timing| {
            let mut simulation = Simulation::new(names.cluster(&options));
            for step in &steps {
                simulation.apply_with(timing, step);
            }
            simulation.recover_workloads();
            simulation.settle();
            assert_at_rest(&mut simulation);
            outcome(&simulation)
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
        prop_assert_eq!(&outcomes[0], &outcomes[2]);
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// Each race begins with everything recorded, and the ground truth judges each write.
    #[test]
    fn races_between_watches_drop_no_needed_state(
        options in vec(spec_options(), PPS_OBJECTS.len()),
        names in names(),
        races in vec((race(), any::<bool>()), 1..16),
    ) {
        let mut simulation = Simulation::new(names.cluster(&options));
        simulation.settle();
        for (race, has_recovered) in &races {
            if *has_recovered {
                simulation.settle();
                simulation.recover_workloads();
                simulation.settle();
            }
            simulation.apply(race);
        }
        simulation.settle();
        assert_at_rest(&mut simulation);
    }
}

fn without_home(mut step: Step) -> Step {
    use ClusterChange::{CreatePps, EditPps};
    if let Step::Change(CreatePps(_, options) | EditPps(_, options)) = &mut step {
        options.home = false;
    }
    step
}

/// How a workload of the custom kind says which Pods it wants.
#[derive(Clone, Copy, Debug)]
enum Names {
    Counted,
    Listed,
}

fn names() -> impl Strategy<Value = Names> {
    prop_oneof![Just(Names::Counted), Just(Names::Listed)]
}

impl Names {
    fn cluster(self, options: &[SpecOptions]) -> Cluster {
        let cluster = Cluster::new(options);
        match self {
            Self::Counted => cluster,
            Self::Listed => cluster.with_listed_names(),
        }
    }
}

/// What happens before the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// Nothing: not even the first lists are delivered.
    Unsettled,
    /// There are no Pods yet.
    WithoutPods,
    /// Each workload's Pods are Ready and recorded.
    Running,
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![1 => Just(Start::Unsettled), 1 => Just(Start::WithoutPods), 3 => Just(Start::Running)]
}

/// When changes are delivered and written.
#[derive(Clone, Copy, PartialEq)]
enum WriteTiming {
    /// As the steps say.
    Interleaved,
    AfterEachChange,
    AtTheEnd,
}

impl Simulation {
    fn apply_with(&mut self, timing: WriteTiming, step: &Step) {
        match (timing, step) {
            // Races and backups are changes of the cluster that the other timings do not make.
            (
                WriteTiming::Interleaved,
                Step::Change(ClusterChange::AnnotateWorkload(..)) | Step::Race { .. } | Step::RestoreBackup,
            )
            // What is dropped does depend on when the namespace was in scope.
            | (_, Step::Change(ClusterChange::DisableNamespace(_))) => {}
            // The outcome does depend on which kinds are watched at the end.
            (WriteTiming::Interleaved, _)
            | (_, Step::ToggleWatchedKind(_) | Step::ToggleForbiddenKind(_)) => {
                self.apply(step);
            }
            // Whether a PPS was generated for a while does depend on the timing.
            (_, Step::Change(ClusterChange::AnnotateWorkload(..))) => {}
            (_, Step::Change(change)) => {
                self.change_cluster(change);
                if timing == WriteTiming::AfterEachChange {
                    self.settle();
                }
            }
            _ => {}
        }
    }

    /// Gives each workload exactly the Pods that it wants, all Ready on existing Nodes.
    fn recover_workloads(&mut self) {
        for node in NODES {
            if !self.cluster.nodes.contains_key(node) {
                self.put_node(node, Some(1), true);
            }
        }
        for (number, (name, workload)) in PODS.into_iter().enumerate() {
            let owner = self
                .cluster
                .workloads
                .get(&workload)
                .filter(|workload| !workload.terminating)
                .cloned();
            let wanting = owner.filter(|owner| wants(workload, owner, name));
            self.delete_pod(name);
            if let Some(owner) = wanting {
                let pod = Pod {
                    owner: Some(owner.uid),
                    node: Some(NODES[number % NODES.len()]),
                    ready: true,
                    terminating: false,
                    exempt: false,
                    ip: Some(7),
                    address: Some(7),
                };
                self.put_pod(name, pod);
            }
        }
    }

    /// Settles, and asserts that no status changes. A new process may change the condition: it does
    /// not know the missing topology keys of Pods that are no longer Ready.
    fn settle_without_writes(&mut self, is_new_process: bool) {
        let before = self.cluster.objects.clone();
        self.settle();
        for (name, object) in &self.cluster.objects {
            let mut expected = before[name].clone();
            let reports_keys = |condition: &Value| condition["reason"] == "TopologyKeyMissing";
            if is_new_process
                && expected.status["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(reports_keys))
            {
                expected.status["conditions"] = object.status["conditions"].clone();
                expected.version = object.version;
            }
            // A new process may find that the compact form saves something by now.
            let is_compact = |status: &Value| !status["packed"].is_null();
            if is_new_process
                && is_compact(&object.status)
                && !is_compact(&expected.status)
                && parse_status(&object.status) == parse_status(&expected.status)
            {
                expected.status = object.status.clone();
                expected.version = object.version;
            }
            assert_eq!(
                *object, expected,
                "{name} was written although nothing had changed"
            );
        }
    }
}

/// What the properties say of the compact form means something only if runs reach it.
#[test]
fn runs_reach_the_compact_form() {
    let mut runner = TestRunner::deterministic();
    let runs = (vec(spec_options(), PPS_OBJECTS.len()), vec(step(), 0..90));
    let mut reached = 0;
    for _ in 0..40 {
        let (options, steps) = runs.new_tree(&mut runner).unwrap().current();
        let mut simulation = recorded(&options);
        let mut is_reached = simulation.has_compact_objects();
        for step in &steps {
            simulation.apply(step);
            is_reached |= simulation.has_compact_objects();
        }
        reached += u32::from(is_reached);
    }
    assert!(reached >= 10, "{reached} of 40");
}

/// Entries, desired Pods and target UID of one PPS.
type Outcome = (BTreeMap<String, PodState>, Option<i32>, Option<String>);

/// The outcome of each PPS that governs a workload with all its Pods Ready. Compares the entries of
/// the workload's own Pod names: all of them if the retention policy drops the unwanted ones, else
/// those of existing Pods.
fn outcome(simulation: &Simulation) -> BTreeMap<Name, Outcome> {
    let objects = simulation.cluster.objects.iter();
    objects
        .filter_map(|(name, object)| {
            let expected = expected_status(simulation.snapshot(), name, &BTreeSet::new())?;
            if !expected.may_be_healthy() {
                return None;
            }
            let status = parse_status(&object.status);
            let drops_unwanted =
                object.options.retention == RetentionPolicy::WhenScaled && object.target != 2;
            let is_compared = |entry: &str| {
                PODS.iter()
                    .any(|(pod, workload)| *pod == entry && *workload == object.target)
                    && (drops_unwanted || simulation.cluster.pods.contains_key(entry))
            };
            let entries = status
                .pod_states
                .into_iter()
                .filter(|(entry, _)| is_compared(entry))
                .collect();
            Some((*name, (entries, status.desired, status.target_uid)))
        })
        .collect()
}

/// Asserts, once everything is delivered and written: the watches have caught up, nothing is left
/// to write, and the recorded states agree with the cluster.
fn assert_at_rest(simulation: &mut Simulation) {
    simulation.assert_up_to_date();
    simulation.assert_generated();
    simulation.assert_aliases();
    simulation.assert_forms();
    for (name, _) in PPS_OBJECTS {
        if simulation.cluster.objects.contains_key(name) {
            assert!(
                !simulation.decide(name),
                "{name}: a write is needed that the recorder did not announce"
            );
        }
    }
    let cluster = &simulation.cluster;
    for (name, object) in cluster
        .objects
        .iter()
        .filter(|(_, object)| !object.terminating)
    {
        let Some(expected) = expected_status(simulation.snapshot(), name, &BTreeSet::new()) else {
            panic!("{name}: the model cannot decide this status at rest")
        };
        let states = parse_status(&object.status).pod_states;
        for entry in states.keys() {
            let has_source = cluster.ever_ready.contains(entry)
                || cluster
                    .foreign
                    .contains(&(object.uid.clone(), entry.clone()));
            assert!(
                has_source,
                "{name}: {entry} was never Ready, and no other client wrote it"
            );
        }
        if !expected.may_be_healthy() && !expected.reasons.contains(&"TopologyKeyMissing") {
            continue;
        }
        let uid = &cluster.workloads[&object.target].uid;
        for (pod_name, pod) in cluster
            .pods
            .iter()
            .filter(|(_, pod)| pod.owner.as_ref() == Some(uid))
        {
            let entry = states.get(*pod_name);
            let state = running_state(simulation.snapshot(), object.options, pod, entry);
            if let Some(state) = state.filter(|_| !is_away(object.options, entry, pod)) {
                assert_eq!(entry, Some(&state), "{name}: {pod_name}");
            }
        }
    }
}

/// Asserts, once all grace periods have ended: no PPS with `nodeDeletionPolicy: Forget` names a
/// missing Node, except for Pods that exist.
fn assert_forgotten(simulation: &Simulation) {
    let cluster = &simulation.cluster;
    for (name, object) in cluster
        .objects
        .iter()
        .filter(|(_, object)| !object.terminating)
    {
        let expected = expected_status(simulation.snapshot(), name, &BTreeSet::new()).unwrap();
        assert!(
            expected.confirmations.is_empty(),
            "{name}: not confirmed, or confirmed without effect: {:?}",
            expected.confirmations
        );
        let is_reported = |reason| expected.reasons.contains(reason);
        let decides_entries = expected.may_be_healthy()
            || ["TopologyKeyMissing", "WorkloadNotFound"]
                .iter()
                .any(is_reported);
        if !object.options.forget || !decides_entries {
            continue;
        }
        for (pod_name, state) in &parse_status(&object.status).pod_states {
            // Another client may write an entry that names no node.
            let is_node_present =
                state.node_name.is_empty() || cluster.nodes.contains_key(state.node_name.as_str());
            let is_backed = cluster.pods.contains_key(pod_name.as_str());
            assert!(
                is_node_present || is_backed,
                "{name}: {pod_name} still names {}",
                state.node_name
            );
        }
    }
}

/// The model reads [`SpecOptions`] and the recorder reads the spec; this is where the two meet.
#[test]
fn spec_options_produce_the_spec_that_they_describe() {
    let options = SpecOptions {
        target: 0,
        zone: true,
        host: true,
        ip: true,
        net: true,
        retention: RetentionPolicy::Retain,
        forget: true,
        home: true,
    };
    let cluster = Cluster::new(&[options; PPS_OBJECTS.len()]);
    let spec: Spec = serde_json::from_value(cluster.objects["p"].spec.clone()).unwrap();
    assert_eq!(spec.retention(), RetentionPolicy::Retain);
    assert_eq!(spec.node_deletion(), NodeDeletionPolicy::Forget);
    assert_eq!(spec.recording_policy, Some(RecordingPolicy::IfNotPresent));
    assert_eq!(spec.topology_keys().collect::<Vec<_>>(), ["zone", "host"]);
    let annotations: Vec<_> = spec
        .persistent_pod_annotations
        .iter()
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(annotations, ["ip", "net"]);
}

const PLAIN: SpecOptions = SpecOptions {
    target: 0,
    zone: false,
    host: false,
    ip: false,
    net: false,
    retention: RetentionPolicy::WhenScaled,
    forget: false,
    home: false,
};

/// A cluster in which every Pod runs and is recorded.
fn recorded(options: &[SpecOptions]) -> Simulation {
    let mut simulation = Simulation::new(Cluster::new(options));
    simulation.recover_workloads();
    simulation.settle();
    simulation
}

/// The status names the new workload from then on, so that a Pod of the former one no longer keeps
/// a state of a node that is gone.
#[test]
fn a_state_is_forgotten_once_its_pod_is_a_strangers() {
    use ClusterChange::{
        AnnotateWorkload, CreatePod, DeleteNode, MakePodUnready, ReplaceWorkload, ScaleToZero,
        ScaleUp,
    };
    let forgetful = SpecOptions {
        retention: RetentionPolicy::Retain,
        forget: true,
        ..PLAIN
    };
    let steps = [
        Step::Change(CreatePod {
            pod: 0,
            owner: 0,
            node: None,
            ready: false,
            ip: 0,
        }),
        Step::Change(MakePodUnready(235)),
        Step::Change(DeleteNode(1)),
        Step::Deliver(0, 1),
        Step::Race {
            changes: [AnnotateWorkload(0, false), ScaleToZero(0)],
            delivered: [true, true, false, false, false, false],
            rounds: 0,
        },
        Step::Change(ScaleUp(0, 0)),
        Step::Change(ReplaceWorkload(0)),
    ];
    let mut simulation = recorded(&[PLAIN, forgetful, PLAIN, PLAIN]);
    for step in &steps {
        simulation.apply(step);
    }
    simulation.settle();
    assert_at_rest(&mut simulation);
}

/// A process that has just started does not know which states are the new workload's, and which the
/// former one's. It keeps each as it keeps the new workload's, whose Pods are counted.
#[test]
fn a_surplus_state_that_may_be_the_new_workloads_is_dropped_after_two_rounds() {
    use ClusterChange::{CreatePod, ReplaceWorkload, ScaleToZero};
    let mut simulation = recorded(&[PLAIN; 4]);
    simulation.apply(&Step::Restart);
    for change in [
        ScaleToZero(2),
        CreatePod {
            pod: 86,
            owner: 2,
            node: None,
            ready: false,
            ip: 0,
        },
        ReplaceWorkload(2),
    ] {
        simulation.apply(&Step::Change(change));
    }
    for expected in [2, 2, 1] {
        simulation.settle();
        assert_eq!(simulation.cluster.objects["d"].status["recorded"], expected);
        assert_at_rest(&mut simulation);
        simulation.apply(&Step::EndSurplusRound);
    }
}

/// A Pod of the workload that is not among the names casts doubt on them.
#[test]
fn a_state_whose_name_is_no_longer_listed_is_dropped_after_two_rounds_without_its_pod() {
    use ClusterChange::{DeletePod, EditWorkload};
    let mut simulation = Simulation::new(Names::Listed.cluster(&[PLAIN; 4]));
    simulation.recover_workloads();
    simulation.settle();
    let one_name = json!({"pods": listed(&["d-0"])});
    let d1 = PODS.iter().position(|(pod, _)| *pod == "d-1").unwrap();
    let changes = [
        EditWorkload(2, one_name),
        DeletePod(u8::try_from(d1).unwrap()),
    ];
    for (change, expected) in changes.into_iter().zip([[2, 2, 2], [2, 2, 1]]) {
        simulation.apply(&Step::Change(change));
        for recorded in expected {
            simulation.settle();
            assert_eq!(simulation.cluster.objects["d"].status["recorded"], recorded);
            assert_at_rest(&mut simulation);
            simulation.apply(&Step::EndSurplusRound);
        }
    }
}

/// The drop is due when a Pod appears that the watch does not show yet.
#[test]
fn a_living_pod_without_a_listed_name_keeps_all_states() {
    use ClusterChange::{CreatePod, ScaleDown};
    let mut simulation = Simulation::new(Names::Listed.cluster(&[PLAIN; 4]));
    simulation.recover_workloads();
    simulation.settle();
    let red = PODS.iter().position(|(pod, _)| *pod == "d-red").unwrap();
    let create = CreatePod {
        pod: u8::try_from(red).unwrap(),
        owner: 2,
        node: None,
        ready: false,
        ip: 0,
    };
    simulation.apply(&Step::Race {
        changes: [ScaleDown(2), create],
        delivered: [true; 6],
        rounds: 2,
    });
    for _ in 0..3 {
        simulation.settle();
        assert_eq!(simulation.cluster.objects["d"].status["recorded"], 2);
        assert_at_rest(&mut simulation);
        simulation.apply(&Step::EndSurplusRound);
    }
}

/// The backup has no states, and what was known before is restored with the UID of the workload
/// that was replaced since.
#[test]
fn a_state_that_is_written_after_an_erasure_is_not_the_former_workloads() {
    let options = SpecOptions {
        retention: RetentionPolicy::WhenDeleted,
        ..PLAIN
    };
    let mut simulation = recorded(&[options; 4]);
    let changes = [
        ClusterChange::AnnotateWorkload(0, false),
        ClusterChange::Recreate(0),
    ];
    simulation.apply(&Step::Race {
        changes,
        delivered: [false; 6],
        rounds: 0,
    });
    simulation.apply(&Step::RestoreBackup);
    simulation.apply(&Step::RestoreBackup);
    simulation.apply(&Step::Change(ClusterChange::MoveState(0, None)));
    simulation.settle();
}
