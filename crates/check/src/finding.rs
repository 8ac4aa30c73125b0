//! What was found: how bad it is, and which object it is about. [`crate::report`] has the words.

use std::collections::BTreeSet;

use serde::Serialize;
use strum::{IntoStaticStr, VariantNames};

use crate::facts::{Condition, MinorVersion, ModuleAnswer, Recorded, Right, ServiceAccountName};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "UPPERCASE")]
pub(crate) enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing to do.
    Info,
    /// Could not be checked.
    Unknown,
    /// Works now, but costs something or will fail under some condition.
    Warning,
    /// Does not work, or refuses Pods.
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) subject: String,
    pub(crate) diagnosis: Diagnosis,
}

impl Finding {
    /// The name of the diagnosis, by which programs and `docs/reference/check.md` know the finding.
    pub(crate) fn code(&self) -> &'static str {
        match &self.diagnosis {
            Diagnosis::Version(diagnosis) => diagnosis.into(),
            Diagnosis::Definition(diagnosis) => diagnosis.into(),
            Diagnosis::Server(diagnosis) => diagnosis.into(),
            Diagnosis::Policy(diagnosis) => diagnosis.into(),
            Diagnosis::Module(pull) => (&pull.answer).into(),
            Diagnosis::Recorder(diagnosis) => diagnosis.into(),
            Diagnosis::Objects(diagnosis) => diagnosis.into(),
            Diagnosis::Unread(diagnosis) => diagnosis.into(),
        }
    }
}

/// What is right or wrong, by topic. `docs/reference/check.md` explains each variant of each topic
/// by its name, in this order; names never change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Diagnosis {
    Version(VersionDiagnosis),
    Definition(DefinitionDiagnosis),
    Server(ServerDiagnosis),
    Policy(PolicyDiagnosis),
    /// Named after the registry's answer.
    Module(Pull),
    Recorder(RecorderDiagnosis),
    Objects(ObjectsDiagnosis),
    Unread(UnreadDiagnosis),
}

/// Whether Kubernetes and Kubewarden are new enough.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum VersionDiagnosis {
    KubernetesSupported,
    KubernetesTooOld,
    KubewardenInstalled,
    KubewardenMissing {
        kinds: Vec<&'static str>,
    },
    KubewardenTooOld(TooOld),
    KubewardenSkewed {
        older: OlderPart,
        newest: NewestPart,
    },
    KubewardenVersionUnknown(KubewardenPart),
    /// The image that the user has to give a PolicyServer of this installation.
    DefaultPolicyServerImage {
        image: String,
    },
}

/// A part of Kubewarden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KubewardenPart {
    Controller,
    PolicyServer(String),
    Definitions,
}

/// What of Kubewarden is older than the oldest version that is supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TooOld {
    Definition {
        missing_fields: Vec<&'static str>,
    },
    Part {
        part: KubewardenPart,
        version: String,
    },
}

/// A part of Kubewarden that is older than another part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OlderPart {
    Controller {
        version: String,
    },
    PolicyServer {
        name: String,
        image: String,
    },
    /// The definition of PolicyServer lacks this field of the newest part's version. Definitions
    /// have no version of their own.
    Definitions {
        missing_field: &'static str,
    },
}

/// The part of Kubewarden with the newest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewestPart {
    pub(crate) part: KubewardenPart,
    pub(crate) minor: MinorVersion,
}

/// The definition of PersistentPodState.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
#[expect(
    clippy::enum_variant_names,
    reason = "programs know findings by these names"
)]
pub(crate) enum DefinitionDiagnosis {
    DefinitionReady { served: Vec<String> },
    DefinitionMissing,
    DefinitionOfOpenKruise,
    DefinitionNotEstablished(NotEstablished),
    DefinitionVersionNotServed,
    DefinitionWithoutCompactForm { hidden_objects: Vec<String> },
}

/// Why the API server does not serve a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotEstablished {
    Deleting,
    NotAccepted,
}

/// The PolicyServer and its ServiceAccount.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum ServerDiagnosis {
    PolicyServerReady,
    PolicyServerMissing,
    PolicyServerNotReady(Unready),
    ServiceAccountMissing,
    ServiceAccountMismatch {
        used: ServiceAccountName,
        bound: ServiceAccountName,
    },
    LookupAllowed,
    LookupForbidden,
}

