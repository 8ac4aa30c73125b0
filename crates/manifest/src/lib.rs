//! Objects as users write them: YAML in, YAML out, and what the policy says about them, with the line of each field.
//!
//! The playground and `kubectl pps` are built on it. Nothing here decides anything about Pods: that is
//! [`persistent_pod_state_policy`] and [`pps_core`].
//!
//! | module | what it does |
//! |---|---|
//! | [`text`] | turns the bytes of a file into text, and knows which characters are not shown |
//! | [`yaml`] | reads YAML as Kubernetes does, and knows where each field is |
//! | [`manifest`] | writes an object as `kubectl get -o yaml` does |
//! | [`difference`] | compares two texts line by line |
//! | [`evaluation`] | lets the policy answer a request, review an object or read settings |
//!
//! It is pure: no clock, no files, no network and no bindings to a browser.

pub mod difference;
pub mod evaluation;
pub mod manifest;
pub mod text;
pub mod yaml;

pub use difference::{Hunk, Line, difference, hunks};
pub use evaluation::{Flaw, SettingsFault, Verdict, answer, answer_creation, read_settings, review};
pub use manifest::to_yaml;
