//! What may happen, and how.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::{Choice, NAMED_NODES, NODES, Name, Node, OBJECTS, PODS, Pod, Workload};
use super::run::Run;

/// What happens. Numbers count modulo what there is.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// In the cluster.
    World(World),
    /// What one of six watches has to tell next is told: of Pods, nodes, objects, or a kind of workloads.
    Deliver(u8, u8),
    DeliverAll,
    Relist(u8),
    TurnKind(u8),
    ForbidKind(u8),
    KnowKinds,
    Decide(u8),
    Serve(u8),
    ServeStray(u8),
    Answer(u8, bool),
    /// Decided, served and answered.
    Write(u8),
    Overdue(u8),
    Confirm(u8),
    Restart,
}

/// What happens in the cluster.
#[derive(Clone, Debug)]
pub(crate) enum World {
    PodMade {
        pod: u8,
        owner: u8,
        node: Option<u8>,
        ready: bool,
        ip: u8,
    },
    PodReady(u8, u8),
    PodUnready(u8),
    PodGoes(u8),
    PodGone(u8),
    /// Gone and made anew on another node.
    PodMoved(u8, u8),
    PodAnnotated(u8, Option<u8>),
    PodAddress(u8, Option<u8>),
    PodOwned(u8, u8),
    NodePut(u8, Option<u8>, bool),
    NodeGone(u8),
    Scaled(u8, Value),
    WorkloadGoes(u8),
    WorkloadGone(u8),
    WorkloadMade(u8, Value),
    ObjectMade(u8, Choice),
    ObjectEdited(u8, Choice),
    ObjectGoes(u8),
    ObjectGone(u8),
    ForeignStatus(u8, Value),
}

pub(crate) fn choice() -> impl Strategy<Value = Choice> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0_u8..2, flags, 0_u8..3).prop_map(|(target, (zone, host, ip, net, forget), retention)| Choice {
        target,
        zone,
        host,
        ip,
        net,
        retention,
        forget,
    })
}

fn workload_spec() -> impl Strategy<Value = Value> {
    let replicas = prop_oneof![8 => (0_u64..5).prop_map(Some), 1 => Just(None)];
    let reserved =
        proptest::collection::vec(prop_oneof![(0_u64..4).prop_map(Value::from), Just(json!("1-2"))], 0..2);
    (replicas, 0_u64..2, reserved).prop_map(
        |(replicas, start, reserved)| json!({"replicas": replicas, "ordinals": {"start": start}, "reserveOrdinals": reserved}),
    )
}

fn foreign_patch() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => (any::<u8>(), any::<u8>()).prop_map(|(pod, node)| {
            let node = pick(&NAMED_NODES, node);
            json!({"podStates": {pick(&PODS, pod).0: {"nodeName": node, "nodeTopologyLabels": {"zone": "z9"}, "annotations": {"ip": "10.9.9.9"}}}})
        }),
        2 => any::<u8>().prop_map(|pod| json!({"podStates": {pick(&PODS, pod).0: null}})),
        1 => Just(json!({"podStates": null, "targetUID": null, "recorded": null, "desired": null, "conditions": null})),
        1 => Just(json!({"conditions": [{"type": "Theirs", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})),
        1 => Just(json!({"targetUID": "uid-theirs", "recorded": 99})),
    ]
}

