//! Commands that only read.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{AllNamespaces, OutputArgs, TextOutputArgs, value};

/// The arguments of `status`.
#[derive(Args, Clone, Debug)]
pub struct Status {
    /// Only this workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// Namespaces.
    #[command(flatten)]
    pub all: AllNamespaces,
    /// Format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub struct Explain {
    /// The Pod.
    #[arg(value_name = "POD", value_parser = value::pod)]
    pub pod: String,
    /// Format.
    #[command(flatten)]
    pub output: TextOutputArgs,
}

/// The arguments of `simulate`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("question").required(true).multiple(false))]
pub struct Simulate {
    /// Only this workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// This node is deleted. May be repeated.
    #[arg(long, value_name = "NODE", group = "question", value_parser = value::name)]
    pub without_node: Vec<String>,
    /// This node is drained with kubectl drain. May be repeated.
    #[arg(long, value_name = "NODE", group = "question", value_parser = value::name)]
    pub drain: Vec<String>,
    /// All nodes of this zone are deleted.
    #[arg(long, value_name = "ZONE", group = "question")]
    pub zone_down: Option<String>,
    /// This StatefulSet or PersistentPodState is applied, and the workload restarted. - is standard input.
    #[arg(long, value_name = "FILE", group = "question")]
    pub spec: Option<PathBuf>,
    /// Namespaces.
    #[command(flatten)]
    pub all: AllNamespaces,
    /// Format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The arguments of `version`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Version {
    /// Format.
    #[command(flatten)]
    pub output: TextOutputArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Command, Output};

    #[test]
    fn an_answer_that_is_no_table_has_no_table_formats() {
        let explain = |format: &str| Cli::try_parse_from(["kubectl-pps", "explain", "db-0", "-o", format]);
        let Command::Explain(args) = explain("text").unwrap().command else { panic!() };
        assert_eq!(args.output.output, Output::Table);
        assert!(explain("json").is_ok() && explain("wide").is_err());
    }
}
