//! The product's `ClusterAdmissionPolicies`: whether they run, and which Pods they are sent.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::Resource;

use pps_core::INJECTION_LABEL;

use super::Findings;
use crate::facts::{Condition, ContextAwareResource, Facts, Policy, Read};
use crate::finding::{Difference, PolicyDiagnosis};
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
    for policy in ours {
        let from = &policy.spec.policy_server;
        if from != to {
            let diagnosis = PolicyDiagnosis::PolicyServerImmutable {
                from: from.clone(),
                to: to.clone(),
            };
            findings.error(subject(policy.name()), diagnosis);
        }
    }
}

fn check_installed(facts: &Facts, ours: &[&Policy], findings: &mut Findings) {
    let base = &facts.settings.policy;
    for name in [base.clone(), format!("{base}{VALIDATION}")] {
        if ours.iter().all(|policy| policy.name() != name) {
            findings.error(subject(&name), PolicyDiagnosis::PolicyMissing);
        }
    }
    for policy in ours {
        check_one(policy, findings);
    }
    for policy in facts.policies_for_pods() {
        check_what_is_sent(facts, policy, findings);
    }
    let servers = ours.iter().map(|policy| &policy.spec.policy_server);
    let modules = ours.iter().map(|policy| &policy.spec.module);
    check_equal("policyServer", servers.cloned().collect(), base, findings);
    check_equal("module", modules.cloned().collect(), base, findings);
}

/// Whether all policies have the same value in a field of their spec.
fn check_equal(
    field: &'static str,
    values: BTreeSet<String>,
    policy: &str,
    findings: &mut Findings,
) {
    if values.len() > 1 {
        let diagnosis = PolicyDiagnosis::PoliciesDiffer { field, values };
        findings.warning(subject(policy), diagnosis);
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
    let subject = subject(policy.name());
    // The mode in which it runs is that of the spec until the PolicyServer has it.
    let mode = [&policy.status.mode, &policy.spec.mode]
        .into_iter()
        .find(|mode| !mode.is_empty());
    let mode = mode.map_or("protect", String::as_str).to_owned();
    let monitors = mode == "monitor";
    if policy.is_active() && !is_being_deleted(policy) {
        findings.ok(subject.as_str(), PolicyDiagnosis::PolicyActive { mode });
    } else {
        let state = policy_state(policy).to_owned();
        let unmet = unmet_condition(policy).cloned();
        let diagnosis = PolicyDiagnosis::PolicyNotActive { state, unmet };
        findings.error(subject.as_str(), diagnosis);
    }
    if monitors {
        findings.warning(subject, PolicyDiagnosis::PolicyMonitors);
    }
}

fn is_being_deleted(policy: &Policy) -> bool {
    policy.metadata.deletion_timestamp.is_some()
}

fn policy_state(policy: &Policy) -> &str {
    match policy.status.policy_status.as_str() {
        _ if is_being_deleted(policy) => "being deleted",
        "" => "not scheduled",
        state => state,
    }
}

fn unmet_condition(policy: &Policy) -> Option<&Condition> {
    policy
        .condition("PolicyUniquelyReachable")
        .filter(|reachable| reachable.status != "True")
        .or(policy.condition("PolicyActive"))
}

/// A policy that is never asked looks healthy, and Pods start without their states.
fn check_what_is_sent(facts: &Facts, policy: &Policy, findings: &mut Findings) {
    let spec = &policy.spec;
    let subject = subject(policy.name());
    if !spec.mutating {
        let diagnosis = PolicyDiagnosis::PolicyDiffers(Difference::NotMutating);
        findings.error(subject.as_str(), diagnosis);
    }
    if !spec.rules.iter().any(has_new_pods) {
        let diagnosis = PolicyDiagnosis::PolicyDiffers(Difference::NoNewPods);
        findings.error(subject.as_str(), diagnosis);
    }
    let fields = changed_fields(facts, policy);
    if !fields.is_empty() {
        let diagnosis = PolicyDiagnosis::PolicyDiffers(Difference::Selects(fields));
        findings.warning(subject.as_str(), diagnosis);
    }
    if !spec.context_aware_resources.iter().any(is_lookup) {
        findings.error(subject, PolicyDiagnosis::LookupNotGranted);
    }
}

/// The fields of a policy's spec that decide which Pods it is sent, and are not as installed.
fn changed_fields(facts: &Facts, policy: &Policy) -> Vec<&'static str> {
    let spec = &policy.spec;
    let is_custom = policy.name().ends_with(CUSTOM_WORKLOADS);
    let mut fields = Vec::new();
    // The selector of the policy for custom kinds depends on their Pods' labels.
    if !is_custom && is_other_selector(&spec.object_selector) {
        fields.push("objectSelector");
    }
    if expressions(&spec.namespace_selector).any(|one| is_further(one, facts)) {
        fields.push("namespaceSelector");
    }
    if has_other_conditions(&spec.match_conditions, is_custom) {
        fields.push("matchConditions");
    }
    fields
}

