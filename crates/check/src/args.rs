//! The command line of the check, and how it runs.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kube::Client;

use crate::facts::{Phase, Recorder, Settings};
use crate::gather::gather;
use crate::report;
use crate::rules::{judge, verdict};

/// The namespace into which the product is installed, unless another one is chosen.
pub const NAMESPACE: &str = "persistent-pod-state";

/// Checks an installation and says what is wrong: versions, definitions, PolicyServer, policies, webhooks,
/// the module in its registry, sidecar, other recorders, PersistentPodStates.
///
/// Writes nothing. Reads no Secret and no Pod's log. Prints each finding with what to do about it; docs/check.md
/// explains them.
///
/// Exits with 0 if nothing is wrong, with 1 if something is, and with 2 if the command line is invalid or if
/// something could not be read, for example because a permission is missing.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Kubeconfig file to use instead of the default one.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Namespace of the sidecar. Defaults to the namespace of the Pod.
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        default_value = NAMESPACE,
        env = "POD_NAMESPACE",
        value_parser = name
    )]
    namespace: String,

    /// What is checked.
    #[command(flatten)]
    options: CheckOptions,
}

/// What is checked, and when.
#[derive(Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct CheckOptions {
    /// Whether the check runs before an installation, when what it creates may be absent, or after it.
    #[arg(long, value_name = "PHASE", value_enum, default_value_t = Phase::After, hide_short_help = true)]
    phase: Phase,

    /// Show also what is as it should be.
    #[arg(short, long)]
    all: bool,

    /// Exit with 0 whatever was found. With =unknown: exit with 1 if something is wrong, and with 0 if something could not
    /// be read.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always",
        hide_short_help = true
    )]
    exit_zero: Option<ExitZero>,

    /// The installation has no policies: check only what records.
    #[arg(long)]
    without_policies: bool,

    /// Name of the policy for Pods.
    #[arg(long, value_name = "NAME", default_value = "persistent-pod-state", value_parser = name, hide_short_help = true)]
    policy: String,

    /// PolicyServer that runs the policies. Defaults to the one that they name.
    #[arg(long, value_name = "NAME", value_parser = name, hide_short_help = true)]
    policy_server: Option<String>,

    /// With --phase=before: the installation creates the PolicyServer and its ServiceAccount.
    #[arg(long, hide_short_help = true)]
    creates_policy_server: bool,

    /// ServiceAccount to which the installation binds the role that reads PersistentPodStates.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced_name, hide_short_help = true)]
    service_account: Option<(String, String)>,

    /// Kubewarden's namespace, if its own webhook does not name it.
    #[arg(long, value_name = "NAMESPACE", default_value = "kubewarden", value_parser = name, hide_short_help = true)]
    kubewarden_namespace: String,

    /// With --phase=before: the mode that the policies will have.
    #[arg(long, value_name = "MODE", value_parser = ["protect", "monitor"], hide_short_help = true)]
    mode: Option<String>,

    /// With --phase=before: a namespace that the policies will skip. May be repeated.
    #[arg(long, value_name = "NAMESPACE", value_parser = name, hide_short_help = true)]
    skipped_namespace: Vec<String>,

    /// With --phase=before: which namespaces will take part. All: those without the label
    /// persistent-pod-state/injection=disabled. OptIn: those with persistent-pod-state/injection=enabled.
    #[arg(long, value_name = "SCOPE", default_value = "All", value_parser = ["All", "OptIn"], hide_short_help = true)]
    scope: String,

    /// Module to look for in its registry. Defaults to that of the installed policies.
    #[arg(long, value_name = "registry://…", hide_short_help = true)]
    module: Option<String>,

    /// A registry that the PolicyServer to be created may use without verified TLS. May be repeated.
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    insecure_source: Vec<String>,

    /// A registry for which the PolicyServer to be created has certificates of a private authority. May be
    /// repeated.
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    source_authority: Vec<String>,

    /// Do not ask the module's registry.
    #[arg(long)]
    skip_registry: bool,

    /// Name of the sidecar's Deployment.
    #[arg(long, value_name = "NAME", default_value = "pps-sidecar", value_parser = name)]
    sidecar: String,

    /// Name of the sidecar's Lease. This and the following flags default to what the sidecar's Deployment says.
    #[arg(long, value_name = "NAME", value_parser = name, hide_short_help = true)]
    lease_name: Option<String>,

    /// Whether the sidecar uses a Lease.
    #[arg(long, value_name = "true|false", hide_short_help = true)]
    leader_election: Option<bool>,

    /// Namespace of the ConfigMap kruise-configuration.
    #[arg(long, value_name = "NAMESPACE", value_parser = name, hide_short_help = true)]
    config_namespace: Option<String>,

    /// Namespace of OpenKruise. Defaults to that of the ConfigMap.
    #[arg(long, value_name = "NAMESPACE", value_parser = name, hide_short_help = true)]
    openkruise_namespace: Option<String>,

    /// Which program records: the sidecar (self) or OpenKruise's manager.
    #[arg(long, value_name = "RECORDER", value_enum, hide_short_help = true)]
    recorder: Option<Recorder>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// When the check exits with 0 although not everything is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExitZero {
    /// Also if something is wrong.
    Always,
    /// Only if something could not be read.
    Unknown,
}

