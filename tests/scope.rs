//! Which requests the API server sends to the policies in `deploy/`: their selectors and match
//! conditions are evaluated here. `e2e-tests/tests/scope.rs` asks a real API server about the same
//! table, `testdata/scope.yaml`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

#[path = "scope/conditions.rs"]
mod conditions;
#[path = "scope/laws.rs"]
mod laws;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use conditions::Deployed;
use pps_core::{DEFAULT_NAMESPACE_SELECTOR, INJECTION_LABEL};
use pps_corpus::scope::{Table, table};
use serde_json::{Value, json};

const PODS: &str = "deploy/base/cluster-admission-policy.yaml";
const VALIDATION: &str = "deploy/base/cluster-admission-policy-validation.yaml";
const CUSTOM: &str =
    "deploy/components/custom-workloads/cluster-admission-policy-custom-workloads.yaml";
const DOCUMENT: &str = "docs/reference/scope.md";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn deployed(file: &str) -> Deployed {
    Deployed::new(&yaml_serde::from_str::<Value>(&fs::read_to_string(path(file)).unwrap()).unwrap())
}

/// Whether the API server sends a request to a policy.
fn is_sent(policy: &Deployed, request: &Value, table: &Table) -> bool {
    let namespace = request["namespace"].as_str().unwrap();
    policy
        .is_sent(request, &table.namespaces[namespace], true)
        .unwrap()
}

/// In the words of the document.
fn describe(is_sent: bool) -> &'static str {
    if is_sent { "**sent**" } else { "not sent" }
}

#[test]
fn only_pods_whose_state_may_be_recorded_are_sent() {
    let (table, pods, custom) = (table().unwrap(), deployed(PODS), deployed(CUSTOM));
    assert!(
        table.pods.len() > 45 && table.objects.len() > 15,
        "the table is not complete"
    );
    let mut names = BTreeSet::new();
    for case in &table.pods {
        assert!(names.insert(&case.of), "{} is there twice", case.of);
        let request = case.request("web-0");
        assert_eq!(
            is_sent(&pods, &request, &table),
            case.sent,
            "Pod of {}",
            case.of
        );
        assert_eq!(
            is_sent(&custom, &request, &table),
            case.custom,
            "custom kinds: Pod of {}",
            case.of
        );
    }
}

#[test]
fn only_requests_that_the_policy_checks_are_sent() {
    let (table, validation) = (table().unwrap(), deployed(VALIDATION));
    for case in &table.objects {
        let request = case.admission_request("web");
        assert_eq!(
            is_sent(&validation, &request, &table),
            case.sent,
            "{}",
            case.request
        );
        // The other policies concern Pods only.
        for file in [PODS, CUSTOM] {
            assert!(
                !is_sent(&deployed(file), &request, &table),
                "{file}: {}",
                case.request
            );
        }
    }
}

#[test]
fn all_namespaces_but_the_excluded_take_part_with_the_component() {
    let component =
        fs::read_to_string(path("deploy/components/all-namespaces/kustomization.yaml")).unwrap();
    let patches: Value = yaml_serde::from_str::<Value>(&component).unwrap()["patches"].take();
    let target = |number: usize| patches[number]["target"]["name"].as_str().unwrap();
    assert_eq!(
        [target(0), target(1)],
        ["persistent-pod-state(-custom-workloads)?", "pps-sidecar"]
    );
    let operations = |number: usize| -> Value {
        yaml_serde::from_str(patches[number]["patch"].as_str().unwrap()).unwrap()
    };
    let for_policies: json_patch::Patch = serde_json::from_value(operations(0)).unwrap();
    let table = table().unwrap();
    for (file, owner) in [(PODS, "a StatefulSet"), (CUSTOM, "a Database")] {
        let mut object: Value =
            yaml_serde::from_str(&fs::read_to_string(path(file)).unwrap()).unwrap();
        json_patch::patch(&mut object, &for_policies).unwrap();
        let case = table.pods.iter().find(|case| case.of == owner).unwrap();
        for (namespace, expected) in [
            ("shop", true),
            ("plain", true),
            ("misspelt", true),
            ("paused", false),
            // The label takes none of the excluded namespaces in.
            ("kube-system", false),
            ("persistent-pod-state", false),
        ] {
            let mut request = case.request("web-0");
            request["namespace"] = namespace.into();
            assert_eq!(
                is_sent(&Deployed::new(&object), &request, &table),
                expected,
                "{file}: {namespace}"
            );
        }
        let mut expressions = object["spec"]["namespaceSelector"]["matchExpressions"].take();
        // Kubewarden leaves its own namespace out of each policy.
        expressions[1]["values"]
            .as_array_mut()
            .unwrap()
            .push("kubewarden".into());
        let selector = format!("--namespace-selector={}", as_text(&expressions));
        assert_eq!(
            operations(1)[0]["value"],
            selector,
            "the sidecar records elsewhere than {file} injects"
        );
    }
}

