//! The answer to an admission request.

use serde::Serialize;
use serde_json::{Map, Value};

/// The SDK's type of that name, except that the audit annotations are a JSON object: the SDK's hash map
/// would add 3.4 KB to the Wasm module.
#[derive(Debug, Default, Serialize)]
pub struct ValidationResponse {
    /// Whether the request is accepted.
    pub accepted: bool,
    /// Why the request is rejected.
    pub message: Option<String>,
    /// Why the request is rejected, as an HTTP status.
    pub code: Option<u16>,
    /// The whole object, if it was changed.
    pub mutated_object: Option<Value>,
    /// What the API server writes into its audit log: strings by key.
    pub audit_annotations: Option<Map<String, Value>>,
    /// What the API server shows to the client.
    pub warnings: Option<Vec<String>>,
}

impl ValidationResponse {
    pub(crate) fn accept(warnings: Vec<String>) -> Self {
        let warnings = (!warnings.is_empty()).then_some(warnings);
        Self { accepted: true, warnings, ..Self::default() }
    }

    pub(crate) fn with_audit_annotations<const N: usize>(self, annotations: [(&str, String); N]) -> Self {
        // Not `collect`: it sorts, which would add 10 KB to the Wasm module.
        let mut all = Map::new();
        for (key, value) in annotations {
            all.insert(key.to_owned(), value.into());
        }
        Self { audit_annotations: Some(all), ..self }
    }
}

/// Why a request is rejected.
pub(crate) struct Rejection {
    /// An HTTP status.
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl From<Rejection> for ValidationResponse {
    fn from(Rejection { code, message }: Rejection) -> Self {
        Self { message: Some(message), code: Some(code), ..Self::default() }
    }
}

pub(crate) type AdmissionResult = Result<ValidationResponse, Rejection>;

#[cfg(all(test, feature = "module"))]
mod tests {
    use kubewarden_policy_sdk::response::ValidationResponse as SdkResponse;
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_as_the_response_of_the_sdk() {
        let full = ValidationResponse {
            accepted: true,
            message: Some("no".into()),
            code: Some(422),
            mutated_object: Some(json!({"a": 1})),
            audit_annotations: json!({"pps": "web"}).as_object().cloned(),
            warnings: Some(vec!["careful".into()]),
        };
        for response in [full, ValidationResponse::default()] {
            let json = serde_json::to_value(&response).unwrap();
            let read: SdkResponse = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), json);
        }
    }
}
