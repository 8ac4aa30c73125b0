//! The product's `ClusterAdmissionPolicies`: whether they run, and which Pods they are sent.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

use super::Findings;
use crate::facts::{ContextAwareResource, Facts, Policy};
use crate::finding::{Diagnosis, Difference, Severity};
use crate::settings::{CUSTOM_WORKLOADS, POLICY, VALIDATION, is_policy_of};

/// The label by which a namespace joins or leaves.
pub const INJECTION: &str = "persistent-pod-state/injection";
/// The label that the controllers of StatefulSets set.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the name of a namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The match condition that depends on the custom kinds.
const CUSTOM_CONDITION: &str = "controller-is-a-custom-workload";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if !facts.policy_definition.is_absent() && facts.policies.items().is_some() {
        let ours: Vec<&Policy> = facts.own_policies().collect();
        if facts.settings.is_before() {
            check_server_change(facts, &ours, findings);
        } else {
            check_installed(facts, &ours, findings);
        }
    }
    if !facts.settings.is_before() {
        check_webhooks(facts, findings);
    }
}

/// Kubewarden refuses to change `spec.policyServer`, in the midst of an upgrade.
fn check_server_change(facts: &Facts, ours: &[&Policy], findings: &mut Findings) {
    let Some(to) = &facts.settings.policy_server else { return };
    for policy in ours.iter().filter(|policy| policy.spec.policy_server != *to) {
        let (from, to) = (policy.spec.policy_server.clone(), to.clone());
        findings.error(subject(policy.name()), Diagnosis::PolicyServerImmutable { from, to });
    }
}

fn check_installed(facts: &Facts, ours: &[&Policy], findings: &mut Findings) {
    let base = &facts.settings.policy;
    for (name, is_validation) in [(base.clone(), false), (format!("{base}{VALIDATION}"), true)] {
        if ours.iter().all(|policy| policy.name() != name) {
            findings.error(subject(&name), Diagnosis::PolicyMissing { is_validation });
        }
    }
    for policy in ours {
        check_one(policy, findings);
    }
    for policy in facts.policies_for_pods() {
        check_what_is_sent(policy, findings);
    }
    let values = |field: fn(&Policy) -> &String| -> BTreeSet<String> {
        ours.iter().map(|policy| field(policy).clone()).collect()
    };
    let servers = values(|policy| &policy.spec.policy_server);
    for (field, values) in [("policyServer", servers), ("module", values(|policy| &policy.spec.module))] {
        if values.len() > 1 {
            findings.warning(subject(base), Diagnosis::PoliciesDiffer(field, values));
        }
    }
}

fn subject(policy: &str) -> String {
    format!("ClusterAdmissionPolicy {policy}")
}

/// Kubewarden's controller sets `PolicyActive` to False at the beginning of each reconciliation, and to True only if the
/// PolicyServer's Pods are all of the latest ReplicaSet and ready, and know the policy (`PolicyUniquelyReachable`). A
/// PolicyServer that cannot pull a module ends, so its new Pod never becomes ready, and the policy stays `pending`.
fn check_one(policy: &Policy, findings: &mut Findings) {
    let (subject, spec) = (subject(policy.name()), &policy.spec);
    let server = spec.policy_server.clone();
    // The mode in which it runs is that of the spec until the PolicyServer has it.
    let mode = [&policy.status.mode, &spec.mode].into_iter().find(|mode| !mode.is_empty());
    let mode = mode.map_or("protect", String::as_str);
    let is_deleted = policy.metadata.deletion_timestamp.is_some();
    if policy.is_active() && !is_deleted {
        findings.ok(subject.as_str(), Diagnosis::PolicyActive { server, mode: mode.to_owned() });
    } else {
        let state = match policy.status.policy_status.as_str() {
            _ if is_deleted => "being deleted",
            "" => "not scheduled",
            state => state,
        };
        let reachable = policy.condition("PolicyUniquelyReachable");
        let unmet =
            reachable.filter(|one| one.status != "True").or(policy.condition("PolicyActive")).cloned();
        let diagnosis = Diagnosis::PolicyNotActive { state: state.to_owned(), server, unmet };
        findings.error(subject.as_str(), diagnosis);
    }
    if mode == "monitor" {
        findings.warning(subject, Diagnosis::PolicyMonitors);
    }
}

