//! What was read from the cluster and the registry. Each type has only the fields that the rules need; fields that are
//! missing or of another type count as empty.

mod forms;
mod objects;
mod recording;
mod selector;
mod settings;

pub use forms::{HasEntries, StatusWrites};
pub use objects::{
    Condition, Container, ContainerState, ContainerStatus, Definition, DefinitionVersion, Deployment,
    LeaseSpec, Metadata, ObjectName, Owner, Pod, Policy, PolicyServer, PolicyServerSpec, PolicySpec,
    PolicyStatus, Recorded, Service, Webhook, WebhookConfiguration,
};
pub use recording::Recording;
pub use selector::matches;
pub use settings::{CUSTOM_WORKLOADS, Phase, Recorder, Settings, VALIDATION};

use std::borrow::Cow;
use std::fmt;

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Read<T> {
    /// It exists.
    Known(T),
    /// It does not exist.
    Absent,
    /// It could not be read: [`Facts::problems`] says why. Or it was not asked for.
    #[default]
    Unknown,
}

impl<T> Read<T> {
    /// The same with what is made of the value.
    pub fn and_then<U>(self, make: impl FnOnce(T) -> Read<U>) -> Read<U> {
        match self {
            Self::Known(value) => make(value),
            Self::Absent => Read::Absent,
            Self::Unknown => Read::Unknown,
        }
    }

    /// The same with another value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Read<U> {
        self.and_then(|value| Read::Known(make(value)))
    }

    /// The value, if it exists.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether it does certainly not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T> Read<Vec<T>> {
    /// The items. None if they could not be read.
    pub fn items(&self) -> Option<&[T]> {
        match self {
            Self::Known(items) => Some(items),
            Self::Absent => Some(&[]),
            Self::Unknown => None,
        }
    }
}

/// A right that a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    /// `get`, `list`, …
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: Cow<'static, str>,
    /// The resource, with its subresource: `persistentpodstates/status`.
    pub resource: String,
    /// The namespace, if the right is needed in only one.
    pub namespace: Option<String>,
    /// The name, if the right is needed for only one object.
    pub name: Option<String>,
}

impl Right {
    /// A right in all namespaces.
    pub fn new(verb: &'static str, group: impl Into<Cow<'static, str>>, resource: &str) -> Self {
        Self { verb, group: group.into(), resource: resource.into(), namespace: None, name: None }
    }

    /// The same right in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The same right for one object.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The check's own account lacks this right.
    Forbidden(Right),
    /// The request failed for another reason.
    Failed {
        /// What was to be read.
        what: String,
        /// Why it could not be.
        why: String,
    },
}

/// What the registry says about a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleAnswer {
    /// It has the manifest.
    Found,
    /// It does not.
    NotFound,
    /// It requires a login (401 or 403).
    NeedsCredentials(u16),
    /// There is no connection, or no answer in time.
    Unreachable(String),
    /// Its certificate is not trusted.
    UnknownAuthority(String),
    /// It speaks HTTP, and the PolicyServer does not allow that.
    PlainHttp,
    /// Another answer.
    Unclear(String),
    /// It was not asked.
    NotAsked(&'static str),
}

/// A module, and what its registry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The module as the policy names it.
    pub reference: String,
    /// The answer.
    pub answer: ModuleAnswer,
}

/// A Lease that was read twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseReads {
    /// The first read.
    pub first: Option<LeaseSpec>,
    /// The second one, seconds later.
    pub second: Option<LeaseSpec>,
}

impl LeaseReads {
    /// The holder, if it renewed the Lease between the reads or took it over. Clocks are never compared.
    pub fn living_holder(&self) -> Option<&str> {
        let second = self.second.as_ref()?;
        let holder = second.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
        (self.first.as_ref() != Some(second)).then_some(holder)
    }

    /// The holder, living or not.
    pub fn holder(&self) -> Option<&str> {
        self.second.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }
}

/// A Service through which a module's registry is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryService {
    /// Namespace and name of the Service.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The StatefulSets, or other controllers with stable names, that own its Pods: `StatefulSet registry`.
    pub stateful_owners: Vec<String>,
}

