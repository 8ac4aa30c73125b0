//! Policies that do as little as a policy can: what any policy costs.

use anyhow::Result;
use serde_json::{Value, json};

/// What the policy does before it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    /// Nothing: it does not even read the request.
    Accept,
    /// It gets one object from the API server, uncached, and does not look at it.
    ReadOnce,
}

impl Floor {
    /// The module, with its metadata. `namespace` and `name` are those of the object that it gets.
    pub(super) fn module(self, namespace: &str, name: &str) -> Result<Vec<u8>> {
        let payload = json!({"api_version": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": name,
            "namespace": namespace, "disable_cache": true, "field_masks": ["spec"]});
        let [payload, metadata] = [payload, metadata()].map(|value| value.to_string());
        let length = payload.len();
        let act = match self {
            Self::Accept => String::new(),
            // Without an object it does not accept, so that a failing read is no fast answer.
            Self::ReadOnce => format!(
                "(if (i32.ne (i32.const 1) (call $host_call (i32.const 128) (i32.const 10) (i32.const 144) (i32.const 10)
                    (i32.const 160) (i32.const 12) (i32.const 1024) (i32.const {length}))) (then (return (i32.const 0))))"
            ),
        };
        let text = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        Ok(wat::parse_str(format!(
            r#"(module
              (import "wapc" "__guest_response" (func $respond (param i32 i32)))
              (import "wapc" "__host_call"
                (func $host_call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
              (memory (export "memory") 1)
              (data (i32.const 16) "\"v1\"")
              (data (i32.const 32) "{{\"valid\":true}}")
              (data (i32.const 64) "{{\"accepted\":true}}")
              (data (i32.const 128) "kubewarden")
              (data (i32.const 144) "kubernetes")
              (data (i32.const 160) "get_resource")
              (data (i32.const 1024) "{payload}")
              (func (export "__guest_call") (param $operation i32) (param $message i32) (result i32)
                (if (i32.eq (local.get $operation) (i32.const 16)) ;; protocol_version
                  (then (call $respond (i32.const 16) (i32.const 4)) (return (i32.const 1))))
                (if (i32.eq (local.get $operation) (i32.const 17)) ;; validate_settings
                  (then (call $respond (i32.const 32) (i32.const 14)) (return (i32.const 1))))
                {act}
                (call $respond (i32.const 64) (i32.const 17))
                (i32.const 1))
              (@custom "io.kubewarden.metadata" "{metadata}"))"#,
            payload = text(&payload),
            metadata = text(&metadata),
        ))?)
    }
}

fn metadata() -> Value {
    json!({
        "protocolVersion": "v1",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "mutating": false,
        "executionMode": "kubewarden-wapc",
        "contextAwareResources": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState"}],
        "hostCapabilities": ["kubernetes/get_resource"],
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pps_e2e::kubewarden::stand_in::{HostCalls, NoHost, PolicyModule};

    use super::*;
    use crate::fixture::Case;

    #[test]
    fn one_accepts_without_a_host_call_and_the_other_after_one() {
        let host: Arc<dyn HostCalls> = Arc::new(|_: &str, _: &str, _: &[u8]| Ok(b"{}".to_vec()));
        for (floor, calls) in [(Floor::Accept, 0), (Floor::ReadOnce, 1)] {
            let module = PolicyModule::load(&floor.module("shop", "web").unwrap()).unwrap();
            assert!(module.validate_settings(&json!({})).unwrap().valid);
            assert_eq!(module.protocol_version().unwrap(), "v1");
            let evaluation = module.evaluate(&Case::default().request(), &json!({}), &host).unwrap();
            assert!(evaluation.response.allowed, "{evaluation:?}");
            assert_eq!(evaluation.host_calls.len(), calls);
        }
    }

    #[test]
    fn a_floor_whose_read_fails_accepts_nothing() {
        let host: Arc<dyn HostCalls> = Arc::new(NoHost);
        let module = PolicyModule::load(&Floor::ReadOnce.module("shop", "web").unwrap()).unwrap();
        let evaluation = module.evaluate(&Case::default().request(), &json!({}), &host).unwrap();
        assert!(!evaluation.response.allowed);
    }
}
