//! What the answer is, and what to write. Pure functions: no clock, no I/O, no API server.

pub mod attempt;
pub mod pin;
