//! The command line. The help, the man page and `docs/kubectl-pps.md` come from this text.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

mod change;
mod complete;
mod examples;
mod files;
mod question;
mod value;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::change::{Forget, Move, OnNodeDeletion, Pin, Retention, Unpin};
pub use self::complete::{Complete, Completion, candidates, script};
pub use self::files::{Export, Form, Import, Try};
pub use self::question::{Explain, Simulate, Status, Version};

/// Says why stateful Pods are where they are or why they are Pending, forecasts where they go, and moves them.
///
/// Reads PersistentPodStates (PPS), Pods, Nodes and workloads with your own rights. What you may not read is left out, and
/// said. Only move, forget, pin, unpin and import change anything; each shows what it would do and asks first.
///
/// Exits with 0 if all is well, with 1 if something is not (a Pod is or would be Pending, a change is refused), and with
/// 2 if the command line is wrong or something could not be read.
#[derive(Parser, Clone, Debug)]
#[command(name = "kubectl-pps", bin_name = "kubectl pps", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    /// What to do.
    pub command: Command,

    /// Which cluster and namespace.
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

/// Which cluster and namespace.
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
        value_parser = value::name
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
        value_parser = PossibleValuesParser::new(["table", "wide", "json", "yaml"]).map(|text| Output::of(&text))
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
        value_parser = PossibleValuesParser::new(["text", "json", "yaml"]).map(|text| Output::of(&text))
    )]
    pub output: Output,
}

impl Output {
    fn of(text: &str) -> Self {
        match text {
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            _ => Self::Table,
        }
    }
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Shows where each Pod is, where it is recorded, and what pins it.
    ///
    /// Has a line for each Pod of the workloads that have a PersistentPodState, and ends with advice for what is wrong.
    #[command(after_help = examples::STATUS)]
    Status(Status),
    /// Says why a Pod is where it is or why it is Pending, and what you can do.
    ///
    /// Shows what was recorded and injected, which nodes cannot take the Pod, and why: recorded values, taints, room, volumes.
    #[command(after_help = examples::EXPLAIN)]
    Explain(Explain),
    /// Forecasts where Pods go if nodes are drained or lost, or an object is changed.
    ///
    /// Runs the policy's own code on the cluster as it is now. Nothing is changed.
    #[command(after_help = examples::SIMULATE)]
    Simulate(Simulate),
    /// Moves Pods to other nodes: changes what pins them, evicts them, and waits.
    ///
    /// Shows where the Pods may go, asks, and shows where they have started. Without a destination, it names the nodes that could take
    /// the Pod. A Ready Pod is evicted only when all other Pods of its workload are Ready and recorded; if they are not in time, it is left
    /// alone, and named. Of two commands that move Ready Pods of one workload at the same time without --force, one waits for the other.
    /// Several Pods are moved one after the other, those that do not run first, which are waited for at the end. Ends at the first
    /// Ready Pod that was evicted and gets no node. It names the command that goes on.
    #[command(after_help = examples::MOVE)]
    Move(Move),
    /// Drops what is recorded of Pods that do not run.
    ///
    /// Their successors start wherever the scheduler puts them. Shows what would be dropped, and asks.
    #[command(after_help = examples::FORGET)]
    Forget(Forget),
    /// Lets the Pods of a workload return to their zone, node or address.
    ///
    /// Writes annotations of the workload, from which the sidecar generates a PersistentPodState, or writes one. Shows the
    /// difference, and asks. A list that is named (--required, --preferred, --annotation) replaces the present one; the others
    /// stay.
    #[command(after_help = examples::PIN)]
    Pin(Pin),
    /// Lets the Pods of a workload start anywhere again.
    ///
    /// Removes what pin has written. What is recorded is then lost. Shows what would be removed, and asks.
    #[command(after_help = examples::UNPIN)]
    Unpin(Unpin),
    /// Says what is wrong with the installation, and whether it records and injects states.
    ///
    /// Each finding says what to do. Writes nothing. -n is the namespace of the sidecar, by default persistent-pod-state.
    #[command(after_help = examples::CHECK)]
    Check(Box<Check>),
    /// Writes PersistentPodStates with what they have recorded to a file.
    ///
    /// The file is ready for import. It has nothing that belongs to this cluster only. Only you may read it, since recorded
    /// annotations may be internal. JSON if its name ends with .json, else YAML.
    #[command(after_help = examples::EXPORT)]
    Export(Export),
    /// Reads recorded states from a file into the cluster.
    ///
    /// Takes files of export, of kubectl get pps -o yaml or json, and OpenKruise's objects. Creates objects that do not exist.
    /// Leaves states that the cluster has, unless you give --overwrite, and always those of Pods that are Ready. Shows what it
    /// would do, and asks. If it is interrupted, run it again. Import states before you restore the workloads.
    #[command(after_help = examples::IMPORT)]
    Import(Import),
    /// Shows what the policy would inject into Pods of files. Needs no cluster.
    ///
    /// The files have Pods or StatefulSets, and PersistentPodStates with their status, in YAML or JSON. Shows a difference.
    #[command(after_help = examples::TRY)]
    Try(Try),
    /// Prints a script that completes commands and options in a shell.
    ///
    /// There is one for kubectl-pps in each shell, and one for kubectl pps in all shells that complete kubectl.
    #[command(after_help = examples::COMPLETION)]
    Completion(Completion),
    /// Prints the version of kubectl-pps. Needs no cluster.
    #[command(after_help = examples::VERSION)]
    Version(Version),
    /// What kubectl asks for while it completes.
    #[command(hide = true)]
    Complete(Complete),
}
