//! A PersistentPodState object, passed to every function of the core that decides something from one.
//!
//! Besides the object's own fields, the JSON may hold `ordinals`, see [`ordinals`]. `metadata.annotations` are used as
//! the annotations of a workload.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::annotations::{AnnotationRules, Pattern};
use pps_core::conflict::conflicts;
use pps_core::generate;
use pps_core::protect::{refuse_deletion, warn_of_label};
use pps_core::record::{self, RunningPod};
use pps_core::status::{Recording, entry_patch, with_recording};
use pps_core::validate;
use pps_core::workload::{self, Ordinals};
use pps_core::{PersistentPodState, PodState, Reason, Status, apply, plan};
use serde_json::{Value, json};

use crate::injected::{Recorded, list};
use crate::rules::{self, NEVER_INJECTED, is_never_injected};

/// How many entries of an object are checked.
const ENTRIES: usize = 8;

const AUTO_GENERATE: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
const PREFERRED_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
const POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// Checks the invariants of every module of the core that reads an object.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    ordinals(&value["ordinals"]);
    reviewed(&value);
    protected(&value);
    let annotations: BTreeMap<String, String> =
        serde_json::from_value(value["metadata"]["annotations"].clone()).unwrap_or_default();
    let Ok(object) = serde_json::from_str::<PersistentPodState>(text) else { return };
    generated(&object, &annotations);
    written(&object);
    let states: Vec<(&String, &PodState)> = object.status.pod_states.iter().take(ENTRIES).collect();
    for (name, state) in &states {
        injected(&object, state, None);
        let first = object.spec.persistent_pod_annotations.first();
        let key = first.map(|annotation| annotation.key.as_str());
        injected(&object, state, key.filter(|key| !key.ends_with('*')));
        injected(&naming_forbidden_annotations(&object), &with_forbidden_annotations(state), None);
        recorded(&object, state);
        numbered(&object.spec.target_ref.name, name);
    }
    let all = || states.iter().map(|(_, state)| Some(*state)).chain([None]);
    for before in all() {
        for after in all() {
            patched(before, after);
        }
    }
}

/// An object that passes the review can be read, and exceeds no limit. The message about any other is short.
fn reviewed(object: &Value) {
    let review = validate::review(object, None, &AnnotationRules::default());
    assert!(validate::join(&review.violations).len() < 20_000, "{review:?}");
    if review.violations.is_empty() {
        let spec = serde_json::from_value::<pps_core::Spec>(object["spec"].clone()).unwrap();
        assert_eq!(spec.exceeds_limits(), None, "{object}");
    }
}

/// Only an object with a known value of the label is protected, and only other values get a warning.
fn protected(object: &Value) {
    let label = &object["metadata"]["labels"]["policy.kruise.io/delete-protection"];
    let refusal = refuse_deletion(object);
    match label.as_str() {
        Some("Always") => assert!(refusal.is_some(), "{object}"),
        Some("Cascading") => {
            let status = &object["status"];
            let holds = |items: &Value| items.as_object().is_some_and(|items| !items.is_empty());
            let is_recorded = holds(&status["podStates"]) || holds(&status["packed"]["buckets"]);
            assert!(refusal.is_none() || is_recorded, "{object}");
        }
        _ => assert_eq!(refusal, None, "{object}"),
    }
    let is_known = label.is_null() || label == "Always" || label == "Cascading";
    assert_eq!(warn_of_label(object).is_none(), is_known, "{object}");
}

/// The object a second time, naming annotations that no Pod may be given.
fn naming_forbidden_annotations(object: &PersistentPodState) -> PersistentPodState {
    let mut object = object.clone();
    let forbidden =
        NEVER_INJECTED.map(|key| pps_core::pps::PodAnnotation { key: key.into(), value_from: None });
    object.spec.persistent_pod_annotations.extend(forbidden);
    object
}

fn with_forbidden_annotations(state: &PodState) -> PodState {
    let mut state = state.clone();
    state.annotations.extend(NEVER_INJECTED.map(|key| (key.to_owned(), "1".to_owned())));
    state
}

/// Serializing an object loses nothing. Setting a condition twice changes nothing, and leaves other conditions alone.
fn written(object: &PersistentPodState) {
    let spec = serde_json::to_string(&object.spec).unwrap();
    assert_eq!(serde_json::from_str::<pps_core::Spec>(&spec).unwrap(), object.spec, "{spec}");
    let status = serde_json::to_string(&object.status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&status).unwrap(), object.status, "{status}");

    let recording = Recording { ok: true, reason: Reason::AllRecorded, message: "fine".into() };
    let before = &object.status.conditions;
    let after = with_recording(before, &recording, None, "now").unwrap_or_else(|| before.clone());
    assert!(after.iter().any(|condition| condition.type_ == "Recording" && condition.status == "True"));
    assert_eq!(with_recording(&after, &recording, None, "later"), None, "{before:?}");
    let others = |list: &[pps_core::pps::Condition]| {
        list.iter().filter(|one| one.type_ != "Recording").cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(before), others(&after));
}