/// Whether a policy with this resource may look up PersistentPodStates.
fn is_lookup(resource: &ContextAwareResource) -> bool {
    resource.kind == "PersistentPodState" && resource.api_version.starts_with("apps.kruise.io/")
}

/// Whether the match conditions are others than those that a policy for Pods is installed with.
fn has_other_conditions(conditions: &[MatchCondition], is_custom: bool) -> bool {
    let shipped = if is_custom {
        &SHIPPED_CONDITIONS[..2]
    } else {
        &SHIPPED_CONDITIONS[..]
    };
    let mut unchanged = 0;
    for condition in conditions {
        if shipped.iter().any(|shipped| shipped.is_same(condition)) {
            unchanged += 1;
        } else if !is_custom || condition.name != CUSTOM_CONDITION {
            return true;
        }
    }
    unchanged != shipped.len()
}

/// Whether a rule has the creation of Pods.
fn has_new_pods(rule: &RuleWithOperations) -> bool {
    has_any(rule.api_groups.as_ref(), &["", "*"])
        && (rule.api_versions.is_none() || has_any(rule.api_versions.as_ref(), &["v1", "*"]))
        && has_any(rule.resources.as_ref(), &["pods", "*", "*/*"])
        && has_any(rule.operations.as_ref(), &["CREATE", "*"])
        && rule.scope.as_deref() != Some("Cluster")
}

fn has_any(field: Option<&Vec<String>>, names: &[&str]) -> bool {
    let mut values = field.into_iter().flatten();
    values.any(|value| names.contains(&value.as_str()))
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

struct ShippedCondition {
    name: &'static str,
    expression: &'static str,
}

impl ShippedCondition {
    fn is_same(&self, condition: &MatchCondition) -> bool {
        let own = self.expression.split_whitespace();
        condition.name == self.name && own.eq(condition.expression.split_whitespace())
    }
}

/// The match conditions that a policy for Pods is installed with.
const SHIPPED_CONDITIONS: [ShippedCondition; 3] = [
    ShippedCondition {
        name: "pod-is-not-bound-to-a-node",
        expression: "!has(object.spec.nodeName) || object.spec.nodeName == ''",
    },
    ShippedCondition {
        name: "pod-has-a-name",
        expression: "has(object.metadata.name) && object.metadata.name != ''",
    },
    ShippedCondition {
        name: "controller-is-a-statefulset",
        expression:
            "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner,
         has(owner.controller) && owner.controller && owner.kind == 'StatefulSet' &&
         (owner.apiVersion.startsWith('apps/') || owner.apiVersion.startsWith('apps.kruise.io/')))",
    },
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
    let mutating = WebhookConfigurations {
        kind: "MutatingWebhookConfiguration",
        names: registered(&facts.mutating, |one| has_items(one.webhooks.as_ref())),
    };
    let validating = WebhookConfigurations {
        kind: "ValidatingWebhookConfiguration",
        names: registered(&facts.validating, |one| has_items(one.webhooks.as_ref())),
    };
    for policy in facts.own_policies() {
        let configurations = if policy.spec.mutating {
            &mutating
        } else {
            &validating
        };
        let Some(names) = &configurations.names else {
            continue;
        };
        let name = format!("{WEBHOOK_PREFIX}{}", policy.name());
        let subject = format!("{} {name}", configurations.kind);
        if names.contains(&name.as_str()) {
            findings.ok(subject, PolicyDiagnosis::WebhookRegistered);
        } else {
            findings.error(subject, PolicyDiagnosis::WebhookMissing);
        }
    }
}

/// The webhook configurations of a kind for which the API server asks somebody.
struct WebhookConfigurations<'a> {
    kind: &'static str,
    /// None if they could not be read.
    names: Option<Vec<&'a str>>,
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

fn has_items<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|items| !items.is_empty())
}
