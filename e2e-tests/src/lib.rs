//! Real parts for end-to-end tests: a control plane, a simulated kubelet over a real IPAM plugin, a
//! waPC host that behaves like PolicyServer, the sidecar, and an OCI registry.
//!
//! [`cluster::Cluster`] puts them together, all but the [`operator`] of custom kinds. Nothing outlives
//! a test, however it ends: see [`supervisor`].

pub mod cluster;
pub mod control_plane;
pub mod kubelet;
pub mod manifests;
pub mod nodes;
pub mod oci;
pub mod operator;
pub mod proxy;
pub mod publish;
pub mod registry;
pub mod sidecar;
pub mod supervisor;
pub mod wait;
pub mod wasm_host;
pub mod webhook;
