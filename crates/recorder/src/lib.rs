//! What the sidecar records, decided without a cluster: facts come in, writes go out.
//!
//! ```text
//! fact ──▶ Cluster ──dirty──▶ Ledger ──view──▶ decide ──▶ write ──▶ (sent by the sidecar)
//!                                ▲                                         │
//!                                └──────────────── outcome ────────────────┘
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`facts`] | what is kept in memory of each watched object? |
//! | `cluster` | what do the watches show, and what does a fact make dirty? |
//! | `ledger` | what has the API server of each PPS, and how far is its recording? |
//! | `decide` | which writes follow? |
//! | [`Recorder`] | how do these work together? |
//! | [`timing`] | when is a write, a lookup or an eviction due? |
//! | [`mod@record`] | which state of a running Pod is recorded? |
//! | [`workload`] | which recorded states are kept? |
//! | [`place`] | what of a recorded place does a Pod keep that is freed from its node? |
//! | [`fallback`] | does a Pod give up a place that it has waited for? |
//! | [`demand`] | which Pods does a workload's spec ask for? |
//! | [`living_pods`] | do the living Pods of a workload decide which it wants? |
//! | [`names`] | which Pods does a workload list by name? |
//! | [`whitelist`] | which workload kinds does the whitelist ConfigMap name? |
//! | [`kinds`] | which of these does the cluster serve, and how are they watched? |
//! | [`generate`] | which PPS does an annotated workload ask for? |
//! | [`recording`] | what does the condition of type Recording say? |
//!
//! # Scope
//!
//! No clock, no async, no logging and no Kubernetes client.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

mod cluster;
mod counts;
mod decide;
pub mod demand;
pub mod facts;
pub mod fallback;
pub mod generate;
pub mod kinds;
mod ledger;
pub mod living_pods;
pub mod names;
pub mod place;
pub mod record;
mod recorder;
pub mod recording;
pub mod timing;
pub mod whitelist;
pub mod workload;

pub use self::cluster::Fact;
pub use self::counts::Counts;
pub use self::decide::eviction::PodEviction;
pub use self::decide::fallback::FallbackCandidate;
pub use self::decide::generated::GeneratedPps;
pub use self::decide::status::{LossCheck, StatusWrite, WriteForm};
pub use self::ledger::{Absence, BoundPod, CompactForm, CompactLimits, StatusOutcome, Work};
pub use self::recorder::{Recorder, StatusDecision};
