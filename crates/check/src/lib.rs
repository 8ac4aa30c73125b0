//! Checks an installation of PersistentPodState, before anything is bound and afterwards: are
//! versions and definitions right, is the module there, do the policies run, does somebody record,
//! which Pods are sent?
//!
//! `gather` reads cluster and registry into facts and writes nothing; `rules` make typed findings
//! of them without I/O; `report` puts these into words.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

pub mod args;
mod facts;
mod finding;
mod gather;
pub mod read;
pub mod reader;
mod registry;
pub mod report;
mod rules;
mod settings;

pub use gather::{Silence, silent_recorder};
pub use rules::is_own_webhook;
pub use settings::{NAMESPACE, Recorder, Settings, name};
