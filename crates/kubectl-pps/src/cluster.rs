//! The API server: connects, reads and writes.

mod connection;
pub mod read;
pub mod write;

pub use self::connection::{Connected, connect};
