use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::packed::{Row, recorded_state};

type States = BTreeMap<String, PodState>;

/// The object after the edit, as the API server would store it.
fn apply(object: &Value, edit: &Edit) -> Value {
    let mut after = object.clone();
    if edit.body.is_array() {
        let patch: json_patch::Patch = serde_json::from_value(edit.body.clone()).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
    } else {
        json_patch::merge(&mut after, &edit.body);
    }
    after
}

fn on(node: &str) -> PodState {
    PodState {
        node_name: node.into(),
        node_topology_labels: [("zone".to_owned(), "a".to_owned())].into(),
        annotations: [("ip".to_owned(), "10.0.0.7".to_owned())].into(),
    }
}

fn bucket_texts(states: &States) -> Value {
    let mut rows: BTreeMap<String, Vec<Row<'_>>> = BTreeMap::new();
    for (pod, state) in states {
        rows.entry(Bucket::of(pod).to_string())
            .or_default()
            .push(Row::of(pod, state));
    }
    rows.into_iter()
        .map(|(bucket, rows)| (bucket, Value::from(write_bucket(&rows))))
        .collect()
}

/// An object with these states in the compact form, if there is one, and these in `podStates`.
fn object(packed: Option<&States>, plain: &States) -> Value {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "w", "uid": "uid-w", "resourceVersion": "7", "labels": {"team": "db"}},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}},
        "status": {"observedGeneration": 2, "desired": 3, "targetUID": "t", "unknown": {"kept": true},
            "conditions": [{"type": "Recording", "status": "True"}]},
    });
    let mut all = plain.clone();
    if let Some(packed) = packed {
        object["status"]["packed"] = json!({"version": 1, "buckets": bucket_texts(packed)});
        for (pod, state) in packed {
            all.entry(pod.clone()).or_insert_with(|| state.clone());
        }
    }
    if !plain.is_empty() {
        object["status"]["podStates"] = json!(plain);
    }
    object["status"]["recorded"] = all.len().into();
    object
}

fn pod() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_u8..6).prop_map(|ordinal| format!("w-{ordinal}")),
        2 => (99_u8..104).prop_map(|ordinal| format!("w-{ordinal}")),
        1 => "w\\.[ab]",
        1 => "queue-[xyz]",
    ]
}

fn state() -> impl Strategy<Value = PodState> {
    let labels = btree_map("(zone|host)", "(a|b|node-1)?", 0..3);
    let annotations = btree_map(
        "(ip|example\\.io/mac)",
        "(10\\.0\\.0\\.[12]|\\[\"x\"\\]|%)?",
        0..3,
    );
    ("(node-1|node-2|n)?", labels, annotations).prop_map(
        |(node_name, node_topology_labels, annotations)| PodState {
            node_name,
            node_topology_labels,
            annotations,
        },
    )
}

fn states() -> impl Strategy<Value = States> {
    btree_map(pod(), state(), 0..8)
}

/// An object in one of the forms or both, and its entries.
fn stored() -> impl Strategy<Value = (Value, States)> {
    (proptest::option::of(states()), states()).prop_map(|(packed, plain)| {
        let mut entries = packed.clone().unwrap_or_default();
        entries.extend(plain.clone());
        (object(packed.as_ref(), &plain), entries)
    })
}

