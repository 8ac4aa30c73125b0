//! What the policy decides about an admission request, without Kubewarden's SDK. Its only I/O are
//! the calls of a lookup, which a [`Host`] answers.
//!
//! [`admit`] takes the facts of a request and answers with a [`Decision`]. The path of a Pod that
//! is created:
//!
//! | step | file |
//! |---|---|
//! | dispatch by kind and operation | `admit.rs` |
//! | does the Pod belong to a workload whose Pods have recorded states? | `pods.rs` |
//! | which PersistentPodState governs the workload, and what has it recorded? | [`lookup`] |
//! | what is injected? | [`mod@plan`] |
//! | do the Pod's own scheduling rules contradict it? | `conflict.rs`, `spread_constraint.rs` |
//! | the Pod is edited in place | [`mod@apply`] |
//!
//! A PersistentPodState that is created or updated passes `pps_objects.rs` and [`validate`]; one that
//! is deleted, [`deletion`]. [`settings`] are the policy's settings. [`injected`] is the inverse of
//! plan and apply, for those who look at a Pod later.
//!
//! The [`Host`] is `PolicyServer` behind the Wasm module, the simulation, or a test.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

mod admit;
pub mod apply;
mod conflict;
mod decision;
pub mod deletion;
mod failed_lookup;
mod host;
pub mod injected;
pub mod lookup;
mod node_affinity;
pub mod plan;
mod pods;
mod pps_objects;
pub mod settings;
mod spread_constraint;
pub mod validate;

pub use admit::{Kind, Request, UserInfo, admit};
pub use apply::{Applied, ApplyError, apply};
pub use decision::{Decision, Rejection, Verdict};
pub use host::Host;
pub use injected::{Injected, injected};
pub use lookup::{Found, GoverningPps, LookupError, Namespace};
pub use plan::{Plan, plan};
pub use settings::{Settings, SettingsError};
