//! States that cannot be recorded: the API server would refuse them, or each Pod into which they
//! are injected.

use serde_json::Value;

use super::error::EditError;
use super::read::Object;
use crate::json::shorten;
use crate::limits::{
    MAX_ANNOTATION_VALUE_LENGTH, MAX_ANNOTATIONS, MAX_BUCKET_LENGTH, MAX_POD_STATES,
    MAX_RECORDED_LABELS, MAX_UNPACKED_LENGTH,
};
use crate::names::{is_annotation_key, is_dns_subdomain, is_label_key, is_label_value};
use crate::pps::PodState;
use crate::size::DEFAULT_LIMIT;

/// About what an object takes beside its spec, states, conditions, labels and annotations, in
/// bytes.
const OVERHEAD: usize = 2 * 1024;

/// Checks a state that is to be recorded for a Pod.
pub(super) fn state(pod: &str, state: &PodState) -> Result<(), EditError> {
    let invalid = |reason: String| {
        Err(EditError::Invalid {
            pod: shorten(pod),
            reason,
        })
    };
    if !is_dns_subdomain(pod) {
        return invalid("no Pod can have this name".into());
    }
    if !state.node_name.is_empty() && !is_dns_subdomain(&state.node_name) {
        return invalid(format!(
            "no node can have the name {:?}",
            shorten(&state.node_name)
        ));
    }
    let counts = [
        (
            "labels",
            state.node_topology_labels.len(),
            MAX_RECORDED_LABELS,
        ),
        ("annotations", state.annotations.len(), MAX_ANNOTATIONS),
    ];
    if let Some((what, count, max)) = counts.into_iter().find(|(_, count, max)| count > max) {
        return invalid(format!(
            "it has {count} {what}, and at most {max} are allowed"
        ));
    }
    for (key, value) in &state.node_topology_labels {
        if !is_label_key(key) {
            return invalid(format!("{:?} can be no label's key", shorten(key)));
        }
        if !is_label_value(value) {
            return invalid(format!(
                "label {key} cannot have the value {:?}",
                shorten(value)
            ));
        }
    }
    for (key, value) in &state.annotations {
        if !is_annotation_key(key) {
            return invalid(format!("{:?} can be no annotation's key", shorten(key)));
        }
        if value.len() > MAX_ANNOTATION_VALUE_LENGTH {
            return invalid(format!(
                "annotation {key} has {} bytes, and at most {MAX_ANNOTATION_VALUE_LENGTH} are \
                 allowed",
                value.len()
            ));
        }
    }
    Ok(())
}

/// Checks the number of an object's states after an edit, and their size. `before` has number and
/// size before the edit: an object that does not grow is always allowed.
pub(super) fn object(
    pps: &Value,
    after: &Object<'_>,
    before: (usize, usize),
) -> Result<(), EditError> {
    let states = after.entries.len();
    if states > MAX_POD_STATES && states > before.0 {
        return Err(EditError::TooMany { states });
    }
    let size = after.size();
    if size <= before.1 {
        return Ok(());
    }
    let others = [
        &pps["spec"],
        &pps["status"]["conditions"],
        &pps["metadata"]["labels"],
        &pps["metadata"]["annotations"],
    ];
    let bytes = size
        + OVERHEAD
        + others
            .map(|other| other.to_string().len())
            .iter()
            .sum::<usize>();
    let unpacked = after.plain_size();
    // Readers refuse to unpack more.
    if after.is_compact && unpacked > MAX_UNPACKED_LENGTH {
        return Err(EditError::TooLarge { bytes: unpacked });
    }
    if bytes > DEFAULT_LIMIT {
        Err(EditError::TooLarge { bytes })
    } else {
        Ok(())
    }
}

// No bucket is longer than its object.
const _: () = assert!(MAX_BUCKET_LENGTH > DEFAULT_LIMIT);
