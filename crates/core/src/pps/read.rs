//! Reads what an injection needs of an object.
//!
//! By hand: the deserialisers that serde derives for a [`Value`] also read floating-point numbers,
//! and would add 20 KB to the Wasm module. Other readers derive.

use std::collections::BTreeMap;

use serde_json::Value;

use super::spec::{
    NodeTopologyTerm, PodAnnotation, PreferredTopologyTerm, RetentionPolicy, Spec, TargetReference,
};
use super::status::PodState;
use super::value::{ReadResult, read_list, read_text, wrong};

impl Spec {
    /// Reads what an injection needs. Nobody may have validated the spec, and the definition may be
    /// OpenKruise's or that of a newer version, which know other values: what an injection does not
    /// need prevents no Pod. A retention policy that is not known is not set. Where the states come
    /// from and when they are dropped is not read at all.
    pub fn read_for_injection(spec: &Value) -> ReadResult<Self> {
        let required = &spec["requiredPersistentTopology"];
        let retains = spec["persistentPodStateRetentionPolicy"] == "Retain";
        Ok(Self {
            target_ref: TargetReference::read(&spec["targetRef"]),
            required_persistent_topology: (!required.is_null())
                .then(|| NodeTopologyTerm::read(required))
                .transpose()?,
            preferred_persistent_topology: read_list(
                &spec["preferredPersistentTopology"],
                read_preferred,
            )?,
            persistent_pod_annotations: read_list(
                &spec["persistentPodAnnotations"],
                read_annotation,
            )?,
            persistent_pod_state_retention_policy: retains.then_some(RetentionPolicy::Retain),
            node_deletion_policy: None,
            recording_policy: None,
        })
    }
}

impl PodState {
    /// Reads a recorded state; `None` if there is none.
    pub fn read(state: &Value) -> ReadResult<Option<Self>> {
        if state.is_null() {
            return Ok(None);
        }
        let fields = state.as_object().ok_or_else(|| wrong(state, "an object"))?;
        let field = |name| fields.get(name).unwrap_or(&Value::Null);
        Ok(Some(Self {
            node_name: if field("nodeName").is_null() {
                String::new()
            } else {
                read_text(field("nodeName"))?
            },
            node_topology_labels: read_texts(field("nodeTopologyLabels"))?,
            annotations: read_texts(field("annotations"))?,
        }))
    }
}

fn read_preferred(term: &Value) -> ReadResult<PreferredTopologyTerm> {
    let weight = &term["weight"];
    let number = weight
        .as_i64()
        .and_then(|weight| i32::try_from(weight).ok());
    Ok(PreferredTopologyTerm {
        weight: number.ok_or_else(|| wrong(weight, "a whole number"))?,
        preference: NodeTopologyTerm::read(&term["preference"])?,
    })
}

fn read_annotation(annotation: &Value) -> ReadResult<PodAnnotation> {
    let key = if annotation.is_string() {
        annotation
    } else {
        &annotation["key"]
    };
    Ok(PodAnnotation {
        key: read_text(key)?,
        value_from: None,
    })
}

fn read_texts(texts: &Value) -> ReadResult<BTreeMap<String, String>> {
    let mut read = BTreeMap::new();
    match texts {
        Value::Null => {}
        Value::Object(texts) => {
            // Not `collect`: it sorts, which would add 10 KB to the Wasm module.
            for (key, value) in texts {
                read.insert(key.clone(), read_text(value)?);
            }
        }
        _ => return Err(wrong(texts, "an object")),
    }
    Ok(read)
}
