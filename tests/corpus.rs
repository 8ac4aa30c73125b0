//! Runs the golden corpus against the policy as a library.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;

use persistent_pod_state_policy::{Host, admit};
use pps_corpus::{Case, FakeHost, Outcome, diff};
use serde_json::Value;

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
            audit: serde_json::from_value(response.audit_annotations.unwrap_or_default().into())?,
            host_calls: host.calls.into_inner(),
            log: host.log.into_inner(),
        })
    };
    let cases = pps_corpus::run(runner).unwrap_or_else(|error| panic!("{error}"));
    assert!(cases >= 150, "only {cases} cases");
}
