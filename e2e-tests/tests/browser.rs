//! The playground in a real Chromium: the golden corpus, what the page may ask for, the page
//! itself, and the site.

mod corpus;
mod engine;
mod harness;
mod page;
mod site;
