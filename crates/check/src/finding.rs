//! What was found: how bad it is, and which object it is about. [`crate::report`] has the words.

use std::collections::BTreeSet;

use serde::Serialize;
use strum::{IntoStaticStr, VariantNames};

use crate::facts::{Condition, ModuleAnswer, Recorded, Right};

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
            Diagnosis::Module(pull) => (&pull.answer).into(),
            other => other.into(),
        }
    }
}

/// What is right or wrong. `docs/reference/check.md` explains each by its name, in this order;
/// names never change.
#[derive(Clone, Debug, PartialEq, IntoStaticStr, VariantNames)]
pub(crate) enum Diagnosis {
    KubernetesSupported,
    KubernetesTooOld,
    KubewardenInstalled,
    KubewardenMissing(Vec<&'static str>),
    /// What its definition lacks.
    KubewardenTooOld(Vec<&'static str>),
    DefinitionReady(Vec<String>),
    DefinitionMissing,
    DefinitionOfOpenKruise,
    /// Whether it is being deleted.
    DefinitionNotEstablished(bool),
    DefinitionVersionNotServed,
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
    /// Its mode.
    PolicyActive(String),
    PolicyMissing,
    /// Its state, and the condition that is not met.
    PolicyNotActive(String, Option<Condition>),
    /// The field of their spec in which the policies differ, and its values.
    PoliciesDiffer(&'static str, BTreeSet<String>),
    /// The server before, and after.
    PolicyServerImmutable(String, String),
    PolicyMonitors,
    PolicyDiffers(Difference),
    LookupNotGranted,
    WebhookRegistered,
    WebhookMissing,
    /// Its name is that of the answer.
    Module(Pull),
    SidecarAvailable(Replicas),
    /// Who renews the Lease all the same.
    SidecarMissing(Option<String>),
    SidecarNotAvailable(Replicas),
    SidecarForbidden(Vec<Right>),
    LeaderActive(String),
    /// Why, and the sidecar.
    LeaderMissing(Leaderless, String),
    SecondInstallation(Vec<String>),
    ConflictingRecorder(String),
    RecorderMissing,
    ObjectsRecorded(Listed),
    ObjectsNotRecorded(Vec<Recorded>, Listed),
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
    /// Some are not available, or so many new Pods do not become ready.
    Pods(Replicas, i32),
}

/// How many Pods of a Deployment are available, and how many it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) available: i32,
    pub(crate) wanted: i32,
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

/// Why no sidecar leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaderless {
    NoLease,
    /// Nobody holds it.
    Free,
    /// This holder does not renew it.
    Silent(String),
}

/// How many PersistentPodStates were read, and how many more there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) read: usize,
    pub(crate) more: u64,
}
