//! Kubernetes objects, reduced to the fields that the rules need.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::forms::{HasEntries, StatusWrites};

/// Reads a field, or takes its default if it is null or of another type: one odd object must not hide the others.
fn lenient<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

macro_rules! objects {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)* })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            #[allow(clippy::struct_field_names, reason = "the names are those of Kubernetes")]
            pub struct $name {
                $($(#[doc = $field_doc])+ #[serde(deserialize_with = "lenient")] pub $field: $type,)*
            }
        )+
    };
}

objects! {
    /// `metadata`.
    Metadata {
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
        /// The labels.
        labels: BTreeMap<String, String>,
        /// Set while the object is being deleted.
        deletion_timestamp: Option<String>,
        /// What owns the object.
        owner_references: Vec<Owner>,
    }
    /// An owner reference.
    Owner {
        /// The API version.
        api_version: String,
        /// The kind.
        kind: String,
        /// The name.
        name: String,
        /// Whether it is the controller.
        controller: Option<bool>,
    }
    /// A condition of a status.
    Condition {
        /// The type. The field's name is a keyword, so the rules use [`Condition::kind`].
        r#type: String,
        /// True, False or Unknown.
        status: String,
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    }
    /// A `CustomResourceDefinition`.
    Definition {
        /// Its metadata.
        metadata: Metadata,
        /// Its spec.
        spec: DefinitionSpec,
        /// Its status.
        status: DefinitionStatus,
    }
    /// The spec of a definition.
    DefinitionSpec {
        /// The versions.
        versions: Vec<DefinitionVersion>,
        /// How one version becomes another.
        conversion: Conversion,
    }
    /// How one version becomes another.
    Conversion {
        /// None or Webhook.
        strategy: String,
    }
    /// A version of a definition.
    DefinitionVersion {
        /// Its name.
        name: String,
        /// Whether the API server serves it.
        served: bool,
        /// Whether objects are stored in it.
        storage: bool,
        /// The subresources.
        subresources: Value,
        /// The schema.
        schema: Value,
    }
    /// The status of a definition.
    DefinitionStatus {
        /// Established, Terminating, …
        conditions: Vec<Condition>,
        /// Versions in which objects may be stored.
        stored_versions: Vec<String>,
    }
    /// A `ClusterAdmissionPolicy`.
    Policy {
        /// Its metadata.
        metadata: Metadata,
        /// Its spec.
        spec: PolicySpec,
        /// Its status.
        status: PolicyStatus,
    }
    /// The spec of a policy.
    PolicySpec {
        /// `registry://…`
        module: String,
        /// The PolicyServer.
        policy_server: String,
        /// protect or monitor.
        mode: String,
        /// Whether it changes objects.
        mutating: bool,
        /// What it is sent.
        rules: Vec<Value>,
        /// Which lookups it may make.
        context_aware_resources: Vec<Value>,
        /// Fail or Ignore.
        failure_policy: Option<String>,
        /// How long the API server waits.
        timeout_seconds: Option<u64>,
        /// How long the policy may take.
        timeout_eval_seconds: Option<u64>,
        /// Which objects are sent.
        object_selector: Value,
        /// The namespaces whose objects are sent.
        namespace_selector: Value,
        /// Conditions that the API server evaluates.
        match_conditions: Vec<Value>,
    }
    /// The status of a policy.
    PolicyStatus {
        /// unscheduled, scheduled, pending or active.
        policy_status: String,
        /// The mode in which the PolicyServer runs it.
        mode: String,
        /// `PolicyActive`, `PolicyUniquelyReachable`, …
        conditions: Vec<Condition>,
    }
    /// A PolicyServer.
    PolicyServer {
        /// Its metadata.
        metadata: Metadata,
        /// Its spec.
        spec: PolicyServerSpec,
        /// Its status.
        status: PolicyServerStatus,
    }
    /// The spec of a PolicyServer.
    PolicyServerSpec {
        /// The program's image.
        image: String,
        /// The number of replicas.
        replicas: u64,
        /// The ServiceAccount that makes the lookups.
        service_account_name: String,
        /// The Secret with credentials for registries.
        image_pull_secret: String,
        /// Registries without verified TLS.
        insecure_sources: Vec<String>,
        /// Certificates for registries of private authorities.
        source_authorities: BTreeMap<String, Vec<String>>,
        /// The ConfigMap that says which signatures a module needs.
        verification_config: String,
        /// Environment variables.
        env: Vec<Value>,
    }
    /// The status of a PolicyServer.
    PolicyServerStatus {
        /// `DeploymentReconciled`, …
        conditions: Vec<Condition>,
    }
    /// A mutating or validating webhook configuration.
    WebhookConfiguration {
        /// Its metadata.
        metadata: Metadata,
        /// Its webhooks.
        webhooks: Vec<Webhook>,
    }
    /// A webhook.
    Webhook {
        /// Its name.
        name: String,
        /// Where the API server sends requests.
        client_config: Value,
        /// What is sent.
        rules: Vec<Value>,
        /// Fail or Ignore.
        failure_policy: String,
        /// How long the API server waits.
        timeout_seconds: Option<u64>,
        /// Which objects are sent.
        object_selector: Value,
        /// The namespaces whose objects are sent.
        namespace_selector: Value,
        /// Conditions that the API server evaluates.
        match_conditions: Vec<Value>,
    }
    /// A Deployment.
    Deployment {
        /// Its metadata.
        metadata: Metadata,
        /// Its spec.
        spec: DeploymentSpec,
        /// Its status.
        status: DeploymentStatus,
    }
    /// The spec of a Deployment.
    DeploymentSpec {
        /// The number of replicas.
        replicas: Option<u64>,
        /// The Pods.
        template: PodTemplate,
    }
    /// The template of a Deployment's Pods.
    PodTemplate {
        /// Their spec.
        spec: PodSpec,
    }
    /// The spec of a Pod.
    PodSpec {
        /// The ServiceAccount.
        service_account_name: String,
        /// The containers.
        containers: Vec<Container>,
    }
    /// A container.
    Container {
        /// Its name.
        name: String,
        /// Its image.
        image: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables.
        env: Vec<Value>,
    }
    /// The status of a Deployment.
    DeploymentStatus {
        /// How many Pods are available.
        available_replicas: u64,
    }
    /// A Pod.
    Pod {
        /// Its metadata.
        metadata: Metadata,
        /// Its status.
        status: PodStatus,
    }
    /// The status of a Pod.
    PodStatus {
        /// Pending, Running, Succeeded, Failed or Unknown.
        phase: String,
        /// Why it is in this phase.
        reason: String,
        /// The message.
        message: String,
        /// Ready, `PodScheduled`, …
        conditions: Vec<Condition>,
        /// Its containers.
        container_statuses: Vec<ContainerStatus>,
    }
    /// The status of a container.
    ContainerStatus {
        /// The current state.
        state: ContainerState,
        /// The one before.
        last_state: ContainerState,
        /// How often the container was started again.
        restart_count: u64,
    }
    /// The state of a container.
    ContainerState {
        /// Why it does not run.
        waiting: Option<Reason>,
        /// How it ended.
        terminated: Option<Reason>,
    }
    /// Why a container does not run.
    Reason {
        /// `CrashLoopBackOff`, …
        reason: String,
        /// The message.
        message: String,
        /// The exit code.
        exit_code: i64,
    }
    /// A Service.
    Service {
        /// Its metadata.
        metadata: Metadata,
        /// Its spec.
        spec: ServiceSpec,
        /// Its status.
        status: Value,
    }
    /// The spec of a Service.
    ServiceSpec {
        /// Which Pods it has.
        selector: BTreeMap<String, String>,
        /// Its addresses in the cluster.
        cluster_i_ps: Vec<String>,
        /// Its address in the cluster.
        cluster_i_p: String,
        /// Further addresses.
        external_i_ps: Vec<String>,
    }
    /// The spec of a Lease.
    LeaseSpec {
        /// Who holds it.
        holder_identity: Option<String>,
        /// Since when.
        acquire_time: Option<String>,
        /// When the holder renewed it.
        renew_time: Option<String>,
    }
    /// A PersistentPodState: what of it is recorded.
    Recorded {
        /// Its name.
        metadata: ObjectName,
        /// Its status.
        status: RecordedStatus,
    }
    /// The name of an object. Labels and annotations may be large.
    ObjectName {
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
        /// The last writers of its status, with their times.
        managed_fields: StatusWrites,
    }
    /// The status of a PersistentPodState.
    RecordedStatus {
        /// Whether the plain form has states.
        pod_states: HasEntries,
        /// Recording, …
        conditions: Vec<Condition>,
    }
}

