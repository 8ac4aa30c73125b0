//! The documents as a static site: Markdown in, HTML with search out.
//!
//! The site has the repository's layout, so the relative links between documents work on the Git host and on the
//! site. mdBook renders the pages; this crate decides what they contain:
//!
//! | module | question |
//! |---|---|
//! | [`contents`] | which pages does the site have, and in which order? |
//! | [`links`] | where does a link of a document lead on the site? |
//! | [`example`] | which examples of a document can be opened in the playground, and with which cluster around them? |
//! | [`share`] | which link opens the playground with a scenario? |
//! | [`theme`] | how do pages look? |
//! | [`check`] | does each link of the finished site have a target? |
//!
//! [`build()`] puts them together. Besides it only [`theme`] and [`check`] read and write files.

pub mod build;
pub mod check;
pub mod contents;
pub mod example;
pub mod links;
pub mod share;
pub mod theme;

pub use build::{Options, Report, build};
