//! Makes JavaScript for the playground's WebAssembly, and serves the page on this machine.

#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

mod server;

use std::path::Path;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

pub use server::{Request, Server};

/// Writes a module for browsers, with an ES module around it and its types: `bindings.js`. The ES
/// module exports `__wbg_reset_state`, with which a page goes on after a panic.
pub fn bindgen(module: &Path, folder: &Path) -> Result<()> {
    Bindgen::new()
        .input_path(module)
        .out_name("bindings")
        .web(true)?
        .typescript(true)
        .omit_default_module_path(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .reset_state_function(true)
        .generate(folder)
        .with_context(|| format!("{}: no JavaScript can be made for it", module.display()))
}
