//! Properties of `Excerpt` that hold for every Pod, however it is written.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use pps_core::excerpt::Excerpt;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~äλ\n\"\\\\]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-z\"\\\\]{0,2}", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// An object with some of these fields and others.
fn object(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let named = btree_map(prop::sample::select(names), anything(), 0..=names.len());
    let others = btree_map("[a-c\" ]{1,2}", anything(), 0..3);
    (named, others).prop_map(|(named, others)| {
        let named = named
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        others.into_iter().chain(named).collect()
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let metadata = prop_oneof![4 => object(&["name", "annotations"]), 1 => anything()];
    let spec = prop_oneof![4 => object(&["affinity", "nodeSelector", "topologySpreadConstraints"]), 1 => anything()];
    (
        object(&["kind"]),
        proptest::option::of(metadata),
        proptest::option::of(spec),
    )
        .prop_map(|(mut pod, metadata, spec)| {
            for (name, part) in [("metadata", metadata), ("spec", spec)] {
                if let Some(part) = part {
                    pod[name] = part;
                }
            }
            pod
        })
}

fn text(pod: &Value, is_indented: bool) -> String {
    if is_indented {
        format!(" {pod:#}\n")
    } else {
        pod.to_string()
    }
}

/// The value at this path; `None` if it leads nowhere.
fn at<'a>(pod: &'a Value, part: &str, field: &str) -> Option<&'a Value> {
    pod.get(part)?.get(field)
}

proptest! {
    #[test]
    fn shows_what_the_pod_has(pod in pod(), is_indented: bool) {
        let text = text(&pod, is_indented);
        let excerpt = Excerpt::read(&text).unwrap();
        let spec = ["affinity", "nodeSelector", "topologySpreadConstraints"].map(|field| ("spec", field));
        for (part, field) in [("metadata", "annotations")].into_iter().chain(spec) {
            prop_assert_eq!(at(&excerpt.pod, part, field), at(&pod, part, field), "{}", &text);
        }
        for part in ["metadata", "spec"] {
            let is_object = |pod: &Value| pod.get(part).map(Value::is_object);
            prop_assert_eq!(is_object(&excerpt.pod), is_object(&pod));
        }
        let unchanged: Value = serde_json::from_str(&excerpt.into_text()).unwrap();
        prop_assert_eq!(unchanged, pod);
    }

    #[test]
    fn changes_exactly_what_is_changed(
        pod in pod(), is_indented: bool, annotations in proptest::option::of(anything()), affinity in proptest::option::of(anything()),
    ) {
        let text = text(&pod, is_indented);
        let mut excerpt = Excerpt::read(&text).unwrap();
        let mut expected = pod.clone();
        for (part, field, value) in [("metadata", "annotations", annotations), ("spec", "affinity", affinity)] {
            let Some(value) = value else { continue };
            for pod in [&mut excerpt.pod, &mut expected] {
                let parent = &mut pod[part];
                if !parent.is_object() {
                    *parent = json!({});
                }
                parent[field] = value.clone();
            }
        }
        let changed: Value = serde_json::from_str(&excerpt.into_text()).unwrap();
        prop_assert_eq!(changed, expected, "{}", &text);
    }
}

#[test]
fn leaves_all_other_text_unchanged() {
    let pod = r#"{ "a": 1.10e3,"metadata": null, "spec":{ "x" : {"$serde_json::private::Number": "12"}, "affinity" :null } }"#;
    let mut excerpt = Excerpt::read(pod).unwrap();
    excerpt.pod["metadata"]["annotations"]["k"] = json!("v");
    excerpt.pod["spec"]["affinity"]["nodeAffinity"] = json!({});
    assert_eq!(
        excerpt.into_text(),
        r#"{ "a": 1.10e3,"metadata": {"annotations":{"k":"v"}}, "spec":{ "x" : {"$serde_json::private::Number": "12"}, "affinity" :{"nodeAffinity":{}} } }"#
    );
}

#[test]
fn leaves_private_names_in_values_and_in_fields_that_are_only_read() {
    for pod in [
        r#"{"metadata": {"annotations": {"a": "$serde_json::private::Number", "b": "\"$serde_json::private::Number\": 1"}}}"#,
        r#"{"metadata": {"annotations": {"a": "$serde_json::private::Number\" : 1", "$serde_json::private": "$serde_json::private::"}}}"#,
        r#"{"spec": {"affinity": {}, "nodeSelector": {"$serde_json::private::Number": "12"}}}"#,
        r#"{"spec": {"affinity": {}, "topologySpreadConstraints": [{"\u0024serde_json::private::Number": "]"}]}}"#,
    ] {
        let mut excerpt = Excerpt::read(pod).unwrap();
        excerpt.pod["metadata"]["annotations"]["k"] = json!("v");
        let changed: Value = serde_json::from_str(&excerpt.into_text()).unwrap();
        let mut expected: Value = serde_json::from_str(pod).unwrap();
        expected["metadata"]["annotations"]["k"] = json!("v");
        assert_eq!(changed, expected, "{pod}");
    }
}

/// An object that is nested so deep.
fn nested(depth: usize) -> String {
    format!(
        "{{\"a\":{}{}}}",
        "[".repeat(depth - 1),
        "]".repeat(depth - 1)
    )
}

#[test]
fn accepts_what_the_host_can_read_again() {
    let usual = r#"{"metadata": {"annotations": {"a": "\u003cb\u003E \u0026 \u0022 \u005c \\u0024 \u000a \u00e4"}}}"#;
    for pod in [usual, r#"{"a": "\ud83d\uDE00 \\ud800 [[{"}"#, &nested(126)] {
        let excerpt = Excerpt::read(pod).unwrap();
        let text = format!("{{\"mutated_object\":{}}}", excerpt.into_text());
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read["mutated_object"],
            serde_json::from_str::<Value>(pod).unwrap()
        );
    }
}

#[test]
fn refuses_what_it_would_change_and_what_is_no_object() {
    for (pod, error) in [
        ("[]", "expected an object"),
        (r#"{"a": "\\\ud800"}"#, "half a surrogate pair"),
        (r#"{"a": "\uDC00\uD800"}"#, "half a surrogate pair"),
        (r#"{"a": "\ud83d\\ude00"}"#, "half a surrogate pair"),
        (&nested(127), "it is nested more than 126 deep"),
        (r#"{"spec": {}, "spec": {}}"#, "spec is repeated"),
        (
            r#"{"spec": {"affinity": null, "affinity": {}}}"#,
            "affinity is repeated",
        ),
        (
            r#"{"metadata": {"annotations": {"$serde_json::private::Number": "12"}}}"#,
            "it has a field $serde_json::private::",
        ),
        (
            r#"{"metadata": {"annotations": {"$serde_json::private::RawValue": "{}"}}}"#,
            "it has a field $serde_json::private::",
        ),
        (
            r#"{"spec": {"affinity": {"\u0024serde_json::private::Number": "12"}}}"#,
            "it has a field $serde_json",
        ),
        (
            r#"{"spec": {"affinity": {"$serde\u005Fjson::private::Number" : "12"}}}"#,
            "it has a field $serde_json",
        ),
        (
            "{\"spec\": {\"affinity\": [{\"$serde_json::private::Number\"\n\t: \"12\"}]}}",
            "it has a field $serde_json",
        ),
    ] {
        let found = Excerpt::read(pod).unwrap_err().to_string();
        assert!(found.contains(error), "{pod}: {found}");
    }
}
