//! The API server: connects, reads and writes.

mod connection;
pub mod read;
#[cfg(test)]
pub(crate) mod stub;
pub mod write;

pub use self::connection::{Connected, connect};
pub use self::read::Wanted;

/// The time, as Events have it.
pub fn now() -> String {
    k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
