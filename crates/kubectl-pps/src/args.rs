//! The command line. The help, the man page and `docs/reference/kubectl-pps.md` come from this
//! text.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

mod commands;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use http::Uri;

pub use self::commands::*;
use crate::decide::command_line::Flag;

/// Says why stateful Pods are where they are or why they are Pending, forecasts where they go, and
/// moves them.
///
/// Reads PersistentPodStates (PPS), Pods, Nodes and workloads with your own rights. What you may
/// not read is left out, and said. Only move, forget and import change anything; each shows what it
/// would do and asks first.
///
/// Exits with 0 if all is well, with 1 if something is not (a Pod is or would be Pending or
/// misplaced, is not recorded, a change is refused), and with 2 if the command line is wrong or
/// something could not be read.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "kubectl-pps",
    bin_name = "kubectl pps",
    version,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    #[command(flatten)]
    pub connection: Connection,
}

/// Which cluster, and as whom: flags of kubectl, with its meaning.
#[derive(Args, Clone, Debug, Default)]
#[command(
    next_help_heading = "Options of all commands",
    next_display_order = 901
)]
pub struct Connection {
    /// Namespace. Defaults to that of the context.
    #[arg(short, long, value_name = "NAMESPACE", global = true, value_parser = pps_check::name)]
    pub namespace: Option<String>,

    /// Context to use instead of the current one.
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,

    /// Kubeconfig file to use instead of the default one.
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,

    /// Cluster of the kubeconfig to use instead of the context's.
    #[arg(long, value_name = "NAME", global = true, hide_short_help = true)]
    pub cluster: Option<String>,

    /// User of the kubeconfig to use instead of the context's.
    #[arg(long, value_name = "NAME", global = true, hide_short_help = true)]
    pub user: Option<String>,

    /// Address of the API server.
    #[arg(short, long, value_name = "URL", global = true, hide_short_help = true)]
    #[arg(value_parser = commands::server)]
    pub server: Option<Uri>,

    /// File with the certificate authority of the API server, in place of the kubeconfig's.
    #[arg(long, value_name = "FILE", global = true, hide_short_help = true)]
    #[arg(
        value_parser = PathBufValueParser::new().try_map(|path| std::fs::File::open(&path).map(|_| path)),
    )]
    pub certificate_authority: Option<PathBuf>,

    /// Do not check the API server's certificate: whoever intercepts the connection may read and
    /// change it.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        conflicts_with = "certificate_authority"
    )]
    pub insecure_skip_tls_verify: bool,

    /// Bearer token, in place of the kubeconfig's credentials.
    #[arg(long, value_name = "TOKEN", global = true, hide_short_help = true)]
    pub token: Option<String>,

    /// User to impersonate.
    #[arg(
        long = "as",
        value_name = "NAME",
        global = true,
        hide_short_help = true
    )]
    pub as_user: Option<String>,

    /// Group to impersonate. May be repeated.
    #[arg(long, value_name = "GROUP", global = true, hide_short_help = true)]
    pub as_group: Vec<String>,

    /// UID to impersonate.
    #[arg(long, value_name = "UID", global = true, hide_short_help = true)]
    pub as_uid: Option<String>,

    /// How long one request may take: a number of seconds, or 90s, 2m or 1h; 0 for no limit.
    /// Without it, 10 to 30 seconds.
    #[arg(long, value_name = "DURATION", global = true, hide_short_help = true)]
    #[arg(value_parser = commands::request_timeout)]
    pub request_timeout: Option<Duration>,
}

impl Connection {
    /// The flags with which another command reaches the same cluster as the same user. Left out are
    /// a token, which is a secret, and `--insecure-skip-tls-verify`, which nobody should copy
    /// unseen.
    pub fn flags(&self) -> Vec<Flag> {
        let mut flags = Vec::new();
        let mut add = |name: &'static str, value: Option<String>| {
            flags.extend(value.map(|value| Flag { name, value }));
        };
        add("context", self.context.clone());
        add("kubeconfig", text(self.kubeconfig.as_deref()));
        add("cluster", self.cluster.clone());
        add("user", self.user.clone());
        add("server", self.server.as_ref().map(Uri::to_string));
        let authority = self.certificate_authority.as_deref();
        add("certificate-authority", text(authority));
        add("as", self.as_user.clone());
        add("as-uid", self.as_uid.clone());
        for group in &self.as_group {
            add("as-group", Some(group.clone()));
        }
        flags
    }
}