/// Checks an edit that makes these entries of those.
fn check(object: &Value, before: &States, expected: &States, edit: Option<&Edit>) -> Value {
    assert_eq!(edit.is_none(), before == expected, "{edit:?}");
    let Some(edit) = edit else {
        return object.clone();
    };
    for (pod, change) in &edit.changes {
        assert_eq!(
            (change.before.as_ref(), change.after.as_ref()),
            (before.get(pod), expected.get(pod)),
            "{pod}"
        );
        assert_ne!(change.before, change.after, "{pod}");
    }
    let after = apply(object, edit);
    assert_eq!(&Object::read(&after).unwrap().entries, expected);
    for pod in before.keys().chain(expected.keys()) {
        assert_eq!(
            recorded_state(&after["status"], pod).unwrap().as_ref(),
            expected.get(pod),
            "{pod}"
        );
    }
    assert_eq!(after["status"]["recorded"], expected.len());
    let is_compact = |object: &Value| !object["status"]["packed"].is_null();
    assert_eq!(is_compact(object), is_compact(&after), "the form stays");

    // Nothing else changes, and what is written is no longer in both forms.
    let changed_buckets: BTreeSet<Bucket> =
        edit.changes.keys().map(|pod| Bucket::of(pod)).collect();
    let others = |object: &Value| {
        let mut object = object.clone();
        let status = object["status"].as_object_mut().unwrap();
        status.remove("recorded");
        if let Some(buckets) = status
            .get_mut("packed")
            .and_then(|packed| packed["buckets"].as_object_mut())
        {
            buckets.retain(|name, _| !changed_buckets.contains(&Bucket::parse(name).unwrap()));
        }
        let is_changed = |pod: &str| {
            if is_compact(&after) {
                changed_buckets.contains(&Bucket::of(pod))
            } else {
                edit.changes.contains_key(pod)
            }
        };
        let mut plain = status.remove("podStates").unwrap_or_else(|| json!({}));
        plain
            .as_object_mut()
            .unwrap()
            .retain(|pod, _| !is_changed(pod));
        (object, plain)
    };
    assert_eq!(others(object), others(&after));
    if is_compact(&after) {
        let plain = after["status"]["podStates"].as_object();
        assert!(
            plain
                .into_iter()
                .flatten()
                .all(|(pod, _)| !changed_buckets.contains(&Bucket::of(pod)))
        );
    }
    after
}

proptest! {
    #[test]
    fn dropping_states_leaves_the_others(
        (object, entries) in stored(),
        pods in btree_set(pod(), 0..5),
    ) {
        let mut expected = entries.clone();
        expected.retain(|pod, _| !pods.contains(pod));
        let drop = |object: &Value| drop_states(object, pods.iter().map(String::as_str)).unwrap();
        let after = check(&object, &entries, &expected, drop(&object).as_ref());
        prop_assert_eq!(drop(&after), None, "a second time");
    }

    #[test]
    fn a_state_that_is_set_is_the_only_one_that_changes(
        (object, entries) in stored(),
        changes in vec((pod(), proptest::option::of(state())), 1..4),
    ) {
        let (mut object, mut entries) = (object, entries);
        for (pod, state) in changes {
            let mut expected = entries.clone();
            match &state {
                Some(state) => expected.insert(pod.clone(), state.clone()),
                None => expected.remove(&pod),
            };
            let set = |object: &Value| set_state(object, &pod, state.as_ref()).unwrap();
            object = check(&object, &entries, &expected, set(&object).as_ref());
            prop_assert_eq!(set(&object), None, "a second time");
            entries = expected;
        }
    }

    #[test]
    fn states_that_are_taken_over_replace_others_only_if_they_may(
        (object, entries) in stored(),
        states in states(),
        overwrite: bool,
    ) {
        let nothing = PodState::default();
        let (mut expected, mut kept) = (entries.clone(), BTreeSet::new());
        for (pod, state) in states.iter().filter(|(_, state)| **state != nothing) {
            let has_other = expected.get(pod).is_some_and(|before| *before != nothing && before != state);
            if has_other && !overwrite {
                kept.insert(pod.clone());
            } else {
                expected.insert(pod.clone(), state.clone());
            }
        }
        let merged = merge(&object, &states, overwrite).unwrap();
        prop_assert_eq!(&merged.kept, &kept);
        let after = check(&object, &entries, &expected, merged.edit.as_ref());
        prop_assert_eq!(merge(&after, &states, overwrite).unwrap(), Merge { edit: None, kept }, "a second time");
    }

    #[test]
    fn states_of_both_forms_are_read_and_empty_entries_are_none((object, entries) in stored()) {
        let mut expected = entries;
        expected.retain(|_, state| *state != PodState::default());
        prop_assert_eq!(&super::states(&object).unwrap(), &expected);
        let plain: States = serde_json::from_value(plain_states(&object).unwrap().into()).unwrap();
        prop_assert_eq!(&plain, &expected);
    }
}

