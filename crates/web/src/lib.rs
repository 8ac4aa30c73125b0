//! What turns the playground's WebAssembly into a page: the JavaScript around it, and a server to look at it.

mod server;

use std::path::Path;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

pub use server::{Request, Server};

/// Writes a module for browsers, with an ES module around it and its types: `bindings.js`. The ES module exports `__wbg_reset_state`,
/// with which a page goes on after a panic.
///
/// # Errors
///
/// If the module was not compiled with the same version of wasm-bindgen, or a file cannot be read or written.
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
