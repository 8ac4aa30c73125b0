//! What is in the way of a move that is possible.

use pps_scheduler::{Exclusion, Selection};

use super::{PodMove, PodName, WayOut};
use crate::snapshot::{Index, Pod, Snapshot};

/// Why no suitable node can take a Pod.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub enum Obstacle {
    /// The destination cannot take it.
    Excluded { node: String, exclusions: Vec<Exclusion> },
    /// The PersistentPodState does not require the destination itself, and the scheduler would choose one of `instead`.
    NotChosen { node: String, pps: String, instead: Vec<String> },
    /// No node can take it. `way_out` is what would have to be given up.
    NoNode { exclusions: Vec<(String, Vec<Exclusion>)>, way_out: Option<WayOut> },
}

impl Obstacle {
    pub(super) fn of(
        forecast: &Selection,
        to: Option<&str>,
        pps: &str,
        way_out: impl FnOnce() -> Option<WayOut>,
    ) -> Option<Self> {
        let excluded = forecast.verdicts.iter().filter(|verdict| !verdict.exclusions.is_empty());
        let mut excluded = excluded.map(|verdict| (verdict.node.clone(), verdict.exclusions.clone()));
        let Some(to) = to else {
            let is_nowhere = forecast.may_land_on.is_empty();
            return is_nowhere.then(|| Self::NoNode { exclusions: excluded.collect(), way_out: way_out() });
        };
        if let Some((node, exclusions)) = excluded.find(|(node, _)| node == to) {
            return Some(Self::Excluded { node, exclusions });
        }
        let is_chosen = forecast.may_land_on.iter().any(|node| node == to);
        (!is_chosen).then(|| Self::NotChosen {
            node: to.to_owned(),
            pps: pps.to_owned(),
            instead: forecast.may_land_on.clone(),
        })
    }
}

/// The other Pods of a workload that are not as they should be before it loses a Ready Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Pods that are not Ready.
    pub not_ready: Vec<String>,
    /// How many Pods do not exist although the workload wants them.
    pub missing: u64,
    /// Pods with the mark of another move, which may have been killed.
    pub moving: Vec<String>,
    /// Whether nobody knows how many Pods the workload wants, because it could not be read.
    pub is_workload_unread: bool,
    /// Ready Pods whose node is not recorded: without a sidecar, the workload would lose one recorded place after the other.
    pub unrecorded: Vec<String>,
}

/// The others that are not as they should be, apart from those in `except`, which the same command moves first. None if
/// there are none, or if the workload loses no Ready Pod.
pub fn others(snapshot: &Snapshot, next: &PodMove, except: &[PodName]) -> Option<Others> {
    let index = Index::of(snapshot);
    let pps = index.governing(&next.workload)?;
    let is_excepted = |name: &str| except.iter().any(|(own, pod)| *own == next.namespace && pod == name);
    let mut others = Others::default();
    let owned = index.pods_of(&next.workload);
    for pod in owned.iter().filter(|pod| pod.name() != next.pod && !is_excepted(pod.name())) {
        let is_up = pod.is_ready() && !pod.is_terminating() && !snapshot.is_stranded(pod);
        // A state that cannot be read is reported elsewhere.
        let state = pps.state(pod.name());
        let has_no_place = state.is_ok_and(|state| state.is_none_or(|state| state.node_name.is_empty()));
        let list = match pod {
            pod if !super::governing::may_come(&index, &next.workload, pod.name()) => continue,
            _ if !is_up => &mut others.not_ready,
            pod if pod.is_marked() => &mut others.moving,
            pod if has_no_place && !pod.is_exempt() => &mut others.unrecorded,
            _ => continue,
        };
        list.push(pod.name().to_owned());
    }
    let absent = except.iter().filter(|(namespace, pod)| {
        *namespace == next.namespace && index.pod(namespace, pod).is_none_or(Pod::is_finished)
    });
    let wanted = owned.iter().filter(|pod| super::governing::may_come(&index, &next.workload, pod.name()));
    let known = (wanted.count() + absent.count()) as u64;
    let workload = index.workload(&next.workload);
    others.is_workload_unread = workload.is_none();
    others.missing = workload.map_or(0, |workload| workload.replicas().saturating_sub(known));
    (next.is_serving() && others != Others::default()).then_some(others)
}
