//! What was read from the cluster and the registry.

use std::collections::BTreeMap;
use std::iter::once;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, RuleWithOperations,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{Container, EnvVar, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pps_core::packed::PackedClaim;
use pps_recorder::recording::RECORDING;
use serde::Deserialize;
use serde_json::{Map, Value};
use strum::{IntoStaticStr, VariantNames};

pub(crate) use crate::read::{Problem, Read, Right};
use crate::settings::{Recorder, Settings, VALIDATION, is_policy_of};

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
    pub(crate) spec: PolicyServerSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PolicyServerSpec {
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
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Objects {
    pub(crate) listed: Vec<Recorded>,
    pub(crate) more: u64,
}

/// How the sidecar is set up: as the check's flags say, else as its Deployment says, else its
/// defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SidecarSetup {
    pub(crate) recorder: Recorder,
    /// The only namespace that it records; all if there is none.
    pub(crate) namespace: Option<String>,
    /// The name of the sidecar's Lease. None without leader election.
    pub(crate) lease: Option<String>,
    /// The namespace of the ConfigMap that lists custom kinds.
    pub(crate) config_namespace: String,
    /// The namespace of OpenKruise's Lease.
    pub(crate) openkruise_namespace: String,
}

impl Default for SidecarSetup {
    fn default() -> Self {
        Self::of(&Settings::default(), None)
    }
}

impl SidecarSetup {
    /// How the sidecar of this Deployment is set up, if there is one.
    pub(crate) fn of(settings: &Settings, sidecar: Option<&Deployment>) -> Self {
        let container = sidecar.and_then(container);
        let found = |flag: &str| container.and_then(|container| setting(container, flag));
        let recorder = match found("recorder").as_deref() {
            Some("openkruise") => Recorder::OpenKruise,
            _ => Recorder::Own,
        };
        let elects = settings
            .leader_election
            .unwrap_or(found("leader-election").as_deref() != Some("false"));
        let config_namespace = settings
            .config_namespace
            .clone()
            .or_else(|| found("config-namespace"));
        let config_namespace = config_namespace.unwrap_or_else(|| "kruise-system".into());
        let openkruise = settings
            .openkruise_namespace
            .clone()
            .or_else(|| found("openkruise-namespace"));
        Self {
            recorder: settings.recorder.unwrap_or(recorder),
            namespace: found("namespace"),
            lease: elects.then(|| found("lease-name").unwrap_or_else(|| settings.sidecar.clone())),
            openkruise_namespace: openkruise.unwrap_or_else(|| config_namespace.clone()),
            config_namespace,
        }
    }
}

/// The first container of a Deployment's Pods.
pub(crate) fn container(deployment: &Deployment) -> Option<&Container> {
    deployment.spec.template.spec.as_ref()?.containers.first()
}

/// A setting of a container, from its arguments (`--flag=value`, `--flag value`) or else its
/// environment (`PPS_FLAG`).
fn setting(container: &Container, flag: &str) -> Option<String> {
    let variable = format!("PPS_{}", flag.to_uppercase().replace('-', "_"));
    let flag = format!("--{flag}");
    let args = container.args.as_deref().unwrap_or_default();
    let in_args =
        args.iter()
            .enumerate()
            .rev()
            .find_map(|(index, arg)| match arg.strip_prefix(&flag)? {
                "" => args.get(index + 1).cloned(),
                rest => rest.strip_prefix('=').map(str::to_owned),
            });
    let in_env = || {
        container
            .env
            .iter()
            .flatten()
            .find(|one| one.name == variable)?
            .value
            .clone()
    };
    in_args.or_else(in_env).filter(|value| !value.is_empty())
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) settings: Settings,
    pub(crate) setup: SidecarSetup,
    /// Major and minor version of Kubernetes, and its full version.
    pub(crate) kubernetes: Read<(u32, u32, String)>,
    pub(crate) definition: Read<CustomResourceDefinition>,
    pub(crate) policy_definition: Read<CustomResourceDefinition>,
    pub(crate) server_definition: Read<CustomResourceDefinition>,
    pub(crate) policies: Read<Vec<Policy>>,
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
    pub(crate) sidecar_lacks: Vec<Right>,
    pub(crate) lease: Read<LeaseReads>,
    pub(crate) openkruise_lease: Read<LeaseReads>,
    pub(crate) whitelist: Read<Option<String>>,
    pub(crate) objects: Read<Objects>,
    pub(crate) problems: Vec<Problem>,
}

impl Facts {
    pub(crate) fn own_policies(&self) -> impl Iterator<Item = &Policy> {
        let is_ours = |policy: &&Policy| is_policy_of(&self.settings.policy, policy.name());
        self.policies.known().into_iter().flatten().filter(is_ours)
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
    pub(crate) fn account_name(&self) -> &str {
        match (
            self.server
                .known()
                .map(|server| server.spec.service_account_name.as_str()),
            &self.settings,
        ) {
            (Some(named), _) if !named.is_empty() => named,
            (
                None,
                Settings {
                    service_account: Some((_, account)),
                    ..
                },
            ) => account,
            _ => "default",
        }
    }

    pub(crate) fn labels_of(&self, namespace: &str) -> BTreeMap<String, String> {
        let known = self.namespaces.items().unwrap_or_default().iter();
        let mut found = known.filter(|one| one.metadata.name.as_deref() == Some(namespace));
        found
            .next()
            .and_then(|one| one.metadata.labels.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setup(settings: &Settings, container: &Value) -> SidecarSetup {
        let deployment =
            json!({"spec": {"selector": {}, "template": {"spec": {"containers": [container]}}}});
        SidecarSetup::of(settings, Some(&serde_json::from_value(deployment).unwrap()))
    }

    #[test]
    fn flags_take_precedence_over_the_deployment_and_this_over_defaults() {
        let defaults = SidecarSetup::default();
        assert_eq!(setup(&Settings::default(), &json!({"name": "c"})), defaults);
        assert_eq!(
            (defaults.recorder, defaults.lease.as_deref()),
            (Recorder::Own, Some("pps-sidecar"))
        );
        let container = json!({"name": "c",
            "args": ["--recorder", "openkruise", "--lease-name=mine", "--leader-election=true"],
            "env": [{"name": "PPS_CONFIG_NAMESPACE", "value": "own"}, {"name": "PPS_RECORDER", "value": "self"}]});
        let found = setup(&Settings::default(), &container);
        assert_eq!(
            (found.recorder, found.lease.as_deref()),
            (Recorder::OpenKruise, Some("mine"))
        );
        assert_eq!(
            (
                found.config_namespace.as_str(),
                found.openkruise_namespace.as_str()
            ),
            ("own", "own")
        );
        let settings = Settings {
            recorder: Some(Recorder::Own),
            leader_election: Some(false),
            openkruise_namespace: Some("k".into()),
            ..Settings::default()
        };
        let found = setup(&settings, &container);
        assert_eq!((found.recorder, found.lease), (Recorder::Own, None));
        assert_eq!(found.openkruise_namespace, "k");
    }
}