/// Requirements of a label selector in kubectl's grammar.
fn as_text(expressions: &Value) -> String {
    let terms = expressions.as_array().unwrap().iter().map(|one| {
        let values: Vec<&str> = one["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        assert_eq!(one["operator"], "NotIn");
        match (one["key"].as_str().unwrap(), values.as_slice()) {
            (key, [value]) => format!("{key}!={value}"),
            (key, values) => format!("{key} notin ({})", values.join(",")),
        }
    });
    terms.collect::<Vec<_>>().join(",")
}

/// The sidecar's default is the same label that the policies ask for.
#[test]
fn one_label_is_the_whole_switch() {
    for file in [PODS, CUSTOM] {
        let object: Value = yaml_serde::from_str(&fs::read_to_string(path(file)).unwrap()).unwrap();
        let first = &object["spec"]["namespaceSelector"]["matchExpressions"][0];
        assert_eq!(
            *first,
            json!({"key": INJECTION_LABEL, "operator": "In", "values": ["enabled"]}),
            "{file}"
        );
    }
    assert_eq!(
        DEFAULT_NAMESPACE_SELECTOR,
        format!("{INJECTION_LABEL}=enabled")
    );
}

/// The policy for custom kinds differs from the one for StatefulSets only in what it selects.
#[test]
fn both_policies_for_pods_have_the_same_scope() {
    let [mut pods, mut custom] = [PODS, CUSTOM].map(|file| {
        yaml_serde::from_str::<Value>(&fs::read_to_string(path(file)).unwrap()).unwrap()["spec"]
            .take()
    });
    for spec in [&mut pods, &mut custom] {
        spec["objectSelector"].take();
        // The component takes it from the base.
        spec["policyServer"].take();
        let conditions = spec["matchConditions"].as_array_mut().unwrap();
        assert_eq!(conditions.len(), 3);
        conditions.pop();
    }
    assert_eq!(pods, custom);
}

/// UPDATE=1 writes the document.
#[test]
fn document_has_the_whole_table() {
    let table = table().unwrap();
    let mut text =
        String::from("| Pod of | `persistent-pod-state` | `…-custom-workloads` |\n|---|---|---|\n");
    for case in &table.pods {
        let (sent, custom) = (describe(case.sent), describe(case.custom));
        writeln!(text, "| {} | {sent} | {custom} |", case.of).unwrap();
    }
    let mut objects = String::from("| request | `…-validation` |\n|---|---|\n");
    for case in &table.objects {
        writeln!(objects, "| {} | {} |", case.request, describe(case.sent)).unwrap();
    }
    let mut document = fs::read_to_string(path(DOCUMENT)).unwrap();
    for (name, content) in [("pods", text), ("objects", objects)] {
        let (begin, end) = (
            format!("<!-- {name}: generated -->\n"),
            format!("<!-- end of {name} -->"),
        );
        let (before, rest) = document.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        document = format!("{before}{begin}\n{content}\n{end}{after}");
    }
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(path(DOCUMENT), &document).unwrap();
    }
    assert!(
        fs::read_to_string(path(DOCUMENT)).unwrap() == document,
        "{DOCUMENT} is out of date with testdata/scope.yaml. To update it: UPDATE=1 cargo test \
         --test scope"
    );
}