#[test]
fn an_edit_applies_only_to_the_object_and_the_version_that_it_was_made_from() {
    let plain = object(None, &[("w-0".into(), on("node-1"))].into());
    let edit = drop_states(&plain, ["w-0"]).unwrap().unwrap();
    assert_eq!(
        edit.body,
        json!({"metadata": {"uid": "uid-w", "resourceVersion": "7"},
            "status": {"podStates": {"w-0": null}, "recorded": 0}})
    );
    let compact = object(Some(&[("w-0".into(), on("node-1"))].into()), &States::new());
    let edit = set_state(&compact, "w-1", Some(&on("node-2")))
        .unwrap()
        .unwrap();
    let operations = edit.body.as_array().unwrap();
    assert_eq!(
        operations[0],
        json!({"op": "test", "path": "/status/packed/version", "value": 1})
    );
    for (path, value) in [
        ("/metadata/uid", "uid-w"),
        ("/metadata/resourceVersion", "7"),
    ] {
        assert!(
            operations.contains(&json!({"op": "add", "path": path, "value": value})),
            "{operations:?}"
        );
    }
    for field in ["uid", "resourceVersion"] {
        for missing in [Value::Null, "".into()] {
            let mut other = plain.clone();
            other["metadata"][field] = missing;
            assert_eq!(drop_states(&other, ["w-0"]), Err(EditError::Unguarded));
            assert_eq!(drop_states(&other, ["w-1"]), Ok(None), "nothing is written");
        }
    }
}

#[test]
fn a_compact_form_without_buckets_takes_a_state() {
    let mut empty = object(Some(&States::new()), &States::new());
    empty["status"]["packed"] = json!({"version": 1});
    let edit = set_state(&empty, "w-0", Some(&on("node-1")))
        .unwrap()
        .unwrap();
    assert_eq!(
        super::states(&apply(&empty, &edit)).unwrap(),
        [("w-0".to_owned(), on("node-1"))].into()
    );
}

#[test]
fn the_number_of_states_is_left_to_the_sidecar_where_there_is_none() {
    let mut bare = object(None, &[("w-0".into(), on("node-1"))].into());
    bare["status"].as_object_mut().unwrap().remove("recorded");
    let edit = drop_states(&bare, ["w-0"]).unwrap().unwrap();
    assert_eq!(edit.body["status"], json!({"podStates": {"w-0": null}}));
    let unwritten = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
    let edit = set_state(&unwritten, "w-0", Some(&on("n")))
        .unwrap()
        .unwrap();
    assert_eq!(edit.body["status"], json!({"podStates": {"w-0": on("n")}}));
}

#[test]
fn what_cannot_be_read_is_not_changed() {
    let plain = object(None, &[("w-0".into(), on("node-1"))].into());
    let compact = object(Some(&[("w-0".into(), on("node-1"))].into()), &States::new());
    let with = |object: &Value, pointer: &str, value: Value| {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let mut object = object.clone();
        object.pointer_mut(parent).unwrap()[field] = value;
        object
    };
    for (damaged, message) in [
        (
            with(&compact, "/status/packed/version", 2.into()),
            "status.packed.version is 2",
        ),
        (
            with(&compact, "/status/packed/version", Value::Null),
            "status.packed.version is missing",
        ),
        (
            with(&compact, "/status/packed/buckets", json!([])),
            "status.packed.buckets is no object",
        ),
        (
            with(
                &compact,
                "/status/packed/buckets/ordinals-0",
                "2 web-* n\n0 %\n".into(),
            ),
            "status.packed.buckets.ordinals-0 is damaged: 1 lines follow the first one, which \
             says 2",
        ),
        (
            with(&compact, "/status/packed/buckets/ordinals-0", 5.into()),
            "it is no text",
        ),
        (
            with(&compact, "/status/packed/buckets/other", "".into()),
            "no bucket can have one of the names",
        ),
        (
            with(&plain, "/status/podStates", 5.into()),
            "status.podStates is no object",
        ),
        (
            with(&plain, "/status/podStates/w-1", 5.into()),
            "status.podStates.w-1: invalid type: integer `5`, expected struct PodState",
        ),
    ] {
        let error = set_state(&damaged, "w-0", None).unwrap_err();
        assert!(matches!(error, EditError::Damaged(_)), "{error}");
        let error = error.to_string();
        assert!(
            error.contains(message) && error.contains("nothing is changed"),
            "{error}"
        );
        assert!(super::states(&damaged).is_err() && merge(&damaged, &States::new(), true).is_err());
    }
}