fn world() -> impl Strategy<Value = World> {
    let (pod, node) = (|| any::<u8>(), || 0_u8..4);
    let pods = prop_oneof![
        6 => (pod(), 0_u8..8, proptest::option::of(node()), any::<bool>(), 0_u8..4).prop_map(
            |(pod, owner, node, ready, ip)| World::PodMade { pod, owner, node, ready, ip }),
        6 => (pod(), node()).prop_map(|(pod, node)| World::PodReady(pod, node)),
        2 => pod().prop_map(World::PodUnready),
        2 => pod().prop_map(World::PodGoes),
        3 => pod().prop_map(World::PodGone),
        2 => (pod(), node()).prop_map(|(pod, node)| World::PodMoved(pod, node)),
        2 => (pod(), proptest::option::of(0_u8..3)).prop_map(|(pod, ip)| World::PodAnnotated(pod, ip)),
        1 => (pod(), proptest::option::of(1_u8..3)).prop_map(|(pod, ip)| World::PodAddress(pod, ip)),
        2 => (pod(), 0_u8..8).prop_map(|(pod, owner)| World::PodOwned(pod, owner)),
    ];
    let nodes = prop_oneof![
        2 => (node(), proptest::option::of(1_u8..3), any::<bool>())
            .prop_map(|(node, zone, host)| World::NodePut(node, zone, host)),
        1 => node().prop_map(World::NodeGone),
    ];
    let workloads = prop_oneof![
        3 => (0_u8..3, workload_spec()).prop_map(|(number, spec)| World::Scaled(number, spec)),
        1 => (0_u8..3).prop_map(World::WorkloadGoes),
        1 => (0_u8..3).prop_map(World::WorkloadGone),
        2 => (0_u8..3, workload_spec()).prop_map(|(number, spec)| World::WorkloadMade(number, spec)),
    ];
    let objects = prop_oneof![
        2 => (0_u8..4, choice()).prop_map(|(number, choice)| World::ObjectMade(number, choice)),
        2 => (0_u8..4, choice()).prop_map(|(number, choice)| World::ObjectEdited(number, choice)),
        1 => (0_u8..4).prop_map(World::ObjectGoes),
        1 => (0_u8..4).prop_map(World::ObjectGone),
        2 => (0_u8..4, foreign_patch()).prop_map(|(number, patch)| World::ForeignStatus(number, patch)),
    ];
    prop_oneof![8 => pods, 2 => nodes, 2 => workloads, 2 => objects]
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let number = || 0_u8..4;
    prop_oneof![
        24 => world().prop_map(Event::World),
        6 => (0_u8..6, 1_u8..6).prop_map(|(stream, count)| Event::Deliver(stream, count)),
        6 => Just(Event::DeliverAll),
        2 => (0_u8..6).prop_map(Event::Relist),
        1 => (1_u8..3).prop_map(Event::TurnKind),
        1 => (1_u8..3).prop_map(Event::ForbidKind),
        1 => Just(Event::KnowKinds),
        8 => number().prop_map(Event::Decide),
        4 => (0_u8..2).prop_map(Event::Serve),
        1 => number().prop_map(Event::ServeStray),
        5 => (0_u8..2, proptest::bool::weighted(0.25)).prop_map(|(number, lost)| Event::Answer(number, lost)),
        4 => number().prop_map(Event::Write),
        2 => (0_u8..5).prop_map(Event::Overdue),
        2 => (0_u8..5).prop_map(Event::Confirm),
        1 => Just(Event::Restart),
    ]
}

fn pick<T: Copy>(of: &[T], number: u8) -> T {
    of[usize::from(number) % of.len()]
}

impl Run {
    pub(crate) fn happen(&mut self, event: &Event) {
        let object = |number: u8| pick(&OBJECTS, number).0;
        match event {
            Event::World(world) => self.change(world),
            Event::Deliver(stream, count) => {
                for _ in 0..*count {
                    self.deliver(usize::from(*stream));
                }
            }
            Event::DeliverAll => {
                self.deliver_all();
            }
            Event::Relist(stream) => self.relist(usize::from(*stream)),
            Event::TurnKind(number) => self.turn_kind(usize::from(*number)),
            Event::ForbidKind(number) => self.forbid_kind(usize::from(*number)),
            Event::KnowKinds => self.know_kinds(),
            Event::Decide(number) => {
                self.decide(object(*number));
            }
            Event::Serve(number) => self.serve(usize::from(*number)),
            Event::ServeStray(number) => self.serve_stray(usize::from(*number)),
            Event::Answer(number, lost) => self.answer(usize::from(*number), *lost),
            Event::Write(number) => {
                if self.decide(object(*number)) {
                    self.write_last();
                }
            }
            Event::Overdue(node) => self.overdue(pick(&NAMED_NODES, *node)),
            Event::Confirm(node) => self.confirm(pick(&NAMED_NODES, *node)),
            Event::Restart => self.restart(),
        }
    }

