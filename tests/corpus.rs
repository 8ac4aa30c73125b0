//! Runs the golden corpus against the policy as a library.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;

use kubewarden_policy_sdk::response::ValidationResponse;
use persistent_pod_state_policy::answer as admit;
use pps_admission::Host;
use pps_corpus::{Case, FakeHost, Outcome, diff};
use serde_json::{Value, json};

/// Answers from a case's objects, and records the calls.
struct RecordingHost {
    host: FakeHost,
    calls: RefCell<Vec<(String, Value)>>,
    log: RefCell<Vec<String>>,
}

impl Host for RecordingHost {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        let request: Value = serde_json::from_str(payload).unwrap();
        if (namespace, operation) == ("tracing", "log") {
            assert_eq!(request["level"], "warning");
            self.log
                .borrow_mut()
                .push(request["message"].as_str().unwrap().to_owned());
            return Ok(String::new());
        }
        assert_eq!(namespace, "kubernetes");
        self.calls
            .borrow_mut()
            .push((operation.to_owned(), request));
        self.host
            .call(operation, payload)
            .map_err(|error| format!("Host error: {error}"))
    }
}

#[test]
fn the_library_passes_the_corpus() {
    let runner = |case: &Case| {
        let host = RecordingHost {
            host: case.host(),
            calls: RefCell::default(),
            log: RefCell::default(),
        };
        let response = admit(case.payload().to_string().as_bytes(), &host);
        let patch = match &response.mutated_object {
            Some(after) => diff(&case.request["object"], after)?,
            None => Vec::new(),
        };
        Ok(Outcome {
            accepted: response.accepted,
            patch,
            warnings: response.warnings.unwrap_or_default(),
            code: response.code,
            message: response.message,
            audit: response
                .audit_annotations
                .unwrap_or_default()
                .into_iter()
                .collect(),
            host_calls: host.calls.into_inner(),
            log: host.log.into_inner(),
        })
    };
    let cases = pps_corpus::run(runner).unwrap_or_else(|error| panic!("{error}"));
    assert!(cases >= 150, "only {cases} cases");
}

/// Every name is that of an alias, of the object with one more letter.
struct EndlessAliases(RefCell<Vec<String>>);

impl Host for EndlessAliases {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        let request: Value = serde_json::from_str(payload).unwrap();
        self.0.borrow_mut().push(format!("{namespace}/{operation}"));
        let name = request["name"].as_str().unwrap();
        let target = json!({"apiVersion": request["api_version"], "kind": "PersistentPodState", "name": format!("{name}a")});
        Ok(json!({"metadata": {"name": name}, "spec": {"targetRef": target}}).to_string())
    }
}

/// A list could hold a worker of the PolicyServer forever.
#[test]
fn lookup_makes_few_gets_and_no_other_call() {
    let mut most = 0;
    for case in pps_corpus::cases().unwrap() {
        let host = EndlessAliases(RefCell::default());
        admit(case.payload().to_string().as_bytes(), &host);
        let calls = host.0.into_inner();
        assert!(
            calls.iter().all(|call| call == "kubernetes/get_resource"),
            "{}: {calls:?}",
            case.name
        );
        most = most.max(calls.len());
        // At most three names. Once more in v1beta1 where v1alpha1 is not served, and once more for
        // the whole status where the definition may hide states.
        let expected: Vec<&String> = case
            .expected
            .host_calls
            .iter()
            .flat_map(|call| call.keys())
            .collect();
        assert!(
            expected.len() <= 5 && expected.iter().all(|call| *call == "get_resource"),
            "{}",
            case.name
        );
    }
    assert_eq!(most, 3);
}

/// Admits a Pod with these annotations, for which the state holds those.
fn admit_with_annotations(own: &Value, recorded: &[(String, String)]) -> ValidationResponse {
    let cases = pps_corpus::cases().unwrap();
    let mut case = cases
        .into_iter()
        .find(|case| case.name == "rule-07-injected")
        .unwrap();
    case.request["object"]["metadata"]["annotations"] = own.clone();
    let keys: Vec<&String> = recorded.iter().map(|(key, _)| key).collect();
    case.objects[0]["spec"]["persistentPodAnnotations"] = json!(keys);
    let values: serde_json::Map<String, Value> = recorded
        .iter()
        .map(|(key, value)| (key.clone(), value.as_str().into()))
        .collect();
    case.objects[0]["status"]["podStates"]["web-0"]["annotations"] = values.into();
    let host = RecordingHost {
        host: case.host(),
        calls: RefCell::default(),
        log: RefCell::default(),
    };
    admit(case.payload().to_string().as_bytes(), &host)
}

#[test]
fn the_audit_annotation_has_a_limit() {
    let recorded: Vec<(String, String)> = (0..128)
        .map(|at| {
            (
                format!("{}/k{at}", ["a".repeat(60).as_str(); 4].join(".")),
                "1".into(),
            )
        })
        .collect();
    let audit = admit_with_annotations(&json!({}), &recorded)
        .audit_annotations
        .unwrap();
    let injected = &audit["injected"];
    assert!(
        injected.starts_with("annotations: aaa") && injected.ends_with('…'),
        "{injected}"
    );
    assert_eq!(injected.chars().count(), 1025);
}