impl Policy {
    /// Whether Kubewarden's controller has made the webhook, and the PolicyServer can answer it.
    pub(crate) fn is_active(&self) -> bool {
        condition(&self.status.conditions, "PolicyActive").is_some_and(|condition| condition.status == "True")
    }
}

impl Condition {
    /// The type.
    pub fn kind(&self) -> &str {
        &self.r#type
    }
}

/// The condition of this type.
pub(crate) fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind() == kind)
}

impl Pod {
    /// Whether it is Ready.
    pub fn is_ready(&self) -> bool {
        condition(&self.status.conditions, "Ready").is_some_and(|ready| ready.status == "True")
    }

    /// Whether it has ended, for example because the kubelet evicted it, or is being deleted. Its owner replaces it.
    pub fn is_gone(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
            || ["Succeeded", "Failed"].contains(&self.status.phase.as_str())
    }
}

impl Recorded {
    /// Whether states were stored in the compact form, and none are shown in the plain one. Under a definition that does
    /// not have the compact form, these states are hidden.
    pub(crate) fn has_only_packed_states(&self) -> bool {
        self.metadata.managed_fields.packed && !self.status.pod_states.0
    }
}

impl DefinitionVersion {
    /// Whether the schema of the status lacks the compact form, so that the API server prunes it.
    pub(crate) fn prunes_packed(&self) -> bool {
        let status = &self.schema["openAPIV3Schema"]["properties"]["status"]["properties"];
        status.as_object().is_some_and(|fields| !fields.contains_key("packed"))
    }

    /// The properties of its objects' spec. None if the schema accepts any field.
    pub fn spec_properties(&self) -> Option<&serde_json::Map<String, Value>> {
        self.schema["openAPIV3Schema"]["properties"]["spec"]["properties"].as_object()
    }
}
