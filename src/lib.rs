//! A Kubewarden policy that brings stateful Pods back to the node, zone and IP address they had.
//!
//! # The path of a request
//!
//! 1. PolicyServer calls `validate` with an admission request and the policy's [`settings`].
//! 2. [`admit()`] tells what the request is about; most is accepted at once.
//! 3. A Pod: `pods` reads who it belongs to. A Pod that cannot have a state goes through: no host call,
//!    and its JSON is not even parsed into a tree. Otherwise [`cluster`] looks up the PersistentPodState
//!    that governs the owner; it is the only place that makes host calls. [`pps_core`] decides what to
//!    inject and changes the Pod's JSON. The answer is the whole changed Pod; PolicyServer makes a JSON
//!    patch of the difference.
//! 4. A PersistentPodState: `objects` has [`pps_core`] review it, and [`cluster`] look for another one of
//!    the same workload.
//!
//! # Scope
//!
//! Every decision is `pps_core`'s. This crate translates: waPC payloads, settings, host calls and their
//! error texts on one side, the answer on the other.

pub mod admit;
pub mod cluster;
mod objects;
mod pods;
mod response;
pub mod settings;

use kubewarden_policy_sdk::protocol_version_guest;
use kubewarden_policy_sdk::settings::SettingsValidationResponse;
use wapc_guest::{CallResult, register_function};

pub use admit::admit;
pub use cluster::{Host, PolicyServer};
pub use response::ValidationResponse;
pub use settings::Settings;

/// What the policy tells Kubewarden about itself; `policy-metadata.yml` as JSON.
pub const METADATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

#[cfg(target_arch = "wasm32")]
#[expect(unsafe_code, reason = "a link section is how a custom section of the module is made")]
#[unsafe(link_section = "io.kubewarden.metadata")]
#[used]
static METADATA_SECTION: [u8; METADATA.len()] = *include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

/// Entry point of the module: names the functions that the host can call.
#[expect(unsafe_code, reason = "the waPC host looks for an export of this name")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    Ok(serde_json::to_vec(&admit(payload, &PolicyServer))?)
}

/// Answers whether the settings can be used; never an error, since the host shows only the message of
/// an answer.
fn validate_settings(payload: &[u8]) -> CallResult {
    let message = Settings::parse(&String::from_utf8_lossy(payload)).err();
    Ok(serde_json::to_vec(&SettingsValidationResponse { valid: message.is_none(), message })?)
}
