//! Access to a Kubernetes API server, for the sidecar, the check and the plugin.
//!
//! | module | |
//! |---|---|
//! | [`config`], [`proxy`] | where the API server is, and through which proxy it is reached |
//! | [`client`] | the client, and one request with limits on time and bytes |
//! | [`failure`] | why a request has no usable answer: one table for all callers |
//! | [`source`], [`watch`], [`stream`] | the objects of a kind: pages of a list, and events |
//! | [`read`] | one object, or a list as a whole, within a time |
//! | [`write`](mod@write) | create, replace, patch, delete, evict: guarded by UID and version |
//! | [`event`] | an Event about an object |
//!
//! Each request is sent once. The caller decides what follows from a failure, whether to try again,
//! and what its users read.

pub mod client;
pub mod config;
mod describe;
pub mod event;
pub mod failure;
pub mod proxy;
pub mod read;
pub mod source;
pub mod stream;
pub mod watch;
pub mod write;

pub use client::{Accept, AnswerLimit, LARGEST_REFUSAL, LONGEST_SILENCE, bounded};
pub use describe::{describe_json, root_cause};
pub use failure::{Class, Failure, Refusal};
pub use read::{Limits, List, Reader, get, path};
pub use source::{LARGEST_OBJECT, LARGEST_PAGE, PAGES_AT_ONCE, PageBody, PageSize, Source};
pub use stream::{LineError, Page, lines, read_event};
pub use watch::{WATCH_TIME, WatchError, WatchSignal, expect_not_earlier};
pub use write::{Guard, Write};
