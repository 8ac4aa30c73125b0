//! Why a Pod is where it is, or nowhere.

use pps_scheduler::Verdict as NodeVerdict;
use serde::Serialize;

use super::Successor;
use crate::decide::status::Drift;
use crate::snapshot::Snapshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    Running,
    NotRunning,
    Misplaced,
    /// It has long been Ready and is not recorded, or its PersistentPodState has a problem.
    NotRecorded,
    UnfinishedMove,
    NodeGone,
    /// No node can take it, because of its recorded state.
    Pinned,
    /// No node can take it, whatever its recorded state.
    Unschedulable,
    Unscheduled,
    Terminating,
    Refused,
    /// It was not created: its controller waits for another Pod, or has not come to it.
    NotCreated,
    NotWanted,
    Unknown,
}

/// Why a Pod is where it is, or nowhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    Running,
    /// It has a node and does not run; with the node if that is not Ready.
    NotRunning(Option<LostNode>),
    /// Its node lacks a label that the recorded state requires.
    Misplaced(Drift),
    /// It is Ready and not recorded, for long or because its PersistentPodState has a problem.
    NotRecorded,
    /// A move has marked it and has not ended.
    UnfinishedMove(Option<LostNode>),
    /// Its node is gone, and Kubernetes deletes the Pod; with the successor, as far as known.
    NodeGone(Option<Successor>),
    /// It is being deleted. If its node is not Ready, nothing confirms that it has stopped.
    Terminating(Option<LostNode>),
    /// It has no node, and one could take it, as far as nodes could be read.
    Unscheduled,
    /// No node can take the Pod.
    NoNode {
        /// The nodes with the injected labels; none if nodes could not be read.
        matching: Option<Vec<NodeVerdict>>,
        /// Only its recorded state keeps it from nodes, as far as is known.
        by_recorded_state: bool,
    },
    /// It does not exist, and its workload does not want it.
    NotWanted,
    /// It does not exist, and no workload that was read wants it.
    NoWorkload {
        is_known: bool,
    },
    /// An ordered workload creates this Pod first.
    WaitsFor(String),
    /// Its controller reports that its creation is refused.
    Refused(String),
    /// It does not exist although its workload wants it.
    NotCreated,
}

impl Cause {
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Running => Verdict::Running,
            Self::NotRunning(_) | Self::Terminating(Some(_)) => Verdict::NotRunning,
            Self::Misplaced(_) => Verdict::Misplaced,
            Self::NotRecorded => Verdict::NotRecorded,
            Self::UnfinishedMove(_) => Verdict::UnfinishedMove,
            Self::NodeGone(_) => Verdict::NodeGone,
            Self::Terminating(None) => Verdict::Terminating,
            Self::Unscheduled => Verdict::Unscheduled,
            Self::NoNode {
                by_recorded_state: true,
                ..
            } => Verdict::Pinned,
            Self::NoNode { .. } => Verdict::Unschedulable,
            Self::NotWanted | Self::NoWorkload { is_known: true } => Verdict::NotWanted,
            Self::NoWorkload { is_known: false } => Verdict::Unknown,
            Self::WaitsFor(_) | Self::NotCreated => Verdict::NotCreated,
            Self::Refused(_) => Verdict::Refused,
        }
    }
}

/// A node that is not Ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostNode {
    pub name: String,
    pub since: Option<String>,
}

impl LostNode {
    /// None if the node is Ready or was not read.
    pub(super) fn of(snapshot: &Snapshot, node: &str) -> Option<Self> {
        let lost = snapshot.node(node).filter(|node| !node.is_ready())?;
        Some(Self {
            name: node.to_owned(),
            since: lost.not_ready_since().map(str::to_owned),
        })
    }
}
