//! Pushes the policy, the sidecar's image and the Helm chart to an OCI registry. See `--help`.
//!
//! What is pushed is made by pure functions of a file and of the checkout's [`provenance`]: the same commit gives
//! the same digests. [`registry`] is the only module that talks to somebody.

mod args;
mod artifact;
mod binary;
mod chart;
mod components;
mod image;
mod policy;
mod provenance;
mod registry;
mod sbom;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;

use args::{Args, Command, Push, Subject};
use artifact::Artifact;
use provenance::Provenance;
use registry::Registry;
use sbom::Sbom;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pps-publish: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let provenance = Provenance::of(&args.source, args.revision.as_deref())?;
    match &args.command {
        Command::Policy { module, push } => {
            let subject = Subject::Policy { module: module.clone() };
            let (artifact, sbom) = make(&subject, &args.source, &provenance)?;
            publish(&artifact, Some(&sbom.artifact(&artifact, &provenance)?), push)
        }
        Command::Image { binary, push } => {
            let subject = Subject::Image { binary: binary.clone() };
            let (artifact, sbom) = make(&subject, &args.source, &provenance)?;
            publish(&artifact, Some(&sbom.artifact(&artifact, &provenance)?), push)
        }
        Command::Chart { package, push } => {
            let artifact = chart::artifact(&read(package)?, &provenance)
                .with_context(|| package.display().to_string())?;
            publish(&artifact, None, push)
        }
        Command::Sbom { subject, output } => {
            let (_, sbom) = make(subject, &args.source, &provenance)?;
            fs::write(output, &sbom.json).with_context(|| format!("cannot write {}", output.display()))?;
            eprintln!("{}: {} components", output.display(), sbom.components);
            Ok(())
        }
    }
}

/// Pushes it, with its list of components if it has one, and prints the immutable reference.
fn publish(artifact: &Artifact, sbom: Option<&Artifact>, push: &Push) -> Result<()> {
    let target = registry::parse_reference(&push.reference)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reference = runtime.block_on(async {
        Registry::connect(target, &push.access).await?.push(artifact, sbom).await
    })?;
    println!("{reference}");
    Ok(())
}

/// What is pushed, and the list of what is in it.
fn make(subject: &Subject, source: &Path, provenance: &Provenance) -> Result<(Artifact, Sbom)> {
    match subject {
        Subject::Policy { module } => {
            let bytes = read(module)?;
            let artifact =
                policy::artifact(&bytes, provenance).with_context(|| module.display().to_string())?;
            let components = components::of(source, policy::PACKAGE, policy::TARGET)?;
            Ok((artifact, sbom::of("policy", &bytes, &components, provenance)?))
        }
        Subject::Image { binary } => {
            let bytes = read(binary)?;
            let architecture = binary::check(&bytes).with_context(|| binary.display().to_string())?;
            let artifact = image::artifact(&bytes, architecture, provenance)?;
            let components = components::of(source, image::PACKAGE, architecture.target())?;
            Ok((artifact, sbom::of(image::PACKAGE, &bytes, &components, provenance)?))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
