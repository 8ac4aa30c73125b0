//! The command line.

#![allow(clippy::doc_markdown, reason = "--help shows these texts as they are")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Parser, ValueEnum};

/// Records on which node, in which topology and with which annotations stateful Pods run, so that the
/// PersistentPodState policy can bring them back there.
///
/// Watches PersistentPodState objects, workloads, Pods and Nodes, and writes the status of the
/// PersistentPodState objects. For workloads with the annotation
/// kruise.io/auto-generate-persistent-pod-state it makes such objects.
///
/// Workloads are StatefulSets, those of OpenKruise, and the custom kinds that the ConfigMap
/// kruise-configuration lists. Kinds are taken up and let go while it runs.
///
/// Of several such processes one leads, as the Lease says, and the others stand by: they watch, write
/// nothing, and one of them takes over within 15 seconds when the leader is gone, within about two when
/// that was ended with SIGTERM. Who loses the Lease stands by again.
///
/// Runs in a cluster with the ServiceAccount of its Pod, elsewhere with the kubeconfig that kubectl
/// would use. Ends with exit code 0 on SIGTERM and SIGINT, after what is known has been written; with
/// 1 if it cannot start; with 2 if the command line is wrong.
#[derive(Clone, Debug, Parser)]
#[command(name = "pps-sidecar", version)]
pub struct Args {
    /// Kubeconfig file to use in place of the usual ones.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Where to serve /healthz, /readyz and /metrics; port 0 takes a free one and logs it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080", env = "PPS_ADMIN_ADDRESS")]
    pub admin_address: SocketAddr,

    /// Namespace of the ConfigMap kruise-configuration. Its key PPS_Watch_Custom_Workload_WhiteList
    /// lists custom kinds of workloads: {"workloads":[{"group":"example.io","kind":"Database"}]}.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "kruise-system",
        env = "PPS_CONFIG_NAMESPACE",
        value_parser = NonEmptyStringValueParser::new(),
    )]
    pub config_namespace: String,

    /// How long a node has to be gone before what was recorded on it is dropped, where an object says
    /// nodeDeletionPolicy: Forget; and before Pods that wait for it are deleted, to be made anew. A
    /// number of seconds, minutes or hours: 90s, 5m, 1h.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5m",
        env = "PPS_NODE_GRACE_PERIOD",
        value_parser = grace_period,
    )]
    pub node_grace_period: Duration,

    /// Whether several processes may run, of which one leads and writes while the others stand by.
    /// With false this one always writes: it has to be the only one then, and needs no Lease.
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    pub leader_election: bool,

    /// Namespace of the Lease that says who leads; by default the one of the Pod, elsewhere the one
    /// that the kubeconfig names.
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        value_parser = NonEmptyStringValueParser::new(),
    )]
    pub lease_namespace: Option<String>,

    /// Name of that Lease.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "pps-sidecar",
        value_parser = NonEmptyStringValueParser::new(),
    )]
    pub lease_name: String,

    /// Who records. self: this sidecar, and whether OpenKruise's manager runs, too, is told. openkruise:
    /// OpenKruise's manager; the sidecar watches and writes nothing, makes no PersistentPodState objects,
    /// and tells whether that manager runs.
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Recorder::Own, env = "PPS_RECORDER")]
    pub recorder: Recorder,

    /// How many writes may be on their way to the API server at the same time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_writes: u16,

    /// How large an object can be, in KiB: what the API server's etcd takes in one request, as its flag
    /// --max-request-bytes says. From three quarters of it on an object warns. It is a hint: nothing is
    /// held back before the API server has refused it.
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = pps_core::size::DEFAULT_LIMIT / 1024,
        value_parser = kibibytes,
    )]
    pub max_object_size: usize,

    /// How long to go on writing what is known after SIGTERM, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub shutdown_timeout: Duration,

    /// How much to log: error, warn, info, debug or trace, or a filter such as
    /// pps_sidecar=debug,kube=warn.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "PPS_LOG")]
    pub log: String,

    /// How to log.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto, env = "PPS_LOG_FORMAT")]
    pub log_format: LogFormat,
}

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Recorder {
    /// This sidecar.
    #[value(name = "self")]
    Own,
    /// OpenKruise's manager.
    #[value(name = "openkruise")]
    OpenKruise,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One line of text per entry.
    Text,
    /// One JSON object per entry.
    Json,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) if seconds <= 600 => Ok(Duration::from_secs(seconds.into())),
        _ => Err("use a whole number of seconds from 0 to 600".into()),
    }
}

fn kibibytes(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(size @ 16..=1_048_576) => Ok(size),
        _ => Err("use a whole number of KiB from 16 to 1048576".into()),
    }
}

fn grace_period(text: &str) -> Result<Duration, String> {
    let seconds = [("s", 1), ("m", 60), ("h", 3600)]
        .into_iter()
        .find_map(|(unit, seconds)| text.strip_suffix(unit)?.parse::<u32>().ok()?.checked_mul(seconds));
    match seconds {
        Some(seconds @ 1..=604_800) => Ok(Duration::from_secs(seconds.into())),
        _ => Err("use a whole number with s, m or h, from 1s to 168h".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let args = Args::parse_from(["pps-sidecar"]);
        assert_eq!((args.max_writes, args.shutdown_timeout.as_secs()), (16, 10));
        assert_eq!(args.config_namespace, "kruise-system");
        assert_eq!(args.node_grace_period.as_secs(), 300);
        for (text, seconds) in
            [("1s", Some(1)), ("90s", Some(90)), ("2h", Some(7200)), ("168h", Some(604_800))]
                .into_iter()
                .chain(
                    ["0s", "5", "m", "", "-1s", "1.5m", "169h", "5d", "4294967295h"].map(|text| (text, None)),
                )
        {
            let args = Args::try_parse_from(["pps-sidecar", "--node-grace-period", text]);
            assert_eq!(args.ok().map(|args| args.node_grace_period.as_secs()), seconds, "{text}");
        }
        assert_eq!((args.leader_election, args.lease_name.as_str()), (true, "pps-sidecar"));
        let alone = Args::parse_from(["pps-sidecar", "--leader-election=false"]);
        assert!(!alone.leader_election);
        assert!(Args::try_parse_from(["pps-sidecar", "--shutdown-timeout", "soon"]).is_err());
        assert!(Args::try_parse_from(["pps-sidecar", "--max-writes", "0"]).is_err());
        assert_eq!(args.recorder, Recorder::Own);
        let beside = Args::parse_from(["pps-sidecar", "--recorder", "openkruise"]);
        assert_eq!(beside.recorder, Recorder::OpenKruise);
        assert_eq!(args.max_object_size, 1536);
        assert!(Args::try_parse_from(["pps-sidecar", "--max-object-size", "15"]).is_err());
        assert!(Args::try_parse_from(["pps-sidecar", "--config-namespace", ""]).is_err());
    }
}
