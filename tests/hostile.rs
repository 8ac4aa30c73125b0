//! What is meant to hurt, against the policy as a library.

use persistent_pod_state_policy::{Host, admit};
use pps_corpus::hostile::{self, Hostile};

struct Attacker<'a>(&'a Hostile);

impl Host for Attacker<'_> {
    fn call(&self, _: &str, operation: &str, payload: &str) -> Result<String, String> {
        // As the policy reads what comes from outside.
        String::from_utf8(self.0.call(operation, payload)?).map_err(|error| error.to_string())
    }
}

#[test]
fn nothing_that_is_meant_to_hurt_does() {
    let wrong: Vec<String> = hostile::all()
        .iter()
        .filter_map(|hostile| {
            let response = admit(&hostile.payload, &Attacker(hostile));
            let answer = serde_json::to_vec(&response).map_err(|error| error.to_string());
            answer.and_then(|answer| hostile.check(&answer)).err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
