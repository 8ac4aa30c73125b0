//! A Kubewarden policy that brings stateful Pods back to the node, zone and IP address they had.
//!
//! # The path of a request
//!
//! 1. PolicyServer calls `validate` with an admission request and the policy's [`settings`].
//! 2. [`admit()`] dispatches it by kind and operation, and accepts most requests at once.
//! 3. A Pod: `pods` reads its owner. If the Pod cannot have a recorded state, it is accepted
//!    without a host call, and without parsing the rest of it. Otherwise [`cluster`] looks up the
//!    PersistentPodState that governs the owner; [`pps_core`] decides what to inject and changes
//!    the Pod's JSON. The response holds the whole changed Pod, which PolicyServer turns into a
//!    JSON patch.
//! 4. A PersistentPodState: `objects` lets [`pps_core`] review it, and [`cluster`] look for another
//!    one with the same workload.
//! 5. The deletion of a PersistentPodState: `protection` refuses it if the object's label says so.
//!
//! # Scope
//!
//! [`pps_core`] decides what is injected and refused. This crate finds the governing object, and
//! translates waPC payloads, settings, host calls and their error texts into its terms, and its
//! decisions into a response. [`cluster`] is the only place that makes host calls. Without the
//! feature `module` there is no waPC, and a [`Host`] of the caller answers them.

mod admission;
pub mod admit;
pub mod cluster;
mod host_error;
pub mod lookup_error;
#[cfg(feature = "module")]
mod module;
mod objects;
mod pods;
mod protection;
mod request;
mod response;
pub mod settings;

pub use admit::admit;
pub use cluster::Host;
#[cfg(feature = "module")]
pub use cluster::PolicyServer;
pub use lookup_error::LookupError;
pub use response::ValidationResponse;
pub use settings::Settings;

/// The policy's metadata for Kubewarden: `policy-metadata.yml` as JSON.
pub const METADATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metadata.json"));
