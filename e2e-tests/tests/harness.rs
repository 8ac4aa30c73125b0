//! Tests of the harness itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

#[path = "harness/cleanup.rs"]
mod cleanup;
#[path = "harness/guest.rs"]
mod guest;
#[path = "harness/kubelet.rs"]
mod kubelet;
#[path = "harness/sidecar.rs"]
mod sidecar;
#[path = "harness/start.rs"]
mod start;
#[path = "harness/wasm.rs"]
mod wasm;
#[path = "harness/webhook.rs"]
mod webhook;
