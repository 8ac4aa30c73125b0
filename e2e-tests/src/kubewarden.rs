//! Kubewarden: its objects, its real PolicyServer, and a stand-in for the PolicyServer that tests
//! can look into.

pub mod charts;
mod controller;
mod definitions;
mod kwctl;
mod policy;
pub mod policy_server;
pub mod probe;
pub mod reconciler;
mod review_client;
pub mod stand_in;

pub use controller::{Controller, IMAGE};
pub use definitions::{NAMESPACE, SERVICE_ACCOUNT, install_definitions, permissive_definition};
pub use kwctl::{find_kwctl, write_trust_config};
pub use policy::Policy;
pub use review_client::{ReviewClient, review};