/// A Pod is given what was recorded, named by the spec and not denied, and nothing else.
fn injected(object: &PersistentPodState, state: &PodState, denied: Option<&str>) {
    let name = &object.metadata.name;
    let rules = AnnotationRules { allow: None, deny: denied.and_then(Pattern::parse).into_iter().collect() };
    let denied = denied.filter(|denied| rules::pattern(&Value::from(*denied)).is_some());
    let is_denied = |key: &str| denied == Some(key);
    let plan = plan(name, &object.spec, state, &rules);
    assert!(
        plan.required.len() <= 64 && plan.preferred.len() <= 64 && plan.annotations.len() <= 128,
        "{plan:?}"
    );
    assert!(plan.preferred.iter().all(|preference| (1..=100).contains(&preference.weight)), "{plan:?}");
    assert!(
        plan.annotations.iter().all(|(key, value)| !is_never_injected(key) && !value.is_empty()),
        "{plan:?}"
    );
    let spec = serde_json::to_value(&object.spec).unwrap();
    let judge = Recorded::read(name, &spec, &serde_json::to_value(state).unwrap()).without(is_denied);
    for before in [rich_pod(), json!({"metadata": {}, "spec": null})] {
        let mut after = before.clone();
        let warnings = conflicts(&plan, &before);
        assert!(!plan.required.is_empty() || warnings.is_empty(), "{warnings:?}");
        let applied = apply(&plan, &mut after).unwrap();
        assert_eq!(applied.is_changed(), before["metadata"] != after["metadata"]);
        if applied.is_changed() {
            judge.judge(&before, &after);
        } else {
            judge.judge(&before, &before);
        }
        let mut again = after.clone();
        assert!(!apply(&plan, &mut again).unwrap().is_changed());
        assert_eq!(again, after);
    }
}

