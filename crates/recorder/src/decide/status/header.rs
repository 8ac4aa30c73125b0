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
    let target = view.living_workload().filter(|_| takes_over).map(|workload| workload.uid.to_string());
    let conditions = &fact.status.conditions;
    Header {
        observed_generation: fact.generation.or(fact.status.observed_generation),
        target_uid: target.or_else(|| fact.status.target_uid.clone()),
        recorded: Some(count(recorded as u64)),
        desired,
        conditions: recording::with_recording(conditions, recording, fact.generation, now)
            .unwrap_or_else(|| conditions.clone()),
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

/// Adds the fields that differ to a merge patch.
pub(super) fn extend_patch(pps: &TrackedPps, header: &Header, status: &mut Map<String, Value>) {
    let (before, after) = (json!(Header::of(&pps.fact.status)), json!(header));
    // Where the states are only in memory, so may be the workload that they belong to.
    let is_erased = matches!(pps.fact.status.form, Form::Pruned(_));
    for (field, value) in after.as_object().into_iter().flatten() {
        if before[field] != *value || (field == "targetUID" && is_erased && !value.is_null()) {
            status.insert(field.clone(), value.clone());
        }
    }
}

fn count(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
