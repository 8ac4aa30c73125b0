//! The harness itself: what it promises to the scenarios.

mod cleanup;
mod guest;
mod kubelet;
mod sidecar;
mod start;
mod wasm;
mod webhook;
