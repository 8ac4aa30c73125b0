//! A Kubewarden policy that brings stateful Pods back to the node, zone and IP address they had.
//!
//! This package is the shell: it knows Kubewarden and waPC, and nothing of Pods. `pps_admission`
//! decides, and this package translates: a payload into a [`Request`](pps_admission::Request), the
//! host's calls for a lookup, and a [`Decision`](pps_admission::Decision) into a response.

mod host;
mod metadata;
mod response;
mod settings;

use kubewarden_policy_sdk::request::ValidationRequest;
use kubewarden_policy_sdk::response::ValidationResponse;
use kubewarden_policy_sdk::{protocol_version_guest, validate_settings};
use pps_admission::{Host, Kind, Request, UserInfo, admit};
use wapc_guest::{CallResult, register_function};

use host::PolicyServer;
pub use metadata::METADATA;
use response::{not_a_request, to_response};
pub use settings::Settings;

/// Entry point of the module: registers the functions that the host can call.
#[expect(unsafe_code, reason = "the waPC host looks for an export of this name")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings::<Settings>);
    register_function("protocol_version", protocol_version_guest);
}

/// Answers an admission request.
fn validate(payload: &[u8]) -> CallResult {
    Ok(serde_json::to_vec(&answer(payload, &PolicyServer))?)
}

/// Answers an admission request with what a host says about the cluster.
pub fn answer(payload: &[u8], host: &dyn Host) -> ValidationResponse {
    // Not `ValidationRequest::new`, whose errors repeat the whole payload.
    match serde_json::from_slice::<ValidationRequest<Settings>>(payload) {
        Ok(ValidationRequest { settings, request }) if !request.operation.is_empty() => {
            let request = Request {
                kind: Kind {
                    group: request.kind.group,
                    kind: request.kind.kind,
                },
                operation: request.operation,
                sub_resource: request.sub_resource,
                namespace: request.namespace,
                user_info: UserInfo {
                    username: request.user_info.username,
                },
                object: request.object,
                old_object: request.old_object,
            };
            to_response(admit(request, settings.as_result(), host))
        }
        // The SDK takes any object for a request, and what is missing for empty.
        Ok(_) => not_a_request("request.operation is missing"),
        Err(error) => not_a_request(&error.to_string()),
    }
}
