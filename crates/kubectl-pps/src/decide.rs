//! The answers, and the writes. Pure functions: no clock, no I/O, no API server.

pub mod command_line;
pub mod explain;
pub mod export;
pub mod forecast;
pub mod forget;
pub mod import;
pub mod injected;
pub mod move_pod;
pub mod names;
pub mod placement;
pub mod status;
pub mod subject;
pub mod way_out;
