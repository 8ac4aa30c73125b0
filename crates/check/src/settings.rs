//! What is checked, and when: the flags of the command line.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

use clap::{Parser, ValueEnum};
use pps_api::Limits;
use pps_core::is_dns_subdomain;

use crate::read::ServiceAccountName;
use crate::reader::CHECK_LIMITS;

/// When the check runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Before the installation: what it creates may be absent.
    Before,
    /// After the installation.
    #[default]
    After,
}

/// Which program records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Recorder {
    /// The sidecar.
    #[default]
    #[value(name = "self")]
    Own,
    /// OpenKruise's manager.
    #[value(name = "openkruise")]
    OpenKruise,
}

/// Which namespaces take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    // The flag's own text explains the values; --help would repeat a comment on each.
    #[value(name = "OptIn")]
    OptIn,
    #[value(name = "All")]
    All,
}

/// When the check exits with 0 although not everything is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExitZero {
    /// Also if something is wrong.
    Always,
    /// Only if something could not be read.
    Unknown,
}

/// What is checked, and when.
#[derive(Parser, Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Settings {
    /// Whether the check runs before an installation, when what it creates may be absent, or after
    /// it.
    #[arg(
        long,
        value_name = "PHASE",
        value_enum,
        default_value_t = Phase::After,
        hide_short_help = true,
    )]
    pub phase: Phase,

    /// Show also what is as it should be.
    #[arg(short, long)]
    pub all: bool,

    /// Exit with 0 whatever was found. With =unknown: exit with 1 if something is wrong, and with 0
    /// if something could not be read.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_missing_value = "always"
    )]
    #[arg(num_args = 0..=1, require_equals = true, hide_short_help = true)]
    pub exit_zero: Option<ExitZero>,

    /// The installation has no policies: check only what records.
    #[arg(long)]
    pub without_policies: bool,

    /// Name of the policy for Pods.
    #[arg(
        long,
        value_name = "NAME",
        default_value = POLICY,
        value_parser = name,
        hide_short_help = true,
    )]
    pub policy: String,

    /// PolicyServer that runs the policies. Defaults to the one that they name.
    #[arg(long, value_name = "NAME", value_parser = name, hide_short_help = true)]
    pub policy_server: Option<String>,

    /// With --phase=before: the installation creates the PolicyServer and its ServiceAccount.
    #[arg(long, hide_short_help = true)]
    pub creates_policy_server: bool,

    /// ServiceAccount to which the installation binds the role that reads PersistentPodStates.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        value_parser = service_account_name,
        hide_short_help = true,
    )]
    pub service_account: Option<ServiceAccountName>,

    /// Kubewarden's namespace, if its own webhook does not name it.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "kubewarden",
        value_parser = name,
        hide_short_help = true,
    )]
    pub kubewarden_namespace: String,

    /// With --phase=before: a namespace that the policies will skip. May be repeated.
    #[arg(long, value_name = "NAMESPACE", value_parser = name, hide_short_help = true)]
    pub skipped_namespace: Vec<String>,

    /// With --phase=before: which namespaces will take part. OptIn: those with the label
    /// persistent-pod-state/injection=enabled. All: those without
    /// persistent-pod-state/injection=disabled.
    #[arg(
        long,
        value_name = "SCOPE",
        value_enum,
        default_value_t = Scope::OptIn,
        hide_short_help = true,
    )]
    pub scope: Scope,

    /// Module to look for in its registry. Defaults to that of the installed policies.
    #[arg(long, value_name = "registry://…", hide_short_help = true)]
    pub module: Option<String>,

    /// A registry that the PolicyServer to be created may use without verified TLS. May be
    /// repeated.
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    pub insecure_source: Vec<String>,

    /// A registry for which the PolicyServer to be created has certificates of a private authority.
    /// May be repeated.
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    pub source_authority: Vec<String>,

    /// Do not ask the module's registry.
    #[arg(long)]
    pub skip_registry: bool,

    /// Name of the sidecar's Deployment.
    #[arg(long, value_name = "NAME", default_value = "pps-sidecar", value_parser = name)]
    pub sidecar: String,

    /// Whether the sidecar uses a Lease. This and the following flags default to what the sidecar's
    /// Deployment says.
    #[arg(long, value_name = "true|false", hide_short_help = true)]
    pub leader_election: Option<bool>,

    /// Namespace of the ConfigMap kruise-configuration.
    #[arg(long, value_name = "NAMESPACE", value_parser = name, hide_short_help = true)]
    pub config_namespace: Option<String>,

    /// Namespace of OpenKruise. Defaults to that of the ConfigMap.
    #[arg(long, value_name = "NAMESPACE", value_parser = name, hide_short_help = true)]
    pub openkruise_namespace: Option<String>,

    /// Which program records: the sidecar (self) or OpenKruise's manager.
    #[arg(long, value_name = "RECORDER", value_enum, hide_short_help = true)]
    pub recorder: Option<Recorder>,

    /// The sidecar's namespace: another flag, since the plugin has one for all its commands.
    #[arg(skip = NAMESPACE.to_owned())]
    pub namespace: String,

    /// How long a request may take, and how much is read.
    #[arg(skip = CHECK_LIMITS)]
    pub limits: Limits,

    /// The flags that name the cluster to kubectl: each command of the report gets them.
    #[arg(skip)]
    pub cluster: String,

    /// Whether the check reaches a registry as the PolicyServer reaches it.
    #[arg(skip = true)]
    pub runs_in_cluster: bool,
}

/// The namespace into which the product is installed, unless another one is chosen.
pub const NAMESPACE: &str = "persistent-pod-state";
/// The name of the policy for Pods, unless another one is chosen.
pub(crate) const POLICY: &str = "persistent-pod-state";
/// What follows the name of the policy for Pods in the names of the others.
pub(crate) const VALIDATION: &str = "-validation";
/// The same for the policy for Pods of custom kinds.
pub(crate) const CUSTOM_WORKLOADS: &str = "-custom-workloads";

impl Default for Settings {
    /// Those of an empty command line.
    fn default() -> Self {
        Self::parse_from([""])
    }
}

impl Settings {
    pub fn is_before(&self) -> bool {
        self.phase == Phase::Before
    }
}

/// Whether the policy with this name belongs to the policy for Pods with that name.
pub(crate) fn is_policy_of(policy_for_pods: &str, policy: &str) -> bool {
    let rest = policy.strip_prefix(policy_for_pods);
    rest.is_some_and(|rest| rest.is_empty() || rest == VALIDATION || rest == CUSTOM_WORKLOADS)
}

/// The name of a Kubernetes object, such as a Pod or a node.
pub fn name(text: &str) -> Result<String, String> {
    let why = "use the name of a Kubernetes object: lowercase letters, digits, - and .";
    is_dns_subdomain(text)
        .then(|| text.to_owned())
        .ok_or_else(|| why.into())
}

fn service_account_name(text: &str) -> Result<ServiceAccountName, String> {
    let (namespace, account) = text.split_once('/').ok_or("use NAMESPACE/NAME")?;
    Ok(ServiceAccountName {
        namespace: name(namespace)?,
        name: name(account)?,
    })
}
