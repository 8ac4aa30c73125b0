//! Commands that only read.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{AllNamespaces, OutputArgs, value};

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
    pub output: OutputArgs,
}

/// The arguments of `simulate`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("question").required(true).multiple(false))]
pub struct Simulate {
    /// Only what happens to this workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// These nodes are deleted. May be repeated.
    #[arg(long, value_name = "NODE", group = "question", value_parser = value::name)]
    pub without_node: Vec<String>,
    /// These nodes are drained with kubectl drain. May be repeated.
    #[arg(long, value_name = "NODE", group = "question", value_parser = value::name)]
    pub drain: Vec<String>,
    /// All nodes of this zone are lost.
    #[arg(long, value_name = "ZONE", group = "question")]
    pub zone_down: Option<String>,
    /// This changed StatefulSet or PersistentPodState is applied, and the workload restarted.
    #[arg(long, value_name = "FILE", group = "question")]
    pub spec: Option<PathBuf>,
    /// Namespaces.
    #[command(flatten)]
    pub all: AllNamespaces,
    /// Format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The arguments of `watch`.
#[derive(Args, Clone, Debug)]
pub struct Watch {
    /// Only this workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// End when each Pod is Ready, with 0, or after this time, with 1.
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub until_ready: Option<std::time::Duration>,
    /// Namespaces.
    #[command(flatten)]
    pub all: AllNamespaces,
}
