//! The product's `ClusterAdmissionPolicies`: whether they run, and which Pods they are sent.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::Resource;

use pps_core::INJECTION_LABEL;

use super::Findings;
use crate::facts::{ContextAwareResource, Facts, Policy, Read};
use crate::finding::{Diagnosis, Difference, Severity};
use crate::settings::{CUSTOM_WORKLOADS, POLICY, VALIDATION, is_policy_of};

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
    let Some(to) = &facts.settings.policy_server else {
        return;
    };
    for policy in ours
        .iter()
        .filter(|policy| policy.spec.policy_server != *to)
    {
        let diagnosis =
            Diagnosis::PolicyServerImmutable(policy.spec.policy_server.clone(), to.clone());
        findings.error(subject(policy.name()), diagnosis);
    }
}

fn check_installed(facts: &Facts, ours: &[&Policy], findings: &mut Findings) {
    let base = &facts.settings.policy;
    for name in [base.clone(), format!("{base}{VALIDATION}")] {
        if ours.iter().all(|policy| policy.name() != name) {
            findings.error(subject(&name), Diagnosis::PolicyMissing);
        }
    }
    for policy in ours {
        check_one(policy, findings);
    }
    for policy in facts.policies_for_pods() {
        check_what_is_sent(facts, policy, findings);
    }
    let values = |field: fn(&Policy) -> &String| -> BTreeSet<String> {
        ours.iter().map(|policy| field(policy).clone()).collect()
    };
    let servers = values(|policy| &policy.spec.policy_server);
    for (field, values) in [
        ("policyServer", servers),
        ("module", values(|policy| &policy.spec.module)),
    ] {
        if values.len() > 1 {
            findings.warning(subject(base), Diagnosis::PoliciesDiffer(field, values));
        }
    }
}

fn subject(policy: &str) -> String {
    format!("ClusterAdmissionPolicy {policy}")
}

/// Kubewarden's controller sets `PolicyActive` to False at the beginning of each reconciliation,
/// and to True only if the PolicyServer's Pods are all of the latest ReplicaSet and ready, and know
/// the policy (`PolicyUniquelyReachable`). A PolicyServer that cannot pull a module ends, so its
/// new Pod never becomes ready, and the policy stays `pending`.
fn check_one(policy: &Policy, findings: &mut Findings) {
    let (subject, spec) = (subject(policy.name()), &policy.spec);
    // The mode in which it runs is that of the spec until the PolicyServer has it.
    let mode = [&policy.status.mode, &spec.mode]
        .into_iter()
        .find(|mode| !mode.is_empty());
    let mode = mode.map_or("protect", String::as_str);
    let is_deleted = policy.metadata.deletion_timestamp.is_some();
    if policy.is_active() && !is_deleted {
        findings.ok(subject.as_str(), Diagnosis::PolicyActive(mode.to_owned()));
    } else {
        let state = match policy.status.policy_status.as_str() {
            _ if is_deleted => "being deleted",
            "" => "not scheduled",
            state => state,
        };
        let reachable = policy.condition("PolicyUniquelyReachable");
        let unmet = reachable
            .filter(|one| one.status != "True")
            .or(policy.condition("PolicyActive"))
            .cloned();
        findings.error(
            subject.as_str(),
            Diagnosis::PolicyNotActive(state.to_owned(), unmet),
        );
    }
    if mode == "monitor" {
        findings.warning(subject, Diagnosis::PolicyMonitors);
    }
}

/// A policy that is never asked looks healthy, and Pods start without their states.
fn check_what_is_sent(facts: &Facts, policy: &Policy, findings: &mut Findings) {
    let (subject, spec) = (subject(policy.name()), &policy.spec);
    let is_custom = policy.name().ends_with(CUSTOM_WORKLOADS);
    let fields = [
        // That for custom kinds depends on their Pods' labels.
        (
            "objectSelector",
            !is_custom && is_other_selector(&spec.object_selector),
        ),
        (
            "namespaceSelector",
            expressions(&spec.namespace_selector).any(|one| is_further(one, facts)),
        ),
        (
            "matchConditions",
            has_other_conditions(&spec.match_conditions, is_custom),
        ),
    ];
    let fields: Vec<_> = fields
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(field, _)| field)
        .collect();
    for (differs, severity, difference) in [
        (!spec.mutating, Severity::Error, Difference::NotMutating),
        (
            !spec.rules.iter().any(has_new_pods),
            Severity::Error,
            Difference::NoNewPods,
        ),
        (
            !fields.is_empty(),
            Severity::Warning,
            Difference::Selects(fields),
        ),
    ] {
        if differs {
            findings.add(
                severity,
                subject.as_str(),
                Diagnosis::PolicyDiffers(difference),
            );
        }
    }
    let is_ours = |one: &ContextAwareResource| {
        one.kind == "PersistentPodState" && one.api_version.starts_with("apps.kruise.io/")
    };
    if !spec.context_aware_resources.iter().any(is_ours) {
        findings.error(subject, Diagnosis::LookupNotGranted);
    }
}

