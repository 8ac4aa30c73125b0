//! Observe: Kubernetes watches become facts. Reads from the API server; writes nothing and decides nothing.

pub mod client;
pub mod discovery;
pub mod openkruise;
pub mod watch;
pub mod wire;
