//! The playground in a real Chromium: the golden corpus, and what the page may ask for.

mod corpus;
mod engine;
mod harness;
