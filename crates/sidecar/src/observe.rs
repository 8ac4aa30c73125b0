//! Observe: turns Kubernetes watches into facts. Reads from the API server; writes nothing and
//! decides nothing about states.

pub(crate) mod client;
pub mod discovery;
pub(crate) mod openkruise;
pub(crate) mod watch;
pub mod wire;

pub use self::watch::Merge;
