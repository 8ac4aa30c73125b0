//! Converts `policy-metadata.yml` into the JSON that is embedded in the Wasm module.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

const SOURCE: &str = "policy-metadata.yml";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let mut metadata: Value = yaml_serde::from_str(&fs::read_to_string(SOURCE)?)?;
    metadata["protocolVersion"] = json!("v1");
    let repository = env::var("CARGO_PKG_REPOSITORY")?;
    let image = format!("{}/policies/persistent-pod-state", registry()?);
    for (name, value) in [
        ("version", env::var("CARGO_PKG_VERSION")?),
        ("ociUrl", image),
        ("url", repository.clone()),
        ("source", repository),
    ] {
        metadata["annotations"][format!("io.kubewarden.policy.{name}")] = json!(value);
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("metadata.json"), metadata.to_string())?;
    Ok(())
}

/// The `registry` in the table `workspace.metadata.pps` of `Cargo.toml`. Cargo passes no such value on.
fn registry() -> Result<String, Box<dyn Error>> {
    let manifest = fs::read_to_string("Cargo.toml")?;
    let value = manifest.lines().find_map(|line| line.strip_prefix("registry = \"")?.strip_suffix('"'));
    Ok(value.ok_or("Cargo.toml has no registry in [workspace.metadata.pps]")?.to_owned())
}
