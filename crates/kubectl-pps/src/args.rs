//! The command line. The help, the man page and `docs/kubectl-pps.md` come from this text.

#![allow(clippy::doc_markdown, missing_docs, reason = "--help prints these texts unchanged")]

mod commands;
mod complete;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::commands::*;
pub use self::complete::{candidates, script};

/// Says why stateful Pods are where they are or why they are Pending, forecasts where they go, and moves
/// them.
///
/// Reads PersistentPodStates (PPS), Pods, Nodes and workloads with your own rights. What you may not read is
/// left out, and said. Only move, forget and import change anything; each shows what it would do and asks
/// first.
///
/// Exits with 0 if all is well, with 1 if something is not (a Pod is or would be Pending, a change is
/// refused), and with 2 if the command line is wrong or something could not be read.
#[derive(Parser, Clone, Debug)]
#[command(name = "kubectl-pps", bin_name = "kubectl pps", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    #[command(flatten)]
    pub connection: Connection,

    /// When to use colours. auto: on a terminal, unless NO_COLOR is set.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t = ColorChoice::Auto,
        global = true,
        display_order = 904,
        help_heading = GLOBAL,
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub color: ColorChoice,
}

/// The title of what all commands have.
const GLOBAL: &str = "Options of all commands";

#[derive(Args, Clone, Debug, Default)]
pub struct Connection {
    /// Namespace. Defaults to that of the context.
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        global = true,
        display_order = 901,
        help_heading = GLOBAL,
        value_parser = commands::name
    )]
    pub namespace: Option<String>,

    /// Context to use instead of the current one.
    #[arg(long, value_name = "NAME", global = true, display_order = 902, help_heading = GLOBAL)]
    pub context: Option<String>,

    /// Kubeconfig file to use instead of the default one.
    #[arg(long, value_name = "FILE", global = true, display_order = 903, help_heading = GLOBAL)]
    pub kubeconfig: Option<PathBuf>,
}

/// Output format of an answer.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputArgs {
    /// Output format: a table that fits the terminal, one with all columns, or JSON or YAML for programs.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        value_parser = formats(["table", "wide", "json", "yaml"])
    )]
    pub output: Output,
}

/// Output format of an answer that is no table.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct TextOutputArgs {
    /// Output format: text for people, or JSON or YAML for programs.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        value_parser = formats(["text", "json", "yaml"])
    )]
    pub output: Output,
}

fn formats<const N: usize>(names: [&'static str; N]) -> impl TypedValueParser<Value = Output> {
    PossibleValuesParser::new(names).map(|text| match text.as_str() {
        "wide" => Output::Wide,
        "json" => Output::Json,
        "yaml" => Output::Yaml,
        _ => Output::Table,
    })
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// How an action asks.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Consent {
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Check {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = pps_check::args::Output::Table)]
    pub output: pps_check::args::Output,
    #[command(flatten)]
    pub settings: pps_check::Settings,
}

/// All namespaces.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct AllNamespaces {
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

/// What to do.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Shows where each Pod is, where it is recorded, and what pins it.
    ///
    /// Has a line for each Pod of the workloads that have a PersistentPodState, and ends with advice for what
    /// is wrong.
    #[command(after_help = "\
Examples:
  # The Pods of one StatefulSet, with all columns
  kubectl pps status db -o wide
  # All namespaces
  kubectl pps status -A
  # Again every two seconds, while a rollout or a drain goes on
  watch kubectl pps status db")]
    Status(Status),
    /// Says why a Pod is where it is or why it is Pending, and what you can do.
    ///
    /// Shows what was recorded and injected, which nodes cannot take the Pod, and why: recorded values,
    /// taints, room, volumes.
    #[command(after_help = "\
Examples:
  # Why is db-0 Pending, or why is it where it is?
  kubectl pps explain db-0")]
    Explain(Explain),
    /// Forecasts where Pods go if nodes are drained or lost, or an object is changed.
    ///
    /// Runs the policy's own code on the cluster as it is now. Nothing is changed.
    #[command(after_help = "\
