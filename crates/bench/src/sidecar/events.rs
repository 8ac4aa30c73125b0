//! The CPU time that the sidecar takes for an event, without the network: from the bytes of the watch to the
//! patch.

use std::hint::black_box;

use anyhow::{Context, Result};
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

use super::layout::{ClusterLayout, NODES};
use crate::report::{count, micros, ratio, table};
use crate::sample::{Timing, compare};

/// How many Pods change.
const PODS: usize = 2_000;

/// Compares changes among many Pods with the same changes among fewer: irrelevant ones, and recorded ones.
pub(super) fn measure_growth() -> Result<String> {
    let [mut small, mut large] = [LoadedIndex::new(1_000)?, LoadedIndex::new(10_000)?];
    let irrelevant = compare([&mut || small.handle_event(false), &mut || large.handle_event(false)]);
    let recorded = compare([&mut || small.handle_event(true), &mut || large.handle_event(true)]);
    let row = |index: &LoadedIndex, irrelevant: Timing, recorded: Timing| {
        let timings = [irrelevant, recorded];
        let cells = timings.iter().flat_map(|timing| [micros(timing.each), ratio(timing.ratio)]);
        [count(index.layout.all_pods())].into_iter().chain(cells).collect()
    };
    let rows = [row(&small, irrelevant[0], recorded[0]), row(&large, irrelevant[1], recorded[1])];
    let header = ["recorded Pods", "irrelevant change", "÷ at 10,000", "recorded change", "÷ at 10,000"];
    Ok(table(&header, rows))
}

/// An index in which every Pod of a cluster is recorded, and watch events for some of these Pods.
struct LoadedIndex {
    layout: ClusterLayout,
    interest: Interest,
    index: Index,
    /// For each Pod an event with one address, and one with another.
    events: Vec<[String; 2]>,
    turn: usize,
}

impl LoadedIndex {
    fn new(workloads: usize) -> Result<Self> {
        let layout = ClusterLayout { namespace: "bench", workloads, pods: 10, ready: true };
        let step = layout.all_pods() / PODS;
        let events = (0..PODS).map(|turn| {
            let (_, pod) = layout.pod(turn * step);
            ["10.99.0.1", "10.99.0.2"].map(|ip| {
                let mut pod = pod.clone();
                pod["metadata"]["annotations"]["ovn.kubernetes.io/ip_address"] = ip.into();
                // As an API server writes it: parsing takes longer if `type` comes last.
                format!(r#"{{"type":"MODIFIED","object":{}}}"#, to_text(&pod))
            })
        });
        let interest = Interest::default();
        let index = Index::new(interest.clone());
        let mut loaded = Self { layout, interest, index, events: events.collect(), turn: 0 };
        loaded.fill()?;
        Ok(loaded)
    }

    fn fill(&mut self) -> Result<()> {
        let (layout, index) = (self.layout, &mut self.index);
        index.set_kinds_known();
        index.apply_objects(Update::Begin(0));
        for number in 0..layout.workloads {
            let object: PpsObject = read(layout.object(number))?;
            let key = wire::key_of(&object.metadata);
            index.apply_objects(Update::Apply(key, Box::new(wire::object_fact(object))));
        }
        index.apply_objects(Update::Done);
        let kind = GroupKind::stateful_set();
        index.apply_workloads(&kind, Update::Begin(0));
        for number in 0..layout.workloads {
            let workload: StatefulSet = read(layout.workload(number))?;
            let fact = wire::workload_fact(&workload);
            index.apply_workloads(&kind, Update::Apply(wire::key_of(&workload.metadata), fact));
        }
        index.apply_workloads(&kind, Update::Done);
        index.apply_nodes(Update::Begin(self.interest.labels().revision()));
        for number in 0..NODES {
            let node: PartialObjectMeta<Node> = read(super::layout::node(number))?;
            index.apply_nodes(Update::Apply(wire::node_key(&node), wire::node_fact(&node, &self.interest)));
        }
        index.apply_nodes(Update::Done);
        index.apply_pods(Update::Begin(self.interest.annotations().revision()));
        for number in 0..layout.all_pods() {
            let pod: Pod = read(layout.pod(number))?;
            let fact = wire::pod_fact(&pod, &self.interest).context("the index ignores this Pod")?;
            index.apply_pods(Update::Apply(wire::key_of(&pod.metadata), fact));
        }
        index.apply_pods(Update::Done);
        let written = self.write();
        anyhow::ensure!(
            written == layout.all_pods(),
            "{written} of {} entries are written",
            layout.all_pods()
        );
        Ok(())
    }

    /// Parses and applies the next event, and makes the writes that follow from it. If the change is to be
    /// recorded, each Pod's address alternates from round to round.
    fn handle_event(&mut self, is_recorded: bool) {
        self.turn += 1;
        let (round, pod) = (self.turn / PODS, self.turn % PODS);
        let text = &self.events[pod][if is_recorded { round % 2 } else { 0 }];
        let Ok(WatchEvent::Modified(pod)) = serde_json::from_str::<WatchEvent<Pod>>(black_box(text)) else {
            return;
        };
        let Some(fact) = wire::pod_fact(&pod, &self.interest) else { return };
        self.index.apply_pods(Update::Apply(wire::key_of(&pod.metadata), fact));
        self.write();
    }

    /// Makes all due writes, and answers each as applied. Returns the number of written entries.
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
