//! The arguments of each command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use http::Uri;
use k8s_openapi::jiff::SignedDuration;
use pps_check::name;

use super::{AllNamespaces, Consent, Output, OutputArgs};

const MAX_TIMEOUT: Duration = Duration::from_hours(24);

#[derive(Args, Clone, Debug)]
pub struct Status {
    /// Only this workload: NAME of a StatefulSet, or KIND/NAME.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// Only the StatefulSets with these labels, as in kubectl: app=db,tier!=test.
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        conflicts_with = "workload"
    )]
    pub selector: Option<String>,
    /// Only the Pods that need a look.
    #[arg(long)]
    pub problems: bool,
    #[command(flatten)]
    pub all: AllNamespaces,
    /// Output format: text that fits the terminal, wide with all columns, or JSON or YAML for
    /// programs.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Args, Clone, Debug)]
pub struct Explain {
    /// The Pod.
    #[arg(value_name = "POD", value_parser = pod)]
    pub pod: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("question").required(true).multiple(false))]
pub struct Simulate {
    /// This node is deleted. May be repeated.
    #[arg(long, value_name = "NODE", group = "question", value_parser = name)]
    pub without_node: Vec<String>,
    /// This node is drained with kubectl drain. May be repeated.
    #[arg(long, value_name = "NODE", group = "question", value_parser = name)]
    pub drain: Vec<String>,
    /// All nodes of this zone are deleted.
    #[arg(long, value_name = "ZONE", group = "question")]
    pub zone_down: Option<String>,
    #[command(flatten)]
    pub all: AllNamespaces,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("where").required(true).multiple(false))]
#[command(group = ArgGroup::new("which").required(true).multiple(false))]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Move {
    /// The Pods. Several are moved one after the other.
    #[arg(value_name = "POD", group = "which", num_args = 1.., value_parser = pod)]
    pub pods: Vec<String>,
    /// All Pods that run on this node, or belong there and cannot come back. The node may be gone.
    /// Pods that no node can take are named, and stay.
    #[arg(long, value_name = "NODE", group = "which", value_parser = name)]
    pub node: Option<String>,
    /// With --node: the Pods of all namespaces.
    #[arg(short = 'A', long, requires = "node", conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// To this node.
    #[arg(long, value_name = "NODE", group = "where", value_parser = name)]
    pub to: Option<String>,
    /// To any node that the scheduler chooses, also the present one. The Pod keeps its other
    /// recorded values, such as a required zone.
    #[arg(long, group = "where")]
    pub anywhere: bool,
    /// With --anywhere: to a node with any value of this label, such as zone. May be repeated.
    #[arg(long, value_name = "KEY", requires = "anywhere", conflicts_with = "to")]
    pub any: Vec<String>,
    /// Do not bring its recorded annotations back, such as a fixed IP address.
    #[arg(long)]
    pub drop_annotations: bool,
    /// Go on although no node, or not the named one, would take a Pod now.
    #[arg(long)]
    pub force: bool,
    /// How long to wait for each new Pod to be Ready and recorded.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(false))]
pub struct Forget {
    /// The Pods.
    #[arg(value_name = "POD", group = "which", num_args = 1.., value_parser = pod)]
    pub pods: Vec<String>,
    /// All states that were recorded on this node.
    #[arg(long, value_name = "NODE", group = "which", value_parser = name)]
    pub node: Option<String>,
    #[command(flatten)]
    pub all: AllNamespaces,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Args, Clone, Debug)]
pub struct Export {
    /// Only these PersistentPodStates.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// File to write instead of standard output. It must not exist.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub all: AllNamespaces,
}

#[derive(Args, Clone, Debug)]
pub struct Import {
    /// File to read; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace states that the cluster has.
    #[arg(long)]
    pub overwrite: bool,
    /// Leave out this label or annotation, which means nothing in this cluster;
    /// kubernetes.io/hostname leaves out the recorded node as well. May be repeated.
    #[arg(long, value_name = "KEY")]
    pub drop_key: Vec<String>,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Args, Clone, Debug)]
pub struct Completion {
    /// The shell, for kubectl-pps; or kubectl, version 1.26 or newer, for kubectl pps in any shell.
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish", "powershell", "kubectl"])]
    pub shell: String,
}

#[derive(Args, Clone, Debug)]
pub struct Complete {
    /// The words so far; the last one may be incomplete.
    #[arg(
        value_name = "WORD",
        allow_hyphen_values = true,
        trailing_var_arg = true
    )]
    pub words: Vec<String>,
}

fn pod(text: &str) -> Result<String, String> {
    name(crate::decide::names::pod_name(text))
}

pub(super) fn server(text: &str) -> Result<Uri, String> {
    match text.parse::<Uri>() {
        Ok(url) if matches!(url.scheme_str(), Some("https" | "http")) && !text.contains('@') => {
            Ok(url)
        }
        _ => Err("use https://HOST:PORT".into()),
    }
}

/// As in kubectl, a number is one of seconds, and 0 means without an end: a day, here.
pub(super) fn request_timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_or_else(
        |_| duration(text),
        |seconds| Ok(Duration::from_secs(seconds)),
    )?;
    Ok(if seconds.is_zero() {
        MAX_TIMEOUT
    } else {
        seconds.min(MAX_TIMEOUT)
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text
        .parse::<SignedDuration>()
        .ok()
        .and_then(|one| Duration::try_from(one).ok());
    parsed
        .filter(|one| *one <= MAX_TIMEOUT)
        .ok_or_else(|| "use a duration such as 90s, 2m or 1h, and at most a day".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_and_an_end() {
        for (text, seconds) in [("90s", 90), ("2m", 120), ("1h", 3600), ("0s", 0)] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "m", "-1s", "1d", "5", "99999999999s", "25h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_timeout_is_read_as_kubectl_reads_it() {
        for (text, seconds) in [
            ("30s", 30),
            ("1m", 60),
            ("45", 45),
            ("0", 86_400),
            ("0s", 86_400),
        ] {
            assert_eq!(request_timeout(text).unwrap().as_secs(), seconds, "{text}");
        }
        assert_eq!(request_timeout("500ms"), Ok(Duration::from_millis(500)));
        for text in ["", "s", "-1", "-1s", "1d"] {
            assert!(request_timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_server_is_a_url_without_a_password() {
        assert_eq!(server("https://host:6443/k8s").unwrap().path(), "/k8s");
        for text in ["", "host:6443", "ftp://host", "https://user:secret@host"] {
            assert!(server(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pod_may_be_written_as_kubectl_takes_it() {
        for text in ["db-0", "pod/db-0", "pods/db-0", "po/db-0", "Pod/db-0"] {
            assert_eq!(pod(text).as_deref(), Ok("db-0"), "{text}");
        }
        for text in ["sts/db-0", "pod/", "pod/a/b", "pod"] {
            assert_eq!(pod(text).is_ok(), text == "pod", "{text}");
        }
    }

    #[test]
    fn a_name_is_that_of_an_object() {
        assert_eq!(name("db-0").as_deref(), Ok("db-0"));
        for text in ["", "Db", "a/b", "-a", "a b", "ä"] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
