//! States that cannot be recorded: the API server would refuse them, or each Pod into which they
//! are injected.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::EditError;
use super::read::{Object, StoredSize};
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
    check_names(pod, state)
        .and_then(|()| check_labels(&state.node_topology_labels))
        .and_then(|()| check_annotations(&state.annotations))
        .map_err(|reason| EditError::Invalid {
            pod: shorten(pod),
            reason,
        })
}

fn check_names(pod: &str, state: &PodState) -> Result<(), String> {
    if !is_dns_subdomain(pod) {
        return Err("no Pod can have this name".into());
    }
    let node = &state.node_name;
    if !node.is_empty() && !is_dns_subdomain(node) {
        return Err(format!("no node can have the name {:?}", shorten(node)));
    }
    check_count(
        "labels",
        state.node_topology_labels.len(),
        MAX_RECORDED_LABELS,
    )?;
    check_count("annotations", state.annotations.len(), MAX_ANNOTATIONS)
}

fn check_count(what: &str, count: usize, max: usize) -> Result<(), String> {
    if count > max {
        return Err(format!(
            "it has {count} {what}, and at most {max} are allowed"
        ));
    }
    Ok(())
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in labels {
        if !is_label_key(key) {
            return Err(format!("{:?} can be no label's key", shorten(key)));
        }
        if !is_label_value(value) {
            return Err(format!(
                "label {key} cannot have the value {:?}",
                shorten(value)
            ));
        }
    }
    Ok(())
}

fn check_annotations(annotations: &BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in annotations {
        if !is_annotation_key(key) {
            return Err(format!("{:?} can be no annotation's key", shorten(key)));
        }
        if value.len() > MAX_ANNOTATION_VALUE_LENGTH {
            return Err(format!(
                "annotation {key} has {} bytes, and at most {MAX_ANNOTATION_VALUE_LENGTH} are \
                 allowed",
                value.len()
            ));
        }
    }
    Ok(())
}

/// Checks the number of an object's states after an edit, and their size. An object that does not
/// grow is always allowed.
pub(super) fn object(pps: &Value, after: &Object<'_>, before: StoredSize) -> Result<(), EditError> {
    let StoredSize { states, bytes } = after.stored_size();
    if states > MAX_POD_STATES && states > before.states {
        return Err(EditError::TooMany { states });
    }
    if bytes <= before.bytes {
        return Ok(());
    }
    // Readers refuse to unpack more.
    let unpacked = after.plain_size();
    if after.is_compact && unpacked > MAX_UNPACKED_LENGTH {
        return Err(EditError::TooLarge { bytes: unpacked });
    }
    let others = [
        &pps["spec"],
        &pps["status"]["conditions"],
        &pps["metadata"]["labels"],
        &pps["metadata"]["annotations"],
    ];
    let others: usize = others.iter().map(|other| other.to_string().len()).sum();
    let bytes = bytes + OVERHEAD + others;
    if bytes > DEFAULT_LIMIT {
        Err(EditError::TooLarge { bytes })
    } else {
        Ok(())
    }
}

// No bucket is longer than its object.
const _: () = assert!(MAX_BUCKET_LENGTH > DEFAULT_LIMIT);
