//! Whether the PolicyServer can pull the module.

use std::collections::BTreeMap;

use super::findings::{Findings, some_of};
use crate::facts::{
    CUSTOM_WORKLOADS, Facts, Metadata, Module, ModuleAnswer, Phase, Policy, RegistryService, VALIDATION,
    matches,
};
use crate::finding::{Code, Severity};

/// The label by which a namespace joins or leaves.
pub const INJECTION: &str = "persistent-pod-state/injection";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    for module in &facts.modules {
        check_module(facts, module, findings);
    }
    for service in &facts.registry_services {
        check_service(facts, service, findings);
    }
}

fn check_module(facts: &Facts, module: &Module, findings: &mut Findings) {
    let subject = format!("module {}", module.reference);
    let failure = severity_of_pull_failure(facts, &module.reference);
    let later = match (failure, facts.settings.phase) {
        (Severity::Warning, Phase::Before) => {
            " The installed policies name it already, so the installation changes nothing about that."
        }
        (Severity::Warning, Phase::After) => {
            " The policy runs now, but not after the next start of the PolicyServer."
        }
        _ => "",
    };
    let host = host_of(&module.reference);
    let secret = facts.server.known().map_or("", |server| server.spec.image_pull_secret.as_str());
    let elsewhere = !facts.settings.runs_in_cluster;
    match &module.answer {
        ModuleAnswer::Found => findings.ok(Code::ModuleFound, subject, format!("{host} has it")),
        ModuleAnswer::NotFound => findings.add(
            failure,
            Code::ModuleNotFound,
            subject,
            format!("{host} does not have it.{later}"),
            "correct repository and tag of the module (chart: policy.module), or push it",
        ),
        ModuleAnswer::NeedsCredentials(code) => {
            let (seen, advice) = if secret.is_empty() {
                (
                    format!("{host} requires a login ({code}), and the PolicyServer has no imagePullSecret"),
                    format!(
                        "set spec.imagePullSecret of PolicyServer {}, if the repository exists",
                        facts.server_name
                    ),
                )
            } else {
                (
                    format!(
                        "{host} requires a login ({code}); the PolicyServer uses the Secret {secret}, which is not read here"
                    ),
                    "check the Secret with `kwctl pull`, or by whether the PolicyServer becomes ready"
                        .to_owned(),
                )
            };
            findings.add(Severity::Unknown, Code::RegistryNeedsCredentials, subject, seen, advice);
        }
        ModuleAnswer::Unreachable(why) => {
            let uses_proxy = facts.server.known().is_some_and(|server| {
                let names = server.spec.env.iter().filter_map(|variable| variable["name"].as_str());
                names.map(str::to_ascii_uppercase).any(|name| name.ends_with("_PROXY"))
            });
            let (severity, context) = match (elsewhere, uses_proxy) {
                (true, _) => (Severity::Unknown, " from here; the PolicyServer may reach it"),
                (_, true) => (Severity::Unknown, " from here; the PolicyServer uses a proxy"),
                _ => (failure, ""),
            };
            findings.add(
                severity,
                Code::RegistryUnreachable,
                subject,
                format!("{host} cannot be reached{context}: {why}.{later}"),
                "correct the registry's name, or let Kubewarden's namespace reach it",
            );
        }
        ModuleAnswer::UnknownAuthority(why) => {
            let severity =
                if facts.settings.source_authorities.contains(&host) { Severity::Unknown } else { failure };
            findings.add(
                severity,
                Code::RegistryUntrusted,
                subject,
                format!("the certificate of {host} is not trusted: {why}.{later}"),
                format!(
                    "add the authority's certificate to spec.sourceAuthorities of PolicyServer {}",
                    facts.server_name
                ),
            );
        }
        ModuleAnswer::PlainHttp => findings.add(
            failure,
            Code::RegistryUntrusted,
            subject,
            format!("{host} does not speak HTTPS, and the PolicyServer does not list it as insecure.{later}"),
            format!(
                "add {host} to spec.insecureSources of PolicyServer {}, if you trust the network",
                facts.server_name
            ),
        ),
        ModuleAnswer::Unclear(answer) => findings.add(
            Severity::Unknown,
            Code::RegistryAnswerUnclear,
            subject,
            format!("{host} answers {answer}"),
            "try again; ask who runs the registry",
        ),
        ModuleAnswer::NotAsked(why) => {
            findings.info(Code::ModuleNotChecked, subject, *why, "");
        }
    }
}

