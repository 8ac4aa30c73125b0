//! The answer to a request, as Kubewarden reads it.

use serde::Serialize;
use serde_json::{Map, Value};

/// The SDK's type of that name, but for the audit annotations: they are a JSON object here, whose code is
/// in the module anyway. The SDK's hash map would add 3 KB.
#[derive(Debug, Default, Serialize)]
pub struct ValidationResponse {
    /// Whether the request is accepted.
    pub accepted: bool,
    /// Why it is refused, for whoever asked.
    pub message: Option<String>,
    /// Why it is refused, as an HTTP status.
    pub code: Option<u16>,
    /// The whole object, if it was changed.
    pub mutated_object: Option<Value>,
    /// What the API server puts into its audit log, strings by key.
    pub audit_annotations: Option<Map<String, Value>>,
    /// What whoever asked is told besides.
    pub warnings: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use kubewarden_policy_sdk::response::ValidationResponse as Theirs;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_host_reads_all_of_it() {
        let ours = ValidationResponse {
            accepted: true,
            message: Some("no".into()),
            code: Some(422),
            mutated_object: Some(json!({"a": 1})),
            audit_annotations: json!({"pps": "web"}).as_object().cloned(),
            warnings: Some(vec!["careful".into()]),
        };
        for ours in [ours, ValidationResponse::default()] {
            let ours = serde_json::to_value(&ours).unwrap();
            let theirs: Theirs = serde_json::from_value(ours.clone()).unwrap();
            assert_eq!(serde_json::to_value(&theirs).unwrap(), ours);
        }
    }
}
