//! The words of each finding: what was seen, and what to do about it.

use pps_core::{DEFAULT_NAMESPACE_SELECTOR, INJECTION_LABEL};

use crate::facts::{Facts, LEASE_SECONDS, ModuleAnswer, Recorded};
use crate::finding::{
    Diagnosis as D, Difference, Finding, Leaderless, Listed, Pull, Replicas, Unready,
};
use crate::rules::{OLDEST, OWN_FIELD, VERSIONS, is_ours};

/// How many names a finding lists.
const MAX_NAMES: usize = 5;
const AGAIN: &str = "apply the policy of this version again";

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// What was seen.
    pub(crate) seen: String,
    /// What to do. Empty if there is nothing to do, or only a command to run.
    pub(crate) advice: String,
    /// The command to run for it, or empty.
    pub(crate) command: String,
}

impl Words {
    /// What to do, with the command.
    pub(crate) fn advice(&self) -> String {
        let parts = [self.advice.as_str(), &self.command];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    }

    fn run(self, command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            ..self
        }
    }
}

fn say(seen: impl Into<String>, advice: impl Into<String>) -> Words {
    Words {
        seen: seen.into(),
        advice: advice.into(),
        command: String::new(),
    }
}

pub(crate) fn words(facts: &Facts, finding: &Finding) -> Words {
    let settings = &facts.settings;
    let (namespace, cluster) = (&settings.namespace, &settings.cluster);
    let (server, server_namespace) = (&facts.server_name, &facts.server_namespace);
    let account = facts.account_name();
    let version = facts
        .kubernetes
        .known()
        .map_or("", |(_, _, version)| version.as_str());
    let pods_of_server =
        format!("kubectl get pods -n {server_namespace} -l kubewarden/policy-server={server}");
    let mut words = match &finding.diagnosis {
        D::KubernetesSupported => say(version, ""),
        D::KubernetesTooOld => say(
            version,
            format!(
                "update it to {}.{} or newer, the oldest that is supported",
                OLDEST.0, OLDEST.1
            ),
        ),
        D::KubewardenInstalled => say("its definitions have all fields that the policies use", ""),
        D::KubewardenMissing(kinds) => say(
            format!("no definition of {}", kinds.join(" and ")),
            "install Kubewarden first: helm charts kubewarden-crds, kubewarden-controller, \
             kubewarden-defaults",
        ),
        D::KubewardenTooOld(lacks) => say(
            format!("its definition does not have {}", lacks.join(", ")),
            "update Kubewarden to 1.20 or newer, first its chart kubewarden-crds",
        ),

        D::DefinitionReady(served) => {
            let owner = if facts.definition.known().is_some_and(is_ours) {
                "ours"
            } else {
                "OpenKruise's"
            };
            say(format!("{owner}, serves {}", served.join(" and ")), "")
        }
        D::DefinitionMissing => say(
            "does not exist, and all recorded states are gone with it: Pods start without their \
             states, on any node",
            format!(
                "delete and drain nothing. Stop the sidecar first, which would record where Pods \
                 are now: kubectl scale deployment -n {namespace} {} --replicas=0{cluster}. Then \
                 follow \"The definition was deleted\" in docs/break-glass.md",
                facts
                    .each()
                    .map(|one| one.settings.sidecar.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        ),
        D::DefinitionOfOpenKruise => say(
            format!(
                "is OpenKruise's (its spec has no field {OWN_FIELD}), but the sidecar is to record"
            ),
            "apply our crd.yaml; to let OpenKruise record, follow \"Back to OpenKruise\" in \
             docs/operations.md",
        ),
        D::DefinitionNotEstablished(true) => say(
            "is being deleted, and all PersistentPodStates with it",
            "wait until the definition is gone, then install it again, but save them first",
        )
        .run("kubectl get pps -A -o yaml"),
        D::DefinitionNotEstablished(false) => {
            say("is not established", "usually another kind has its names")
                .run("kubectl describe crd persistentpodstates.apps.kruise.io")
        }
        D::DefinitionVersionNotServed => say(
            format!(
                "serves neither {} with the subresource status",
                VERSIONS.join(" nor ")
            ),
            "apply our crd.yaml",
        ),
        D::DefinitionWithoutCompactForm(hidden) => say(
            format!(
                "has no field status.packed and hides the states that {} objects have there: {}. \
                 The next write of such an object removes them",
                hidden.len(),
                some_of(hidden)
            ),
            "apply our crd.yaml again; until then restart no sidecar, change no such object, and \
             delete none of their Pods",
        ),

        D::PolicyServerReady => say("all Pods are ready", ""),
        D::PolicyServerMissing => say(
            "does not exist: policies on it are never active",
            "create it (chart: policyServer.create=true), or name one that exists",
        ),
        D::PolicyServerNotReady(Unready::Stopped) => {
            say("spec.replicas is 0, so nothing answers", "").run(format!(
                "kubectl patch policyserver {server} --type=merge -p \
                 '{{\"spec\":{{\"replicas\":2}}}}'"
            ))
        }
        D::PolicyServerNotReady(Unready::NoDeployment) => say(
            format!("has no Deployment in namespace {server_namespace}"),
            "see whether Kubewarden's controller runs",
        ),
        // It ends if a module cannot be pulled, is not valid, or refuses its settings.
        D::PolicyServerNotReady(Unready::Pods(Replicas { available, wanted }, unavailable)) => say(
            format!("{available} of {wanted} Pods are ready, {unavailable} are unavailable"),
            "the log of a Pod that is not ready says why",
        )
        .run(pods_of_server),
        D::ServiceAccountMissing => say(
            format!(
                "PolicyServer {server} uses it, but it does not exist, so no Pod of it can be \
                 created"
            ),
            "",
        )
        .run(format!(
            "kubectl create serviceaccount -n {server_namespace} {account}"
        )),
        D::ServiceAccountMismatch(bound_namespace, bound) => say(
            format!(
                "uses {server_namespace}/{account}, but the role is bound to \
                 {bound_namespace}/{bound}"
            ),
            "bind the role pps-policy to the PolicyServer's own account (chart: \
             policy.policyServerServiceAccount)",
        ),
        D::LookupAllowed => say("may get persistentpodstates in all namespaces", ""),
        D::LookupForbidden => say(
            format!(
                "it may not get persistentpodstates in all namespaces, so PolicyServer {server} \
                 refuses Pods"
            ),
            "",
        )
        .run(format!(
            "kubectl create clusterrolebinding pps-policy-{server} --clusterrole=pps-policy \
             --serviceaccount={server_namespace}:{account}"
        )),

        D::PolicyActive(mode) => say(format!("active, mode {mode}"), ""),
        D::PolicyMissing => say(
            "does not exist: no Pod gets its state back, or nobody checks PersistentPodStates \
             that users write",
            "apply it (kubectl apply -k, or helm upgrade); to stop the product on purpose, see \
             docs/break-glass.md",
        ),
        D::PolicyNotActive(state, unmet) => {
            let reason = match unmet {
                Some(one) => format!("{} is {}: {}", one.kind, one.status, one.message),
                None => "Kubewarden's controller has not looked at it yet".to_owned(),
            };
            let advice = "the log of a Pod of the PolicyServer that is not ready says why";
            say(format!("is {state}: {reason}"), advice).run(pods_of_server)
        }
        D::PoliciesDiffer(field, values) => say(
            format!(
                "the policies differ in spec.{field}: {}",
                values.iter().cloned().collect::<Vec<_>>().join(", ")
            ),
            "set it to the same value in all; \"Another PolicyServer\" in deploy/README.md \
             describes a move",
        ),
        D::PolicyServerImmutable(from, to) => say(
            format!(
                "runs on PolicyServer {from}, and would move to {to}, which Kubewarden refuses"
            ),
            "keep the PolicyServer, or move as \"Another PolicyServer\" in deploy/README.md \
             describes",
        ),
        D::PolicyMonitors => say(
            "has the mode monitor: it only logs, and changes and refuses nothing",
            "set spec.mode to protect",
        ),
        D::PolicyDiffers(Difference::NotMutating) => {
            say("spec.mutating is false: no Pod gets its state back", AGAIN)
        }
        D::PolicyDiffers(Difference::NoNewPods) => say(
            "spec.rules has no CREATE of pods: the policy is never asked, and no Pod gets its \
             state back",
            AGAIN,
        ),
        D::PolicyDiffers(Difference::Selects(fields)) => say(
            format!(
                "is sent other Pods than with the {} of this version: Pods that it leaves out \
                 start without their states",
                fields.join(", ")
            ),
            "apply the policy of this version again, if that is not meant (chart: \
             policy.namespaceSelector, policy.extraMatchConditions)",
        ),
        D::LookupNotGranted => say(
            "spec.contextAwareResources does not name PersistentPodState: the PolicyServer \
             refuses each lookup",
            AGAIN,
        ),
        D::WebhookRegistered => say("exists", ""),
        D::WebhookMissing => say(
            "does not exist or is empty, so the API server does not ask the policy",
            "Kubewarden's controller makes it once the policy is active",
        ),

        D::Module(pull) => of_pull(facts, pull),

        D::SidecarAvailable(Replicas { available, wanted }) => say(
            format!("{available} of {wanted} sidecars are available"),
            "",
        ),
        D::SidecarNotAvailable(Replicas { available, wanted }) => {
            let so = if *available == 0 {
                ", so nothing is recorded"
            } else {
                ""
            };
            say(
                format!("{available} of {wanted} sidecars are available{so}"),
                "/readyz of a Pod says what it waits for",
            )
            .run(format!("kubectl describe pods -n {namespace}"))
        }
        D::SidecarMissing(None) => say(
            "does not exist, so nothing is recorded",
            "apply it (kubectl apply -k, or helm upgrade), or name its namespace with --namespace",
        ),
        D::SidecarMissing(Some(holder)) => say(
            format!("does not exist, but {holder} renews its Lease and records"),
            "name the sidecar's Deployment with --sidecar and --namespace, if the process is not \
             outside the cluster",
        ),
        D::SidecarForbidden(rights) => say(
            format!("its ServiceAccount may not {}", some_of(rights)),
            "apply the roles and bindings of this version again (deploy/base/rbac.yaml, chart: \
             rbac.create)",
        ),
        D::LeaderActive(pod) => say(format!("{pod} leads"), ""),
        D::LeaderMissing(why, sidecar) => {
            let seen = match why {
                Leaderless::NoLease => "does not exist".to_owned(),
                Leaderless::Free => "nobody holds it".to_owned(),
                Leaderless::Silent(holder) => {
                    format!("{holder} holds it, but did not renew it for {LEASE_SECONDS} s")
                }
            };
            say(format!("{seen}, so nothing is recorded"), "")
                .run(format!("kubectl logs -n {namespace} deployment/{sidecar}"))
        }
        D::SecondInstallation(names) => say(
            format!(
                "another sidecar runs, which may record the same objects: {}",
                some_of(names)
            ),
            "delete one of the two installations",
        ),
        D::ConflictingRecorder(manager) => say(
            format!("OpenKruise's manager {manager} runs and writes the same objects"),
            "install the overlay openkruise (chart: sidecar.recorder=openkruise), or remove \
             OpenKruise's manager",
        ),
        D::RecorderMissing => say(
            "OpenKruise's manager is to record, but does not renew its Lease: nothing is recorded",
            "start OpenKruise's manager, or install without the overlay openkruise (chart: \
             sidecar.recorder=self)",
        ),

        D::ObjectsRecorded(listed) => {
            say(format!("{}, none reports a problem", count(*listed)), "")
        }
        D::ObjectsNotRecorded(failed, listed) => of_objects(failed, *listed),
        D::NamespacesNotCovered(namespaces) => {
            let are = if settings.is_before() {
                "would not be"
            } else {
                "are not"
            };
            let seen = format!(
                "{are} in scope, so Pods start without their states: {}",
                some_of(namespaces)
            );
            let advice =
                "if that is not meant (chart: scope, namespaces, policy.excludedNamespaces)";
            // The label does not help a namespace that has it.
            let lacks = |one: &&String| {
                facts
                    .labels_of(one)
                    .get(INJECTION_LABEL)
                    .is_none_or(|v| v != "enabled")
            };
            let names: Vec<_> = namespaces
                .iter()
                .filter(lacks)
                .take(MAX_NAMES)
                .cloned()
                .collect();
            let names = names.join(" ");
            let label =
                format!("kubectl label namespace {names} {DEFAULT_NAMESPACE_SELECTOR} --overwrite");
            if names.is_empty() {
                say(seen, advice)
            } else {
                say(seen, advice).run(label)
            }
        }
        D::WhitelistMalformed(error) => say(
            error.as_str(),
            "correct it; until then the sidecar uses the last list that it could read",
        ),
        D::CustomKindNotCovered(kinds) => say(
            format!(
                "the sidecar records {}, but no policy covers their Pods",
                some_of(kinds)
            ),
            "add the kind to the policy for custom workloads (chart: workloads)",
        ),

        D::PermissionMissing(right) => say(
            format!("may not {right}"),
            "run it with an account that may, for example with the ClusterRole pps-check of \
             deploy/check.yaml",
        ),
        D::RequestFailed(why) => say(
            format!("cannot be read: {why}"),
            "run the check again; if it fails again, see why the API server refuses the request",
        ),
    };
    words.command += if words.command.is_empty() {
        ""
    } else {
        cluster
    };
    words
}

fn of_pull(
    facts: &Facts,
    Pull {
        host,
        answer,
        is_harmless_now,
        may_differ,
    }: &Pull,
) -> Words {
    let server = &facts.server_name;
    let later = if *is_harmless_now {
        " The installed policies name it already: they run until the next start of the \
         PolicyServer."
    } else {
        ""
    };
    match answer {
        ModuleAnswer::ModuleFound => say(format!("{host} has it"), ""),
        ModuleAnswer::ModuleNotFound => say(
            format!("{host} does not have it.{later}"),
            "correct repository and tag of the module (chart: policy.module), or push it",
        ),
        ModuleAnswer::RegistryNeedsCredentials(code) => say(
            format!("{host} requires a login ({code}); the PolicyServer's Secret is not read here"),
            format!("see whether PolicyServer {server} has a spec.imagePullSecret"),
        ),
        ModuleAnswer::RegistryUnreachable(why) => {
            let context = if *may_differ {
                " from here; the PolicyServer may reach it"
            } else {
                ""
            };
            say(
                format!("{host} cannot be reached{context}: {why}.{later}"),
                format!(
                    "correct the registry's name, or let Kubewarden's namespace reach it. \
                     PolicyServer {server} has spec.sourceAuthorities for the certificate of an \
                     own authority, and spec.insecureSources for one without TLS"
                ),
            )
        }
        ModuleAnswer::RegistryAnswerUnclear(answer) => say(
            format!("{host} answers {answer}"),
            "try again; ask who runs the registry",
        ),
        ModuleAnswer::ModuleNotChecked => say(
            "the registry was not asked (--skip-registry), or the module is not in an OCI registry",
            "",
        ),
    }
}

fn of_objects(failed: &[Recorded], listed: Listed) -> Words {
    let reason = |one: &Recorded| {
        one.recording
            .as_ref()
            .map(|one| one.reason.clone())
            .unwrap_or_default()
    };
    let named = |one: &Recorded| format!("{}/{} ({})", one.namespace, one.name, reason(one));
    let named: Vec<String> = failed.iter().map(named).collect();
    let first = failed.first().map_or_else(String::new, |one| {
        format!("{} -n {}", one.name, one.namespace)
    });
    let seen = format!(
        "{} of {} are not recorded: {}",
        failed.len(),
        count(listed),
        some_of(&named)
    );
    say(seen, "correct what the reason names; for all of it")
        .run(format!("kubectl describe pps {first}"))
}

fn count(Listed { read, more }: Listed) -> String {
    if more == 0 {
        read.to_string()
    } else {
        format!("{read} (and {more} more that were not read)")
    }
}

/// The first names, and how many more there are.
fn some_of(names: &[impl ToString]) -> String {
    let shown = names
        .iter()
        .take(MAX_NAMES)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
