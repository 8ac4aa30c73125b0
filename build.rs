//! Converts `policy-metadata.yml` into the JSON that is embedded in the Wasm module.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

const SOURCE: &str = "policy-metadata.yml";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let mut metadata: Value = yaml_serde::from_str(&fs::read_to_string(SOURCE)?)?;
    metadata["protocolVersion"] = json!("v1");
    fs::write(
        Path::new(&env::var("OUT_DIR")?).join("metadata.json"),
        metadata.to_string(),
    )?;
    Ok(())
}
