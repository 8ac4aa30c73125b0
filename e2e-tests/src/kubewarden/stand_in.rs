//! A stand-in for PolicyServer: a waPC host that runs a policy the way PolicyServer does, and an
//! HTTPS webhook around it. It records every request, host call and log line.
//!
//! The waPC host needs no cluster: [`HostCalls`] may be a closure.

mod host_calls;
mod kubernetes;
mod mask;
mod metadata;
mod module;
mod review;
mod webhook;

pub use host_calls::{HostCall, HostCalls, LogEntry};
pub use kubernetes::KubernetesHost;
pub use metadata::{ContextAwareResource, Metadata, Rule};
pub use module::{Evaluation, Instance, PolicyModule, SettingsVerdict};
pub use review::{
    AdmissionRequest, AdmissionResponse, Kind, PolicyResponse, Resource, ResponseStatus,
    ReviewRequest, ReviewResponse,
};
pub(super) use webhook::tls;
pub use webhook::{MAX_REQUEST, Served, Webhook, WebhookOptions};
