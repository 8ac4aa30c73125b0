//! All tests of the product against a real control plane, a real registry, or its tools.
//!
//! They are one program: it is compiled and linked once, and its tests run side by side, since most
//! of them wait most of the time. `.cargo/config.toml` says how many run at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may"
)]

#[macro_use]
mod support;

// Tests start in the order of their names: those that take longest are first.
mod a_redis_cluster;
mod a_year_on_real_nodes;
mod alerts;
mod another_policy_server;
mod behaviour;
mod break_glass;
mod browser;
mod chart;
mod check;
mod conformance;
mod contained;
mod corpus;
mod crd;
mod docs;
mod docs_kwctl;
mod docs_pages;
mod faults;
mod gitops;
mod hostile;
mod install;
mod kubectl_apply;
mod kubectl_pps;
mod manifests;
mod proxies;
mod registry;
mod rehearsal;
mod release;
mod scope;
mod simulation;
mod workers;
