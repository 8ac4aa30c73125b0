//! Runs the golden corpus against the policy as a library.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;

use persistent_pod_state_policy::{Host, admit};
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
            self.log.borrow_mut().push(request["message"].as_str().unwrap().to_owned());
            return Ok(String::new());
        }
        assert_eq!(namespace, "kubernetes");
        self.calls.borrow_mut().push((operation.to_owned(), request));
        self.host.call(operation, payload).map_err(|error| format!("Host error: {error}"))
    }
}

#[test]
fn the_library_passes_the_corpus() {
    let runner = |case: &Case| {
        let host = RecordingHost { host: case.host(), calls: RefCell::default(), log: RefCell::default() };
        let response = admit(case.payload().to_string().as_bytes(), &host);
        let patch = match &response.mutated() {
            Some(after) => diff(&case.request["object"], after)?,
            None => Vec::new(),
        };
        Ok(Outcome {
            accepted: response.accepted,
            patch,
            warnings: response.warnings.unwrap_or_default(),
            code: response.code,
            message: response.message,
            audit: serde_json::from_value(response.audit_annotations.unwrap_or_default().into())?,
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
fn lookup_makes_at_most_three_gets_and_no_other_call() {
    let mut most = 0;
    for case in pps_corpus::cases().unwrap() {
        let host = EndlessAliases(RefCell::default());
        admit(case.payload().to_string().as_bytes(), &host);
        let calls = host.0.into_inner();
        assert!(calls.iter().all(|call| call == "kubernetes/get_resource"), "{}: {calls:?}", case.name);
        most = most.max(calls.len());
        // Once more in v1beta1, where the first get shows that v1alpha1 is not served.
        let expected: Vec<&String> = case.expected.host_calls.iter().flat_map(|call| call.keys()).collect();
        assert!(expected.len() <= 4 && expected.iter().all(|call| *call == "get_resource"), "{}", case.name);
    }
    assert_eq!(most, 3);
}
