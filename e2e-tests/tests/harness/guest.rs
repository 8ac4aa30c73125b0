//! A small hand-written policy.

use serde_json::{Value, json};

/// What the policy does in `validate`.
pub(crate) enum Validate<'a> {
    /// Returns that answer.
    Answer(&'a Value),
    /// Makes a host call and returns its answer or error.
    Relay {
        operation: &'a str,
        payload: &'a Value,
    },
    /// Makes a host call, returns its error, or else that answer.
    Ask {
        operation: &'a str,
        payload: &'a Value,
        answer: &'a Value,
    },
    /// Loops forever.
    Loop,
}

pub(crate) fn metadata() -> Value {
    json!({
        "protocolVersion": "v1",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "mutating": true,
        "contextAwareResources": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        "hostCapabilities": ["kubernetes/*"],
    })
}

/// Compiles the policy.
pub(crate) fn policy(metadata: &Value, validate: &Validate<'_>) -> Vec<u8> {
    let nothing = json!(null);
    let (operation, payload, answer) = match validate {
        Validate::Answer(answer) => ("", &nothing, *answer),
        Validate::Relay { operation, payload } => (*operation, *payload, &nothing),
        Validate::Ask {
            operation,
            payload,
            answer,
        } => (*operation, *payload, *answer),
        Validate::Loop => ("", &nothing, &nothing),
    };
    let (payload, answer) = (payload.to_string(), answer.to_string());
    let call = format!(
        "(if (i32.eqz (call $host_call (i32.const 1024) (i32.const 10) (i32.const 1040) \
         (i32.const 10)
             (i32.const 1056) (i32.const {}) (i32.const 2048) (i32.const {})))
           (then (call $host_error (i32.const 1048576))
                 (call $guest_error (i32.const 1048576) (call $host_error_len))
                 (return (i32.const 0))))",
        operation.len(),
        payload.len(),
    );
    let say = format!(
        "(call $guest_response (i32.const 32768) (i32.const {}))",
        answer.len()
    );
    let relay = "(call $host_response (i32.const 1048576))
                 (call $guest_response (i32.const 1048576) (call $host_response_len))";
    let validate = match validate {
        Validate::Answer(_) => say,
        Validate::Relay { .. } => format!("{call} {relay}"),
        Validate::Ask { .. } => format!("{call} {say}"),
        Validate::Loop => "(loop $again (br $again))".to_owned(),
    };
    let text = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let wat = format!(
        r#"(module
          (import "wapc" "__guest_response" (func $guest_response (param i32 i32)))
          (import "wapc" "__guest_error" (func $guest_error (param i32 i32)))
          (import "wapc" "__host_call" (func $host_call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
          (import "wapc" "__host_response_len" (func $host_response_len (result i32)))
          (import "wapc" "__host_response" (func $host_response (param i32)))
          (import "wapc" "__host_error_len" (func $host_error_len (result i32)))
          (import "wapc" "__host_error" (func $host_error (param i32)))
          (memory (export "memory") 64)
          (data (i32.const 16) "\"v1\"")
          (data (i32.const 32) "{{\"valid\":true}}")
          (data (i32.const 1024) "kubewarden")
          (data (i32.const 1040) "kubernetes")
          (data (i32.const 1056) "{operation}")
          (data (i32.const 2048) "{payload}")
          (data (i32.const 32768) "{answer}")
          (func (export "__guest_call") (param $operation i32) (param $message i32) (result i32)
            (if (i32.eq (local.get $operation) (i32.const 16)) ;; protocol_version
              (then (call $guest_response (i32.const 16) (i32.const 4)) (return (i32.const 1))))
            (if (i32.eq (local.get $operation) (i32.const 17)) ;; validate_settings
              (then (call $guest_response (i32.const 32) (i32.const 14)) (return (i32.const 1))))
            {validate}
            (i32.const 1))
          (@custom "io.kubewarden.metadata" "{metadata}"))"#,
        payload = text(&payload),
        answer = text(&answer),
        metadata = text(&metadata.to_string()),
    );
    wat::parse_str(wat).unwrap()
}