/// A registry whose Pods wait for the PolicyServer, which waits for the registry: neither starts after an outage.
fn check_service(facts: &Facts, service: &RegistryService, findings: &mut Findings) {
    if service.stateful_owners.is_empty() || !is_covered(facts, &service.namespace) {
        return;
    }
    findings.warning(
        Code::RegistryNeedsPolicy,
        format!("Service {}/{}", service.namespace, service.name),
        format!(
            "the module's registry runs as {} in a namespace that the policy covers: after an outage each waits for the other",
            some_of(&service.stateful_owners)
        ),
        format!("kubectl label namespace {} {INJECTION}=disabled", service.namespace),
    );
}

/// Whether Pods in a namespace are sent to the policy, after the installation.
fn is_covered(facts: &Facts, namespace: &str) -> bool {
    match facts.settings.phase {
        Phase::After => is_covered_now(facts, namespace).unwrap_or_else(|| will_be_covered(facts, namespace)),
        Phase::Before => will_be_covered(facts, namespace),
    }
}

fn labels_of<'a>(facts: &'a Facts, namespace: &str) -> Option<&'a BTreeMap<String, String>> {
    let known = facts.namespaces.items().unwrap_or_default();
    known.iter().find(|one: &&Metadata| one.name == namespace).map(|one| &one.labels)
}

/// Whether an installed policy is sent the Pods in a namespace. None if no policy for Pods is installed.
pub(super) fn is_covered_now(facts: &Facts, namespace: &str) -> Option<bool> {
    let none = BTreeMap::new();
    let labels = labels_of(facts, namespace).unwrap_or(&none);
    let mut pods =
        facts.own_policies().filter(|policy| !policy.metadata.name.ends_with(VALIDATION)).peekable();
    pods.peek()?;
    let is_sent = pods.any(|policy| {
        // Kubewarden ignores matchLabels.
        let expressions = &policy.spec.namespace_selector["matchExpressions"];
        matches(&serde_json::json!({"matchExpressions": expressions}), labels)
    });
    Some(is_sent && namespace != facts.server_namespace)
}

/// Whether the settings of the installation cover a namespace.
pub(super) fn will_be_covered(facts: &Facts, namespace: &str) -> bool {
    let none = BTreeMap::new();
    let labels = labels_of(facts, namespace).unwrap_or(&none);
    if namespace == facts.server_namespace {
        return false;
    }
    let is_skipped = namespace == facts.settings.namespace
        || facts.settings.skipped_namespaces.iter().any(|skipped| skipped == namespace);
    let label = labels.get(INJECTION).map(String::as_str);
    !is_skipped && if facts.settings.is_opt_in { label == Some("enabled") } else { label != Some("disabled") }
}

/// Whether a policy for Pods of custom kinds is installed.
pub(super) fn custom_policy(facts: &Facts) -> Option<&Policy> {
    let name = format!("{}{CUSTOM_WORKLOADS}", facts.settings.policy);
    facts.own_policies().find(|policy| policy.metadata.name == name)
}

/// The registry in a reference: `registry://host:port/repository:tag`.
fn host_of(reference: &str) -> String {
    let rest = reference.split_once("://").map_or(reference, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// How bad it is that a module cannot be pulled. As long as the policies are active, only the next start of the
/// PolicyServer fails. An upgrade that keeps the module may be the repair.
fn severity_of_pull_failure(facts: &Facts, module: &str) -> Severity {
    let mut ours = facts.own_policies().peekable();
    let is_no_worse = match facts.settings.phase {
        Phase::Before => ours.any(|policy| policy.spec.module == module),
        Phase::After => ours.peek().is_some() && ours.all(Policy::is_active),
    };
    if is_no_worse { Severity::Warning } else { Severity::Error }
}
