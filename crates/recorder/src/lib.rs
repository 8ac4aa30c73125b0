//! What the sidecar records, decided without a cluster: facts come in, writes go out.
//!
//! | module | question |
//! |---|---|
//! | [`facts`] | what is kept in memory of each watched object? |
//! | [`decide`] | which writes follow from the facts? |
//! | [`mod@record`] | which state of a running Pod is recorded? |
//! | [`workload`] | which Pod names does a workload want, and which recorded states are kept? |
//! | [`demand`] | which Pods does a workload's spec ask for? |
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

pub mod decide;
pub mod demand;
pub mod facts;
pub mod generate;
pub mod kinds;
pub mod record;
pub mod recording;
pub mod whitelist;
pub mod workload;
