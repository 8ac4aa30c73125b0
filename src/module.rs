//! What the module exports to waPC, and its custom section.

use pps_core::to_text;
use serde_json::json;
use wapc_guest::{CallResult, register_function};

use crate::{PolicyServer, Settings, admit};

/// The version of the protocol between host and policy, in JSON.
const PROTOCOL_VERSION: &str = "\"v1\"";

// Without `#[used]`: the section is written all the same, and the module has no second copy among
// its data.
#[cfg(target_arch = "wasm32")]
#[expect(
    unsafe_code,
    reason = "a link section becomes a custom section of the module"
)]
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
    register_function("protocol_version", protocol_version);
}

#[expect(clippy::unnecessary_wraps, reason = "what waPC calls has this type")]
fn protocol_version(_: &[u8]) -> CallResult {
    Ok(PROTOCOL_VERSION.into())
}

#[expect(clippy::unnecessary_wraps, reason = "what waPC calls has this type")]
fn validate(payload: &[u8]) -> CallResult {
    Ok(admit(payload, &PolicyServer).into_json().into_bytes())
}

/// Answers whether the settings are valid. Never fails: the host shows the message of a response,
/// but not that of an error.
#[expect(clippy::unnecessary_wraps, reason = "what waPC calls has this type")]
fn validate_settings(payload: &[u8]) -> CallResult {
    let error = Settings::parse(&String::from_utf8_lossy(payload)).err();
    let message = error.map(|error| error.to_string());
    Ok(to_text(&json!({"valid": message.is_none(), "message": message})).into_bytes())
}

#[cfg(test)]
mod tests {
    use kubewarden_policy_sdk::protocol_version_guest;
    use kubewarden_policy_sdk::settings::SettingsValidationResponse;

    use super::*;

    #[test]
    fn answers_as_the_sdk_does() {
        assert_eq!(
            protocol_version(b"").unwrap(),
            protocol_version_guest(b"").unwrap()
        );
        for settings in ["{}", "{\"unknown\": 1}"] {
            let answer = validate_settings(settings.as_bytes()).unwrap();
            let answer: SettingsValidationResponse = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer.valid, settings == "{}");
            assert_eq!(answer.message.is_none(), answer.valid);
        }
    }
}