Examples:
  # Where do the Pods go if node-2 is drained?
  kubectl pps simulate --drain node-2 -A
  # The same for a zone, asked for one StatefulSet
  kubectl pps simulate --zone-down zone-a db
  # What does a change do when it is rolled out?
  kubectl pps simulate --spec db.yaml")]
    Simulate(Simulate),
    /// Moves Pods to other nodes: changes what pins them, evicts them, and waits.
    ///
    /// Shows where the Pods may go, asks, and shows where they have started. Several Pods are moved one after
    /// the other, those that do not run first: the next one when the one before is Ready and recorded. Ends at
    /// the first Pod that does not become so.
    #[command(after_help = "\
Examples:
  # Let db-0 start wherever the scheduler puts it
  kubectl pps move db-0 --anywhere
  # Show what a move to node-2 does, and do nothing
  kubectl pps move db-0 --to node-2 --dry-run
  # The node is lost: let its Pods start wherever the scheduler puts them
  kubectl pps move --node node-2 --anywhere -A")]
    Move(Move),
    /// Drops what is recorded of Pods that do not run.
    ///
    /// Their successors start wherever the scheduler puts them. Shows what would be dropped, and asks.
    #[command(after_help = "\
Examples:
  # One Pod that does not run: its successor may start on any node
  kubectl pps forget db-0
  # All that is recorded on a node that does not come back
  kubectl pps forget --node node-2 -A")]
    Forget(Forget),
    /// Says what is wrong with the installation, and whether it records and injects states.
    ///
    /// Each finding says what to do. Writes nothing. -n is the namespace of the sidecar, by default
    /// persistent-pod-state.
    #[command(after_help = "\
Examples:
  # Is anything wrong? Are states recorded and injected?
  kubectl pps check
  # The sidecar is installed under another name
  kubectl pps check -n tools --sidecar pps")]
    Check(Box<Check>),
    /// Writes PersistentPodStates with what they have recorded to a file.
    ///
    /// The file is YAML, ready for import, without what belongs to this cluster only. Only you may read it,
    /// since recorded annotations may be internal.
    #[command(after_help = "\
Examples:
  # All PersistentPodStates of the cluster
  kubectl pps export -A -f backup.yaml")]
    Export(Export),
    /// Reads recorded states from a file into the cluster.
    ///
    /// Takes files of export, of kubectl get pps -o yaml or json, and OpenKruise's objects. Creates objects
    /// that do not exist. Leaves states that the cluster has, unless you give --overwrite, and always those
    /// of Pods that are Ready. Shows what it would do, and asks. If it is interrupted, run it again. Import
    /// states before you restore the workloads.
    #[command(after_help = "\
Examples:
  # Show what it would write, and write nothing
  kubectl pps import backup.yaml --dry-run
  # Into another cluster, whose nodes have other names
  kubectl pps import backup.yaml --drop-key kubernetes.io/hostname")]
    Import(Import),
    /// Prints a script that completes commands and options in a shell.
    ///
    /// There is one for kubectl-pps in each shell, and one for kubectl pps in all shells that complete
    /// kubectl.
    #[command(after_help = "\
Examples:
  # kubectl-pps in bash, until the shell ends
  source <(kubectl-pps completion bash)
  # kubectl pps, in every shell that completes kubectl
  kubectl pps completion kubectl > ~/bin/kubectl_complete-pps
  chmod +x ~/bin/kubectl_complete-pps")]
    Completion(Completion),
    /// Prints the version of kubectl-pps. Needs no cluster.
    #[command(after_help = "\
Examples:
  # For programs
  kubectl pps version -o json")]
    Version(Version),
    /// What kubectl asks for while it completes.
    #[command(hide = true)]
    Complete(Complete),
}
