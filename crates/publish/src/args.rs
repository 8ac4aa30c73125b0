//! The command line.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

/// Pushes the policy, the sidecar's image and the Helm chart to an OCI registry, the first two with the list of their
/// components.
///
/// The same commit gives the same digests: times are those of the commit, or `SOURCE_DATE_EPOCH`. User and
/// password come from Docker's configuration: `docker login`, or a `config.json` in the folder that `DOCKER_CONFIG`
/// names. What is printed on stdout is the immutable reference to what was pushed.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// The checkout that it was built from.
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(crate) source: PathBuf,
    /// The commit that it was built from, where the checkout has no git history.
    #[arg(long, global = true, value_name = "COMMIT")]
    pub(crate) revision: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Push the policy, as kwctl does.
    Policy {
        /// The module, with its metadata embedded.
        #[arg(long, value_name = "FILE", default_value = "policy.wasm")]
        module: PathBuf,
        #[command(flatten)]
        push: Push,
    },
    /// Push the sidecar as a container image.
    Image {
        /// The static executable; hack/build-sidecar.sh makes it.
        #[arg(long, value_name = "FILE")]
        binary: PathBuf,
        #[command(flatten)]
        push: Push,
    },
    /// Push the Helm chart, as helm does.
    Chart {
        /// The packed chart; make release packs it.
        #[arg(long, value_name = "FILE")]
        package: PathBuf,
        #[command(flatten)]
        push: Push,
    },
    /// Write the list of components to a file, as CycloneDX has it; the same as is pushed.
    Sbom {
        #[command(subcommand)]
        subject: Subject,
        /// Where to write it.
        #[arg(long, global = true, value_name = "FILE", default_value = "sbom.cdx.json")]
        output: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Subject {
    /// Of the policy.
    Policy {
        /// The module, with its metadata embedded.
        #[arg(long, value_name = "FILE", default_value = "policy.wasm")]
        module: PathBuf,
    },
    /// Of the sidecar.
    Image {
        /// The static executable; hack/build-sidecar.sh makes it.
        #[arg(long, value_name = "FILE")]
        binary: PathBuf,
    },
}

#[derive(Arguments, Debug)]
pub(crate) struct Push {
    /// Where to: registry/repository:tag. Without a tag it is `v` and the version.
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// How to talk to a registry.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct Access {
    /// Speak HTTP, not HTTPS.
    #[arg(long, conflicts_with = "ca_file")]
    pub(crate) plain_http: bool,
    /// Trust the authorities in this PEM file, and no others.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}
