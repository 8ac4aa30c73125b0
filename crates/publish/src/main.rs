//! Pushes the policy, the sidecar's image and the Helm chart to an OCI registry. See `--help`.
//!
//! Artifacts are built by pure functions of a file and the checkout's [`provenance`], so the same commit
//! gives the same digests. Only [`registry`] uses the network.

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
    let provenance = Provenance::from_checkout(&args.source, args.revision.as_deref())?;
    match &args.command {
        Command::Policy { module, push } => {
            let build = build(&Subject::Policy { module: module.clone() }, &provenance)?;
            publish(&build.artifact, || build.sbom_artifact(&args.source, &provenance).map(Some), push)
        }
        Command::Image { binary, push } => {
            let build = build(&Subject::Image { binary: binary.clone() }, &provenance)?;
            publish(&build.artifact, || build.sbom_artifact(&args.source, &provenance).map(Some), push)
        }
        Command::Chart { package, push } => {
            let artifact = chart::build_artifact(&read(package)?, &provenance);
            publish(&artifact.with_context(|| package.display().to_string())?, || Ok(None), push)
        }
        Command::Sbom { subject, output } => {
            let sbom = build(subject, &provenance)?.create_sbom(&args.source, &provenance)?;
            fs::write(output, &sbom.json).with_context(|| format!("cannot write {}", output.display()))?;
            eprintln!("{}: {} components", output.display(), sbom.components);
            Ok(())
        }
    }
}

/// Pushes an artifact with its SBOM, if it has one, and prints the immutable reference.
fn publish(artifact: &Artifact, sbom: impl FnOnce() -> Result<Option<Artifact>>, push: &Push) -> Result<()> {
    let target = registry::parse_reference(&push.reference)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let registry = runtime.block_on(Registry::connect(target, &push.access))?;
    // Cargo takes seconds to list the components, so fail before that if the push is not possible.
    let sbom = sbom()?;
    println!("{}", runtime.block_on(registry.push(artifact, sbom.as_ref()))?);
    Ok(())
}

/// An artifact, and what its SBOM is made from.
struct Build {
    artifact: Artifact,
    file: Vec<u8>,
    package: &'static str,
    target: &'static str,
    name: &'static str,
}

impl Build {
    fn create_sbom(&self, source: &Path, provenance: &Provenance) -> Result<Sbom> {
        let components = components::list(source, self.package, self.target)?;
        sbom::create(self.name, &self.file, &components, provenance)
    }

    fn sbom_artifact(&self, source: &Path, provenance: &Provenance) -> Result<Artifact> {
        self.create_sbom(source, provenance)?.build_artifact(&self.artifact, provenance)
    }
}

fn build(subject: &Subject, provenance: &Provenance) -> Result<Build> {
    match subject {
        Subject::Policy { module } => {
            let file = read(module)?;
            let artifact =
                policy::build_artifact(&file, provenance).with_context(|| module.display().to_string())?;
            Ok(Build { artifact, file, package: policy::PACKAGE, target: policy::TARGET, name: "policy" })
        }
        Subject::Image { binary } => {
            let file = read(binary)?;
            let architecture = binary::check(&file).with_context(|| binary.display().to_string())?;
            let artifact = image::build_artifact(&file, architecture, provenance)?;
            let target = architecture.target();
            Ok(Build { artifact, file, package: image::PACKAGE, target, name: image::PACKAGE })
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
