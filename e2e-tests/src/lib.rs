//! Real parts for end-to-end tests: a control plane, real nodes or a simulated kubelet, an OCI
//! registry, the sidecar, and Kubewarden's PolicyServer or a stand-in for it.
//!
//! [`cluster::Cluster`] starts them and wires them up; [`install`] installs the product the way a
//! user does. No process or file outlives a test, however the test ends: see [`supervisor`].
//!
//! Modules depend on each other in one direction only: `wait`, `http`, `repository`, `report`,
//! `metrics`, `programs`, `recorded` ← [`supervisor`] ← [`control_plane`] ← [`manifests`],
//! [`registry`], [`sidecar`] ← [`kubewarden`] ← [`cluster`] ← [`install`]; [`browser`] needs only
//! [`supervisor`] and a free port, and [`plugin`] only [`supervisor`].

pub mod browser;
pub mod cluster;
pub mod control_plane;
pub mod http;
pub mod install;
pub mod kubewarden;
pub mod manifests;
pub mod metrics;
pub mod plugin;
pub mod programs;
pub mod recorded;
pub mod registry;
pub mod report;
pub mod repository;
pub mod scratch;
pub mod sidecar;
pub mod supervisor;
pub mod wait;
