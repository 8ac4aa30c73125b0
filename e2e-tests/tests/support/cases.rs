//! Cases of the golden corpus, evaluated by a compiled policy.
#![allow(dead_code, reason = "no test program needs all of it")]

use std::sync::Arc;

use anyhow::{Result, ensure};
use pps_corpus::{Case, Outcome};
use pps_e2e::kubewarden::stand_in::{AdmissionResponse, HostCalls};
use serde_json::Value;

/// A host that answers as the case says.
pub(crate) fn host_of(case: &Case) -> Arc<dyn HostCalls> {
    let host = case.host();
    Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
        host.call(operation, &String::from_utf8_lossy(payload))
            .map(String::into_bytes)
    })
}

/// What a response says, without host calls and log.
pub(crate) fn outcome_of(response: AdmissionResponse) -> Result<Outcome> {
    let patch = response.decoded_patch();
    ensure!(
        patch.is_some() == response.patch.is_some(),
        "not a patch: {:?}",
        response.patch
    );
    let patch = match serde_json::to_value(patch)? {
        Value::Array(operations) => operations,
        _ => Vec::new(),
    };
    let status = response.status.unwrap_or_default();
    Ok(Outcome {
        accepted: response.allowed,
        patch,
        warnings: response.warnings.unwrap_or_default(),
        audit: response.audit_annotations.unwrap_or_default(),
        code: status.code,
        message: status.message,
        ..Outcome::default()
    })
}
