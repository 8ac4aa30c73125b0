//! The policy's own doors: one request, and the settings.

use persistent_pod_state_policy::{Host, Settings, admit};
use serde_json::json;

use crate::yaml;

/// Answers a request of PolicyServer as the policy does: the response as JSON.
pub fn evaluate_with(payload: &str, host: &dyn Host) -> String {
    admit(payload.as_bytes(), host).into_json()
}

/// Whether the policy accepts these settings, and if not, why.
pub(crate) fn settings_verdict(settings: &str) -> String {
    let message = match yaml::parse_one(settings) {
        Ok(document) => Settings::parse(&document.value.to_string()).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    json!({"valid": message.is_none(), "message": message}).to_string()
}
