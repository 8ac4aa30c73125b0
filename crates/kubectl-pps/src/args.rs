//! The command line. The help, the man page and `docs/kubectl-pps.md` come from this text.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

mod change;
mod complete;
mod files;
mod question;
mod value;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::change::{Forget, Move, OnNodeDeletion, Pin, Retention, Unpin};
pub use self::complete::{Complete, Completion, candidates, script};
pub use self::files::{Export, Form, Import, Try};
pub use self::question::{Explain, Simulate, Status, Watch};

/// Says why stateful Pods are where they are or why they are Pending, forecasts where they go, and moves them.
///
/// Reads PersistentPodStates (PPS), Pods, Nodes and workloads with your own rights. What you may not read is left out, and
/// said. Only move, forget, pin, unpin and import change anything; each shows what it would do and asks first.
///
/// Exits with 0 if all is well, with 1 if something is not (a Pod is or would be Pending, a change is refused), and with
/// 2 if the command line is wrong or something could not be read.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "kubectl-pps",
    bin_name = "kubectl pps",
    version,
    max_term_width = 100,
    propagate_version = true
)]
pub struct Cli {
    #[command(subcommand)]
    /// What to do.
    pub command: Command,

    /// Which cluster and namespace.
    #[command(flatten)]
    pub connection: Connection,

    /// When to use colours. auto: on a terminal, unless NO_COLOR is set.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, global = true, display_order = 900)]
    pub color: ColorChoice,
}

/// Which cluster and namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct Connection {
    /// Namespace. Defaults to that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", global = true, display_order = 901, value_parser = value::name)]
    pub namespace: Option<String>,

    /// Context of the kubeconfig to use instead of the current one.
    #[arg(long, value_name = "NAME", global = true, display_order = 902)]
    pub context: Option<String>,

    /// Kubeconfig file to use instead of the default one.
    #[arg(long, value_name = "FILE", global = true, display_order = 903)]
    pub kubeconfig: Option<PathBuf>,
}

/// Output format of an answer.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputArgs {
    /// Output format. table: fits the terminal. wide: a table with all columns. json, yaml: for programs.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
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

/// The arguments of `check`.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = pps_check::args::Output::Table)]
    pub output: pps_check::args::Output,
    /// What is checked.
    #[command(flatten)]
    pub options: pps_check::args::CheckOptions,
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
    /// Shows each Pod: where it is, where it is recorded, what pins it.
    ///
    /// Has a line for each Pod of the workloads that have a PersistentPodState: its node, zone and address, what is recorded of it,
    /// what pins it, and whether it is where it was recorded. Ends with a line of advice for what is wrong.
    Status(Status),
    /// Says why a Pod is where it is, or why it is Pending, and what would let it go.
    ///
    /// Shows the Pod's PersistentPodState, what was recorded, what was injected, which value excludes which node, and what else
    /// excludes nodes (taints, room, volumes).
    Explain(Explain),
    /// Forecasts where Pods would go if nodes were drained or lost, or an object changed.
    ///
    /// Says which Pods would come back where, and which would be Pending, before anything is done. The forecast uses the policy's
    /// own code on the cluster as it is now. Nothing is changed.
    Simulate(Simulate),
    /// Moves a Pod to another node: changes what pins it, evicts it and waits.
    ///
    /// Shows where the Pod may go, asks, and shows where it landed. It may be interrupted at any step: the same command finishes it.
    Move(Move),
    /// Drops recorded states.
    ///
    /// Drops those of Pods that do not run, in one write for each PersistentPodState. Their successors start wherever the scheduler
    /// puts them. Asks first.
    Forget(Forget),
    /// Has the Pods of a workload recorded and brought back.
    ///
    /// Writes the workload's annotations, or a PersistentPodState. Shows the difference, and asks. A list that is named (--required,
    /// --preferred, --annotation) replaces the present one; the others stay.
    Pin(Pin),
    /// Ends what pin began.
    ///
    /// Removes the workload's annotations, or deletes its PersistentPodState. The recorded states are then lost. Shows what is
    /// removed, and asks.
    Unpin(Unpin),
    /// Checks the installation.
    ///
    /// Says what is wrong with versions, definitions, PolicyServer, policies, webhooks, the module in its registry, sidecar, other
    /// recorders and PersistentPodStates. -n is the namespace of the sidecar; it defaults to persistent-pod-state. docs/check.md
    /// explains the findings.
    Check(Box<Check>),
    /// Writes PersistentPodStates with their recorded states to a file.
    ///
    /// The file is ready for import: without what belongs to this cluster only, and without aliases. Only you may read it, since
    /// recorded annotations may be internal. JSON if its name ends with .json, else YAML.
    Export(Export),
    /// Reads recorded states from a file into the cluster.
    ///
    /// Reads files of export, of kubectl get pps -o yaml or json, and OpenKruise's objects. Creates objects that do not exist. A
    /// state that the cluster has stays, unless --overwrite is given; that of a Pod that is Ready stays in any case. Shows what it
    /// would do, and asks. If it is interrupted, run it again. Restore workloads afterwards.
    Import(Import),
    /// Shows each Pod, again whenever something changes.
    ///
    /// Shows the table of status while a rollout or a drain goes on. Without a terminal, prints a line for each change. Ends with
    /// Ctrl-C.
    Watch(Watch),
    /// Shows what the policy would inject into Pods from files. Needs no cluster.
    ///
    /// The files have Pods or StatefulSets, and PersistentPodStates with their status, in YAML or JSON. Shows a difference.
    Try(Try),
    /// Prints a script that completes commands and options in a shell.
    ///
    /// For kubectl-pps in bash: source <(kubectl-pps completion bash). For kubectl pps, in any shell that completes kubectl: write
    /// the script for kubectl to a file kubectl_complete-pps on the PATH, and make it executable.
    Completion(Completion),
    /// What kubectl asks for while it completes.
    #[command(hide = true)]
    Complete(Complete),
}
