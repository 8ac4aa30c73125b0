//! A PersistentPodState object, passed to every function of the core that decides something from
//! one.
//!
//! `metadata.annotations` are used as the annotations of a workload. What the policy injects is
//! checked by [`request`] and [`answer`].
//!
//! [`answer`]: crate::answer
//! [`request`]: crate::request

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use pps_admission::deletion::{protection, warn_of_label};
use pps_admission::validate;
use pps_core::annotations::AnnotationRules;
use pps_core::{PersistentPodState, PodState, Reason, Spec, Status};
use pps_recorder::facts::{NodeFact, PodFact};
use pps_recorder::recording::{Recording, with_recording};
use pps_recorder::{generate, record};
use serde_json::{Value, json};

use crate::injected::list;
use crate::packed::hides_states;

/// After how many seconds a required topology may be given up.
const FALLBACK_SECONDS: RangeInclusive<i64> = 30..=14_400;
/// How many entries of an object are checked.
const ENTRIES: usize = 8;

const AUTO_GENERATE: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
const FALLBACK_AFTER: &str = "kruise.io/required-persistent-topology-fallback-after-seconds";
const PREFERRED_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
const POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// Checks the invariants of every module of the core that reads an object.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    reviewed(&value);
    protected(&value);
    let annotations: BTreeMap<String, String> =
        serde_json::from_value(value["metadata"]["annotations"].clone()).unwrap_or_default();
    let Ok(object) = serde_json::from_str::<PersistentPodState>(text) else {
        return;
    };
    generated(&object, &annotations);
    written(&object);
    for state in object.status.pod_states.values().take(ENTRIES) {
        recorded(&object, state);
    }
}

/// An object that passes the review can be read, and exceeds no limit. The message about any other
/// is short.
fn reviewed(object: &Value) {
    let review = validate::review(object, None, &AnnotationRules::default());
    assert!(
        validate::join(&review.violations).len() < 20_000,
        "{review:?}"
    );
    if review.violations.is_empty() {
        let spec = serde_json::from_value::<Spec>(object["spec"].clone()).unwrap();
        assert_eq!(spec.exceeds_limits(), None, "{object}");
        let seconds = &object["spec"]["requiredPersistentTopology"]["fallbackAfterSeconds"];
        assert_eq!(
            spec.fallback_after_seconds().map(Value::from).as_ref(),
            Some(seconds).filter(|seconds| !seconds.is_null()),
            "{object}"
        );
    }
}

/// Only an object with a known value of the label is protected, and only other values get a
/// warning.
fn protected(object: &Value) {
    let label = &object["metadata"]["labels"]["policy.kruise.io/delete-protection"];
    let refusal = protection(object);
    match label.as_str() {
        Some("Always") => assert!(refusal.is_some(), "{object}"),
        Some("Cascading") => {
            let status = &object["status"];
            let is_empty = |value: &Value| *value == Value::Null || *value == json!({});
            let packed = &status["packed"];
            let is_recorded = !is_empty(&status["podStates"])
                || !is_empty(&packed["buckets"])
                || [status, packed]
                    .iter()
                    .any(|value| !value.is_null() && !value.is_object())
                || hides_states(object);
            assert!(refusal.is_none() || is_recorded, "{object}");
            let keeps_states = !object["spec"]["persistentPodStateRetentionPolicy"].is_null();
            let is_alias = object["spec"]["targetRef"]["kind"] == "PersistentPodState";
            assert!(
                refusal.is_some() || !is_recorded || keeps_states || is_alias,
                "{object}"
            );
        }
        _ => assert_eq!(refusal, None, "{object}"),
    }
    let is_known = label.is_null() || label == "Always" || label == "Cascading";
    assert_eq!(warn_of_label(object).is_none(), is_known, "{object}");
}

/// Removes the values that this version does not know: it does not write them.
fn forget_unknown(spec: &mut Spec) {
    use pps_core::pps::{
        FallbackAfter, NodeDeletionPolicy, RecordingPolicy, RetentionPolicy, ValueFrom,
    };

    if let Some(required) = &mut spec.required_persistent_topology {
        required
            .fallback_after_seconds
            .take_if(|seconds| *seconds == FallbackAfter::Unknown);
    }
    spec.persistent_pod_state_retention_policy
        .take_if(|policy| *policy == RetentionPolicy::Unknown);
    spec.node_deletion_policy
        .take_if(|policy| *policy == NodeDeletionPolicy::Unknown);
    spec.recording_policy
        .take_if(|policy| *policy == RecordingPolicy::Unknown);
    for annotation in &mut spec.persistent_pod_annotations {
        annotation
            .value_from
            .take_if(|source| *source == ValueFrom::Unknown);
    }
}

