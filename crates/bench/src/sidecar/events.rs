//! What an event takes of the processor, without the network: from the bytes of the watch to the patch.

use std::hint::black_box;

use anyhow::{Context, Result};
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::Node;
use kube::core::{PartialObjectMeta, WatchEvent};
use pps_core::to_text;
use pps_sidecar::decide::index::Index;
use pps_sidecar::facts::GroupKind;
use pps_sidecar::facts::interest::Interest;
use pps_sidecar::facts::store::Update;
use pps_sidecar::observe::wire::{self, Pod, PpsObject, StatefulSet};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::world::{NODES, World};
use crate::report::{count, micros, table, times};
use crate::sample::{Timing, race};

/// How many Pods have events.
const PODS: usize = 2_000;

/// A change that no PPS names, and one that is recorded; each beside the same among fewer Pods.
pub(super) fn growth() -> Result<String> {
    let [mut small, mut large] = [cluster(1_000)?, cluster(10_000)?];
    let [idle_small, idle_large] = race([&mut || small.next(false), &mut || large.next(false)]);
    let [busy_small, busy_large] = race([&mut || small.next(true), &mut || large.next(true)]);
    let row = |cluster: &Cluster, idle: Timing, busy: Timing| {
        let recorded = count(cluster.world.all_pods());
        vec![recorded, micros(idle.each), times(idle.ratio), micros(busy.each), times(busy.ratio)]
    };
    let rows = [row(&small, idle_small, busy_small), row(&large, idle_large, busy_large)];
    let header = ["recorded Pods", "one that does not matter", "÷ at 10,000", "one that does", "÷ at 10,000"];
    Ok(table(&header, rows))
}

/// A cluster of which everything is recorded.
fn cluster(workloads: usize) -> Result<Cluster> {
    let world = World { namespace: "bench", workloads, pods: 10, ready: true };
    let step = world.all_pods() / PODS;
    let pods = (0..PODS).map(|turn| {
        let (_, pod) = world.pod(turn * step);
        ["10.99.0.1", "10.99.0.2"].map(|ip| {
            let mut pod = pod.clone();
            pod["metadata"]["annotations"]["ovn.kubernetes.io/ip_address"] = ip.into();
            // In this order: the other way round takes longer to read.
            format!(r#"{{"type":"MODIFIED","object":{}}}"#, to_text(&pod))
        })
    });
    let interest = Interest::default();
    let index = Index::new(interest.clone());
    let mut cluster = Cluster { world, interest, index, pods: pods.collect(), turn: 0 };
    cluster.fill()?;
    Ok(cluster)
}

struct Cluster {
    world: World,
    interest: Interest,
    index: Index,
    /// Events of Pods, each with one address and with another.
    pods: Vec<[String; 2]>,
    turn: usize,
}

impl Cluster {
    fn fill(&mut self) -> Result<()> {
        let (world, index) = (self.world, &mut self.index);
        index.set_kinds_known();
        index.apply_objects(Update::Begin(0));
        for number in 0..world.workloads {
            let object: PpsObject = read(world.object(number))?;
            let key = wire::key_of(&object.metadata);
            index.apply_objects(Update::Apply(key, Box::new(wire::object_fact(object))));
        }
        index.apply_objects(Update::Done);
        let kind = GroupKind::stateful_set();
        index.apply_workloads(&kind, Update::Begin(0));
        for number in 0..world.workloads {
            let workload: StatefulSet = read(world.workload(number))?;
            let fact = wire::workload_fact(&workload);
            index.apply_workloads(&kind, Update::Apply(wire::key_of(workload.metadata()), fact));
        }
        index.apply_workloads(&kind, Update::Done);
        index.apply_nodes(Update::Begin(self.interest.labels().revision()));
        for number in 0..NODES {
            let node: PartialObjectMeta<Node> = read(super::world::node(number))?;
            index.apply_nodes(Update::Apply(wire::node_key(&node), wire::node_fact(&node, &self.interest)));
        }
        index.apply_nodes(Update::Done);
        index.apply_pods(Update::Begin(self.interest.annotations().revision()));
        for number in 0..world.all_pods() {
            let pod: Pod = read(world.pod(number))?;
            let fact = wire::pod_fact(&pod, &self.interest).context("a Pod that may have a state")?;
            index.apply_pods(Update::Apply(wire::key_of(pod.metadata()), fact));
        }
        index.apply_pods(Update::Done);
        let written = self.write();
        anyhow::ensure!(written == world.all_pods(), "{written} entries");
        Ok(())
    }

    /// Takes the next event, of a Pod whose address has changed or not, and writes what follows from it.
    fn next(&mut self, matters: bool) {
        self.turn += 1;
        // Each Pod in turn; its address is another one in each round.
        let (round, pod) = (self.turn / PODS, self.turn % PODS);
        let text = &self.pods[pod][if matters { round % 2 } else { 0 }];
        let Ok(WatchEvent::Modified(pod)) = serde_json::from_str::<WatchEvent<Pod>>(black_box(text)) else {
            return;
        };
        let Some(fact) = wire::pod_fact(&pod, &self.interest) else { return };
        self.index.apply_pods(Update::Apply(wire::key_of(pod.metadata()), fact));
        self.write();
    }

    /// Decides, and answers as an API server does that takes everything. How many entries were written.
    fn write(&mut self) -> usize {
        let mut entries = 0;
        for key in self.index.take_work().statuses {
            if let Some(write) = self.index.status_write(&key, "2026-01-07T09:10:14Z") {
                entries += write.entries;
                drop(black_box(write.patch.to_string()));
                self.index.on_status_written(&key, &write.uid, "2");
            }
        }
        entries
    }
}

fn read<T: DeserializeOwned>((key, value): (String, Value)) -> Result<T> {
    serde_json::from_value(value).context(key)
}
