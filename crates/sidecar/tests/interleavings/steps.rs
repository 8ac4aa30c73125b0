//! The steps of a simulation: how they are generated, and what each does.

use pps_core::pps::RetentionPolicy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::{
    Cluster, NAMED_NODES, NODES, Name, Node, PODS, PPS_OBJECTS, Pod, SpecOptions, Workload, listed,
    spec_with_pods,
};
use super::simulation::Simulation;
use super::states::parse_status;

/// One step. Numbers are taken modulo the number of candidates.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Change(ClusterChange),
    /// A watch delivers so many events.
    Deliver(u8, u8),
    DeliverAll,
    /// Two changes of one workload and its Pods: only some watches deliver the first and none the
    /// second before everything that is due is written.
    Race {
        changes: [ClusterChange; 2],
        /// The watches that deliver the first change.
        delivered: [bool; 6],
        /// How many rounds of the surplus entries end between the changes.
        rounds: u8,
    },
    /// A watch delivers nothing from now on, or delivers again.
    Stall(u8),
    Relist(u8),
    ToggleWatchedKind(u8),
    ToggleForbiddenKind(u8),
    ToggleFailingKind(u8),
    FinishDiscovery,
    Decide(u8),
    ServeWrite(u8),
    ServeAbandoned(u8),
    AnswerWrite {
        write: u8,
        is_lost: bool,
    },
    /// Decides, serves and answers.
    Write(u8),
    EndGracePeriod(u8),
    LookUpNode(u8),
    /// The grace period of a missing Node ends, and the Node is looked up at once.
    ConfirmMissing(u8),
    /// A Node is new no longer.
    SettleNode(u8),
    /// Reads of Pods fail, or work again.
    ToggleReads,
    /// etcd is restored from a backup.
    RestoreBackup,
    /// The pause after a drop or change that was not confirmed is over.
    RetryHeld,
    /// A round of the surplus entries ends.
    EndSurplusRound,
    Generate(u8),
    ServeGenerated,
    Restart,
    /// The process is started again, with the other choice of forms.
    SwitchForms,
    /// The API server refuses to store the compact form unchanged, or no longer refuses it.
    ToggleRefusedForm,
}

/// A change in the cluster.
#[derive(Clone, Debug)]
pub(crate) enum ClusterChange {
    CreatePod {
        pod: u8,
        owner: u8,
        node: Option<u8>,
        ready: bool,
        ip: u8,
    },
    MakePodReady(u8, u8),
    MakePodUnready(u8),
    TerminatePod(u8),
    DeletePod(u8),
    /// Deletes the Pod and creates it again on another Node, Ready or not yet.
    MovePod(u8, u8, bool),
    AnnotatePod(u8, Option<u8>),
    /// Sets or removes the annotation that forbids to record the Pod.
    ExemptPod(u8, bool),
    /// Another client exempts a Pod and then empties its state or names another Node in it, as
    /// `kubectl pps move` does.
    MoveState(u8, Option<u8>),
    /// The sidecar gives up the place of a Pod without a Node, whatever it writes meanwhile, and is
    /// killed then, or evicts the Pod, whose successor starts on this Node.
    FallBack(u8, Option<u8>),
    SetPodAddress(u8, Option<u8>),
    SetPodOwner(u8, u8),
    PutNode(u8, Option<u8>, bool),
    DeleteNode(u8),
    EditWorkload(u8, Value),
    /// Sets or removes the annotations that ask for a generated PPS.
    AnnotateWorkload(u8, bool),
    TerminateWorkload(u8),
    DeleteWorkload(u8),
    /// Deletes the workload and leaves its Pods, without a controller.
    OrphanWorkload(u8),
    /// The workload takes over the Pods of its names that have no controller.
    AdoptPods(u8),
    /// The workload is scaled to zero, and its Pods are gone.
    ScaleToZero(u8),
    /// The workload is scaled down to its first Pod, and the others are gone.
    ScaleDown(u8),
    /// The workload is deleted with its Pods, and created again.
    Recreate(u8),
    /// The workload is scaled up, and its Pods are Ready on this Node.
    ScaleUp(u8, u8),
    /// A Node is deleted with its Pods.
    LoseNode(u8),
    /// A Node is deleted, and another machine registers with its name; it is not labelled yet.
    ReplaceNode(u8),
    CreateWorkload(u8, Value),
    /// Deletes the workload and creates it again: the same name, another UID.
    ReplaceWorkload(u8),
    CreatePps(u8, SpecOptions),
    EditPps(u8, SpecOptions),
    TerminatePps(u8),
    DeletePps(u8),
    /// Another client patches the status.
    PatchStatus(u8, Value),
    /// The namespace leaves the scope, or enters it.
    DisableNamespace(bool),
}

