//! The header of the status, and the status as a merge patch.

use crate::recording::{self, Recording};
use serde_json::{Map, Value, json};

use super::view::View;
use crate::decide::changed_states::EntryChange;
use crate::decide::tracked_pps::{Header, TrackedPps};
use crate::decide::workloads::KindCoverage;
use crate::facts::Form;

/// Decides the header. `takes_over` says whether all states belong to the workload that exists now.
pub(super) fn decide(
    view: &View<'_>,
    takes_over: bool,
    recorded: usize,
    recording: &Recording,
    now: &str,
) -> Header {
    let fact = &view.pps.fact;
    if view.pps.capacity.header_refused {
        return Header::of(&fact.status);
    }
    let desired = if view.coverage == KindCoverage::Listed {
        view.workload.map_or(Some(0), |workload| workload.demand.replicas()).map(count)
    } else {
        fact.status.desired
    };
    let target = view.living_workload().filter(|_| takes_over);
    Header {
        observed_generation: fact.generation.or(fact.status.observed_generation),
        target_uid: target.map(|workload| workload.uid.to_string()),
        recorded: Some(count(recorded as u64)),
        desired,
        conditions: recording::with_recording(&fact.status.conditions, recording, fact.generation, now),
    }
}

pub(super) fn recorded_after(pps: &TrackedPps, changes: &[EntryChange]) -> usize {
    let states = &pps.fact.status.pod_states;
    changes.iter().fold(states.len(), |count, change| match (states.contains(&change.pod), &change.after) {
        (false, Some(_)) => count + 1,
        (true, None) => count - 1,
        _ => count,
    })
}

pub(super) fn extend_patch(pps: &TrackedPps, header: &Header, status: &mut Map<String, Value>) {
    let before = &pps.fact.status;
    if header.observed_generation.is_some() && before.observed_generation != header.observed_generation {
        status.insert("observedGeneration".into(), header.observed_generation.into());
    }
    let target_uid = header.target_uid.as_ref().filter(|uid| before.target_uid.as_ref() != Some(uid));
    // Where the states are only in memory, so may be the workload that they belong to.
    let is_erased = matches!(before.form, Form::Pruned(_));
    if let Some(uid) = target_uid.or(before.target_uid.as_ref().filter(|_| is_erased)) {
        status.insert("targetUID".into(), uid.as_str().into());
    }
    for (field, before, after) in
        [("recorded", before.recorded, header.recorded), ("desired", before.desired, header.desired)]
    {
        if before != after {
            status.insert(field.into(), after.into());
        }
    }
    if let Some(conditions) = &header.conditions {
        status.insert("conditions".into(), json!(conditions));
    }
}

fn count(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
