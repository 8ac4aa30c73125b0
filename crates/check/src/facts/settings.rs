//! What is to be checked.

use super::objects::Policy;

/// When the check runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Phase {
    /// Before the installation: what it creates may be absent.
    Before,
    /// After the installation.
    #[default]
    After,
}

/// Which program records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Recorder {
    /// The sidecar.
    #[default]
    #[value(name = "self")]
    Own,
    /// OpenKruise's manager.
    #[value(name = "openkruise")]
    OpenKruise,
}

/// What is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Settings {
    /// When the check runs.
    pub phase: Phase,
    /// Whether policies are part of the installation.
    pub has_policies: bool,
    /// The name of the policy for Pods; the others' names begin with it.
    pub policy: String,
    /// The PolicyServer that is to run the policies. If none is named, the one that they name.
    pub policy_server: Option<String>,
    /// Whether the installation creates that PolicyServer and its ServiceAccount.
    pub creates_policy_server: bool,
    /// The namespace and name of the ServiceAccount that gets the role, if the installation names one.
    pub service_account: Option<(String, String)>,
    /// Kubewarden's namespace, if it cannot be found.
    pub kubewarden_namespace: String,
    /// The mode that the installation sets.
    pub mode: Option<String>,
    /// Namespaces that the installation skips.
    pub skipped_namespaces: Vec<String>,
    /// Whether only namespaces with the label `enabled` take part.
    pub is_opt_in: bool,
    /// The module that is to be installed. If none is named, those of the installed policies.
    pub module: Option<String>,
    /// Registries that the PolicyServer to be created may use without verified TLS.
    pub insecure_sources: Vec<String>,
    /// Registries for which the PolicyServer to be created has certificates.
    pub source_authorities: Vec<String>,
    /// Whether to ask the registry.
    pub asks_registry: bool,
    /// Whether the check runs in the cluster, and so reaches what the PolicyServer reaches.
    pub runs_in_cluster: bool,
    /// The sidecar's namespace.
    pub namespace: String,
    /// The name of the sidecar's Deployment.
    pub sidecar: String,
    /// The name of the sidecar's Lease. This and the following are found in the Deployment unless they are set.
    pub lease: Option<String>,
    /// Whether the sidecar uses a Lease.
    pub elects_leader: Option<bool>,
    /// The namespace of the ConfigMap that lists custom kinds.
    pub config_namespace: Option<String>,
    /// The namespace of OpenKruise's Lease.
    pub openkruise_namespace: Option<String>,
    /// Which program records.
    pub recorder: Option<Recorder>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            phase: Phase::After,
            has_policies: true,
            policy: "persistent-pod-state".into(),
            policy_server: None,
            creates_policy_server: false,
            service_account: None,
            kubewarden_namespace: "kubewarden".into(),
            mode: None,
            skipped_namespaces: Vec::new(),
            is_opt_in: false,
            module: None,
            insecure_sources: Vec::new(),
            source_authorities: Vec::new(),
            asks_registry: true,
            runs_in_cluster: true,
            namespace: "persistent-pod-state".into(),
            sidecar: "pps-sidecar".into(),
            lease: None,
            elects_leader: None,
            config_namespace: None,
            openkruise_namespace: None,
            recorder: None,
        }
    }
}

/// What follows the name of the policy for Pods in the names of the others.
pub const VALIDATION: &str = "-validation";
/// The same for the policy for Pods of custom kinds.
pub const CUSTOM_WORKLOADS: &str = "-custom-workloads";

impl Settings {
    /// Whether the policy with this name is one of the product's.
    pub fn is_ours(&self, policy: &str) -> bool {
        policy
            .strip_prefix(&self.policy)
            .is_some_and(|rest| rest.is_empty() || rest == VALIDATION || rest == CUSTOM_WORKLOADS)
    }

    /// The PolicyServer to check: the one that is named, else the one of the installed policies, else the shared one.
    pub fn chosen_server(&self, policies: &[Policy]) -> String {
        let named = self.policy_server.clone();
        let installed = || {
            let ours = policies.iter().filter(|policy| self.is_ours(&policy.metadata.name));
            // The policy for Pods first: its name is the shortest.
            let first = ours.min_by_key(|policy| policy.metadata.name.len());
            first.map(|policy| policy.spec.policy_server.clone()).filter(|server| !server.is_empty())
        };
        named.or_else(installed).unwrap_or_else(|| "default".into())
    }
}
