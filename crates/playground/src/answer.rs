//! Requests and responses in the JSON of PolicyServer.

use pps_admission::{Decision, Host, Request, Settings, Verdict, admit};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Payload {
    request: Request,
    #[serde(default)]
    settings: Value,
}

/// Answers a request of PolicyServer, `{"request": …, "settings": …}`, as the policy does.
pub(crate) fn answer(payload: &str, host: &dyn Host) -> String {
    let response = match serde_json::from_str(payload) {
        Ok(Payload { request, settings }) => {
            let settings = Settings::read(&settings);
            response(admit(request, settings.as_ref(), host))
        }
        Err(error) => json!({"accepted": false, "code": 400, "message": error.to_string()}),
    };
    response.to_string()
}

fn response(decision: Decision) -> Value {
    let Decision {
        verdict,
        warnings,
        audit_annotations,
    } = decision;
    let mut response = json!({
        "accepted": true, "warnings": warnings, "audit_annotations": audit_annotations,
    });
    match verdict {
        Verdict::Accept => {}
        Verdict::Mutate(object) => response["mutated_object"] = object,
        Verdict::Reject(rejection) => {
            response["accepted"] = false.into();
            response["code"] = rejection.code().into();
            response["message"] = rejection.to_string().into();
        }
    }
    response
}