/// Whether the match conditions are others than those that a policy for Pods is installed with.
fn has_other_conditions(conditions: &[MatchCondition], is_custom: bool) -> bool {
    // The last one depends on the kinds that are configured.
    let (shipped, depends) = if is_custom {
        (&SHIPPED_CONDITIONS[..2], CUSTOM_CONDITION)
    } else {
        (&SHIPPED_CONDITIONS[..], "")
    };
    let is_same = |one: &str, other: &str| one.split_whitespace().eq(other.split_whitespace());
    let is_shipped = |one: &MatchCondition| {
        shipped
            .iter()
            .any(|(name, expression)| one.name == *name && is_same(&one.expression, expression))
    };
    let (same, other): (Vec<_>, Vec<_>) = conditions.iter().partition(|one| is_shipped(one));
    same.len() != shipped.len() || other.iter().any(|one| one.name != depends)
}

/// Whether a rule has the creation of Pods.
fn has_new_pods(rule: &RuleWithOperations) -> bool {
    let has = |field: &Option<Vec<String>>, names: &[&str]| {
        field
            .iter()
            .flatten()
            .any(|one| names.contains(&one.as_str()))
    };
    has(&rule.api_groups, &["", "*"])
        && (rule.api_versions.is_none() || has(&rule.api_versions, &["v1", "*"]))
        && has(&rule.resources, &["pods", "*", "*/*"])
        && has(&rule.operations, &["CREATE", "*"])
        && rule.scope.as_deref() != Some("Cluster")
}

fn is_other_selector(selector: &LabelSelector) -> bool {
    selector
        .match_labels
        .as_ref()
        .is_some_and(|labels| !labels.is_empty())
        || expressions(selector).any(|one| one.key != POD_NAME || one.operator != "Exists")
}

/// Whether the policies are installed without this expression. Kubewarden ignores `matchLabels`.
fn is_further(one: &LabelSelectorRequirement, facts: &Facts) -> bool {
    let values: Vec<&str> = one.values.iter().flatten().map(String::as_str).collect();
    match (one.key.as_str(), one.operator.as_str(), values.as_slice()) {
        (NAMESPACE_NAME, "In", _) => facts.setup.namespace.is_none(),
        (NAMESPACE_NAME, "NotIn", _)
        | (INJECTION_LABEL, "NotIn", ["disabled"])
        | (INJECTION_LABEL, "In", ["enabled"]) => false,
        _ => true,
    }
}

fn expressions(selector: &LabelSelector) -> impl Iterator<Item = &LabelSelectorRequirement> {
    selector.match_expressions.iter().flatten()
}

/// The match conditions that a policy for Pods is installed with: names and expressions.
const SHIPPED_CONDITIONS: [(&str, &str); 3] = [
    (
        "pod-is-not-bound-to-a-node",
        "!has(object.spec.nodeName) || object.spec.nodeName == ''",
    ),
    (
        "pod-has-a-name",
        "has(object.metadata.name) && object.metadata.name != ''",
    ),
    (
        "controller-is-a-statefulset",
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner,
         has(owner.controller) && owner.controller && owner.kind == 'StatefulSet' &&
         (owner.apiVersion.startsWith('apps/') || owner.apiVersion.startsWith('apps.kruise.io/')))",
    ),
];

/// What Kubewarden's controller puts before the name of a policy, to name its webhook
/// configuration.
const WEBHOOK_PREFIX: &str = "clusterwide-";

/// Whether Kubewarden's controller gives this name to the webhook of one of the product's policies,
/// unless those have names of their own.
pub fn is_own_webhook(name: &str) -> bool {
    let policy = name
        .strip_suffix(".kubewarden.admission")
        .and_then(|name| name.strip_prefix(WEBHOOK_PREFIX));
    policy.is_some_and(|policy| is_policy_of(POLICY, policy))
}

fn check_webhooks(facts: &Facts, findings: &mut Findings) {
    let mutating = registered(&facts.mutating, |one| {
        one.webhooks.iter().flatten().next().is_some()
    });
    let validating = registered(&facts.validating, |one| {
        one.webhooks.iter().flatten().next().is_some()
    });
    for policy in facts.own_policies() {
        let (kind, names) = if policy.spec.mutating {
            ("Mutating", &mutating)
        } else {
            ("Validating", &validating)
        };
        let Some(names) = names else { continue };
        let name = format!("{WEBHOOK_PREFIX}{}", policy.name());
        let subject = format!("{kind}WebhookConfiguration {name}");
        if names.contains(&name.as_str()) {
            findings.ok(subject, Diagnosis::WebhookRegistered);
        } else {
            findings.error(subject, Diagnosis::WebhookMissing);
        }
    }
}

/// The names of configurations. One without webhooks asks nobody.
fn registered<K: Resource>(
    all: &Read<Vec<K>>,
    has_webhooks: impl Fn(&K) -> bool,
) -> Option<Vec<&str>> {
    let asking = all.items()?.iter().filter(|one| has_webhooks(one));
    Some(
        asking
            .filter_map(|one| one.meta().name.as_deref())
            .collect(),
    )
}
