//! What holds for any input.
//!
//! Each module has one function `check`. It takes bytes, passes them to the product and panics if an invariant is
//! violated. Fuzzing calls these functions with bytes from libFuzzer (`fuzz/`). `cargo test` calls them with the inputs
//! that fuzzing has kept (`fuzz/corpus`) and with the requests of the golden corpus ([`seeds`]).
//!
//! | module | the bytes are |
//! |---|---|
//! | [`request`] | a request from PolicyServer to the policy |
//! | [`settings`] | the policy's settings |
//! | [`answer`] | the host's answers |
//! | [`pps`] | a PersistentPodState object |
//!
//! The checks must not call the code that they judge: [`rules`] and [`injected`] state what a Pod may be given on their
//! own, and share only data types with the product.
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a violated invariant ends the run"
)]

pub mod answer;
pub mod injected;
pub mod pps;
pub mod request;
pub mod rules;
pub mod seeds;
pub mod settings;

/// Passes bytes to the product, and panics if an invariant is violated.
pub type Check = fn(&[u8]);

/// The fuzz targets by name.
pub const TARGETS: [(&str, Check); 4] = [
    ("answer", answer::check),
    ("pps", pps::check),
    ("request", request::check),
    ("settings", settings::check),
];