pub(crate) fn spec_options() -> impl Strategy<Value = SpecOptions> {
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let retention = prop_oneof![
        Just(RetentionPolicy::WhenScaled),
        Just(RetentionPolicy::WhenDeleted),
        Just(RetentionPolicy::Retain),
    ];
    (0_u8..2, flags, retention).prop_map(
        |(target, (zone, host, ip, net, forget, home), retention)| SpecOptions {
            target,
            zone,
            host,
            ip,
            net,
            retention,
            forget,
            home,
        },
    )
}

fn workload_spec() -> impl Strategy<Value = Value> {
    let replicas = prop_oneof![4 => (0_u64..5).prop_map(Some), 1 => Just(None)];
    let reserved = proptest::collection::vec(
        prop_oneof![(0_u64..4).prop_map(Value::from), Just(json!("1-2"))],
        0..2,
    );
    let own: Vec<Name> = PODS
        .iter()
        .filter(|(_, workload)| *workload == 2)
        .map(|(name, _)| *name)
        .collect();
    let names = prop_oneof![5 => proptest::sample::subsequence(own, 0..=5).prop_map(|names| listed(&names)), 1 => Just(json!("d-0"))];
    (replicas, 0_u64..2, reserved, names).prop_map(
        |(replicas, start, reserved, names)| json!({"replicas": replicas, "ordinals": {"start": start}, "reserveOrdinals": reserved, "pods": names}),
    )
}

