//! The playground in a real Chromium: the golden corpus, what the page may ask for, and the page itself.

mod corpus;
mod engine;
mod harness;
mod page;
