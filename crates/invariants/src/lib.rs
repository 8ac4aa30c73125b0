//! What holds for any bytes that come in.
//!
//! Each module has one function `check`, which takes bytes, hands them to the code and panics when a law is
//! broken. Fuzzing calls them with bytes that libFuzzer makes (`fuzz/`), `cargo test` with the bytes that
//! fuzzing has kept (`fuzz/corpus`) and with the requests of the golden corpus ([`seeds`]).
//!
//! | module | the bytes are |
//! |---|---|
//! | [`request`] | what PolicyServer hands to the policy |
//! | [`settings`] | the policy's settings |
//! | [`answer`] | what the host answers |
//! | [`pps`] | a PersistentPodState object |
//!
//! The judges share nothing with the code that they judge: [`injected`] knows from the product's description
//! what a Pod may get.
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a broken law ends the run"
)]

pub mod answer;
pub mod injected;
pub mod pps;
pub mod request;
pub mod seeds;
pub mod settings;

/// Hands bytes to the code, and panics when a law is broken.
pub type Check = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Check); 4] = [
    ("answer", answer::check),
    ("pps", pps::check),
    ("request", request::check),
    ("settings", settings::check),
];
