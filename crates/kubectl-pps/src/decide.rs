//! What the answer is, and what to write. Pure functions: no clock, no I/O, no API server.

pub mod forecast;

pub mod attempt;
pub mod explain;
pub mod export;
pub mod forget;
pub mod hand;
pub mod import;
pub mod injected;
pub mod landing;
pub mod names;
pub mod pin;
pub mod placement;
pub mod relocate;
mod retention;
pub mod similar;
pub mod status;
pub mod template;
pub mod unread;
pub mod workload_name;
