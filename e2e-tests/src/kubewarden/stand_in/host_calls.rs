//! Host calls of a guest: permission checks, answers and a record of both.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::Value;

use super::metadata::Metadata;

/// Answers the host calls of a policy. Only calls that the policy is permitted to make arrive here.
pub trait HostCalls: Send + Sync {
    /// The answer to one call, or the error text that the guest sees.
    fn call(&self, namespace: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String>;
}

impl<F> HostCalls for F
where
    F: Fn(&str, &str, &[u8]) -> Result<Vec<u8>, String> + Send + Sync,
{
    fn call(&self, namespace: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
        self(namespace, operation, payload)
    }
}

/// A host that answers every call with an error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NoHost;

impl HostCalls for NoHost {
    fn call(&self, _: &str, _: &str, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("Cannot process Wasm guest request: callback channel not provided".to_owned())
    }
}

/// A host call that was made.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// `kubernetes`, …
    pub namespace: String,
    /// `get_resource`, …
    pub operation: String,
    /// The request of the guest.
    pub payload: Vec<u8>,
    /// How long the host took.
    pub took: Duration,
}

impl HostCall {
    /// The payload as JSON.
    pub fn payload_json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap_or_default()
    }
}

/// A log entry of the policy.
#[derive(Clone, Debug, Deserialize)]
pub struct LogEntry {
    /// trace, debug, info, warning or error.
    pub level: String,
    /// The message.
    pub message: Option<String>,
    /// The fields.
    #[serde(flatten)]
    pub data: serde_json::Map<String, Value>,
}

/// All host calls and log entries of one evaluation.
#[derive(Default)]
pub(super) struct Record {
    pub(super) calls: Vec<HostCall>,
    pub(super) logs: Vec<LogEntry>,
}

/// Checks, answers and records the calls of a guest.
pub(super) struct Gate {
    pub(super) metadata: Arc<Metadata>,
    pub(super) host: Arc<dyn HostCalls>,
    pub(super) record: Mutex<Record>,
}

impl Gate {
    pub(super) fn call(
        &self,
        binding: &str,
        namespace: &str,
        operation: &str,
        payload: &[u8],
    ) -> Result<Vec<u8>, String> {
        if binding != "kubewarden" {
            return Err(format!("unknown binding: {binding}"));
        }
        if namespace == "tracing" {
            if operation != "log" {
                return Err(format!("unknown operation: {operation}"));
            }
            if let Ok(entry) = serde_json::from_slice::<LogEntry>(payload) {
                tracing::debug!(target: "policy_log", "{} {:?} {:?}", entry.level, entry.message, entry.data);
                self.record(|record| record.logs.push(entry));
            }
            return Ok(Vec::new());
        }
        let started = Instant::now();
        let response = self
            .admit(namespace, operation, payload)
            .and_then(|()| self.host.call(namespace, operation, payload));
        self.record(|record| {
            record.calls.push(HostCall {
                namespace: namespace.to_owned(),
                operation: operation.to_owned(),
                payload: payload.to_owned(),
                took: started.elapsed(),
            });
        });
        response
    }

    /// Refuses what PolicyServer refuses, with the same messages.
    fn admit(&self, namespace: &str, operation: &str, payload: &[u8]) -> Result<(), String> {
        let capability = format!("{namespace}/{operation}");
        if !self.metadata.may_use(&capability) {
            return Err(format!(
                "Policy has not been granted access to the '{capability}' host capability. The \
                 violation has been reported."
            ));
        }
        match (namespace, operation) {
            ("kubernetes", "get_resource") => {
                let wanted: Wanted =
                    serde_json::from_slice(payload).map_err(|error| error.to_string())?;
                if self.metadata.may_read(&wanted.api_version, &wanted.kind) {
                    return Ok(());
                }
                Err(format!(
                    "Policy has not been granted access to Kubernetes {}/{} resources. The \
                     violation has been reported.",
                    wanted.api_version, wanted.kind
                ))
            }
            ("kubernetes", _) => Err(format!("unknown operation: {operation}")),
            _ => Err(format!("unknown namespace: {namespace}")),
        }
    }

    fn record(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[derive(Deserialize)]
struct Wanted {
    api_version: String,
    kind: String,
}
