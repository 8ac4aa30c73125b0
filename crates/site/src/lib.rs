//! The documents as a static site: Markdown in, HTML with search out. The site has the repository's
//! layout, so the relative links between documents work on the Git host and on the site. mdBook
//! renders the pages; this crate decides what they contain. Besides [`build()`] only [`theme`] and
//! [`check`] read and write files.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

pub mod build;
pub mod check;
pub mod contents;
pub mod example;
pub mod links;
pub mod options;
pub mod theme;
pub mod versions;

pub use build::{Report, build};
pub use options::{Older, Options};
