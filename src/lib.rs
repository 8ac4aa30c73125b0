//! A Kubewarden policy that brings stateful Pods back to the node, zone and IP address they had.
//!
//! # The path of a request
//!
//! 1. PolicyServer calls `validate` with an admission request and the policy's [`settings`].
//! 2. [`admit()`] dispatches it by kind and operation, and accepts most requests at once.
//! 3. A Pod: `pods` reads its owner. If the Pod cannot have a recorded state, it is accepted without a host
//!    call, and without parsing the rest of it. Otherwise [`cluster`] looks up the PersistentPodState that
//!    governs the owner; [`pps_core`] decides what to inject and changes the Pod's JSON. The response holds
//!    the whole changed Pod, which PolicyServer turns into a JSON patch.
//! 4. A PersistentPodState: `objects` lets [`pps_core`] review it, and [`cluster`] look for another one with
//!    the same workload.
//! 5. The deletion of a PersistentPodState: `protection` refuses it if the object's label says so.
//!
//! # Scope
//!
//! [`pps_core`] makes every decision. This crate translates waPC payloads, settings, host calls and their
//! error texts into its terms, and its decisions into a response. [`cluster`] is the only place that makes
//! host calls.

mod admission;
pub mod admit;
pub mod cluster;
mod host_error;
pub mod lookup_error;
mod objects;
mod pods;
mod protection;
mod request;
mod response;
pub mod settings;

use kubewarden_policy_sdk::protocol_version_guest;
use pps_core::to_text;
use serde_json::json;
use wapc_guest::{CallResult, register_function};

pub use admit::admit;
pub use cluster::{Host, PolicyServer};
pub use lookup_error::LookupError;
pub use response::ValidationResponse;
pub use settings::Settings;

/// The policy's metadata for Kubewarden: `policy-metadata.yml` as JSON.
pub const METADATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

// Without `#[used]`: the section is written all the same, and the module has no second copy among its data.
#[cfg(target_arch = "wasm32")]
#[expect(unsafe_code, reason = "a link section becomes a custom section of the module")]
#[expect(dead_code, reason = "the host reads the section")]
#[unsafe(link_section = "io.kubewarden.metadata")]
static METADATA_SECTION: [u8; METADATA.len()] = *include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));

/// Entry point of the module: registers the functions that the host can call.
#[expect(unsafe_code, reason = "the waPC host looks for an export of this name")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings);
    register_function("protocol_version", protocol_version_guest);
}

#[expect(clippy::unnecessary_wraps, reason = "what waPC calls has this type")]
fn validate(payload: &[u8]) -> CallResult {
    Ok(admit(payload, &PolicyServer).into_json().into_bytes())
}

/// Answers whether the settings are valid. Never fails: the host shows the message of a response, but not
/// that of an error.
#[expect(clippy::unnecessary_wraps, reason = "what waPC calls has this type")]
fn validate_settings(payload: &[u8]) -> CallResult {
    let error = Settings::parse(&String::from_utf8_lossy(payload)).err();
    let message = error.map(|error| error.to_string());
    Ok(to_text(&json!({"valid": message.is_none(), "message": message})).into_bytes())
}
