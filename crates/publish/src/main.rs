//! Pushes the policy, the sidecar's image and the Helm chart to an OCI registry, and writes the
//! SBOMs to attest. See `--help`.
//!
//! Artifacts are built by pure functions of a file and the checkout's [`provenance`], so the same
//! commit gives the same digests. Only [`registry`] uses the network.

mod args;
mod artifact;
mod binary;
mod chart;
mod components;
mod image;
mod index;
mod policy;
mod provenance;
mod registry;
mod sbom;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Parser;
use oci_client::RegistryOperation;

use args::{Args, Command, Push};
use artifact::Artifact;
use binary::Architecture;
use provenance::Provenance;
use registry::Registry;

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
    let provenance = || Provenance::from_checkout(&args.source, args.revision.as_deref());
    match &args.command {
        Command::Policy { module, push } => {
            let provenance = provenance()?;
            let build = build_policy(module, &provenance)?;
            use_registry(push, RegistryOperation::Push, async |registry| {
                let sbom = build.sbom_artifact(&args.source, &provenance)?;
                registry.push(&build.artifact, Some(&sbom)).await
            })
        }
        Command::Image { binaries, push } => publish_image(args, binaries, push, &provenance()?),
        Command::Chart { package, push } => {
            let artifact = chart::build_artifact(&read(package)?, &provenance()?);
            let artifact = artifact.with_context(|| package.display().to_string())?;
            let metadata =
                chart::build_hub_metadata(&read(&args.source.join("artifacthub-repo.yml"))?)?;
            use_registry(push, RegistryOperation::Push, async |registry| {
                registry
                    .push_beside(&metadata, chart::HUB_TAG.to_owned())
                    .await?;
                registry.push(&artifact, None).await
            })
        }
        Command::Digest { pushed } => {
            use_registry(pushed, RegistryOperation::Pull, async |registry| {
                registry.resolve().await
            })
        }
        Command::Sbom {
            package,
            target,
            file,
            output,
        } => {
            let components = components::list(&args.source, package, target)?;
            let sbom = sbom::create(&read(file)?, target, &components, &provenance()?);
            fs::write(output, &sbom.json)
                .with_context(|| format!("cannot write {}", output.display()))?;
            eprintln!("{}: {} components", output.display(), sbom.components);
            Ok(())
        }
    }
}

/// Pushes one executable as an image, or several as the images of an index.
fn publish_image(
    args: &Args,
    binaries: &[PathBuf],
    push: &Push,
    provenance: &Provenance,
) -> Result<()> {
    let builds: Vec<Build> = binaries
        .iter()
        .map(|file| build_image(file, provenance))
        .collect::<Result<_>>()?;
    if let [only] = builds.as_slice() {
        return use_registry(push, RegistryOperation::Push, async |registry| {
            let sbom = only.sbom_artifact(&args.source, provenance)?;
            registry.push(&only.artifact, Some(&sbom)).await
        });
    }
    let images = builds.iter().map(|build| {
        let architecture = build
            .architecture
            .context("an executable without an architecture")?;
        Ok((architecture, build.artifact.clone()))
    });
    let index = index::build(
        images.collect::<Result<_>>()?,
        image::annotations(provenance),
    )?;
    use_registry(push, RegistryOperation::Push, async |registry| {
        let mut sboms = Vec::new();
        for (architecture, _) in &index.images {
            let build = builds
                .iter()
                .find(|build| build.architecture == Some(*architecture));
            let build = build.context("an image that was not built")?;
            sboms.push(build.sbom_artifact(&args.source, provenance)?);
        }
        registry.push_index(&index, &sboms).await
    })
}

/// Connects to the registry, and prints the immutable reference that the operation returns. Cargo
/// takes seconds to list the components for an SBOM: done within the operation, it does not delay
/// the news that the registry cannot be used.
fn use_registry(
    push: &Push,
    operation: RegistryOperation,
    run: impl AsyncFnOnce(&Registry) -> Result<String>,
) -> Result<()> {
    let target = registry::parse_reference(&push.reference)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let reference = runtime.block_on(async {
        let registry = Registry::connect(target, &push.access, operation).await?;
        run(&registry).await
    })?;
    println!("{reference}");
    Ok(())
}

/// An artifact, and what its SBOM is made from.
struct Build {
    artifact: Artifact,
    file: Vec<u8>,
    package: &'static str,
    target: &'static str,
    /// The architecture of an executable.
    architecture: Option<Architecture>,
}

impl Build {
    fn sbom_artifact(&self, source: &Path, provenance: &Provenance) -> Result<Artifact> {
        let components = components::list(source, self.package, self.target)?;
        sbom::create(&self.file, self.target, &components, provenance)
            .build_artifact(&self.artifact, provenance)
    }
}

fn build_policy(module: &Path, provenance: &Provenance) -> Result<Build> {
    let file = read(module)?;
    let artifact =
        policy::build_artifact(&file, provenance).with_context(|| module.display().to_string())?;
    let (package, target) = (policy::PACKAGE, policy::TARGET);
    Ok(Build {
        artifact,
        file,
        package,
        target,
        architecture: None,
    })
}

fn build_image(binary: &Path, provenance: &Provenance) -> Result<Build> {
    let file = read(binary)?;
    let architecture = binary::check(&file).with_context(|| binary.display().to_string())?;
    let artifact = image::build_artifact(&file, architecture, provenance)?;
    let (package, target) = (image::PACKAGE, architecture.target());
    Ok(Build {
        artifact,
        file,
        package,
        target,
        architecture: Some(architecture),
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
