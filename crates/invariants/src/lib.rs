//! What holds for any input.
//!
//! Each module has a function `check`, or one for each target. It takes bytes, passes them to the
//! product and panics if an invariant is violated. Fuzzing calls these functions with bytes from
//! libFuzzer (`fuzz/`). `cargo test` calls them with the inputs that fuzzing has kept
//! (`fuzz/corpus`) and with the requests of the golden corpus ([`seeds`]).
//!
//! | module | the bytes are |
//! |---|---|
//! | [`request`] | a request from PolicyServer to the policy |
//! | [`settings`] | the policy's settings |
//! | [`answer`] | the host's answers |
//! | [`packed`] | the text of a bucket, or states in each form |
//! | [`pps`] | a PersistentPodState object |
//! | [`observed`] | what the sidecar's watches deliver: one function for each kind |
//!
//! The checks must not call the code that they judge: [`rules`] and [`injected`] state what a Pod
//! may be given on their own, and share only data types with the product.
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a violated invariant ends the run"
)]

pub mod answer;
pub mod injected;
pub mod observed;
pub mod packed;
pub mod pps;
pub mod request;
pub mod rules;
pub mod seeds;
pub mod settings;

/// Passes bytes to the product, and panics if an invariant is violated.
pub type Check = fn(&[u8]);

/// The fuzz targets by name.
pub const TARGETS: [(&str, Check); 12] = [
    ("answer", answer::check),
    ("observed_definition", observed::check_definition),
    ("observed_node", observed::check_node),
    ("observed_object", observed::check_object),
    ("observed_pod", observed::check_pod),
    ("observed_watch", observed::check_watch),
    ("observed_whitelist", observed::check_whitelist),
    ("observed_workload", observed::check_workload),
    ("packed", packed::check),
    ("pps", pps::check),
    ("request", request::check),
    ("settings", settings::check),
];
