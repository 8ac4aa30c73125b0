//! The host's calls.

use pps_admission::Host;

/// The waPC host of this Wasm module.
///
/// Not the SDK's `get_resource`: its feature `cluster-context` brings typed Kubernetes objects, and
/// this policy gets a part of an object that none of them is.
pub(crate) struct PolicyServer;

impl Host for PolicyServer {
    fn call(&self, capability: &str, operation: &str, payload: &str) -> Result<String, String> {
        let answer = wapc_guest::host_call("kubewarden", capability, operation, payload.as_bytes());
        let answer = answer.map_err(|error| error.to_string())?;
        String::from_utf8(answer).map_err(|error| error.to_string())
    }
}
