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
            let made = make(&Subject::Policy { module: module.clone() }, &provenance)?;
            publish(&made.artifact, || made.listed(&args.source, &provenance).map(Some), push)
        }
        Command::Image { binary, push } => {
            let made = make(&Subject::Image { binary: binary.clone() }, &provenance)?;
            publish(&made.artifact, || made.listed(&args.source, &provenance).map(Some), push)
        }
        Command::Chart { package, push } => {
            let artifact = chart::artifact(&read(package)?, &provenance);
            publish(&artifact.with_context(|| package.display().to_string())?, || Ok(None), push)
        }
        Command::Sbom { subject, output } => {
            let sbom = make(subject, &provenance)?.sbom(&args.source, &provenance)?;
            fs::write(output, &sbom.json).with_context(|| format!("cannot write {}", output.display()))?;
            eprintln!("{}: {} components", output.display(), sbom.components);
            Ok(())
        }
    }
}

/// Pushes it, with its list of components if it has one, and prints the immutable reference.
fn publish(artifact: &Artifact, sbom: impl FnOnce() -> Result<Option<Artifact>>, push: &Push) -> Result<()> {
    let target = registry::parse_reference(&push.reference)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let registry = runtime.block_on(Registry::connect(target, &push.access))?;
    // Cargo takes a while for it; whoever cannot push need not wait for that.
    let sbom = sbom()?;
    println!("{}", runtime.block_on(registry.push(artifact, sbom.as_ref()))?);
    Ok(())
}

/// What is pushed, and what it is made of.
struct Made {
    artifact: Artifact,
    file: Vec<u8>,
    package: &'static str,
    target: &'static str,
    name: &'static str,
}

impl Made {
    /// The list of what is in it.
    fn sbom(&self, source: &Path, provenance: &Provenance) -> Result<Sbom> {
        sbom::of(self.name, &self.file, &components::of(source, self.package, self.target)?, provenance)
    }

    /// The same, as it is pushed.
    fn listed(&self, source: &Path, provenance: &Provenance) -> Result<Artifact> {
        self.sbom(source, provenance)?.artifact(&self.artifact, provenance)
    }
}

fn make(subject: &Subject, provenance: &Provenance) -> Result<Made> {
    match subject {
        Subject::Policy { module } => {
            let file = read(module)?;
            let artifact =
                policy::artifact(&file, provenance).with_context(|| module.display().to_string())?;
            Ok(Made { artifact, file, package: policy::PACKAGE, target: policy::TARGET, name: "policy" })
        }
        Subject::Image { binary } => {
            let file = read(binary)?;
            let architecture = binary::check(&file).with_context(|| binary.display().to_string())?;
            let artifact = image::artifact(&file, architecture, provenance)?;
            let target = architecture.target();
            Ok(Made { artifact, file, package: image::PACKAGE, target, name: image::PACKAGE })
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
