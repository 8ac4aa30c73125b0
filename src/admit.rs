//! Dispatches an admission request by kind and operation.

use pps_core::limits::shorten_list;
use pps_core::pps::{GROUP, KIND};
use serde_json::value::RawValue;

use crate::admission::Admission;
use crate::cluster::{Cluster, Host};
use crate::request::Payload;
use crate::response::{Rejection, ValidationResponse};
use crate::{objects, pods, protection};

/// Answers one request.
pub fn admit(payload: &[u8], host: &dyn Host) -> ValidationResponse {
    // Invalid UTF-8 is refused, not replaced: the Pod would be changed. `from_slice` refuses it as
    // well, but would add 10 KB to the Wasm module.
    let payload = std::str::from_utf8(payload).unwrap_or_default();
    let request = match Payload::parse(payload) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("not an admission request in UTF-8: {error}");
            return Rejection { code: 400, message }.into();
        }
    };
    let admission = Admission {
        cluster: Cluster::new(host, &request.namespace),
        object: request.object.map_or("null", RawValue::get),
        old_object: request.old_object.map(RawValue::get),
        settings: request.settings,
    };
    let result = match (
        request.group.as_str(),
        request.kind.as_str(),
        request.operation.as_str(),
    ) {
        _ if !request.sub_resource.is_empty() => Ok(ValidationResponse::accept(Vec::new())),
        ("", "Pod", "CREATE") => pods::admit(&admission),
        (GROUP, KIND, "CREATE") => objects::admit(&Admission {
            old_object: None,
            ..admission
        }),
        (GROUP, KIND, "UPDATE") => objects::admit(&admission),
        (GROUP, KIND, "DELETE") => protection::admit(&admission, request.user_info),
        _ => Ok(ValidationResponse::accept(Vec::new())),
    };
    let response = result.unwrap_or_else(Rejection::into);
    ValidationResponse {
        warnings: response.warnings.map(shorten_list),
        ..response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct UnreachableHost;

    impl Host for UnreachableHost {
        fn call(&self, _: &str, operation: &str, _: &str) -> Result<String, String> {
            panic!("{operation} was called")
        }
    }

    #[test]
    fn accepts_a_subresource_in_both_spellings() {
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
            assert!(
                admit(payload.to_string().as_bytes(), &UnreachableHost).accepted,
                "{field}"
            );
        }
    }

    #[test]
    fn rejects_a_payload_that_is_no_admission_request() {
        let invalid_utf8 = b"{\"request\": {\"object\": \"\xff\"}}";
        for payload in [
            &b""[..],
            b"[]",
            b"{}",
            br#"{"request": {"kind": 7}}"#,
            invalid_utf8,
        ] {
            let response = admit(payload, &UnreachableHost);
            assert_eq!(
                response.code,
                Some(400),
                "{}",
                String::from_utf8_lossy(payload)
            );
        }
    }
}
