//! The command line: flags, environment variables and their limits. Knows nothing about what they
//! configure.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser as NonEmpty;
use clap::{ArgAction, Parser, Subcommand, ValueEnum};
pub(crate) use pps_check::Recorder;
use pps_check::args::CheckArgs;
use pps_core::DEFAULT_NAMESPACE_SELECTOR;
use pps_core::size::DEFAULT_LIMIT;

/// Records the node, topology and annotations of stateful Pods, so that the PersistentPodState
/// policy can place re-created Pods where they were.
///
/// Watches PersistentPodState objects, workloads, Pods and Nodes, and writes the status of the
/// PersistentPodState objects. Creates such an object for each workload with the annotation
/// kruise.io/auto-generate-persistent-pod-state.
///
/// Workloads are StatefulSets, those of OpenKruise, and the custom kinds that the ConfigMap
/// kruise-configuration lists. Watches of kinds start and stop without a restart.
///
/// Of several processes, the holder of the Lease leads and the others are standbys: they watch but
/// write nothing. If the leader fails, a standby takes over within 15 seconds; if it is stopped
/// with SIGTERM, within about 2 seconds. A process that loses the Lease returns to standby.
///
/// Uses the ServiceAccount of its Pod in a cluster, and the same kubeconfig as kubectl elsewhere.
/// On SIGTERM and SIGINT, writes what is pending and exits with 0. Exits with 1 if it cannot start,
/// and with 2 if the command line is invalid.
#[derive(Clone, Debug, Parser)]
#[command(name = "pps-sidecar", version, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Without a command, the program records.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Kubeconfig file to use instead of the default one.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Address of /healthz, /readyz and /metrics. Port 0 selects a free port, which is logged.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:8080",
        env = "PPS_ADMIN_ADDRESS"
    )]
    pub admin_address: SocketAddr,

    /// Namespace of the ConfigMap kruise-configuration. Its key
    /// PPS_Watch_Custom_Workload_WhiteList lists custom workload kinds:
    /// {"workloads":[{"group":"example.io","kind":"Database"}]}.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "kruise-system",
        value_parser = NonEmpty::new(),
    )]
    #[arg(env = "PPS_CONFIG_NAMESPACE")]
    pub config_namespace: String,

    /// Namespace of OpenKruise, where its manager's Lease is. Defaults to that of the ConfigMap.
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "PPS_OPENKRUISE_NAMESPACE",
        value_parser = NonEmpty::new(),
    )]
    pub openkruise_namespace: Option<String>,

    /// The only namespace to record. No right on objects of other namespaces is needed then.
    /// Without it, all namespaces in scope are recorded.
    #[arg(long, value_name = "NAMESPACE", env = "PPS_NAMESPACE", value_parser = NonEmpty::new())]
    pub namespace: Option<String>,

    /// Label selector of the namespaces in scope, as in kubectl; empty for all. In other namespaces
    /// nothing is recorded, dropped, generated or evicted, and recorded states stay unchanged.
    /// Select the namespaces that the policy selects.
    #[arg(long, value_name = "SELECTOR", default_value = DEFAULT_NAMESPACE_SELECTOR)]
    #[arg(env = "PPS_NAMESPACE_SELECTOR")]
    pub namespace_selector: String,

    /// How long a node must be missing before the states recorded on it are dropped, and Pods that
    /// wait for it are evicted if --evict-pending-pods is set. Applies to objects with
    /// nodeDeletionPolicy: Forget. And how long a Pod of a custom kind must be missing, whose name
    /// the number of Pods does not cover, before its state is dropped. A number of seconds, minutes
    /// or hours: 90s, 5m, 1h.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = grace_period)]
    #[arg(env = "PPS_NODE_GRACE_PERIOD")]
    pub node_grace_period: Duration,

    /// Evict Pods that are Pending for a node that no longer exists, so that their controller
    /// re-creates them. Applies to objects with nodeDeletionPolicy: Forget. Needs the permission to
    /// create pods/eviction. With false the sidecar reports such Pods and leaves them.
    #[arg(
        long,
        value_name = "true|false",
        default_value_t = false,
        default_missing_value = "true"
    )]
    #[arg(
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        env = "PPS_EVICT_PENDING_PODS",
    )]
    pub evict_pending_pods: bool,

    /// Whether several processes may run. Only the holder of the Lease writes. With false this
    /// process always writes and uses no Lease, so it must be the only one.
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    pub leader_election: bool,

    /// Namespace of the Lease. Defaults to the namespace of the Pod, and outside a cluster to that
    /// of the kubeconfig's current context.
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", value_parser = NonEmpty::new())]
    pub lease_namespace: Option<String>,

    /// Name of the Lease.
    #[arg(long, value_name = "NAME", default_value = "pps-sidecar", value_parser = NonEmpty::new())]
    pub lease_name: String,

    /// Which program records. self: this sidecar, which also reports if OpenKruise's manager runs.
    /// openkruise: OpenKruise's manager; this sidecar watches and writes nothing, generates no
    /// PersistentPodState objects, and reports whether that manager runs.
    #[arg(
        long,
        value_name = "RECORDER",
        value_enum,
        default_value_t = Recorder::Own,
        env = "PPS_RECORDER",
    )]
    pub recorder: Recorder,

    /// Maximum size of an object in KiB. Objects above nine tenths of it get a warning. The
    /// PolicyServer refuses changes of an object above 1000 KiB. Set less if etcd's
    /// --max-request-bytes is less.
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = DEFAULT_LIMIT / 1024,
        value_parser = kibibytes,
    )]
    pub max_object_size: usize,

    /// In which form the states of large objects are stored. auto: in status.packed, from about 200
    /// Pods on, as short text that costs the API server little, unless OpenKruise's manager runs.
    /// never: all states are in status.podStates, and objects that have status.packed are moved
    /// back, as far as they fit. OpenKruise reads only status.podStates: use never before you
    /// return to it.
    #[arg(
        long,
        value_name = "auto|never",
        value_enum,
        default_value_t = CompactStates::Auto,
        env = "PPS_COMPACT_STATES",
    )]
    pub compact_states: CompactStates,

    /// Log level: error, warn, info, debug or trace, or a filter such as
    /// pps_sidecar=debug,kube=warn.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "PPS_LOG")]
    pub log: String,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    Check(Box<CheckArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompactStates {
    /// Where it pays, and the definition of PersistentPodState has it.
    Auto,
    /// No object gets it, and objects that have it lose it.
    Never,
}

impl Args {
    /// Where the Lease of OpenKruise's manager is.
    pub(crate) fn openkruise_namespace(&self) -> &str {
        self.openkruise_namespace
            .as_deref()
            .unwrap_or(&self.config_namespace)
    }
}

fn kibibytes(text: &str) -> Result<usize, String> {
    let size = text
        .parse()
        .ok()
        .filter(|size| (16..=1_048_576).contains(size));
    size.ok_or_else(|| "use a whole number of KiB from 16 to 1048576".into())
}

fn grace_period(text: &str) -> Result<Duration, String> {
    let seconds = [("s", 1), ("m", 60), ("h", 3600)]
        .into_iter()
        .find_map(|(unit, seconds)| {
            text.strip_suffix(unit)?
                .parse::<u32>()
                .ok()?
                .checked_mul(seconds)
        });
    let seconds = seconds.filter(|seconds| (1..=604_800).contains(seconds));
    let period = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    period.ok_or_else(|| "use a whole number of s, m or h, from 1s to 168h".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn records_unless_a_command_is_given() {
        assert!(
            Args::parse_from(["pps-sidecar", "--recorder=openkruise"])
                .command
                .is_none()
        );
        let args = Args::parse_from(["pps-sidecar", "check", "--phase=before", "-o", "json"]);
        assert!(matches!(args.command, Some(Command::Check(_))));
        for wrong in [
            &["check", "--policy", "A/b"][..],
            &["check", "--service-account", "a"],
            &["help"],
            &["chek"],
            // The command has flags of its own; those before it would be ignored.
            &["--kubeconfig=a", "check"],
            &["--recorder=openkruise", "check"],
        ] {
            let args = ["pps-sidecar"].iter().chain(wrong);
            assert_eq!(
                Args::try_parse_from(args).unwrap_err().exit_code(),
                2,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn parses_defaults_and_rejects_values_out_of_range() {
        Args::command().debug_assert();
        let args = Args::parse_from(["pps-sidecar"]);
        assert_eq!(
            (args.config_namespace.as_str(), args.openkruise_namespace()),
            ("kruise-system", "kruise-system")
        );
        let moved = Args::parse_from(["pps-sidecar", "--config-namespace=a"]);
        assert_eq!(
            (
                moved.config_namespace.as_str(),
                moved.openkruise_namespace()
            ),
            ("a", "a")
        );
        let apart = Args::parse_from([
            "pps-sidecar",
            "--config-namespace=a",
            "--openkruise-namespace=b",
        ]);
        assert_eq!(
            (
                apart.config_namespace.as_str(),
                apart.openkruise_namespace()
            ),
            ("a", "b")
        );
        assert_eq!(args.namespace, None, "all namespaces in scope");
        let one = Args::parse_from(["pps-sidecar", "--namespace=shop"]);
        assert_eq!(one.namespace.as_deref(), Some("shop"));
        assert!(Args::try_parse_from(["pps-sidecar", "--namespace="]).is_err());
        assert_eq!(args.node_grace_period.as_secs(), 300);
        assert_eq!(
            args.namespace_selector,
            "persistent-pod-state/injection=enabled"
        );
        assert_eq!(
            Args::parse_from(["pps-sidecar", "--namespace-selector="]).namespace_selector,
            ""
        );
        for (text, seconds) in [
            ("1s", Some(1)),
            ("90s", Some(90)),
            ("2h", Some(7200)),
            ("168h", Some(604_800)),
        ]
        .into_iter()
        .chain(
            [
                "0s",
                "5",
                "m",
                "",
                "-1s",
                "1.5m",
                "169h",
                "5d",
                "4294967295h",
            ]
            .map(|text| (text, None)),
        ) {
            let args = Args::try_parse_from(["pps-sidecar", "--node-grace-period", text]);
            assert_eq!(
                args.ok().map(|args| args.node_grace_period.as_secs()),
                seconds,
                "{text}"
            );
        }
        assert_eq!(
            (args.leader_election, args.lease_name.as_str()),
            (true, "pps-sidecar")
        );
        let alone = Args::parse_from(["pps-sidecar", "--leader-election=false"]);
        assert!(!alone.leader_election);
        assert!(!args.evict_pending_pods);
        assert!(Args::parse_from(["pps-sidecar", "--evict-pending-pods"]).evict_pending_pods);
        assert_eq!(args.recorder, Recorder::Own);
        let beside = Args::parse_from(["pps-sidecar", "--recorder", "openkruise"]);
        assert_eq!(beside.recorder, Recorder::OpenKruise);
        assert_eq!(args.compact_states, CompactStates::Auto);
        let never = Args::parse_from(["pps-sidecar", "--compact-states=never"]);
        assert_eq!(never.compact_states, CompactStates::Never);
        assert!(Args::try_parse_from(["pps-sidecar", "--compact-states=always"]).is_err());
        assert_eq!(args.max_object_size, 1000);
        assert!(Args::try_parse_from(["pps-sidecar", "--max-object-size", "15"]).is_err());
        assert!(Args::try_parse_from(["pps-sidecar", "--config-namespace", ""]).is_err());
    }
}