fn text(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputArgs {
    /// Output format: text that fits the terminal, or JSON or YAML for programs.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(value_parser = PossibleValuesParser::new(["text", "json", "yaml"])
        .try_map(|name| Output::from_str(&name, false)))]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    #[value(name = "text")]
    Table,
    Wide,
    Json,
    Yaml,
}

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
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub settings: pps_check::Settings,
}

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct AllNamespaces {
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Shows where each Pod is, where it is recorded, and what pins it.
    ///
    /// Has a line for each Pod of the workloads that have a PersistentPodState, and ends with
    /// advice for what is wrong. With -A, it has a line for each workload; name a workload, or give
    /// -o wide, to see the Pods.
    #[command(after_help = "\
Examples:
  # The Pods of one StatefulSet, with all columns
  kubectl pps status db -o wide
  # What needs a look in all namespaces
  kubectl pps status -A --problems
  # Again every two seconds, while a rollout or a drain goes on
  watch kubectl pps status db")]
    Status(Status),
    /// Says why a Pod is where it is or why it is Pending, and what you can do.
    ///
    /// Shows what was recorded and injected, which nodes cannot take the Pod, and why: recorded
    /// values, taints, room, volumes.
    #[command(after_help = "\
Examples:
  # Why is db-0 Pending, or why is it where it is?
  kubectl pps explain db-0")]
    Explain(Explain),
    /// Forecasts where the Pods of StatefulSets go if nodes are drained or lost.
    ///
    /// Runs the policy's own code on the cluster as it is now, one namespace after the other.
    /// Nothing is changed.
    #[command(after_help = "\
Examples:
  # Where do the Pods go if node-2 is drained?
  kubectl pps simulate --drain node-2 -A
  # Which Pods would be Pending if a zone were lost?
  kubectl pps simulate --zone-down zone-a -A")]
    Simulate(Simulate),
    /// Moves Pods to other nodes: changes what pins them, evicts them, and waits.
    ///
    /// Shows where the Pods may go, asks, and shows where they have started. Several Pods are moved
    /// one after the other, those that do not run first: the next one when the one before is Ready
    /// and recorded. Ends at the first Pod that does not become so.
    #[command(after_help = "\
Examples:
  # Let db-0 start wherever the scheduler puts it
  kubectl pps move db-0 --anywhere
  # Show what a move to node-2 does, and do nothing
  kubectl pps move db-0 --to node-2 --dry-run
  # The node is lost: let its Pods start wherever the scheduler puts them
  kubectl pps move --node node-2 --anywhere -A")]
    Move(Move),
    /// Drops recorded states of Pods that do not run.
    ///
    /// Their successors start wherever the scheduler puts them. Shows what would be dropped, and
    /// asks.
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
  kubectl pps check -n tools --sidecar persistent-pod-state-sidecar")]
    Check(Box<Check>),
    /// Writes PersistentPodStates with what they have recorded to a file.
    ///
    /// The file is YAML, ready for import, without what belongs to this cluster only. Only you may
    /// read it, since recorded annotations may be internal.
    #[command(after_help = "\
Examples:
  # All PersistentPodStates of the cluster
  kubectl pps export -A -f backup.yaml")]
    Export(Export),
    /// Reads recorded states from a file into the cluster.
    ///
    /// Takes files of export, of kubectl get pps -o yaml or json, and OpenKruise's objects. Creates
    /// objects that do not exist. Leaves states that the cluster has, unless you give --overwrite,
    /// and always those of Ready Pods that are recorded. Shows what it would do, and asks. If it is
    /// interrupted, run it again. Import states before you restore the workloads. With -n, imports
    /// only the objects of that namespace.
    #[command(after_help = "\
Examples:
  # Show what it would write, and write nothing
  kubectl pps import backup.yaml --dry-run
  # Into another cluster, whose nodes have other names
  kubectl pps import backup.yaml --drop-key kubernetes.io/hostname")]
    Import(Import),
    /// Prints a script that completes commands and options in a shell.
    ///
    /// There is one for kubectl-pps in each shell, and one for kubectl pps in all shells that
    /// complete kubectl.
    #[command(after_help = "\
Examples:
  # kubectl-pps in bash, until the shell ends
  source <(kubectl-pps completion bash)
  # kubectl pps, in every shell that completes kubectl
  kubectl pps completion kubectl > ~/bin/kubectl_complete-pps
  chmod +x ~/bin/kubectl_complete-pps")]
    Completion(Completion),
    /// What kubectl asks for while it completes.
    #[command(hide = true)]
    Complete(Complete),
}