/// A Deployment of the sidecar's image that is not this installation's. Anybody may have made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSidecar {
    /// `namespace/name`
    pub name: String,
    /// Whether it runs with an account that may write states.
    pub records: Read<bool>,
}

/// The PersistentPodStates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Those that were listed.
    pub listed: Vec<Recorded>,
    /// How many more there are.
    pub more: u64,
}

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// What is to be checked.
    pub settings: Settings,
    /// How the sidecar is set up.
    pub recording: Recording,
    /// Major and minor version of Kubernetes, and its full version.
    pub kubernetes: Read<(u32, u32, String)>,
    /// The definition of PersistentPodState.
    pub definition: Read<Definition>,
    /// The definition of `ClusterAdmissionPolicy`.
    pub policy_definition: Read<Definition>,
    /// The definition of `PolicyServer`.
    pub server_definition: Read<Definition>,
    /// The Deployments of Kubewarden's controller.
    pub controllers: Read<Vec<Deployment>>,
    /// All `ClusterAdmissionPolicies`.
    pub policies: Read<Vec<Policy>>,
    /// The name of the PolicyServer that is checked.
    pub server_name: String,
    /// That PolicyServer.
    pub server: Read<PolicyServer>,
    /// The namespace of its Deployment.
    pub server_namespace: String,
    /// Its Deployment.
    pub server_deployment: Read<Deployment>,
    /// The PolicyServer `default`, if another one is checked.
    pub default_server: Read<PolicyServer>,
    /// Its Pods.
    pub server_pods: Read<Vec<Pod>>,
    /// Its ServiceAccount.
    pub server_account: Read<()>,
    /// Whether that account may get PersistentPodStates in all namespaces.
    pub server_may_look_up: Read<bool>,
    /// The mutating webhooks.
    pub mutating: Read<Vec<WebhookConfiguration>>,
    /// The validating webhooks.
    pub validating: Read<Vec<WebhookConfiguration>>,
    /// The modules.
    pub modules: Vec<Module>,
    /// Services of this cluster through which the modules' registries are reached.
    pub registry_services: Vec<RegistryService>,
    /// The namespaces and their labels.
    pub namespaces: Read<Vec<Metadata>>,
    /// The sidecars' Deployments in all namespaces.
    pub sidecars: Read<Vec<Deployment>>,
    /// Deployments of the sidecar's image that are not this installation's.
    pub other_sidecars: Vec<OtherSidecar>,
    /// The Pods in the sidecar's namespace.
    pub sidecar_pods: Read<Vec<Pod>>,
    /// The rights that the sidecar needs, and whether it has them.
    pub sidecar_rights: Vec<(Right, bool)>,
    /// The sidecar's Lease.
    pub lease: Read<LeaseReads>,
    /// The Lease of OpenKruise's manager.
    pub openkruise_lease: Read<LeaseReads>,
    /// The list of custom kinds.
    pub whitelist: Read<String>,
    /// The PersistentPodStates.
    pub objects: Read<Objects>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Facts {
    /// Whether the policy with this name is one of the product's.
    pub fn is_ours(&self, policy: &str) -> bool {
        self.settings.is_ours(policy)
    }

    /// The product's policies.
    pub fn own_policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.known().into_iter().flatten().filter(|policy| self.is_ours(&policy.metadata.name))
    }

    /// The ServiceAccount that the PolicyServer uses. Kubernetes uses `default` if the PolicyServer names none.
    pub fn account_name(&self) -> &str {
        let named = self.server.known().map_or("", |server| server.spec.service_account_name.as_str());
        match (&self.settings.service_account, named) {
            (Some((_, account)), "") if self.server.known().is_none() => account,
            (_, "") => "default",
            (_, named) => named,
        }
    }

    /// Whether the API server evaluates match conditions. None if its version is not known.
    pub fn evaluates_conditions(&self) -> Option<bool> {
        self.kubernetes.known().map(|(major, minor, _)| (*major, *minor) >= (1, 28))
    }
}