    pub(crate) fn change(&mut self, world: &World) {
        match world {
            World::PodMade { pod, owner, node, ready, ip } => {
                let (name, workload) = pick(&PODS, *pod);
                if !self.cluster.pods.contains_key(name) {
                    let owner = self.owner(workload, *owner);
                    let node = node.map(|node| pick(&NODES, node));
                    let (ready, ip) = (*ready && node.is_some(), Some(*ip).filter(|ip| *ip < 3));
                    self.put_pod(name, Pod { owner, node, ready, ip, address: Some(1), terminating: false });
                }
            }
            World::PodReady(pod, node) => self.alter_pod(*pod, |pod| {
                pod.node.get_or_insert(pick(&NODES, *node));
                pod.ready = true;
            }),
            World::PodUnready(pod) => self.alter_pod(*pod, |pod| pod.ready = false),
            World::PodGoes(pod) => self.alter_pod(*pod, |pod| pod.terminating = true),
            World::PodGone(pod) => self.remove_pod(pick(&PODS, *pod).0),
            World::PodMoved(number, node) => {
                let name = pick(&PODS, *number).0;
                if let Some(pod) = self.cluster.pods.get(name).cloned() {
                    self.remove_pod(name);
                    self.put_pod(
                        name,
                        Pod { node: Some(pick(&NODES, *node)), ready: true, terminating: false, ..pod },
                    );
                }
            }
            World::PodAnnotated(pod, ip) => self.alter_pod(*pod, |pod| pod.ip = *ip),
            World::PodAddress(pod, address) => self.alter_pod(*pod, |pod| pod.address = *address),
            World::PodOwned(pod, owner) => {
                let owner = self.owner(pick(&PODS, *pod).1, *owner);
                self.alter_pod(*pod, |pod| pod.owner = owner);
            }
            World::NodePut(node, zone, host) => self.put_node(pick(&NODES, *node), *zone, *host),
            World::NodeGone(node) => {
                let name = pick(&NODES, *node);
                if self.cluster.nodes.remove(name).is_some() {
                    self.tell_node(name);
                }
            }
            World::Scaled(number, spec) => {
                self.alter_workload(*number, |workload| workload.spec.clone_from(spec));
            }
            World::WorkloadGoes(number) => {
                self.alter_workload(*number, |workload| workload.terminating = true)
            }
            World::WorkloadGone(number) => {
                if self.cluster.workloads.remove(&usize::from(*number)).is_some() {
                    self.tell_workload(usize::from(*number));
                }
            }
            World::WorkloadMade(number, spec) => {
                if !self.cluster.workloads.contains_key(&usize::from(*number)) {
                    self.cluster.make_workload(usize::from(*number), spec.clone());
                    self.tell_workload(usize::from(*number));
                }
            }
            World::ObjectMade(number, choice) => {
                let number = usize::from(*number);
                let changed = self.cluster.make_object(number, *choice);
                self.tell_object_if(changed, OBJECTS[number].0);
            }
            World::ObjectEdited(number, choice) => {
                let number = usize::from(*number);
                let changed = self.cluster.edit_object(number, *choice);
                self.tell_object_if(changed, OBJECTS[number].0);
            }
            World::ObjectGoes(number) => {
                let name = pick(&OBJECTS, *number).0;
                let changed = self.cluster.object_goes(name);
                self.tell_object_if(changed, name);
            }
            World::ObjectGone(number) => {
                let name = pick(&OBJECTS, *number).0;
                let changed = self.cluster.objects.remove(name).is_some();
                self.tell_object_if(changed, name);
            }
            World::ForeignStatus(number, patch) => {
                let name = pick(&OBJECTS, *number).0;
                let changed = self.cluster.foreign_status(name, patch);
                self.tell_object_if(changed, name);
            }
        }
    }

    /// Mostly the workload; sometimes nobody, or somebody else.
    fn owner(&self, workload: usize, number: u8) -> Option<String> {
        match number {
            0 => None,
            1 => Some("uid-stranger".into()),
            _ => self.cluster.workloads.get(&workload).map(|workload| workload.uid.clone()),
        }
    }

    pub(crate) fn put_pod(&mut self, name: Name, pod: Pod) {
        self.cluster.put_pod(name, pod);
        self.tell_pod(name);
    }

    pub(crate) fn remove_pod(&mut self, name: Name) {
        if self.cluster.pods.remove(name).is_some() {
            self.tell_pod(name);
        }
    }

    fn alter_pod(&mut self, number: u8, change: impl FnOnce(&mut Pod)) {
        let name = pick(&PODS, number).0;
        if let Some(mut pod) = self.cluster.pods.get(name).cloned() {
            change(&mut pod);
            self.put_pod(name, pod);
        }
    }

    fn alter_workload(&mut self, number: u8, change: impl FnOnce(&mut Workload)) {
        if let Some(workload) = self.cluster.workloads.get_mut(&usize::from(number)) {
            change(workload);
            self.tell_workload(usize::from(number));
        }
    }

    pub(crate) fn put_node(&mut self, name: Name, zone: Option<u8>, host: bool) {
        self.cluster.nodes.insert(name, Node { zone, host });
        self.tell_node(name);
    }

    fn tell_object_if(&mut self, changed: bool, name: Name) {
        if changed {
            self.tell_object(name);
        }
    }
}
