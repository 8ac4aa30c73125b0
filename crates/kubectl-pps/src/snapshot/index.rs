//! Finds objects of a snapshot by what refers to them. Building it takes linear time, however many
//! objects there are.

use std::collections::{BTreeMap, HashMap};

use pps_check::read::Read;
use pps_core::TargetReference;
use pps_core::governing::{Candidate, governing};
use pps_core::owner::KINDS_WITHOUT_STABLE_NAMES;

use super::{Pod, Pps, Resource, Snapshot, Workload};

/// Group, kind and name of a workload in its namespace. The version does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    pub namespace: String,
    pub group: String,
    pub kind: String,
    pub name: String,
}

impl WorkloadKey {
    pub fn of(namespace: &str, target: &TargetReference) -> Self {
        Self {
            namespace: namespace.to_owned(),
            group: target.group().to_owned(),
            kind: target.kind.clone(),
            name: target.name.clone(),
        }
    }

    pub fn of_pod(pod: &Pod) -> Option<Self> {
        pod.owner().map(|owner| Self::of(pod.namespace(), &owner))
    }

    fn target(&self) -> TargetReference {
        let api_version = format!("{}/v1", self.group);
        TargetReference {
            api_version,
            kind: self.kind.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether its Pods keep their names, so that a PersistentPodState may govern it.
    pub fn has_stable_names(&self) -> bool {
        !KINDS_WITHOUT_STABLE_NAMES.contains(&(self.group.as_str(), self.kind.as_str()))
    }
}

/// All workloads, Pods and PersistentPodStates of a snapshot by what names them.
#[derive(Debug, Default)]
pub struct Index<'a> {
    targeting: BTreeMap<WorkloadKey, Vec<&'a Pps>>,
    has_unread_pps: bool,
    workloads: HashMap<WorkloadKey, &'a Workload>,
    owned: HashMap<WorkloadKey, Vec<&'a Pod>>,
    pods: HashMap<(&'a str, &'a str), &'a Pod>,
}

impl<'a> Index<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let has_unread_pps = snapshot.unread(Resource::PersistentPodStates).is_some();
        let mut index = Self {
            has_unread_pps,
            ..Self::default()
        };
        for pps in &snapshot.pps {
            if !pps.is_alias() && !pps.is_terminating() {
                let key = WorkloadKey::of(pps.namespace(), &pps.target());
                index.targeting.entry(key).or_default().push(pps);
            }
        }
        for (key, all) in &mut index.targeting {
            let target = &key.target();
            let candidates = all.iter().enumerate().map(|(at, pps)| {
                let candidate = Candidate {
                    name: pps.name(),
                    target,
                    created: pps.created(),
                    is_terminating: pps.is_terminating(),
                };
                (candidate, at)
            });
            let first = governing(target, candidates).unwrap_or_default();
            all[..=first].rotate_right(1);
        }
        for workload in &snapshot.workloads {
            index.workloads.insert(
                WorkloadKey::of(workload.namespace(), &workload.target()),
                workload,
            );
        }
        for pod in &snapshot.pods {
            index.pods.insert((pod.namespace(), pod.name()), pod);
            if let Some(owner) = WorkloadKey::of_pod(pod).filter(WorkloadKey::has_stable_names) {
                index.owned.entry(owner).or_default().push(pod);
            }
        }
        index
    }

    /// All workloads that a living PersistentPodState names, in order, each with its
    /// PersistentPodStates: the first one governs.
    pub fn targeted(&self) -> impl Iterator<Item = (&WorkloadKey, &[&'a Pps])> {
        self.targeting
            .iter()
            .map(|(key, all)| (key, all.as_slice()))
    }

    pub fn governing(&self, workload: &WorkloadKey) -> Option<&'a Pps> {
        self.targeting.get(workload)?.first().copied()
    }

    /// Unknown if PersistentPodStates could not all be read.
    pub fn read_governing(&self, workload: &WorkloadKey) -> Read<&'a Pps> {
        match self.governing(workload) {
            Some(pps) => Read::Known(pps),
            None if self.has_unread_pps && workload.has_stable_names() => Read::Unknown,
            None => Read::Absent,
        }
    }

    /// Whether the sidecar may record this Pod here: the PersistentPodState governs its workload
    /// and records.
    pub fn may_record(&self, pps: &Pps, pod: &Pod) -> bool {
        let records = pps
            .recording()
            .is_none_or(|recording| !pps_core::reason::stops_recording(recording.reason));
        let governing = WorkloadKey::of_pod(pod).and_then(|owner| self.governing(&owner));
        records && governing.is_some_and(|governing| governing.name() == pps.name())
    }

    pub fn workload(&self, key: &WorkloadKey) -> Option<&'a Workload> {
        self.workloads.get(key).copied()
    }

    /// The Pods whose controller this workload is, in order.
    pub fn pods_of(&self, key: &WorkloadKey) -> &[&'a Pod] {
        self.owned.get(key).map_or(&[], Vec::as_slice)
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Option<&'a Pod> {
        self.pods.get(&(namespace, name)).copied()
    }
}