/// Serializing an object loses nothing. Setting a condition twice changes nothing, and leaves other
/// conditions alone.
fn written(object: &PersistentPodState) {
    let mut known = object.spec.clone();
    forget_unknown(&mut known);
    let spec = serde_json::to_string(&known).unwrap();
    assert_eq!(
        serde_json::from_str::<Spec>(&spec).unwrap(),
        known,
        "{spec}"
    );
    let status = serde_json::to_string(&object.status).unwrap();
    assert_eq!(
        serde_json::from_str::<Status>(&status).unwrap(),
        object.status,
        "{status}"
    );

    let recording = Recording {
        ok: true,
        reason: Reason::AllRecorded,
        message: "fine".into(),
    };
    let before = &object.status.conditions;
    let after = with_recording(before, &recording, None, "now").unwrap_or_else(|| before.clone());
    assert!(
        after
            .iter()
            .any(|condition| condition.type_ == "Recording" && condition.status == "True")
    );
    assert_eq!(
        with_recording(&after, &recording, None, "later"),
        None,
        "{before:?}"
    );
    let others = |list: &[pps_core::pps::Condition]| {
        list.iter()
            .filter(|one| one.type_ != "Recording")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(others(before), others(&after));
}

/// The labels recorded for a Pod are those of its node that the spec names. A Pod without
/// annotations and addresses keeps the recorded ones.
fn recorded(object: &PersistentPodState, state: &PodState) {
    let label = |key: &str| state.node_topology_labels.get(key).map(String::as_str);
    let pairs = |map: &BTreeMap<String, String>| {
        map.iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect()
    };
    let ips = vec!["10.0.0.7".to_owned(), "fd00::7".to_owned()];
    let pod = PodFact {
        annotations: pairs(&state.annotations),
        ips,
        ..PodFact::default()
    };
    let node = NodeFact {
        labels: pairs(&state.node_topology_labels),
    };
    let place = record::Place {
        name: &state.node_name,
        node: &node,
        is_new: false,
    };
    let first = record::record(&object.spec, &pod, place, None);
    let mut known = object.spec.clone();
    forget_unknown(&mut known);
    let spec = serde_json::to_value(&known).unwrap();
    let named = named_topology_keys(&spec);
    let expected: BTreeMap<String, String> = state
        .node_topology_labels
        .iter()
        .filter(|(key, _)| named.contains(key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(
        (&first.node_name, &first.node_topology_labels),
        (&state.node_name, &expected),
        "{spec}"
    );
    let blank = state
        .annotations
        .keys()
        .map(|key| (key.as_str().into(), "".into()));
    let torn_down = PodFact {
        annotations: blank.collect(),
        ..PodFact::default()
    };
    assert_eq!(
        record::record(&object.spec, &torn_down, place, Some(&first)),
        first
    );
    let missing: Vec<&str> = named
        .into_iter()
        .filter(|key| !expected.contains_key(*key))
        .collect();
    assert_eq!(
        record::missing_keys(&object.spec, |key| label(key).is_some()),
        missing,
        "{spec}"
    );
}

/// The topology keys that a spec names, in order.
fn named_topology_keys(spec: &Value) -> BTreeSet<&str> {
    let preferred = list(&spec["preferredPersistentTopology"])
        .iter()
        .map(|term| &term["preference"]);
    let terms = preferred.chain([&spec["requiredPersistentTopology"]]);
    terms
        .flat_map(|term| list(&term["nodeTopologyKeys"]))
        .filter_map(Value::as_str)
        .collect()
}

/// The generated spec has the items of the annotations: without blanks around them, without empty
/// ones, each once.
fn generated(object: &PersistentPodState, annotations: &BTreeMap<String, String>) {
    let target = &object.spec.target_ref;
    let second = pps_core::governing::second_name(target);
    assert!(
        second.chars().count() <= 253 && second.len() > 8,
        "{second}"
    );
    let mut annotations = annotations.clone();
    annotations.insert(AUTO_GENERATE.into(), "true".into());
    let items = |annotation: &str| {
        let mut items = Vec::new();
        let value = annotations.get(annotation).map_or("", String::as_str);
        for item in value
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items
    };
    let (required, preferred) = (items(REQUIRED_TOPOLOGY), items(PREFERRED_TOPOLOGY));
    let mut persistent: Vec<Value> = Vec::new();
    for item in items(POD_ANNOTATIONS) {
        let (key, source) = item
            .split_once('=')
            .map_or((item, None), |(key, source)| (key, Some(source)));
        let (key, source) = (key.trim(), source.map(str::trim));
        let is_known = [None, Some("PodIPsJSON"), Some("PodIPsCSV")].contains(&source);
        if is_known && !key.is_empty() && persistent.iter().all(|known| known["key"] != key) {
            persistent.push(source.map_or_else(
                || json!({"key": key}),
                |source| json!({"key": key, "valueFrom": source}),
            ));
        }
    }
    // Refused: the message is short, however long the annotation is.
    let request = match generate::read_request(target, &annotations) {
        Ok(request) => request,
        Err(refusal) => return assert!(refusal.chars().count() < 1024, "{refusal}"),
    };
    let fallback = annotations
        .get(FALLBACK_AFTER)
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
        .map(|text| text.parse::<i64>().unwrap_or_default());
    // A misspelt bound must not become a requirement without an end.
    assert!(
        fallback.is_none_or(|seconds| FALLBACK_SECONDS.contains(&seconds)),
        "{annotations:?}"
    );
    let is_empty = required.is_empty() && preferred.is_empty() && persistent.is_empty();
    assert_eq!(request.is_none(), is_empty, "{annotations:?}");
    let Some(request) = request else { return };
    let spec = serde_json::to_value(&request.spec).unwrap();
    assert_eq!(
        spec["targetRef"],
        serde_json::to_value(target).unwrap(),
        "{spec}"
    );
    let keys = |keys: &[&str]| {
        if keys.is_empty() {
            Value::Null
        } else {
            json!({"nodeTopologyKeys": keys})
        }
    };
    let mut bounded = keys(&required);
    if let (Some(seconds), Some(term)) = (fallback, bounded.as_object_mut()) {
        term.insert("fallbackAfterSeconds".into(), seconds.into());
    }
    assert_eq!(spec["requiredPersistentTopology"], bounded, "{spec}");
    let weighted = match keys(&preferred) {
        Value::Null => vec![],
        preference => vec![json!({"weight": 100, "preference": preference})],
    };
    assert_eq!(
        list(&spec["preferredPersistentTopology"]),
        weighted,
        "{spec}"
    );
    assert_eq!(
        list(&spec["persistentPodAnnotations"]),
        persistent,
        "{spec}"
    );
    annotations.remove(AUTO_GENERATE);
    assert_eq!(generate::read_request(target, &annotations), Ok(None));
}