/// Why a PolicyServer does not answer as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    Stopped,
    NoDeployment,
    /// Some Pods are not ready, or new Pods do not become available.
    Pods {
        replicas: Replicas,
        unavailable: i32,
    },
}

/// The policies and their webhooks.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum PolicyDiagnosis {
    PolicyActive {
        mode: String,
    },
    PolicyMissing,
    PolicyNotActive {
        state: String,
        unmet: Option<Condition>,
    },
    PoliciesDiffer {
        field: &'static str,
        values: BTreeSet<String>,
    },
    PolicyServerImmutable {
        from: String,
        to: String,
    },
    PolicyMonitors,
    PolicyDiffers(Difference),
    LookupNotGranted,
    WebhookRegistered,
    WebhookMissing,
}

/// What makes a policy for Pods be sent other Pods than the one that was installed, or change
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    NotMutating,
    NoNewPods,
    /// These fields, which decide what the policy is sent, are not those of this version.
    Selects(Vec<&'static str>),
}

/// Whether the PolicyServer can pull a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pull {
    pub(crate) host: String,
    pub(crate) answer: ModuleAnswer,
    /// Whether the policies run with this module, whatever the registry answers.
    pub(crate) is_harmless_now: bool,
    /// Whether the PolicyServer may get another answer: it runs elsewhere or uses a proxy.
    pub(crate) may_differ: bool,
}

/// The sidecar and other recorders.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum RecorderDiagnosis {
    SidecarAvailable(Replicas),
    /// A process may renew the sidecar's Lease all the same.
    SidecarMissing {
        lease_holder: Option<String>,
    },
    SidecarNotAvailable(Replicas),
    SidecarForbidden {
        rights: Vec<Right>,
    },
    /// Requirements have an end, and no Pod gives up its place.
    FallbackForbidden {
        /// What the sidecar lacks; if nothing, the flag that lets it evict Pods.
        rights: Vec<Right>,
    },
    LeaderActive {
        pod: String,
    },
    LeaderMissing {
        why: Leaderless,
        sidecar: String,
    },
    SecondInstallation {
        deployments: Vec<String>,
    },
    ConflictingRecorder {
        manager: String,
    },
    RecorderMissing,
}

/// Why no sidecar leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaderless {
    NoLease,
    /// Nobody holds the Lease.
    Free,
    /// The holder does not renew the Lease.
    Silent {
        holder: String,
    },
}

/// The PersistentPodStates, their namespaces and custom kinds.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum ObjectsDiagnosis {
    ObjectsRecorded(Listed),
    ObjectsNotRecorded {
        failed: Vec<Recorded>,
        listed: Listed,
    },
    NamespacesNotCovered {
        namespaces: Vec<String>,
    },
    WhitelistMalformed {
        error: String,
    },
    CustomKindNotCovered {
        kinds: Vec<String>,
    },
}

/// How many PersistentPodStates were read, and how many more there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) read: usize,
    pub(crate) more: u64,
}

/// What the check could not read.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum UnreadDiagnosis {
    PermissionMissing(Right),
    RequestFailed { why: String },
}

/// How many Pods of a Deployment are available, and how many it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) available: i32,
    pub(crate) wanted: i32,
}

impl From<VersionDiagnosis> for Diagnosis {
    fn from(diagnosis: VersionDiagnosis) -> Self {
        Self::Version(diagnosis)
    }
}

impl From<DefinitionDiagnosis> for Diagnosis {
    fn from(diagnosis: DefinitionDiagnosis) -> Self {
        Self::Definition(diagnosis)
    }
}

impl From<ServerDiagnosis> for Diagnosis {
    fn from(diagnosis: ServerDiagnosis) -> Self {
        Self::Server(diagnosis)
    }
}

impl From<PolicyDiagnosis> for Diagnosis {
    fn from(diagnosis: PolicyDiagnosis) -> Self {
        Self::Policy(diagnosis)
    }
}

impl From<RecorderDiagnosis> for Diagnosis {
    fn from(diagnosis: RecorderDiagnosis) -> Self {
        Self::Recorder(diagnosis)
    }
}

impl From<ObjectsDiagnosis> for Diagnosis {
    fn from(diagnosis: ObjectsDiagnosis) -> Self {
        Self::Objects(diagnosis)
    }
}

impl From<UnreadDiagnosis> for Diagnosis {
    fn from(diagnosis: UnreadDiagnosis) -> Self {
        Self::Unread(diagnosis)
    }
}
