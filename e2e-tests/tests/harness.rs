//! Tests of the harness itself.

mod cleanup;
mod guest;
mod kubelet;
mod sidecar;
mod start;
mod wasm;
mod webhook;