/// The labels recorded for a Pod are those of its node that the spec names. A Pod without annotations and addresses
/// keeps the recorded ones.
fn recorded(object: &PersistentPodState, state: &PodState) {
    let label = |key: &str| state.node_topology_labels.get(key).map(String::as_str);
    let annotation = |key: &str| state.annotations.get(key).map(String::as_str);
    let pod_ips = ["10.0.0.7".to_owned(), "fd00::7".to_owned()];
    let running = RunningPod {
        is_node_new: false,
        node_name: &state.node_name,
        node_label: &label,
        annotation: &annotation,
        pod_ips: &pod_ips,
    };
    let first = record::record(&object.spec, &running, None);
    let spec = serde_json::to_value(&object.spec).unwrap();
    let named = named_topology_keys(&spec);
    let expected: BTreeMap<String, String> = state
        .node_topology_labels
        .iter()
        .filter(|(key, _)| named.contains(key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!((&first.node_name, &first.node_topology_labels), (&state.node_name, &expected), "{spec}");
    let blank = |_: &str| Some("");
    let torn_down = RunningPod { annotation: &blank, pod_ips: &[], ..running };
    assert_eq!(record::record(&object.spec, &torn_down, Some(&first)), first);
    let missing: Vec<&str> = named.into_iter().filter(|key| !expected.contains_key(*key)).collect();
    assert_eq!(record::missing_keys(&object.spec, |key| label(key).is_some()), missing, "{spec}");
}

/// The topology keys that a spec names, in order.
fn named_topology_keys(spec: &Value) -> BTreeSet<&str> {
    let preferred = list(&spec["preferredPersistentTopology"]).iter().map(|term| &term["preference"]);
    let terms = preferred.chain([&spec["requiredPersistentTopology"]]);
    terms.flat_map(|term| list(&term["nodeTopologyKeys"])).filter_map(Value::as_str).collect()
}

/// Merging the patch into one state gives the other one (RFC 7396).
fn patched(before: Option<&PodState>, after: Option<&PodState>) {
    let states = |state: Option<&PodState>| match state {
        Some(state) => json!({"p": state}),
        None => json!({}),
    };
    let Some(patch) = entry_patch(before, after) else {
        assert_eq!(before, after);
        return;
    };
    let merged = merge(states(before), &json!({"p": patch}));
    let found: BTreeMap<String, PodState> = serde_json::from_value(merged).unwrap();
    assert_eq!(found.get("p"), after, "{patch}");
}

fn merge(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = if let Value::Object(target) = target { target } else { serde_json::Map::new() };
    for (name, value) in patch {
        match target.remove(name) {
            _ if value.is_null() => {}
            old => {
                target.insert(name.clone(), merge(old.unwrap_or_default(), value));
            }
        }
    }
    target.into()
}

/// The generated spec has the items of the annotations: without blanks around them, without empty ones, each once.
fn generated(object: &PersistentPodState, annotations: &BTreeMap<String, String>) {
    let target = &object.spec.target_ref;
    let second = generate::second_name(target);
    assert!(second.chars().count() <= 253 && second.len() > 8, "{second}");
    let mut annotations = annotations.clone();
    annotations.insert(AUTO_GENERATE.into(), "true".into());
    let items = |annotation: &str| {
        let mut items = Vec::new();
        let value = annotations.get(annotation).map_or("", String::as_str);
        for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items
    };
    let (required, preferred) = (items(REQUIRED_TOPOLOGY), items(PREFERRED_TOPOLOGY));
    let mut persistent: Vec<Value> = Vec::new();
    for item in items(POD_ANNOTATIONS) {
        let (key, source) = item.split_once('=').map_or((item, None), |(key, source)| (key, Some(source)));
        let (key, source) = (key.trim(), source.map(str::trim));
        let is_known = [None, Some("PodIPsJSON"), Some("PodIPsCSV")].contains(&source);
        if is_known && !key.is_empty() && persistent.iter().all(|known| known["key"] != key) {
            persistent.push(
                source.map_or_else(|| json!({"key": key}), |source| json!({"key": key, "valueFrom": source})),
            );
        }
    }
    // Refused: the message is short, however long the annotation is.
    let request = match generate::read_request(target, &annotations) {
        Ok(request) => request,
        Err(refusal) => return assert!(refusal.chars().count() < 1024, "{refusal}"),
    };
    let is_empty = required.is_empty() && preferred.is_empty() && persistent.is_empty();
    assert_eq!(request.is_none(), is_empty, "{annotations:?}");
    let Some(request) = request else { return };
    let spec = serde_json::to_value(&request.spec).unwrap();
    assert_eq!(spec["targetRef"], serde_json::to_value(target).unwrap(), "{spec}");
    let keys = |keys: &[&str]| if keys.is_empty() { Value::Null } else { json!({"nodeTopologyKeys": keys}) };
    assert_eq!(spec["requiredPersistentTopology"], keys(&required), "{spec}");
    let weighted = match keys(&preferred) {
        Value::Null => vec![],
        preference => vec![json!({"weight": 100, "preference": preference})],
    };
    assert_eq!(list(&spec["preferredPersistentTopology"]), weighted, "{spec}");
    assert_eq!(list(&spec["persistentPodAnnotations"]), persistent, "{spec}");
    annotations.remove(AUTO_GENERATE);
    assert_eq!(generate::read_request(target, &annotations), Ok(None));
}

/// A Pod name has an ordinal if and only if it consists of the workload's name, a hyphen and that number.
fn numbered(workload: &str, pod: &str) {
    for pod in [pod.to_owned(), format!("{workload}-{pod}")] {
        let ordinal = workload::ordinal(workload, &pod);
        let number = pod.rsplit_once('-').and_then(|(_, digits)| digits.parse::<u64>().ok());
        let expected = number.filter(|number| format!("{workload}-{number}") == pod);
        assert_eq!(ordinal, expected, "{workload} {pod}");
    }
}

/// `{"start": 0, "replicas": 3, "reserved": [[1, 2]]}`: the wanted ordinals are the first `replicas` from `start` that are
/// not reserved.
fn ordinals(value: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (start, replicas) = (number(&value["start"]), number(&value["replicas"]));
    let reserved: Vec<(u64, u64)> = list(&value["reserved"])
        .iter()
        .take(ENTRIES)
        .map(|range| (number(&range[0]), number(&range[1])))
        .collect();
    let ordinals = Ordinals::new(start, replicas, reserved.iter().copied());
    assert_eq!(ordinals.replicas(), replicas);
    let edges = reserved.iter().flat_map(|(first, last)| [*first, *last]);
    let edges = edges.chain([0, start, start.saturating_add(replicas), u64::MAX]);
    for edge in edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge.saturating_add(1)]) {
        let is_reserved =
            |ordinal: u64| reserved.iter().any(|(first, last)| (*first..=*last).contains(&ordinal));
        let expected = edge >= start && !is_reserved(edge) && {
            // Counts the free ordinals from the start to here, range by range: there may be too many to visit each.
            let mut cuts: Vec<u128> = reserved
                .iter()
                .flat_map(|(first, last)| [u128::from(*first), u128::from(*last) + 1])
                .collect();
            cuts.extend([u128::from(start), u128::from(edge)]);
            cuts.retain(|cut| (u128::from(start)..=u128::from(edge)).contains(cut));
            cuts.sort_unstable();
            let pieces =
                cuts.windows(2).filter(|piece| u64::try_from(piece[0]).is_ok_and(|cut| !is_reserved(cut)));
            pieces.map(|piece| piece[1] - piece[0]).sum::<u128>() < u128::from(replicas)
        };
        assert_eq!(ordinals.contains(edge), expected, "{edge} of {ordinals:?}");
    }
}

/// A Pod that already has a value in every place to which the policy writes.
fn rich_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "annotations": {"own": "1", "": null, "ip": ""}, "labels": {"app": "web"}},
        "spec": {
            "nodeSelector": {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "node-1"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
                            {"key": "kubernetes.io/hostname", "operator": "Gt", "values": ["7"]},
                        ]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
                        {},
                        {"matchExpressions": null},
                    ]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 100, "preference": {"matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]},
                        ]}},
                    ],
                },
                "podAntiAffinity": {"unheard": [1, 2.5, {"of": null}]},
            },
            "containers": [{"name": "web", "image": "web:1"}],
        },
    })
}
