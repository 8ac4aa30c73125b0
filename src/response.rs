//! Decisions as Kubewarden's responses.

use kubewarden_policy_sdk::response::ValidationResponse;
use pps_admission::{Decision, Verdict};
use pps_core::limits::MAX_REPEATED_REASON;
use pps_core::shorten_to;

/// The response to a request.
pub(crate) fn to_response(decision: Decision) -> ValidationResponse {
    let Decision {
        verdict,
        warnings,
        audit_annotations,
    } = decision;
    let audit_annotations = audit_annotations
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value));
    let response = ValidationResponse {
        accepted: true,
        message: None,
        code: None,
        mutated_object: None,
        audit_annotations: (audit_annotations.len() > 0).then(|| audit_annotations.collect()),
        warnings: (!warnings.is_empty()).then_some(warnings),
    };
    match verdict {
        Verdict::Accept => response,
        Verdict::Mutate(object) => ValidationResponse {
            mutated_object: Some(object),
            ..response
        },
        Verdict::Reject(rejection) => ValidationResponse {
            accepted: false,
            message: Some(rejection.to_string()),
            code: Some(rejection.code()),
            ..response
        },
    }
}

/// The response to a payload that is no admission request.
pub(crate) fn not_a_request(reason: &str) -> ValidationResponse {
    ValidationResponse {
        accepted: false,
        message: Some(format!(
            "not an admission request: {}",
            shorten_to(MAX_REPEATED_REASON, reason)
        )),
        code: Some(400),
        mutated_object: None,
        audit_annotations: None,
        warnings: None,
    }
}
