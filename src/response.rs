//! The answer to an admission request.

use pps_core::{object, to_text};
use serde_json::{Map, Value};

/// The SDK's type of that name, except that the audit annotations are a JSON object, since the
/// SDK's hash map would add 3.4 KB to the Wasm module, and that the changed object is text, which
/// nobody has to parse. [`Self::into_json`] writes it.
#[derive(Clone, Debug, Default)]
pub struct ValidationResponse {
    /// Whether the request is accepted.
    pub accepted: bool,
    /// Why the request is rejected.
    pub message: Option<String>,
    /// Why the request is rejected, as an HTTP status.
    pub code: Option<u16>,
    /// The JSON of the whole object, if it was changed.
    pub mutated_object: Option<String>,
    /// What the API server writes into its audit log: strings by key.
    pub audit_annotations: Option<Map<String, Value>>,
    /// What the API server shows to the client.
    pub warnings: Option<Vec<String>>,
}

impl ValidationResponse {
    /// The response in JSON, as the host expects it.
    pub fn into_json(self) -> String {
        let accepted = if self.accepted {
            "{\"accepted\":true"
        } else {
            "{\"accepted\":false"
        };
        let mut json = accepted.to_owned();
        let mut push = |name: &str, text: &str| {
            for part in [",\"", name, "\":", text] {
                json.push_str(part);
            }
        };
        for (name, value) in [
            ("message", self.message.map(Value::from)),
            ("code", self.code.map(Value::from)),
            (
                "audit_annotations",
                self.audit_annotations.map(Value::Object),
            ),
            ("warnings", self.warnings.map(Value::from)),
        ] {
            if let Some(value) = value {
                push(name, &to_text(&value));
            }
        }
        if let Some(object) = self.mutated_object {
            push("mutated_object", &object);
        }
        json.push('}');
        json
    }

    /// The whole object, parsed, if it was changed.
    pub fn mutated(&self) -> Option<Value> {
        self.mutated_object
            .as_ref()
            .and_then(|object| serde_json::from_str(object).ok())
    }

    pub(crate) fn accept(warnings: Vec<String>) -> Self {
        let warnings = (!warnings.is_empty()).then_some(warnings);
        Self {
            accepted: true,
            warnings,
            ..Self::default()
        }
    }

    pub(crate) fn with_audit_annotations(self, annotations: Vec<(&str, Value)>) -> Self {
        Self {
            audit_annotations: Some(object(annotations)),
            ..self
        }
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
        Self {
            message: Some(message),
            code: Some(code),
            ..Self::default()
        }
    }
}

pub(crate) type AdmissionResult = Result<ValidationResponse, Rejection>;

#[cfg(test)]
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
            mutated_object: Some("{\"a\": 1}".into()),
            audit_annotations: json!({"pps": "web"}).as_object().cloned(),
            warnings: Some(vec!["careful".into()]),
        };
        for response in [full, ValidationResponse::default()] {
            let (accepted, after) = (response.accepted, response.mutated());
            let json = response.into_json();
            let read: SdkResponse = serde_json::from_str(&json).unwrap();
            assert_eq!((read.accepted, &read.mutated_object), (accepted, &after));
            // The SDK writes what there is not as null.
            let mut read = serde_json::to_value(&read).unwrap();
            read.as_object_mut()
                .unwrap()
                .retain(|_, value| !value.is_null());
            assert_eq!(read, serde_json::from_str::<Value>(&json).unwrap());
        }
    }
}
