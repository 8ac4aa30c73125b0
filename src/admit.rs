//! From an admission request to the answer.

use pps_core::pps::{GROUP, KIND};
use serde::Deserialize;
use serde_json::Map;
use serde_json::value::RawValue;

use crate::cluster::{Cluster, Host};
use crate::response::ValidationResponse;
use crate::settings::{OnLookupFailure, Settings};
use crate::{objects, pods};

/// What PolicyServer sends, as far as it matters here.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    request: Request<'a>,
    #[serde(borrow)]
    settings: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    operation: String,
    #[serde(default, alias = "subResource")]
    sub_resource: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow, alias = "oldObject")]
    old_object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kind {
    group: String,
    kind: String,
}

/// Why a request is refused.
pub(crate) struct Refusal {
    /// As an HTTP status.
    pub(crate) code: u16,
    /// In a sentence.
    pub(crate) message: String,
}

/// What becomes of a request.
pub(crate) type Answer = Result<ValidationResponse, Refusal>;

/// A request that this policy has something to say about.
pub(crate) struct Admission<'a> {
    /// The cluster, seen from the object's namespace.
    pub(crate) cluster: Cluster<'a>,
    /// The object in JSON, as it is to be.
    pub(crate) object: &'a str,
    /// The object as it is; none if it is created.
    pub(crate) before: Option<&'a str>,
    settings: Option<&'a RawValue>,
}

impl Admission<'_> {
    /// The policy's settings.
    pub(crate) fn settings(&self) -> Result<Settings, Refusal> {
        let settings = Settings::parse(self.settings.map_or("null", RawValue::get));
        settings.map_err(|error| Refusal {
            code: 500,
            message: format!("the policy's settings are wrong: {error}"),
        })
    }
}

/// Answers one request.
pub fn admit(payload: &[u8], host: &dyn Host) -> ValidationResponse {
    // What is no text must not be mended: the Pod would go back changed. (And the parser of text is in
    // use already; that of bytes would add 8 KB.)
    let payload = std::str::from_utf8(payload).unwrap_or_default();
    let Payload { request, settings } = match serde_json::from_str(payload) {
        Ok(payload) => payload,
        Err(error) => {
            let message = format!("not an admission request in UTF-8: {error}");
            return reject(Refusal { code: 400, message });
        }
    };
    let admission = Admission {
        cluster: Cluster::new(host, request.namespace.as_deref().unwrap_or_default()),
        object: request.object.map_or("null", RawValue::get),
        before: request.old_object.map(RawValue::get),
        settings,
    };
    let Kind { group, kind } = &request.kind;
    let is_whole = request.sub_resource.as_deref().unwrap_or_default().is_empty();
    let answer = match (group.as_str(), kind.as_str(), request.operation.as_str()) {
        ("", "Pod", "CREATE") if is_whole => pods::admit(&admission),
        (GROUP, KIND, "CREATE") if is_whole => objects::admit(&Admission { before: None, ..admission }),
        (GROUP, KIND, "UPDATE") if is_whole => objects::admit(&admission),
        _ => Ok(accept(Vec::new())),
    };
    answer.unwrap_or_else(reject)
}

/// What becomes of a request when the cluster cannot be asked. The sentence says what was wanted and
/// what went wrong; then comes what may be chosen, and what has become of the request if it was chosen.
pub(crate) fn answer_failure(
    cluster: Cluster,
    settings: &Settings,
    sentence: &str,
    choice: &str,
    outcome: &str,
) -> Answer {
    match settings.on_lookup_failure {
        OnLookupFailure::Reject => {
            let message = format!("{sentence}, or set settings.onLookupFailure to \"accept\" to {choice}");
            Err(Refusal { code: 503, message })
        }
        OnLookupFailure::Accept => {
            let warning = format!("{sentence}; {outcome}");
            cluster.log_warning(&warning);
            Ok(with_audit(accept(vec![warning.clone()]), [("lookup-failed", warning)]))
        }
    }
}

pub(crate) fn accept(warnings: Vec<String>) -> ValidationResponse {
    let warnings = (!warnings.is_empty()).then_some(warnings);
    ValidationResponse { accepted: true, warnings, ..ValidationResponse::default() }
}

fn reject(refusal: Refusal) -> ValidationResponse {
    let Refusal { code, message } = refusal;
    ValidationResponse { message: Some(message), code: Some(code), ..ValidationResponse::default() }
}

/// An answer with something for the API server's audit log.
pub(crate) fn with_audit<const N: usize>(
    answer: ValidationResponse,
    annotations: [(&str, String); N],
) -> ValidationResponse {
    // One by one: `collect` would bring a sorting algorithm along, 8 KB.
    let mut all = Map::new();
    for (key, value) in annotations {
        all.insert(key.to_owned(), value.into());
    }
    ValidationResponse { audit_annotations: Some(all), ..answer }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A host that must not be asked.
    struct Nobody;

    impl Host for Nobody {
        fn call(&self, _: &str, operation: &str, _: &str) -> Result<String, String> {
            panic!("{operation} was called")
        }
    }

    #[test]
    fn a_subresource_is_recognised_in_both_spellings() {
        for field in ["sub_resource", "subResource"] {
            let payload = json!({"settings": null, "request": {
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "operation": "CREATE",
                "namespace": "shop",
                field: "ephemeralcontainers",
                "object": {"metadata": {"name": "web-0", "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true},
                ]}},
            }});
            assert!(admit(payload.to_string().as_bytes(), &Nobody).accepted, "{field}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let no_text = b"{\"request\": {\"object\": \"\xff\"}}";
        for payload in [&b""[..], b"[]", b"{}", br#"{"request": {"kind": 7}}"#, no_text] {
            assert_eq!(admit(payload, &Nobody).code, Some(400), "{}", String::from_utf8_lossy(payload));
        }
    }
}
