//! The command line.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

/// Pushes the policy, the sidecar's image and the Helm chart to an OCI registry, the first two with
/// SBOMs.
///
/// Log in with `docker login` first, or put a `config.json` into the directory that `DOCKER_CONFIG`
/// names. Prints the immutable reference of the pushed artifact on stdout. The same commit gives
/// the same digests: all timestamps are the commit's, or `SOURCE_DATE_EPOCH`.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// The checkout from which the artifact was built.
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(crate) source: PathBuf,
    /// The commit from which it was built, if the checkout has no git history.
    #[arg(long, global = true, value_name = "COMMIT")]
    pub(crate) revision: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Push the policy like `kwctl push`.
    Policy {
        /// The Wasm module with embedded metadata; `make policy.wasm` builds it.
        #[arg(long, value_name = "FILE", default_value = "policy.wasm")]
        module: PathBuf,
        #[command(flatten)]
        push: Push,
    },
    /// Push the sidecar as a container image.
    Image {
        /// The static executable; `hack/build-release.sh` builds it. Repeat the option for each
        /// architecture: several executables become one image index.
        #[arg(long = "binary", value_name = "FILE", required = true)]
        binaries: Vec<PathBuf>,
        #[command(flatten)]
        push: Push,
    },
    /// Push the Helm chart like `helm push`, and the checkout's `artifacthub-repo.yml`.
    Chart {
        /// The packed chart; `make release` packs it.
        #[arg(long, value_name = "FILE")]
        package: PathBuf,
        #[command(flatten)]
        push: Push,
    },
    /// Print the immutable reference of what was pushed before.
    Digest {
        #[command(flatten)]
        pushed: Push,
    },
    /// Write the SBOM (SPDX) of a file. A push attaches the same to the policy and to the image.
    Sbom {
        /// The package that is compiled into the file.
        #[arg(long)]
        package: String,
        /// The target for which it is compiled, as Rust names it.
        #[arg(long)]
        target: String,
        /// The module, the executable, or the archive with it.
        #[arg(long)]
        file: PathBuf,
        /// The file to write.
        #[arg(long, value_name = "FILE", default_value = "sbom.spdx.json")]
        output: PathBuf,
    },
}

#[derive(Arguments, Debug)]
pub(crate) struct Push {
    /// Where it is in the registry, as registry/repository:tag. The tag defaults to `v` and the
    /// version.
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// How to connect to a registry.
#[derive(Arguments, Clone, Debug, Default)]
pub(crate) struct Access {
    /// Use HTTP instead of HTTPS.
    #[arg(long, conflicts_with = "ca_file")]
    pub(crate) plain_http: bool,
    /// Trust only the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}