/// What the check printed, and its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// To be written to stdout.
    pub text: String,
    /// To be exited with.
    pub exit_code: u8,
}

impl CheckArgs {
    /// Runs the check. `runs_in_cluster` says whether the registry is reached as the PolicyServer reaches it.
    pub async fn run(&self, client: &Client, runs_in_cluster: bool) -> Report {
        self.options.run(client, &self.namespace, runs_in_cluster, self.output, report::WIDTH).await
    }
}

impl CheckOptions {
    /// Runs the check of the installation whose sidecar is in this namespace. `runs_in_cluster` says whether the registry is
    /// reached as the PolicyServer reaches it, `width` how long the lines of a table are.
    pub async fn run(
        &self,
        client: &Client,
        namespace: &str,
        runs_in_cluster: bool,
        output: Output,
        width: usize,
    ) -> Report {
        let facts = gather(client, self.settings(namespace, runs_in_cluster)).await;
        let findings = judge(&facts);
        let text = match output {
            Output::Table => report::table(&findings, &verdict(&facts, &findings), self.all, width),
            Output::Json => report::to_json(&findings),
        };
        Report { text, exit_code: self.exit_code(report::exit_code(&findings)) }
    }

    fn exit_code(&self, found: u8) -> u8 {
        match (self.exit_zero, found) {
            (Some(ExitZero::Always), _) | (Some(ExitZero::Unknown), 2) => 0,
            (_, found) => found,
        }
    }

    fn settings(&self, namespace: &str, runs_in_cluster: bool) -> Settings {
        Settings {
            phase: self.phase,
            has_policies: !self.without_policies,
            policy: self.policy.clone(),
            policy_server: self.policy_server.clone(),
            creates_policy_server: self.creates_policy_server,
            service_account: self.service_account.clone(),
            kubewarden_namespace: self.kubewarden_namespace.clone(),
            mode: self.mode.clone(),
            skipped_namespaces: self.skipped_namespace.clone(),
            is_opt_in: self.scope == "OptIn",
            module: self.module.clone(),
            insecure_sources: self.insecure_source.clone(),
            source_authorities: self.source_authority.clone(),
            asks_registry: !self.skip_registry,
            runs_in_cluster,
            namespace: namespace.into(),
            sidecar: self.sidecar.clone(),
            lease: self.lease_name.clone(),
            elects_leader: self.leader_election,
            config_namespace: self.config_namespace.clone(),
            openkruise_namespace: self.openkruise_namespace.clone(),
            recorder: self.recorder,
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    if is_name { Ok(text.to_owned()) } else { Err("use a name of a Kubernetes object".into()) }
}

fn namespaced_name(text: &str) -> Result<(String, String), String> {
    let (namespace, object) = text.split_once('/').ok_or("use NAMESPACE/NAME")?;
    Ok((name(namespace)?, name(object)?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        check: CheckArgs,
    }

    #[test]
    fn exit_zero_can_be_limited_to_what_could_not_be_read() {
        for (args, wanted) in [
            (&["x", "--exit-zero=unknown"][..], [0, 1, 0]),
            (&["x", "--exit-zero"], [0, 0, 0]),
            (&["x", "--exit-zero", "--all"], [0, 0, 0]),
            (&["x", "--exit-zero=always"], [0, 0, 0]),
            (&["x"], [0, 1, 2]),
        ] {
            let check = Program::try_parse_from(args).unwrap().check;
            assert_eq!([0, 1, 2].map(|found| check.options.exit_code(found)), wanted, "{args:?}");
        }
        assert!(Program::try_parse_from(["x", "--exit-zero=never"]).is_err());
    }
}
