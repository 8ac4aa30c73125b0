//! What the module exports to waPC, and its custom section.

use kubewarden_policy_sdk::protocol_version_guest;
use kubewarden_policy_sdk::settings::SettingsValidationResponse;
use wapc_guest::{CallResult, register_function};

use crate::{PolicyServer, Settings, admit};

// Without `#[used]`: the section is written all the same, and the module has no second copy among its data.
#[cfg(target_arch = "wasm32")]
#[expect(unsafe_code, reason = "a link section becomes a custom section of the module")]
#[expect(dead_code, reason = "the host reads the section")]
#[unsafe(link_section = "io.kubewarden.metadata")]
static METADATA_SECTION: [u8; crate::METADATA.len()] =
    *include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

/// Entry point of the module: registers the functions that the host can call.
#[expect(unsafe_code, reason = "the waPC host looks for an export of this name")]
#[unsafe(no_mangle)]
extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    Ok(serde_json::to_vec(&admit(payload, &PolicyServer))?)
}

/// Answers whether the settings are valid. Never fails: the host shows the message of a response, but not
/// that of an error.
fn validate_settings(payload: &[u8]) -> CallResult {
    let error = Settings::parse(&String::from_utf8_lossy(payload)).err();
    let message = error.map(|error| error.to_string());
    Ok(serde_json::to_vec(&SettingsValidationResponse { valid: message.is_none(), message })?)
}