#[test]
fn what_a_definition_hides_is_not_overwritten() {
    let mut hidden = object(None, &States::new());
    hidden["metadata"]["managedFields"] = json!([{"manager": "pps-sidecar", "fieldsV1": {"f:status": {"f:packed": {}, "f:recorded": {}}}}]);
    assert_eq!(
        set_state(&hidden, "w-0", Some(&on("node-1"))),
        Err(EditError::Hidden)
    );
    assert_eq!(super::states(&hidden), Err(EditError::Hidden));
    // Another client has recorded one Pod beside the compact form before it was hidden.
    hidden["status"]["podStates"] = json!({"w-1": on("node-1")});
    hidden["status"]["recorded"] = 2.into();
    assert_eq!(super::states(&hidden), Err(EditError::Hidden));
    assert_eq!(drop_states(&hidden, ["w-1"]), Err(EditError::Hidden));
    assert_eq!(merge(&hidden, &States::new(), true), Err(EditError::Hidden));
}

#[test]
fn states_may_be_hidden_if_the_compact_form_may_have_been_written_and_is_not_shown() {
    let plain = object(None, &[("w-0".into(), on("node-1"))].into());
    let compact = object(Some(&[("w-0".into(), on("node-1"))].into()), &States::new());
    let with = |object: &Value, managed: Value| {
        let mut object = object.clone();
        object["metadata"]["managedFields"] = managed;
        object
    };
    let entry = |fields: Value| json!({"manager": "m", "fieldsV1": fields});
    let spec = entry(json!({"f:spec": {}}));
    let packed = entry(json!({"f:status": {"f:packed": {}}}));
    let states = entry(json!({"f:status": {"f:podStates": {}}}));
    for (managed, may_hide) in [
        (json!([spec, states]), false),
        (json!([states, packed]), true),
        (json!([packed, states]), true),
        // The API server has dropped what they said of the status.
        (json!([spec]), true),
        (Value::Null, true),
    ] {
        assert!(
            !may_hide_states(&with(&plain, managed.clone())),
            "all are shown"
        );
        let mut some = with(&plain, managed.clone());
        for recorded in [json!(2), Value::Null] {
            some["status"]["recorded"] = recorded;
            assert_eq!(may_hide_states(&some), may_hide, "{some}");
        }
        assert!(!may_hide_states(&with(&compact, managed)), "it is shown");
    }
    let unwritten = json!({"metadata": {"name": "w"}, "spec": {}, "status": {}});
    assert!(!may_hide_states(&unwritten));
}