/// kubectl runs this program of the PATH when it completes `kubectl pps`.
const FOR_KUBECTL: &str = include_str!("../kubectl_complete-pps");

pub fn script(shell: &str) -> String {
    let Ok(shell) = shell.parse::<Shell>() else {
        return FOR_KUBECTL.to_owned();
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kubectl-pps", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// What kubectl reads: the commands, options and values that may follow, one in each line, and last
/// that the shell completes file names if there are none.
pub fn candidates(words: &[String]) -> String {
    let mut root = Cli::command();
    root.build();
    let (last, before) = words
        .split_last()
        .map_or(("", words), |(last, before)| (last.as_str(), before));
    let command = before.iter().fold(&root, |command, word| {
        command.find_subcommand(word).unwrap_or(command)
    });
    let visible = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let option = before
        .last()
        .and_then(|word| visible().find(|arg| takes_value_after(arg, word)));
    let found: Vec<String> = if let Some(option) = option {
        values(option)
    } else if last.starts_with('-') {
        visible()
            .filter_map(|arg| arg.get_long())
            .map(|long| format!("--{long}"))
            .collect()
    } else {
        let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
        let commands = commands.map(|one| one.get_name().to_owned());
        commands
            .chain(visible().filter(|arg| arg.is_positional()).flat_map(values))
            .collect()
    };
    let found = found.iter().filter(|one| one.starts_with(last));
    found.map(|one| one.to_owned() + "\n").collect::<String>() + ":0\n"
}

/// Whether this word is an option that the next word is the value of.
fn takes_value_after(arg: &Arg, word: &str) -> bool {
    let is_long = arg
        .get_long()
        .is_some_and(|long| word.strip_prefix("--") == Some(long));
    let is_short = arg
        .get_short()
        .is_some_and(|short| word == format!("-{short}"));
    arg.get_action().takes_values() && (is_long || is_short)
}

fn values(arg: &Arg) -> Vec<String> {
    arg.get_possible_values()
        .into_iter()
        .map(|value| value.get_name().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &[&str]) -> String {
        candidates(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        for line in [
            "move db-0 --to n --any zone",
            "status db -l app=db",
            "status -A -n prod",
            "explain db-0 -o wide",
            "status --certificate-authority missing.crt",
        ] {
            assert!(
                Cli::try_parse_from(["pps"].into_iter().chain(line.split(' '))).is_err(),
                "{line}"
            );
        }
        for line in ["explain db-0 -o json", "status -o wide", "check -o text"] {
            assert!(
                Cli::try_parse_from(["pps"].into_iter().chain(line.split(' '))).is_ok(),
                "{line}"
            );
        }
    }

    #[test]
    fn other_commands_get_the_flags_of_cluster_and_user_but_no_token() {
        let line = "pps status --as jane --as-group dev --as-group ops --as-uid 7 --cluster c --user u \
                    --server https://host:6443 --token secret --request-timeout 1m --context x -n shop \
                    --certificate-authority Cargo.toml";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let flags: Vec<String> = cli
            .connection
            .flags()
            .iter()
            .map(|flag| format!("{}={}", flag.name, flag.value))
            .collect();
        assert_eq!(
            flags.join(" "),
            "context=x cluster=c user=u server=https://host:6443/ \
             certificate-authority=Cargo.toml as=jane as-uid=7 as-group=dev as-group=ops"
        );
    }

    #[test]
    fn kubectl_is_told_commands_options_and_values() {
        assert!(complete(&[""]).contains("status\n"), "{}", complete(&[""]));
        assert!(!complete(&[""]).contains("complete\n"));
        assert_eq!(complete(&["stat"]), "status\n:0\n");
        assert_eq!(complete(&["status", "--all"]), "--all-namespaces\n:0\n");
        assert_eq!(complete(&["status", "-o", "j"]), "json\n:0\n");
        assert_eq!(
            complete(&["-n", "prod", "completion", "po"]),
            "powershell\n:0\n"
        );
        assert_eq!(
            complete(&["move", "db-0", "--any"]),
            "--anywhere\n--any\n:0\n"
        );
        assert_eq!(complete(&["export", "-f", "st"]), ":0\n");
        assert_eq!(complete(&["nonsense", "\u{1b}"]), ":0\n");
        assert!(complete(&[]).contains("explain\n"));
    }

    #[test]
    fn each_shell_has_a_script() {
        for shell in ["bash", "zsh", "fish", "powershell", "kubectl"] {
            assert!(script(shell).contains("kubectl-pps"), "{shell}");
        }
    }
}
