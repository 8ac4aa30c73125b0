//! `status`: the node and the recorded node of each Pod, and what is wrong.

mod row;

use std::collections::{BTreeMap, BTreeSet};

use pps_check::Silence;
use pps_core::{PodState, Spec};

pub use self::row::{Concern, Drift, Phase, Row, drift_of};
use super::command_line::CommandLine;
use super::names::{named, pod_name};
use crate::snapshot::{Index, Pps, Resource, Snapshot, Unread, WorkloadKey};
use crate::{Failure, Outcome};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Each Pod, by namespace, workload and ordinal.
    pub pods: Vec<Row>,
    /// Each PersistentPodState whose condition is not True, or that cannot serve its workload.
    pub problems: Vec<Problem>,
    /// The number of requested workloads that a PersistentPodState governs.
    pub governed: usize,
    /// Workloads that were asked for and have no PersistentPodState.
    pub unpinned: Vec<WorkloadKey>,
    /// Whether Pods that are wanted and do not exist are left out, because there are too many.
    pub is_cut: bool,
    pub unread: Vec<Unread>,
    /// Why no state is recorded at all; the snapshot does not show that.
    pub silence: Option<Silence>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub namespace: String,
    pub pps: String,
    pub kind: ProblemKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// Its condition is not True.
    Condition {
        reason: String,
        message: String,
    },
    NotSeen,
    Unreadable(String),
}

impl Problem {
    fn of(pps: &Pps, kind: ProblemKind) -> Self {
        Self {
            namespace: pps.namespace().to_owned(),
            pps: pps.name().to_owned(),
            kind,
        }
    }
}

impl ProblemKind {
    /// None if the condition Recording is True.
    pub(super) fn of(pps: &Pps) -> Option<Self> {
        match pps.recording() {
            Some(recording) if recording.is_true => None,
            Some(recording) => Some(Self::Condition {
                reason: recording.reason.to_owned(),
                message: recording.message.to_owned(),
            }),
            None => Some(Self::NotSeen),
        }
    }
}

impl Status {
    pub fn is_well(&self) -> bool {
        let mut concerns = self.pods.iter().filter_map(|row| row.concern);
        self.problems.is_empty() && self.silence.is_none() && !concerns.any(Concern::is_bad)
    }

    pub fn outcome(&self) -> Outcome {
        let well = if self.is_well() {
            Outcome::Well
        } else {
            Outcome::NotWell
        };
        // Without the right to list nodes there is an answer nevertheless.
        let is_incomplete = self
            .unread
            .iter()
            .any(|one| !(one.is_forbidden() && one.resource == Resource::Nodes));
        well.max(if is_incomplete {
            Outcome::Incomplete
        } else {
            Outcome::Well
        })
    }

    /// Leaves out the Pods that need no look.
    pub fn retain_problems(&mut self) {
        self.pods.retain(|row| row.concern.is_some());
    }

    pub fn is_empty(&self) -> bool {
        self.governed == 0
            && self.pods.is_empty()
            && self.unpinned.is_empty()
            && self.problems.is_empty()
    }
}

/// A workload with the PersistentPodState that governs it.
struct Governed<'a> {
    key: &'a WorkloadKey,
    pps: Option<&'a Pps>,
    spec: Spec,
    states: BTreeMap<String, PodState>,
}

/// Answers about all workloads that a PersistentPodState governs, about the workload of a name, or
/// about the workloads of the snapshot, which a selector has chosen.
pub fn status(
    snapshot: &Snapshot,
    workload: Option<&str>,
    selector: Option<&str>,
    commands: &CommandLine,
) -> Result<Status, Failure> {
    let index = Index::of(snapshot);
    let named = workload
        .map(|text| find(snapshot, &index, text, commands))
        .transpose()?
        .map(BTreeSet::from_iter);
    let selected = selector
        .map(|selector| selected(snapshot, selector))
        .transpose()?;
    let chosen = named.as_ref().or(selected.as_ref());
    let unread = snapshot.relevant_unread().cloned().collect();
    let mut status = Status {
        unread,
        ..Status::default()
    };
    for (key, all) in index.targeted() {
        let is_chosen = chosen.is_none_or(|chosen| chosen.contains(key));
        if !is_chosen || !snapshot.namespaces.contains(&key.namespace) {
            continue;
        }
        for pps in all {
            let kind = ProblemKind::of(pps);
            status
                .problems
                .extend(kind.map(|kind| Problem::of(pps, kind)));
        }
        let Some(pps) = all.first() else { continue };
        status.governed += 1;
        match (pps.spec_in_force(), pps.states()) {
            (Ok(spec), Ok(states)) => {
                let governed = Governed {
                    key,
                    pps: Some(pps),
                    spec,
                    states,
                };
                status.is_cut |= row::rows(snapshot, &index, &governed, &mut status.pods);
            }
            (Err(why), _) => status
                .problems
                .push(Problem::of(pps, ProblemKind::Unreadable(why))),
            (_, Err(why)) => status
                .problems
                .push(Problem::of(pps, ProblemKind::Unreadable(why.to_string()))),
        }
    }
    for key in named
        .iter()
        .flatten()
        .filter(|key| index.governing(key).is_none())
    {
        let bare = Governed {
            key,
            pps: None,
            spec: Spec::default(),
            states: BTreeMap::new(),
        };
        status.is_cut |= row::rows(snapshot, &index, &bare, &mut status.pods);
        if index.read_governing(key).is_absent() {
            status.unpinned.push(key.clone());
        }
    }
    Ok(status)
}

/// The workloads that a selector has chosen.
fn selected(snapshot: &Snapshot, selector: &str) -> Result<BTreeSet<WorkloadKey>, Failure> {
    snapshot.require_workloads()?;
    if snapshot.workloads.is_empty() {
        return Err(Failure::NoSelectedWorkload {
            selector: selector.to_owned(),
        });
    }
    let read = snapshot.workloads.iter();
    Ok(read
        .map(|one| WorkloadKey::of(one.namespace(), &one.target()))
        .collect())
}

/// The workloads that a text may mean. The name of a Pod leads to `explain`.
fn find(
    snapshot: &Snapshot,
    index: &Index,
    text: &str,
    commands: &CommandLine,
) -> Result<Vec<WorkloadKey>, Failure> {
    named(snapshot, index, text).map_err(|failure| {
        let name = pod_name(text);
        let mut pods = snapshot.pods.iter();
        let pod =
            pods.find(|pod| pod.name() == name && snapshot.namespaces.contains(pod.namespace()));
        match pod {
            Some(pod) => Failure::PodAsWorkload {
                pod: name.to_owned(),
                explain: commands.pps(&format!("explain {name}"), pod.namespace()),
            },
            None => failure,
        }
    })
}
