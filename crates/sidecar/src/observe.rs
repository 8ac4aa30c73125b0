//! Observe: turns Kubernetes watches into facts. Reads from the API server; writes nothing and
//! decides nothing about states.

pub mod discovery;
pub mod objects;
pub(crate) mod openkruise;
pub(crate) mod watch;

pub use self::watch::Merge;
