//! Runs the hostile cases against the policy as a library.

use persistent_pod_state_policy::{Host, admit};
use pps_corpus::hostile::{self, HostileCase};

struct HostileHost<'a>(&'a HostileCase);

impl Host for HostileHost<'_> {
    fn call(&self, _: &str, operation: &str, payload: &str) -> Result<String, String> {
        // As `PolicyServer` does in the Wasm module.
        String::from_utf8(self.0.call(operation, payload)?).map_err(|error| error.to_string())
    }
}

#[test]
fn withstands_hostile_payloads_and_answers() {
    let wrong: Vec<String> = hostile::all()
        .iter()
        .filter_map(|hostile| {
            let response = admit(&hostile.payload, &HostileHost(hostile));
            hostile.check(response.into_json().as_bytes()).err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