#[test]
fn a_state_that_no_pod_could_be_given_is_refused() {
    let plain = object(None, &States::new());
    let label = |key: &str, value: &str| PodState {
        node_topology_labels: [(key.to_owned(), value.to_owned())].into(),
        ..on("n")
    };
    let annotation = |key: &str, value: String| PodState {
        annotations: [(key.to_owned(), value)].into(),
        ..on("n")
    };
    let many = |count: usize| {
        (0..count)
            .map(|number| (format!("k{number}"), String::new()))
            .collect()
    };
    for (pod, state, reason) in [
        ("W_0", on("n"), "no Pod can have this name"),
        (
            "w-0",
            on("\u{1b}[31m"),
            "no node can have the name \"\\u{1b}[31m\"",
        ),
        ("w-0", label("a b", "c"), "\"a b\" can be no label's key"),
        (
            "w-0",
            label("zone", "a b"),
            "label zone cannot have the value \"a b\"",
        ),
        (
            "w-0",
            label("zone", &"a".repeat(64)),
            "label zone cannot have the value",
        ),
        (
            "w-0",
            annotation("", String::new()),
            "\"\" can be no annotation's key",
        ),
        (
            "w-0",
            annotation("ip", "x".repeat(256 * 1024 + 1)),
            "annotation ip has 262145 bytes",
        ),
        (
            "w-0",
            PodState {
                annotations: many(129),
                ..on("n")
            },
            "it has 129 annotations, and at most 128",
        ),
        (
            "w-0",
            PodState {
                node_topology_labels: many(4161),
                ..on("n")
            },
            "it has 4161 labels",
        ),
    ] {
        let error = set_state(&plain, pod, Some(&state))
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{error}");
        let states = [(pod.to_owned(), state)].into();
        assert!(merge(&plain, &states, true).is_err());
        assert!(merge(&object(Some(&States::new()), &States::new()), &states, true).is_err());
    }
    assert!(set_state(&plain, "w-0", Some(&label("zone", ""))).is_ok());
}

#[test]
fn more_than_an_object_can_have_is_refused_and_less_of_it_is_not() {
    let states = |count: usize| -> States {
        let state = PodState {
            annotations: [("ip".to_owned(), "1".repeat(400))].into(),
            ..on("n")
        };
        (0..count)
            .map(|number| (format!("w-{number}"), state.clone()))
            .collect()
    };
    let (plain, compact) = (
        object(None, &States::new()),
        object(Some(&States::new()), &States::new()),
    );
    let error = merge(&plain, &states(5000), false).unwrap_err();
    assert!(
        matches!(error, EditError::TooLarge { bytes } if bytes > 1000 * 1024),
        "{error}"
    );
    assert!(merge(&compact, &states(1000), false).is_ok());
    let many: States = (0..100_001)
        .map(|number| (format!("w-{number}"), on("n")))
        .collect();
    assert_eq!(
        merge(&compact, &many, false).unwrap_err(),
        EditError::TooMany { states: 100_001 }
    );
    // An object of an earlier release may be larger.
    let large = object(None, &states(5000));
    let edit = drop_states(&large, ["w-7"]).unwrap().unwrap();
    assert_eq!(
        edit.body["status"],
        json!({"podStates": {"w-7": null}, "recorded": 4999})
    );
    assert!(set_state(&large, "w-5000", Some(&on("n"))).is_err());
}

#[test]
fn a_move_gives_up_the_node_and_only_the_other_keys_that_are_named() {
    let labels = json!({"kubernetes.io/hostname": "node-1", "zone": "a", "rack": "7"});
    let state = json!({"nodeName": "node-1", "nodeTopologyLabels": labels, "annotations": {"ip": "10.0.0.7"}});
    let state: PodState = serde_json::from_value(state).unwrap();
    for (given_up, labels) in [
        (vec![], json!({"zone": "a", "rack": "7"})),
        (vec!["rack".to_owned()], json!({"zone": "a"})),
    ] {
        let expected = json!({"nodeTopologyLabels": labels, "annotations": {"ip": "10.0.0.7"}});
        assert_eq!(json!(without_node(&state, &given_up)), expected);
    }
}

#[test]
fn states_of_a_forgotten_workload_wait_for_the_next_one_in_both_forms() {
    let states: States = [("w-0".to_owned(), on("n"))].into();
    for mut before in [
        object(None, &States::new()),
        object(Some(&States::new()), &States::new()),
    ] {
        let mut edit = merge(&before, &states, false).unwrap().edit.unwrap();
        edit.forget_workload();
        let after = apply(&before, &edit);
        assert_eq!(super::states(&after).unwrap(), states);
        before["status"]
            .as_object_mut()
            .unwrap()
            .remove("targetUID");
        assert_eq!(after["status"].get("targetUID"), None);
        assert_eq!(after["status"]["desired"], before["status"]["desired"]);
        // An object that lost the UID meanwhile has another version: the answer is a conflict, not
        // an error.
        assert_eq!(apply(&before, &edit)["status"].get("targetUID"), None);
    }
}
