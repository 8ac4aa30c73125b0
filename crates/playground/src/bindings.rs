//! What the page calls.

use pps_admission::{Host, Settings};
use pps_manifest::yaml::parse_one;
use serde_json::json;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::answer::answer;
use crate::scenario::run_text;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");

#[wasm_bindgen]
extern "C" {
    /// A JavaScript function that answers the policy's host calls, or throws the host's error text.
    #[wasm_bindgen(typescript_type = "HostFunction")]
    pub type HostFunction;

    #[wasm_bindgen(method, catch, js_name = call)]
    fn call(
        this: &HostFunction,
        receiver: &JsValue,
        namespace: &str,
        operation: &str,
        payload: &str,
    ) -> Result<JsValue, JsValue>;
}

impl Host for HostFunction {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        match self.call(&JsValue::NULL, namespace, operation, payload) {
            Ok(answer) => answer
                .as_string()
                .ok_or_else(|| "the answer is not a string".into()),
            Err(error) => Err(error
                .as_string()
                .unwrap_or_else(|| "the host function did not throw a string".into())),
        }
    }
}

/// Called once, when the module is loaded. A panic becomes an exception with its message, which the
/// page can catch and show; without this, it would be a trap that says nothing.
#[wasm_bindgen(start)]
fn start() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| {
        wasm_bindgen::throw_str(&panic.to_string())
    }));
}

/// Replays a scenario and returns its result. Both are JSON: see `Scenario` and `RunResult`.
///
/// What is wrong with a scenario is in the result's problems. An exception is a defect of the
/// playground; after it, the page has to call `restart`.
#[wasm_bindgen(unchecked_return_type = "string")]
pub fn run(scenario: &str) -> String {
    run_text(scenario)
}

/// Answers a request of PolicyServer, `{"request": …, "settings": …}`, as the policy does. Returns
/// the response, as JSON.
#[wasm_bindgen]
pub fn evaluate(payload: &str, host: &HostFunction) -> String {
    answer(payload, host)
}

/// Checks the policy's settings, which are YAML or JSON. Returns `{"valid": …, "message": …}`.
#[wasm_bindgen(js_name = validateSettings)]
pub fn validate_settings(settings: &str) -> String {
    let read = parse_one(settings).map_err(|error| error.to_string());
    let read = read.and_then(|one| Settings::read(&one.value).map_err(|error| error.to_string()));
    let message = read.err();
    json!({"valid": message.is_none(), "message": message}).to_string()
}
