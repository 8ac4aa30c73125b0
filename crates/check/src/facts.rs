//! What was read from the cluster and the registry.

mod kubewarden;
mod sidecar_setup;

use std::collections::BTreeMap;
use std::iter::once;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, RuleWithOperations,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{EnvVar, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pps_core::packed::PackedClaim;
use pps_recorder::recording::RECORDING;
use serde::Deserialize;
use serde_json::{Map, Value};
use strum::{IntoStaticStr, VariantNames};

pub(crate) use self::kubewarden::DEFAULT_SERVER;
pub(crate) use self::sidecar_setup::{SidecarSetup, container};
pub(crate) use crate::read::{MinorVersion, Problem, Read, Right, ServiceAccountName, Version};
use crate::settings::{Settings, VALIDATION, is_policy_of};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Policy {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PolicySpec,
    pub(crate) status: PolicyStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PolicySpec {
    pub(crate) module: String,
    pub(crate) policy_server: String,
    pub(crate) mode: String,
    pub(crate) mutating: bool,
    pub(crate) rules: Vec<RuleWithOperations>,
    pub(crate) context_aware_resources: Vec<ContextAwareResource>,
    pub(crate) object_selector: LabelSelector,
    pub(crate) namespace_selector: LabelSelector,
    pub(crate) match_conditions: Vec<MatchCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContextAwareResource {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names are Kubewarden's")]
pub(crate) struct PolicyStatus {
    pub(crate) policy_status: String,
    pub(crate) mode: String,
    pub(crate) conditions: Vec<Condition>,
}

impl Policy {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    /// Whether Kubewarden's controller has made the webhook, and the PolicyServer can answer it.
    pub(crate) fn is_active(&self) -> bool {
        self.condition("PolicyActive")
            .is_some_and(|condition| condition.status == "True")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PolicyServer {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PolicyServerSpec,
}

impl PolicyServer {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PolicyServerSpec {
    pub(crate) image: String,
    pub(crate) replicas: i32,
    pub(crate) service_account_name: String,
    pub(crate) insecure_sources: Vec<String>,
    pub(crate) source_authorities: BTreeMap<String, Vec<String>>,
    pub(crate) env: Vec<EnvVar>,
}

/// What the registry says about a module. Each name is also that of a finding.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub(crate) enum ModuleAnswer {
    ModuleFound,
    ModuleNotFound,
    /// It requires a login (401 or 403).
    RegistryNeedsCredentials(u16),
    /// There is no connection that the PolicyServer would trust, or no answer in time.
    RegistryUnreachable(String),
    RegistryAnswerUnclear(String),
    /// It was not asked: the flag says so, or the module is in no registry.
    ModuleNotChecked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) reference: String,
    pub(crate) answer: ModuleAnswer,
}

/// The duration of the recorders' Leases.
pub(crate) const LEASE_SECONDS: u64 = 15;

/// A Lease that was read twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LeaseReads {
    pub(crate) first: Option<LeaseSpec>,
    pub(crate) second: Option<LeaseSpec>,
}

impl LeaseReads {
    /// The holder, if it renewed the Lease between the reads or took it over. Clocks are never
    /// compared.
    pub(crate) fn living_holder(&self) -> Option<&str> {
        self.holder().filter(|_| self.first != self.second)
    }

    pub(crate) fn holder(&self) -> Option<&str> {
        self.second
            .as_ref()?
            .holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }
}

/// What the check needs to know of a PersistentPodState, which may be large.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) recording: Option<Condition>,
    /// Whether a definition without `status.packed` hides states of it.
    pub(crate) may_hide_states: bool,
    /// Whether its requirement has an end.
    pub(crate) falls_back: bool,
}

impl Recorded {
    /// Reads an object. None if it is no object of Kubernetes.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let metadata = ObjectMeta::deserialize(&object["metadata"]).ok()?;
        let status = &object["status"];
        let conditions = Vec::<Condition>::deserialize(&status["conditions"]).unwrap_or_default();
        let writes = metadata.managed_fields.unwrap_or_default();
        let fields = writes
            .iter()
            .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:status"));
        let shown = status["podStates"].as_object().map_or(0, Map::len);
        Some(Self {
            namespace: metadata.namespace?,
            name: metadata.name?,
            recording: conditions
                .into_iter()
                .find(|condition| condition.kind == RECORDING),
            may_hide_states: PackedClaim::of(fields).may_hide_states(
                shown,
                status["recorded"].as_i64(),
                false,
            ),
            falls_back: object["spec"]["requiredPersistentTopology"]["fallbackAfterSeconds"]
                .is_number(),
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Objects {
    pub(crate) listed: Vec<Recorded>,
    pub(crate) more: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) settings: Settings,
    pub(crate) setup: SidecarSetup,
    pub(crate) kubernetes: Read<Version>,
    pub(crate) definition: Read<CustomResourceDefinition>,
    pub(crate) policy_definition: Read<CustomResourceDefinition>,
    pub(crate) server_definition: Read<CustomResourceDefinition>,
    pub(crate) policies: Read<Vec<Policy>>,
    /// Kubewarden's controller.
    pub(crate) controller: Read<Deployment>,
    /// All servers of policies, also those of others.
    pub(crate) servers: Read<Vec<PolicyServer>>,
    /// The PolicyServer that the policies use, or will use.
    pub(crate) server_name: String,
    pub(crate) server: Read<PolicyServer>,
    /// The namespace of its Deployment.
    pub(crate) server_namespace: String,
    pub(crate) server_deployment: Read<Deployment>,
    pub(crate) server_account: Read<()>,
    /// Whether that account may get PersistentPodStates in all namespaces.
    pub(crate) server_may_look_up: Read<bool>,
    pub(crate) mutating: Read<Vec<MutatingWebhookConfiguration>>,
    pub(crate) validating: Read<Vec<ValidatingWebhookConfiguration>>,
    pub(crate) modules: Vec<Module>,
    pub(crate) namespaces: Read<Vec<Namespace>>,
    /// The sidecars' Deployments in all namespaces.
    pub(crate) sidecars: Read<Vec<Deployment>>,
    /// Of each further sidecar of this installation, if each namespace has one.
    pub(crate) further: Vec<Self>,
    /// The rights that the sidecar needs and does not have.
    pub(crate) missing_sidecar_rights: Vec<Right>,
    /// Whether a requirement has an end, of an object that the sidecar records.
    pub(crate) falls_back: bool,
    /// The rights that the sidecar lacks to have Pods give up their places, where a requirement has
    /// an end.
    pub(crate) missing_fallback_rights: Vec<Right>,
    pub(crate) lease: Read<LeaseReads>,
    pub(crate) openkruise_lease: Read<LeaseReads>,
    pub(crate) whitelist: Read<Option<String>>,
    pub(crate) objects: Read<Objects>,
    pub(crate) problems: Vec<Problem>,
}

impl Facts {
    pub(crate) fn own_policies(&self) -> impl Iterator<Item = &Policy> {
        let all = self.policies.known().into_iter().flatten();
        all.filter(|policy| is_policy_of(&self.settings.policy, policy.name()))
    }

    pub(crate) fn policies_for_pods(&self) -> impl Iterator<Item = &Policy> {
        self.own_policies()
            .filter(|policy| !policy.name().ends_with(VALIDATION))
    }

    /// These, and those of each further sidecar.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Self> {
        once(self).chain(&self.further)
    }

    /// The sidecar's Deployment of the installation that is checked.
    pub(crate) fn own_sidecar(&self) -> Option<&Deployment> {
        self.sidecars
            .items()?
            .iter()
            .find(|one| self.is_own_sidecar(one))
    }

    /// Whether this is the Deployment of the installation that is checked.
    pub(crate) fn is_own_sidecar(&self, deployment: &Deployment) -> bool {
        let ObjectMeta {
            namespace, name, ..
        } = &deployment.metadata;
        namespace.as_ref() == Some(&self.settings.namespace)
            && name.as_ref() == Some(&self.settings.sidecar)
    }

    /// The ServiceAccount that the PolicyServer uses. Kubernetes uses `default` if the PolicyServer
    /// names none.
    pub(crate) fn server_account_name(&self) -> ServiceAccountName {
        let named = match self.server.known() {
            Some(server) => server.spec.service_account_name.as_str(),
            None => self
                .settings
                .service_account
                .as_ref()
                .map_or("", |bound| &bound.name),
        };
        ServiceAccountName {
            namespace: self.server_namespace.clone(),
            name: if named.is_empty() { "default" } else { named }.to_owned(),
        }
    }

    pub(crate) fn labels_of(&self, namespace: &str) -> BTreeMap<String, String> {
        let mut known = self.namespaces.items().unwrap_or_default().iter();
        known
            .find(|one| one.metadata.name.as_deref() == Some(namespace))
            .and_then(|one| one.metadata.labels.clone())
            .unwrap_or_default()
    }
}