/// A status patch by another client for the PPS of this number: mostly about Pods of a workload
/// that it may target.
fn status_patch(number: u8) -> impl Strategy<Value = Value> {
    let targets = PPS_OBJECTS[usize::from(number)].1;
    let own: Vec<Name> = PODS
        .iter()
        .filter(|(_, workload)| targets.contains(workload))
        .map(|(name, _)| *name)
        .collect();
    let pod = prop_oneof![
        3 => any::<u8>().prop_map(move |pod| pick(&own, pod)),
        1 => any::<u8>().prop_map(|pod| pick(&PODS, pod).0),
    ];
    let entry = (pod, any::<u8>()).prop_map(|(pod, node)| {
        let node = pick(&NAMED_NODES, node);
        json!({"podStates": {pod: {"nodeName": node, "nodeTopologyLabels": {"zone": "z9"}, "annotations": {"ip": "10.9.9.9"}}}})
    });
    prop_oneof![
        4 => entry,
        2 => any::<u8>().prop_map(|pod| json!({"podStates": {pick(&PODS, pod).0: null}})),
        // As docs/operations.md says.
        1 => any::<u8>().prop_map(|pod| json!({"podStates": {pick(&PODS, pod).0: {"nodeName": null, "nodeTopologyLabels": null, "annotations": null}}})),
        1 => Just(json!({"podStates": null, "packed": null})),
        // A full update by a client that knows neither.
        1 => Just(json!({"packed": null, "targetUID": null, "recorded": null, "desired": null, "conditions": null})),
        1 => Just(json!({"podStates": null, "targetUID": null, "recorded": null, "desired": null, "conditions": null})),
        1 => Just(json!({"conditions": [{"type": "Theirs", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})),
        1 => Just(json!({"targetUID": "uid-theirs", "recorded": 99})),
    ]
}

/// A change of a Pod, a Node, a workload, a PPS or the namespace, in these proportions.
pub(crate) fn cluster_change(weights: [u32; 5]) -> impl Strategy<Value = ClusterChange> {
    use ClusterChange as C;
    let (pod, node) = (|| any::<u8>(), || 0_u8..4);
    let pods = prop_oneof![
        6 => (pod(), 0_u8..8, proptest::option::of(node()), any::<bool>(), 0_u8..4).prop_map(
            |(pod, owner, node, ready, ip)| C::CreatePod { pod, owner, node, ready, ip }),
        6 => (pod(), node()).prop_map(|(pod, node)| C::MakePodReady(pod, node)),
        2 => pod().prop_map(C::MakePodUnready),
        2 => pod().prop_map(C::TerminatePod),
        3 => pod().prop_map(C::DeletePod),
        3 => (pod(), node(), any::<bool>()).prop_map(|(pod, node, ready)| C::MovePod(pod, node, ready)),
        2 => (pod(), proptest::option::of(0_u8..3)).prop_map(|(pod, ip)| C::AnnotatePod(pod, ip)),
        1 => (pod(), any::<bool>()).prop_map(|(pod, exempt)| C::ExemptPod(pod, exempt)),
        2 => (pod(), proptest::option::of(node())).prop_map(|(pod, node)| C::MoveState(pod, node)),
        3 => (pod(), proptest::option::of(node())).prop_map(|(pod, node)| C::FallBack(pod, node)),
        1 => (pod(), proptest::option::of(1_u8..3)).prop_map(|(pod, ip)| C::SetPodAddress(pod, ip)),
        2 => (pod(), 0_u8..8).prop_map(|(pod, owner)| C::SetPodOwner(pod, owner)),
    ];
    let nodes = prop_oneof![
        2 => (node(), proptest::option::of(1_u8..3), any::<bool>())
            .prop_map(|(node, zone, host)| C::PutNode(node, zone, host)),
        1 => node().prop_map(C::DeleteNode),
        1 => node().prop_map(C::LoseNode),
        1 => node().prop_map(C::ReplaceNode),
    ];
    let workloads = prop_oneof![
        5 => (0_u8..3, workload_spec()).prop_map(|(number, spec)| C::EditWorkload(number, spec)),
        3 => (0_u8..3, any::<bool>()).prop_map(|(number, annotated)| C::AnnotateWorkload(number, annotated)),
        1 => (0_u8..3).prop_map(C::OrphanWorkload),
        2 => (0_u8..3).prop_map(C::AdoptPods),
        2 => (0_u8..3).prop_map(C::ScaleToZero),
        2 => (0_u8..3).prop_map(C::ScaleDown),
        3 => (0_u8..3, 0_u8..4).prop_map(|(number, node)| C::ScaleUp(number, node)),
        1 => (0_u8..3).prop_map(C::TerminateWorkload),
        1 => (0_u8..3).prop_map(C::DeleteWorkload),
        2 => (0_u8..3, workload_spec()).prop_map(|(number, spec)| C::CreateWorkload(number, spec)),
        1 => (0_u8..3).prop_map(C::ReplaceWorkload),
    ];
    let objects = prop_oneof![
        2 => (0_u8..4, spec_options()).prop_map(|(number, options)| C::CreatePps(number, options)),
        2 => (0_u8..4, spec_options()).prop_map(|(number, options)| C::EditPps(number, options)),
        1 => (0_u8..4).prop_map(C::TerminatePps),
        1 => (0_u8..4).prop_map(C::DeletePps),
        4 => (0_u8..4).prop_flat_map(|number| (Just(number), status_patch(number)))
            .prop_map(|(number, patch)| C::PatchStatus(number, patch)),
    ];
    let namespace = proptest::bool::weighted(0.3).prop_map(C::DisableNamespace);
    let [of_pods, of_nodes, of_workloads, of_objects, of_namespace] = weights;
    prop_oneof![of_pods => pods, of_nodes => nodes, of_workloads => workloads, of_objects => objects, of_namespace => namespace]
}

/// Two changes of one workload, each of which would let states be dropped, or keep them.
pub(crate) fn race() -> impl Strategy<Value = Step> {
    use ClusterChange as C;
    let change = |number: u8| {
        prop_oneof![
            2 => Just(C::ScaleToZero(number)),
            2 => Just(C::ScaleDown(number)),
            3 => (0_u8..4).prop_map(move |node| C::ScaleUp(number, node)),
            3 => Just(C::EditWorkload(number, json!({"replicas": 3}))),
            2 => Just(C::Recreate(number)),
            1 => Just(C::ReplaceWorkload(number)),
            1 => Just(C::OrphanWorkload(number)),
            1 => Just(C::AdoptPods(number)),
            1 => Just(C::DeleteWorkload(number)),
            1 => any::<bool>().prop_map(move |annotated| C::AnnotateWorkload(number, annotated)),
            2 => (0_u8..4).prop_map(C::LoseNode),
            2 => (0_u8..4).prop_map(|node| C::PutNode(node, Some(1), true)),
            1 => (0_u8..4).prop_map(C::ReplaceNode),
            3 => (any::<u8>(), 0_u8..8, 0_u8..4).prop_map(|(pod, owner, node)|
                C::CreatePod { pod, owner, node: Some(node), ready: true, ip: 1 }),
            1 => any::<u8>().prop_map(C::DeletePod),
            2 => (any::<u8>(), proptest::option::of(0_u8..4)).prop_map(|(pod, node)| C::MoveState(pod, node)),
            2 => (any::<u8>(), proptest::option::of(0_u8..4)).prop_map(|(pod, node)| C::FallBack(pod, node)),
            2 => any::<bool>().prop_map(C::DisableNamespace),
        ]
    };
    let delivered = proptest::array::uniform6(proptest::bool::weighted(0.7));
    let rounds = prop_oneof![Just(0_u8), Just(2)];
    (0_u8..3)
        .prop_flat_map(move |number| ([change(number), change(number)], delivered, rounds.clone()))
        .prop_map(|(changes, delivered, rounds)| Step::Race {
            changes,
            delivered,
            rounds,
        })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let number = || 0_u8..4;
    prop_oneof![
        24 => cluster_change([16, 4, 8, 6, 1]).prop_map(Step::Change),
        6 => (0_u8..7, 1_u8..6).prop_map(|(watch, count)| Step::Deliver(watch, count)),
        6 => Just(Step::DeliverAll),
        6 => race(),
        3 => prop_oneof![3 => Just(0_u8), 3 => 3_u8..7, 1 => 1_u8..3].prop_map(Step::Stall),
        2 => (0_u8..7).prop_map(Step::Relist),
        1 => (1_u8..3).prop_map(Step::ToggleWatchedKind),
        1 => (1_u8..3).prop_map(Step::ToggleForbiddenKind),
        1 => (1_u8..3).prop_map(Step::ToggleFailingKind),
        1 => Just(Step::FinishDiscovery),
        8 => number().prop_map(Step::Decide),
        4 => (0_u8..2).prop_map(Step::ServeWrite),
        1 => number().prop_map(Step::ServeAbandoned),
        5 => (0_u8..2, proptest::bool::weighted(0.25))
            .prop_map(|(write, is_lost)| Step::AnswerWrite { write, is_lost }),
        8 => number().prop_map(Step::Write),
        2 => any::<u8>().prop_map(Step::ConfirmMissing),
        2 => any::<u8>().prop_map(Step::EndGracePeriod),
        2 => any::<u8>().prop_map(Step::LookUpNode),
        2 => (0_u8..4).prop_map(Step::SettleNode),
        1 => Just(Step::ToggleReads),
        1 => Just(Step::RetryHeld),
        2 => Just(Step::EndSurplusRound),
        1 => Just(Step::RestoreBackup),
        4 => (0_u8..3).prop_map(Step::Generate),
        2 => Just(Step::ServeGenerated),
        1 => Just(Step::Restart),
        1 => Just(Step::SwitchForms),
        1 => Just(Step::ToggleRefusedForm),
    ]
}

fn pick<T: Copy>(candidates: &[T], number: u8) -> T {
    candidates[usize::from(number) % candidates.len()]
}

impl Simulation {
    pub(crate) fn apply(&mut self, step: &Step) {
        let object = |number: u8| pick(&PPS_OBJECTS, number).0;
        match step {
            Step::Change(change) => self.change_cluster(change),
            Step::Deliver(watch, count) => {
                for _ in 0..*count {
                    if !self.is_stalled(usize::from(*watch)) {
                        self.deliver(usize::from(*watch));
                    }
                }
            }
            Step::DeliverAll => self.deliver_unstalled(),
            Step::Race {
                changes: [first, second],
                delivered,
                rounds,
            } => {
                self.change_cluster(first);
                for (watch, is_delivered) in delivered.iter().enumerate() {
                    while *is_delivered && !self.is_stalled(watch) && self.deliver(watch) {}
                }
                for node in self.missing_nodes() {
                    self.confirm_missing(node);
                }
                for _ in 0..*rounds {
                    self.write_all_due();
                    self.end_surplus_round();
                }
                self.change_cluster(second);
                self.write_all_due();
            }
            Step::Stall(watch) => self.toggle_stall(usize::from(*watch)),
            Step::Relist(watch) => self.relist(usize::from(*watch)),
            Step::ToggleWatchedKind(number) => self.toggle_watched_kind(usize::from(*number)),
            Step::ToggleForbiddenKind(number) => self.toggle_forbidden_kind(usize::from(*number)),
            Step::ToggleFailingKind(number) => self.toggle_failing_kind(usize::from(*number)),
            Step::FinishDiscovery => self.finish_discovery(),
            Step::Decide(number) => {
                self.decide_if_due(object(*number));
            }
            Step::ServeWrite(number) => self.serve_write(usize::from(*number)),
            Step::ServeAbandoned(number) => self.serve_abandoned(usize::from(*number)),
            Step::AnswerWrite { write, is_lost } => {
                self.answer_write(usize::from(*write), *is_lost);
            }
            Step::Write(number) => {
                if self.decide_if_due(object(*number)) {
                    self.finish_last_write();
                }
            }
            Step::EndGracePeriod(node) => {
                // Mostly of a missing Node; the recorder ignores the others.
                let missing = self.missing_nodes();
                let is_any = missing.is_empty() || *node < 50;
                self.end_grace_period(pick(if is_any { &NAMED_NODES } else { &missing }, *node));
            }
            Step::ConfirmMissing(number) => {
                let missing = self.missing_nodes();
                if !missing.is_empty() {
                    self.confirm_missing(pick(&missing, *number));
                }
            }
            Step::LookUpNode(number) => {
                let unconfirmed = self.unconfirmed_nodes();
                if !unconfirmed.is_empty() {
                    self.look_up_node(pick(&unconfirmed, *number));
                }
            }
            Step::SettleNode(node) => self.settle_node(pick(&NODES, *node)),
            Step::ToggleReads => self.toggle_reads(),
            Step::RestoreBackup => self.restore_backup(),
            Step::RetryHeld => self.retry_unconfirmed(),
            Step::EndSurplusRound => self.end_surplus_round(),
            Step::Generate(number) => {
                self.generate(usize::from(*number));
            }
            Step::ServeGenerated => self.serve_generated(0),
            Step::Restart => self.restart(),
            Step::SwitchForms => {
                self.is_compact_form_off = !self.is_compact_form_off;
                self.restart();
            }
            Step::ToggleRefusedForm => self.is_compact_form_refused = !self.is_compact_form_refused,
        }
    }

    /// A guarded write takes the place out of a Pod's entry, if the Pod has no Node and is recorded
    /// in an object that governs nothing else; then the Pod is created again, unless the process is
    /// killed.
    fn fall_back(&mut self, number: u8, node: Option<u8>) {
        let (name, workload) = pick(&PODS, number);
        let present = self.cluster.pods.get(name).cloned();
        let Some(waiting) = present.filter(|pod| pod.node.is_none() && !pod.terminating) else {
            return;
        };
        let holders: Vec<u8> = (0_u8..)
            .zip(PPS_OBJECTS)
            .filter(|(_, (object, _))| {
                let object = self.cluster.objects.get(object);
                object.is_some_and(|object| {
                    let states = parse_status(&object.status).pod_states;
                    object.target == workload && states.contains_key(name)
                })
            })
            .map(|(object, _)| object)
            .collect();
        if holders.is_empty() {
            return;
        }
        let kept = json!({"nodeName": null, "nodeTopologyLabels": null});
        for object in holders {
            let patch = json!({"podStates": {name: kept}});
            self.change_cluster(&ClusterChange::PatchStatus(object, patch));
        }
        if let Some(node) = node {
            self.delete_pod(name);
            let node = Some(pick(&NODES, node));
            self.put_pod(
                name,
                Pod {
                    node,
                    ready: false,
                    ..waiting
                },
            );
        }
    }

    /// The grace period of a missing Node ends, and the Node is looked up if the recorder asks for
    /// that.
    fn confirm_missing(&mut self, node: Name) {
        self.end_grace_period(node);
        self.write_all_due();
        self.look_up_node(node);
    }

    pub(crate) fn write_all_due(&mut self) {
        for (name, _) in PPS_OBJECTS {
            if self.decide_if_due(name) {
                self.finish_last_write();
            }
        }
    }

    pub(crate) fn change_cluster(&mut self, change: &ClusterChange) {
        use ClusterChange as C;
        match change {
            C::CreatePod {
                pod,
                owner,
                node,
                ready,
                ip,
            } => {
                let (name, workload) = pick(&PODS, *pod);
                if !self.cluster.pods.contains_key(name) {
                    let owner = self.owner_uid(workload, *owner);
                    let node = node.map(|node| pick(&NODES, node));
                    let (ready, ip) = (*ready && node.is_some(), Some(*ip).filter(|ip| *ip < 3));
                    self.put_pod(
                        name,
                        Pod {
                            owner,
                            node,
                            ready,
                            ip,
                            address: Some(1),
                            ..Pod::default()
                        },
                    );
                }
            }
            C::MakePodReady(pod, node) => self.edit_pod(*pod, |pod| {
                pod.node.get_or_insert(pick(&NODES, *node));
                pod.ready = true;
            }),
            C::MakePodUnready(pod) => self.edit_pod(*pod, |pod| pod.ready = false),
            C::TerminatePod(pod) => self.edit_pod(*pod, |pod| pod.terminating = true),
            C::DeletePod(pod) => self.delete_pod(pick(&PODS, *pod).0),
            C::MovePod(number, node, ready) => {
                let name = pick(&PODS, *number).0;
                if let Some(pod) = self.cluster.pods.get(name).cloned() {
                    let node = Some(pick(&NODES, *node));
                    self.delete_pod(name);
                    self.put_pod(
                        name,
                        Pod {
                            node,
                            ready: *ready,
                            terminating: false,
                            exempt: false,
                            ..pod
                        },
                    );
                }
            }
            C::ExemptPod(pod, exempt) => self.edit_pod(*pod, |pod| pod.exempt = *exempt),
            C::MoveState(number, node) => {
                self.edit_pod(*number, |pod| pod.exempt = true);
                let (pod, workload) = pick(&PODS, *number);
                let node = node.map(|node| pick(&NODES, node));
                let state = json!({"nodeName": node, "nodeTopologyLabels": null});
                for (object, (_, targets)) in PPS_OBJECTS.iter().enumerate() {
                    if targets.contains(&workload) {
                        let object = u8::try_from(object).unwrap();
                        self.change_cluster(&C::PatchStatus(
                            object,
                            json!({"podStates": {pod: state}}),
                        ));
                    }
                }
            }
            C::FallBack(number, node) => self.fall_back(*number, *node),
            C::AnnotatePod(pod, ip) => self.edit_pod(*pod, |pod| pod.ip = *ip),
            C::SetPodAddress(pod, address) => self.edit_pod(*pod, |pod| pod.address = *address),
            C::SetPodOwner(pod, owner) => {
                let owner = self.owner_uid(pick(&PODS, *pod).1, *owner);
                self.edit_pod(*pod, |pod| pod.owner = owner);
            }
            C::PutNode(node, zone, host) => self.put_node(pick(&NODES, *node), *zone, *host),
            C::DeleteNode(node) => {
                let name = pick(&NODES, *node);
                if self.cluster.nodes.remove(name).is_some() {
                    self.queue_node(name);
                }
            }
            C::EditWorkload(number, spec) => {
                self.edit_workload(*number, |workload| workload.spec.clone_from(spec));
            }
            C::ScaleToZero(number) => {
                self.edit_workload(*number, |workload| workload.spec = json!({"replicas": 0}));
                for (name, _) in PODS
                    .into_iter()
                    .filter(|(_, workload)| *workload == usize::from(*number))
                {
                    self.delete_pod(name);
                }
            }
            C::ScaleDown(number) => {
                let spec = spec_with_pods(usize::from(*number), 1);
                self.edit_workload(*number, |workload| workload.spec = spec);
                for (name, _) in PODS
                    .into_iter()
                    .filter(|(_, workload)| *workload == usize::from(*number))
                    .skip(1)
                {
                    self.delete_pod(name);
                }
            }
            C::Recreate(number) => {
                for (name, _) in PODS
                    .into_iter()
                    .filter(|(_, workload)| *workload == usize::from(*number))
                {
                    self.delete_pod(name);
                }
                self.change_cluster(&C::ReplaceWorkload(*number));
            }
            C::ScaleUp(number, node) => {
                let spec = spec_with_pods(usize::from(*number), 3);
                self.edit_workload(*number, |workload| workload.spec = spec);
                let number = usize::from(*number);
                let owner = self
                    .cluster
                    .workloads
                    .get(&number)
                    .map(|workload| workload.uid.clone());
                let node = pick(&NODES, *node);
                if !self.cluster.nodes.contains_key(node) {
                    self.put_node(node, Some(1), true);
                }
                for (name, _) in PODS
                    .into_iter()
                    .filter(|(_, workload)| *workload == number)
                    .take(3)
                {
                    if owner.is_some() && !self.cluster.pods.contains_key(name) {
                        let (owner, node) = (owner.clone(), Some(node));
                        self.put_pod(
                            name,
                            Pod {
                                owner,
                                node,
                                ready: true,
                                ..Pod::default()
                            },
                        );
                    }
                }
            }
            C::ReplaceNode(node) => {
                let name = pick(&NODES, *node);
                if self.cluster.nodes.remove(name).is_some() {
                    self.queue_node(name);
                }
                self.put_node(name, None, false);
            }
            C::LoseNode(node) => {
                let node = pick(&NODES, *node);
                for (name, _) in PODS {
                    if self
                        .cluster
                        .pods
                        .get(name)
                        .is_some_and(|pod| pod.node == Some(node))
                    {
                        self.delete_pod(name);
                    }
                }
                if self.cluster.nodes.remove(node).is_some() {
                    self.queue_node(node);
                }
            }
            C::AnnotateWorkload(number, annotated) => {
                self.edit_workload(*number, |workload| workload.annotated = *annotated);
            }
            C::OrphanWorkload(number) => {
                let number = usize::from(*number);
                if let Some(workload) = self.cluster.workloads.remove(&number) {
                    self.change_owners(number, Some(&workload.uid), None);
                    self.queue_workload(number);
                }
            }
            C::AdoptPods(number) => {
                let number = usize::from(*number);
                let uid = self
                    .cluster
                    .workloads
                    .get(&number)
                    .map(|workload| workload.uid.clone());
                if uid.is_some() {
                    self.change_owners(number, None, uid.as_ref());
                }
            }
            C::TerminateWorkload(number) => {
                self.edit_workload(*number, |workload| workload.terminating = true);
            }
            C::DeleteWorkload(number) => {
                if self
                    .cluster
                    .workloads
                    .remove(&usize::from(*number))
                    .is_some()
                {
                    self.queue_workload(usize::from(*number));
                }
            }
            C::CreateWorkload(number, spec) => {
                if !self.cluster.workloads.contains_key(&usize::from(*number)) {
                    self.cluster
                        .create_workload(usize::from(*number), spec.clone());
                    self.queue_workload(usize::from(*number));
                }
            }
            C::ReplaceWorkload(number) => {
                let number = usize::from(*number);
                if let Some(workload) = self.cluster.workloads.remove(&number) {
                    self.queue_workload(number);
                    self.cluster.create_workload(number, workload.spec);
                    if let Some(created) = self.cluster.workloads.get_mut(&number) {
                        created.annotated = workload.annotated;
                    }
                    self.queue_workload(number);
                }
            }
            C::CreatePps(number, options) => {
                self.change_pps(*number, |cluster, _| {
                    cluster.create_pps(usize::from(*number), *options)
                });
            }
            C::EditPps(number, options) => {
                self.change_pps(*number, |cluster, _| {
                    cluster.edit_pps(usize::from(*number), *options)
                });
            }
            C::TerminatePps(number) => self.change_pps(*number, Cluster::terminate_pps),
            C::DeletePps(number) => {
                self.change_pps(*number, |cluster, name| {
                    cluster.objects.remove(name).is_some()
                });
            }
            C::DisableNamespace(is_disabled) => self.set_disabled(*is_disabled),
            C::PatchStatus(number, patch) => {
                self.change_pps(*number, |cluster, name| {
                    cluster.patch_status_as_other(name, patch)
                });
            }
        }
    }

    /// The owner that a new Pod gets: mostly its workload, sometimes nobody or another controller.
    fn owner_uid(&self, workload: usize, number: u8) -> Option<String> {
        match number {
            0 => None,
            1 => Some("uid-stranger".into()),
            _ => self
                .cluster
                .workloads
                .get(&workload)
                .map(|workload| workload.uid.clone()),
        }
    }

    pub(crate) fn put_pod(&mut self, name: Name, pod: Pod) {
        self.cluster.put_pod(name, pod);
        self.queue_pod(name);
    }

    pub(crate) fn delete_pod(&mut self, name: Name) {
        if self.cluster.pods.remove(name).is_some() {
            self.queue_pod(name);
        }
    }

    fn edit_pod(&mut self, number: u8, edit: impl FnOnce(&mut Pod)) {
        let name = pick(&PODS, number).0;
        if let Some(mut pod) = self.cluster.pods.get(name).cloned() {
            edit(&mut pod);
            self.put_pod(name, pod);
        }
    }

    /// Gives the Pods of a workload another controller.
    fn change_owners(&mut self, number: usize, from: Option<&String>, to: Option<&String>) {
        for (name, _) in PODS.into_iter().filter(|(_, workload)| *workload == number) {
            if let Some(pod) = self
                .cluster
                .pods
                .get(name)
                .filter(|pod| pod.owner.as_ref() == from)
            {
                let pod = Pod {
                    owner: to.cloned(),
                    ..pod.clone()
                };
                self.put_pod(name, pod);
            }
        }
    }

    fn edit_workload(&mut self, number: u8, edit: impl FnOnce(&mut Workload)) {
        if let Some(workload) = self.cluster.workloads.get_mut(&usize::from(number)) {
            edit(workload);
            self.queue_workload(usize::from(number));
        }
    }

    pub(crate) fn put_node(&mut self, name: Name, zone: Option<u8>, host: bool) {
        self.cluster.nodes.insert(name, Node { zone, host });
        self.queue_node(name);
    }

    /// Queues a watch event if `change` reports that it changed the PPS.
    fn change_pps(&mut self, number: u8, change: impl FnOnce(&mut Cluster, Name) -> bool) {
        let name = pick(&PPS_OBJECTS, number).0;
        if change(&mut self.cluster, name) {
            self.queue_pps(name);
        }
    }
}
