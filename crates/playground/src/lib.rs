//! The simulation and the policy, for a page in a browser.
//!
//! A page calls [`run`] with a scenario whose objects are YAML, and shows the result. All of it is
//! text: JSON goes in and comes out, and `types.d.ts` describes it to TypeScript. [`evaluate`]
//! answers one request of PolicyServer by the policy's own code, with a host that the caller
//! provides.
//!
//! Nothing here decides anything about Pods or nodes: that is [`pps_simulation`] and
//! [`persistent_pod_state_policy`]. What reads and writes YAML is [`pps_manifest`].

mod answer;
mod bindings;
mod scenario;
mod view;

pub use bindings::{HostFunction, evaluate, run, validate_settings};
pub use scenario::run_text;
