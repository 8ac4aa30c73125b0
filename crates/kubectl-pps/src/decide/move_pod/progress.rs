//! How far the successor of a moved Pod has come.

use std::collections::BTreeMap;

use pps_core::PodState;
use pps_core::addresses::addresses_in;

use super::{PodMove, Removal};
use crate::snapshot::Pod;

/// How far the successor of a moved Pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The former Pod is still there.
    Former,
    /// The former Pod is terminating.
    Terminating,
    /// There is no Pod.
    Absent,
    /// The scheduler has not looked at the new Pod.
    Unscheduled,
    /// The scheduler has found no node for the new Pod.
    Unschedulable,
    /// The new Pod has a node.
    NotReady,
    /// The new Pod is Ready, and its node is not recorded.
    Unrecorded,
    /// The new Pod is Ready, and its node is recorded or nobody wants that.
    Done,
}

impl Stage {
    /// The stage of a move with the Pod and the recorded state that there are now.
    pub fn of(moved: &PodMove, pod: Option<&Pod>, state: Option<&PodState>) -> Self {
        // A Pod that was not removed is the new Pod itself, unless it is terminating.
        let is_new =
            |present: &super::Present| present.node.is_none() && present.removal == Removal::Unneeded;
        let former = moved.present.as_ref().filter(|present| !is_new(present));
        let Some(pod) = pod else { return Self::Absent };
        if former.is_some_and(|former| former.uid == pod.uid()) {
            return if pod.is_terminating() { Self::Terminating } else { Self::Former };
        }
        if pod.is_finished() {
            // A finalizer may keep it.
            return Self::Absent;
        }
        let is_recorded = || pod.is_exempt() || state.is_some_and(|state| !state.node_name.is_empty());
        match pod.node() {
            None if pod.unschedulable().is_some() => Self::Unschedulable,
            None => Self::Unscheduled,
            Some(_) if !pod.is_ready() || pod.is_terminating() => Self::NotReady,
            Some(_) if !is_recorded() => Self::Unrecorded,
            Some(_) => Self::Done,
        }
    }
}

/// Whether one of these recorded annotations has an address, which a Pod gets only when it starts.
pub fn has_address(recorded: &BTreeMap<String, String>) -> bool {
    recorded.values().any(|value| !addresses_in(value).is_empty())
}
