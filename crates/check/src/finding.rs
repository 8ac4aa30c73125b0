//! A finding: what was seen, how bad it is, and what to do.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
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

impl Severity {
    /// Its name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Info => "INFO",
            Self::Unknown => "UNKNOWN",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which finding it is. Names never change.
    pub code: Code,
    /// The object that it is about: `PolicyServer default`.
    pub subject: String,
    /// What was seen.
    pub seen: String,
    /// What to do, in one line. Empty if there is nothing to do.
    pub advice: String,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Which finding it is. `docs/check.md` says for each what causes it and what to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All codes, in the order of `docs/check.md`.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

codes! {
    /// The version of Kubernetes is supported.
    KubernetesSupported,
    /// Kubernetes is older than the product supports.
    KubernetesTooOld,
    /// This Kubernetes does not evaluate match conditions.
    MatchConditionsNotEvaluated,

    /// Kubewarden's definitions have the fields that the policies use.
    KubewardenInstalled,
    /// Kubewarden is not installed.
    KubewardenMissing,
    /// Kubewarden's definition lacks fields that the policies use.
    KubewardenTooOld,
    /// Kubewarden's controller was not found, or is not available.
    KubewardenControllerUnavailable,

    /// The definition of PersistentPodState fits.
    DefinitionReady,
    /// There is no definition of PersistentPodState.
    DefinitionMissing,
    /// The definition of PersistentPodState is OpenKruise's, but the sidecar is to record.
    DefinitionOfOpenKruise,
    /// The definition is not established, or is being deleted.
    DefinitionNotEstablished,
    /// The definition serves no version that the policy and the sidecar read.
    DefinitionVersionNotServed,
    /// Objects may be stored in a version that the definition no longer has.
    DefinitionStoredVersionUnknown,
    /// Each read of a PersistentPodState may need a conversion webhook.
    DefinitionConversionWebhook,
    /// The definition has no status subresource, so nothing can be recorded.
    DefinitionWithoutStatus,
    /// The definition does not keep the compact form of states, or hides states that have it.
    DefinitionWithoutCompactForm,

    /// The PolicyServer exists and its Pods are ready.
    PolicyServerReady,
    /// The PolicyServer does not exist.
    PolicyServerMissing,
    /// Not all Pods of the PolicyServer are ready.
    PolicyServerNotReady,
    /// Kubewarden's controller could not set up the PolicyServer.
    PolicyServerNotReconciled,
    /// The PolicyServer has one replica.
    PolicyServerSingleReplica,
    /// The PolicyServer has another image than `default`.
    PolicyServerImageDiffers,
    /// The PolicyServer runs only modules with certain signatures.
    SignatureRequired,
    /// The PolicyServer's ServiceAccount does not exist.
    ServiceAccountMissing,
    /// The PolicyServer has another ServiceAccount than the one that gets the role.
    ServiceAccountMismatch,
    /// The PolicyServer's ServiceAccount may get PersistentPodStates.
    LookupAllowed,
    /// The PolicyServer's ServiceAccount may not get PersistentPodStates.
    LookupForbidden,

    /// The policies are active.
    PolicyActive,
    /// A policy is not installed.
    PolicyMissing,
    /// A policy is not active.
    PolicyNotActive,
    /// The policies run on several `PolicyServers`.
    PolicyServersDiffer,
    /// The installation would move a policy to another PolicyServer, which Kubewarden refuses.
    PolicyServerImmutable,
    /// The installation would change a policy's mode from protect to monitor, which Kubewarden refuses.
    PolicyModeImmutable,
    /// A policy only monitors.
    PolicyMonitors,
    /// Pods start without their states while the PolicyServer cannot be reached.
    FailurePolicyIgnore,
    /// The policy may take as long as the API server waits, or longer.
    TimeoutsDoNotFit,
    /// The policy for Pods has no objectSelector, so Pods of all kinds are sent.
    ObjectSelectorMissing,
    /// A match condition was removed or changed.
    MatchConditionsChanged,
    /// A policy is not sent the Pods that it was installed for, or does not change them.
    PolicyDiffers,
    /// A policy may not look up PersistentPodStates.
    LookupNotGranted,
    /// The policies have different modules.
    ModulesDiffer,

    /// The webhooks exist and match their policies.
    WebhookRegistered,
    /// A policy has no webhook.
    WebhookMissing,
    /// A webhook calls another PolicyServer than its policy names.
    WebhookPointsElsewhere,
    /// A webhook differs from its policy.
    WebhookDiffers,
    /// Other webhooks change Pods after this policy.
    LaterWebhooks,

    /// The registry has the module.
    ModuleFound,
    /// The registry does not have the module.
    ModuleNotFound,
    /// The registry requires a login to read the module.
    RegistryNeedsCredentials,
    /// The registry cannot be reached.
    RegistryUnreachable,
    /// The registry's certificate is not trusted, or it does not speak HTTPS.
    RegistryUntrusted,
    /// The registry gave another answer than yes or no.
    RegistryAnswerUnclear,
    /// Whether the module can be pulled was not checked.
    ModuleNotChecked,
    /// The registry runs in a StatefulSet whose Pods the policy checks.
    RegistryNeedsPolicy,

    /// The sidecar is available.
    SidecarAvailable,
    /// The sidecar is not installed.
    SidecarMissing,
    /// Not enough sidecars are available.
    SidecarNotAvailable,
    /// The sidecar's ServiceAccount lacks a right.
    SidecarForbidden,
    /// The sidecar and the policy have different versions.
    VersionsDiffer,
    /// One sidecar leads.
    LeaderActive,
    /// No sidecar leads.
    LeaderMissing,
    /// There are two installations of the sidecar.
    SecondInstallation,
    /// OpenKruise's manager records, too.
    ConflictingRecorder,
    /// OpenKruise's manager is to record, but does not run.
    RecorderMissing,

    /// All PersistentPodStates are recorded.
    ObjectsRecorded,
    /// Some PersistentPodStates are not recorded.
    ObjectsNotRecorded,
    /// PersistentPodStates lie in namespaces in which no Pod gets its state back.
    NamespacesNotCovered,
    /// The list of custom kinds cannot be read.
    WhitelistMalformed,
    /// The sidecar records a custom kind whose Pods no policy covers.
    CustomKindNotCovered,

    /// A right is missing to check something.
    PermissionMissing,
    /// Something could not be read.
    RequestFailed,
}
