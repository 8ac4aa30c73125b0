//! Commands with files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{AllNamespaces, Consent, TextOutputArgs};

/// The arguments of `export`.
#[derive(Args, Clone, Debug)]
pub struct Export {
    /// Only these PersistentPodStates.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// File to write instead of standard output. It must not exist, unless you give --overwrite.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Replace the file.
    #[arg(long, requires = "file")]
    pub overwrite: bool,
    /// Form of the states: plain, which every version and OpenKruise can read, or stored, as in the cluster.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Plain)]
    pub form: Form,
    /// Namespaces.
    #[command(flatten)]
    pub all: AllNamespaces,
}

/// Form of states in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One entry for each Pod.
    #[default]
    Plain,
    /// As in the cluster.
    Stored,
}

/// The arguments of `import`.
#[derive(Args, Clone, Debug)]
pub struct Import {
    /// File to read; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace states that the cluster has.
    #[arg(long)]
    pub overwrite: bool,
    /// Leave out this label or annotation, which means nothing in this cluster. May be repeated.
    #[arg(long, value_name = "KEY")]
    pub drop_key: Vec<String>,
    /// Only objects of this namespace; a file may have those of many.
    #[arg(long, value_name = "NAMESPACE")]
    pub from_namespace: Option<String>,
    /// Consent.
    #[command(flatten)]
    pub consent: Consent,
}

/// The arguments of `try`.
#[derive(Args, Clone, Debug)]
pub struct Try {
    /// Files; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// File with the policy's settings, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Format.
    #[command(flatten)]
    pub output: TextOutputArgs,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use crate::args::{Cli, Command};

    #[test]
    fn a_path_of_windows_is_one_argument() {
        let cli = Cli::try_parse_from(["kubectl-pps", "try", r"C:\Users\a b\pod.yaml"]).unwrap();
        let Command::Try(args) = cli.command else { panic!("{cli:?}") };
        assert_eq!(args.files, [Path::new(r"C:\Users\a b\pod.yaml")]);
    }
}
