//! What was found: how bad it is, and which object it is about. [`crate::report`] has the words.

use serde::Serialize;
use strum::{IntoStaticStr, VariantNames};

use crate::facts::{Condition, ModuleAnswer, Right};

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

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) subject: String,
    pub(crate) diagnosis: Diagnosis,
}

impl Finding {
    /// The name of the diagnosis, by which programs and `docs/check.md` know the finding.
    pub(crate) fn code(&self) -> &'static str {
        (&self.diagnosis).into()
    }
}

/// What is right or wrong. `docs/check.md` explains each by its name, in this order; names never change.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum Diagnosis {
    KubernetesSupported,
    KubernetesTooOld,
    KubewardenInstalled,
    KubewardenMissing(Vec<&'static str>),
    /// Its definition lacks these fields; without any, it does not serve v1.
    KubewardenTooOld(Vec<&'static str>),
    DefinitionReady(Vec<String>),
    DefinitionMissing,
    DefinitionOfOpenKruise,
    DefinitionNotEstablished {
        is_deleted: bool,
    },
    DefinitionVersionNotServed,
    DefinitionWithoutStatus,
    /// The objects whose states it hides.
    DefinitionWithoutCompactForm(Vec<String>),
    PolicyServerReady,
    PolicyServerMissing,
    PolicyServerNotReady(Unready),
    ServiceAccountMissing,
    /// The namespace and name to which the role is bound.
    ServiceAccountMismatch(String, String),
    LookupAllowed,
    LookupForbidden,
    PolicyActive {
        server: String,
        mode: String,
    },
    PolicyMissing {
        is_validation: bool,
    },
    PolicyNotActive {
        state: String,
        server: String,
        unmet: Option<Condition>,
    },
    PolicyServersDiffer(Vec<String>),
    PolicyServerImmutable {
        from: String,
        to: String,
    },
    PolicyMonitors,
    MatchConditionsChanged(Vec<&'static str>),
    PolicyDiffers(Difference),
    LookupNotGranted,
    ModulesDiffer(Vec<String>),
    WebhookRegistered,
    WebhookMissing,
    ModuleFound,
    ModuleNotFound(PullFailure),
    /// The status of the answer.
    RegistryNeedsCredentials(u16),
    /// The PolicyServer may reach it if it runs elsewhere or uses a proxy.
    RegistryUnreachable {
        failure: PullFailure,
        may_differ: bool,
    },
    RegistryUntrusted(PullFailure),
    RegistryAnswerUnclear(String),
    ModuleNotChecked,
    SidecarAvailable {
        available: i32,
        wanted: i32,
    },
    /// Who renews the Lease all the same.
    SidecarMissing(Option<String>),
    SidecarNotAvailable {
        available: i32,
        wanted: i32,
    },
    SidecarForbidden(Vec<Right>),
    VersionsDiffer {
        sidecar: String,
        policy: String,
    },
    LeaderActive(String),
    LeaderMissing(Leaderless),
    SecondInstallation(Vec<String>),
    ConflictingRecorder(String),
    RecorderMissing,
    ObjectsRecorded {
        listed: usize,
        more: u64,
    },
    ObjectsNotRecorded {
        failed: Vec<NotRecorded>,
        listed: usize,
        more: u64,
    },
    NamespacesNotCovered(Vec<String>),
    WhitelistMalformed(String),
    CustomKindNotCovered(Vec<String>),
    PermissionMissing(Right),
    RequestFailed(String),
}

/// Why a PolicyServer does not answer as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    Stopped,
    NoDeployment,
    /// Of `wanted` Pods only `ready` are ready, or a new Pod does not become ready.
    Pods {
        ready: i32,
        wanted: i32,
        unavailable: i32,
    },
}

/// What makes a policy for Pods be sent other Pods than the one that was installed, or change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    NotMutating,
    NoNewPods,
    /// Its objectSelector leaves out more.
    ObjectSelector,
    /// Its namespaceSelector has further expressions, for these keys.
    NamespaceSelector(Vec<String>),
    /// It has further match conditions.
    MatchConditions(Vec<String>),
}

/// What it means that the PolicyServer cannot pull a module, and why that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullFailure {
    pub(crate) answer: ModuleAnswer,
    /// Whether the policies run with this module nevertheless.
    pub(crate) is_harmless_now: bool,
}

/// Why no sidecar leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaderless {
    NoLease,
    /// Nobody holds it.
    Free,
    /// This holder does not renew it.
    Silent(String),
}

/// A PersistentPodState whose condition `Recording` is False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotRecorded {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) condition: Condition,
}