/// A policy that is never asked looks healthy, and Pods start without their states.
fn check_what_is_sent(policy: &Policy, findings: &mut Findings) {
    let (subject, spec) = (subject(policy.name()), &policy.spec);
    let is_custom = policy.name().ends_with(CUSTOM_WORKLOADS);
    // The last one depends on the kinds that are configured.
    let shipped = if is_custom { &SHIPPED_CONDITIONS[..2] } else { &SHIPPED_CONDITIONS };
    let is_same = |one: &str, other: &str| one.split_whitespace().eq(other.split_whitespace());
    let is_missing = |name: &str, expression: &str| {
        !spec.match_conditions.iter().any(|one| one.name == name && is_same(&one.expression, expression))
    };
    let missing = shipped.iter().filter(|(name, expression)| is_missing(name, expression));
    let missing: Vec<String> = missing.map(|(name, _)| (*name).to_owned()).collect();
    let is_further = |name: &String| {
        !(shipped.iter().any(|(one, _)| one == name) || is_custom && name == CUSTOM_CONDITION)
    };
    let names = spec.match_conditions.iter().map(|one| one.name.clone());
    let further: Vec<String> = names.filter(is_further).collect();
    let namespaces = further_expressions(&spec.namespace_selector);
    // That for custom kinds depends on their Pods' labels.
    let has_other_selector = !is_custom && is_other_selector(&spec.object_selector);
    for (differs, severity, difference) in [
        (!spec.mutating, Severity::Error, Difference::NotMutating),
        (!spec.rules.iter().any(has_new_pods), Severity::Error, Difference::NoNewPods),
        (has_other_selector, Severity::Warning, Difference::ObjectSelector),
        (!namespaces.is_empty(), Severity::Warning, Difference::NamespaceSelector(namespaces)),
        (!missing.is_empty(), Severity::Warning, Difference::MissingConditions(missing)),
        (!further.is_empty(), Severity::Warning, Difference::FurtherConditions(further)),
    ] {
        if differs {
            findings.add(severity, subject.as_str(), Diagnosis::PolicyDiffers(difference));
        }
    }
    let is_ours = |one: &ContextAwareResource| {
        one.kind == "PersistentPodState" && one.api_version.starts_with("apps.kruise.io/")
    };
    if !spec.context_aware_resources.iter().any(is_ours) {
        findings.error(subject, Diagnosis::LookupNotGranted);
    }
}

/// Whether a rule has the creation of Pods.
fn has_new_pods(rule: &RuleWithOperations) -> bool {
    let has = |field: &Option<Vec<String>>, names: &[&str]| {
        field.iter().flatten().any(|one| names.contains(&one.as_str()))
    };
    has(&rule.api_groups, &["", "*"])
        && (rule.api_versions.is_none() || has(&rule.api_versions, &["v1", "*"]))
        && has(&rule.resources, &["pods", "*", "*/*"])
        && has(&rule.operations, &["CREATE", "*"])
        && rule.scope.as_deref() != Some("Cluster")
}

fn is_other_selector(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
        || expressions(selector).any(|one| one.key != POD_NAME || one.operator != "Exists")
}

/// The keys of the expressions that the policies are not installed with. Kubewarden ignores `matchLabels`.
fn further_expressions(selector: &LabelSelector) -> Vec<String> {
    let is_shipped = |one: &LabelSelectorRequirement| {
        let values: Vec<&str> = one.values.iter().flatten().map(String::as_str).collect();
        one.key == NAMESPACE_NAME && one.operator == "NotIn"
            || one.key == INJECTION
                && matches!(
                    (one.operator.as_str(), values.as_slice()),
                    ("NotIn", ["disabled"]) | ("In", ["enabled"])
                )
    };
    expressions(selector).filter(|one| !is_shipped(one)).map(|one| one.key.clone()).collect()
}

fn expressions(selector: &LabelSelector) -> impl Iterator<Item = &LabelSelectorRequirement> {
    selector.match_expressions.iter().flatten()
}

/// The match conditions that a policy for Pods is installed with: names and expressions.
const SHIPPED_CONDITIONS: [(&str, &str); 3] = [
    ("pod-is-not-bound-to-a-node", "!has(object.spec.nodeName) || object.spec.nodeName == ''"),
    ("pod-has-a-name", "has(object.metadata.name) && object.metadata.name != ''"),
    (
        "controller-is-a-statefulset",
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner,
         has(owner.controller) && owner.controller && owner.kind == 'StatefulSet' &&
         (owner.apiVersion.startsWith('apps/') || owner.apiVersion.startsWith('apps.kruise.io/')))",
    ),
];

/// What Kubewarden's controller puts before the name of a policy, to name its webhook configuration.
const WEBHOOK_PREFIX: &str = "clusterwide-";

/// Whether Kubewarden's controller gives this name to the webhook of one of the product's policies, unless those have names of
/// their own.
pub fn is_own_webhook(name: &str) -> bool {
    let policy =
        name.strip_suffix(".kubewarden.admission").and_then(|name| name.strip_prefix(WEBHOOK_PREFIX));
    policy.is_some_and(|policy| is_policy_of(POLICY, policy))
}

fn check_webhooks(facts: &Facts, findings: &mut Findings) {
    for policy in facts.own_policies() {
        let mutating = policy.spec.mutating;
        let kind = if mutating { "Mutating" } else { "Validating" };
        let subject = format!("{kind}WebhookConfiguration {WEBHOOK_PREFIX}{}", policy.name());
        match has_webhook(facts, policy.name(), mutating) {
            Some(true) => findings.ok(subject, Diagnosis::WebhookRegistered),
            Some(false) => findings.error(subject, Diagnosis::WebhookMissing),
            None => {}
        }
    }
}

/// Whether the API server asks a policy. None if it could not be read.
pub(super) fn has_webhook(facts: &Facts, policy: &str, mutating: bool) -> Option<bool> {
    let name = format!("{WEBHOOK_PREFIX}{policy}");
    let is_it = |metadata: &ObjectMeta, is_empty: bool| metadata.name.as_ref() == Some(&name) && !is_empty;
    if mutating {
        let mut all = facts.mutating.items()?.iter();
        Some(all.any(|one| is_it(&one.metadata, one.webhooks.as_ref().is_none_or(Vec::is_empty))))
    } else {
        let mut all = facts.validating.items()?.iter();
        Some(all.any(|one| is_it(&one.metadata, one.webhooks.as_ref().is_none_or(Vec::is_empty))))
    }
}
