//! Objects as users write them: YAML in, with the line of each field, and YAML out.
//!
//! It is pure: no clock, no files, no network and no bindings to a browser.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

pub mod difference;
pub mod manifest;
pub mod text;
pub mod yaml;

pub use difference::{Line, difference};
pub use manifest::to_yaml;
