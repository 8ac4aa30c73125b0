//! The webhooks that Kubewarden's controller derives from the policies, and those that run after them.

use serde_json::{Value, json};

use super::findings::{Findings, some_of};
use super::policies::DEFAULT_TIMEOUT;
use super::sent::{NAMESPACE_NAME, has_new_pods};
use crate::facts::{Facts, Phase, Policy, Settings, Webhook, WebhookConfiguration};
use crate::finding::Code;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if facts.settings.phase == Phase::After {
        for policy in facts.own_policies() {
            check_one(facts, policy, findings);
        }
    }
    check_later(facts, findings);
}

/// The name of a policy's webhook configuration.
fn webhook_name(policy: &str) -> String {
    format!("clusterwide-{policy}")
}

/// Whether Kubewarden's controller gives this name to the webhook of one of the product's policies, unless those have names of
/// their own.
pub fn is_own_webhook(name: &str) -> bool {
    let policy =
        name.strip_suffix(".kubewarden.admission").and_then(|name| name.strip_prefix("clusterwide-"));
    policy.is_some_and(|policy| Settings::default().is_ours(policy))
}

/// The webhook configuration under the name that Kubewarden gives that of the policy for Pods.
pub(super) fn of_pods(facts: &Facts) -> Option<&WebhookConfiguration> {
    let name = webhook_name(&facts.settings.policy);
    facts.mutating.items()?.iter().find(|one| one.metadata.name == name)
}

fn check_one(facts: &Facts, policy: &Policy, findings: &mut Findings) {
    let all = if policy.spec.mutating { &facts.mutating } else { &facts.validating };
    let Some(all) = all.items() else { return };
    let kind =
        if policy.spec.mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let name = webhook_name(&policy.metadata.name);
    let subject = format!("{kind} {name}");
    let found = all.iter().find(|configuration| configuration.metadata.name == name);
    let Some(webhook) = found.and_then(|configuration| configuration.webhooks.first()) else {
        return findings.error(
            Code::WebhookMissing,
            subject,
            "does not exist, so the API server does not ask the policy",
            "Kubewarden's controller makes it once the policy is active",
        );
    };
    let elsewhere = destination_differs(&webhook.client_config, policy, &name);
    if let Some(destination) = &elsewhere {
        findings.error(
            Code::WebhookPointsElsewhere,
            subject.as_str(),
            format!("calls {destination}, but the policy runs on PolicyServer {}", policy.spec.policy_server),
            "see whether Kubewarden's controller runs; it makes the webhook again after `kubectl delete` of it",
        );
    }
    let differences = differences(facts, policy, webhook);
    if !differences.is_empty() {
        findings.warning(
            Code::WebhookDiffers,
            subject.as_str(),
            format!("differs from its policy in {}", differences.join(", ")),
            "find out who changed it; Kubewarden's controller makes it again after `kubectl delete` of it",
        );
    }
    if elsewhere.is_none() && differences.is_empty() {
        findings.ok(Code::WebhookRegistered, subject, "exists and is the same as in the policy");
    }
}

/// Where the webhook sends requests, if that is not its policy's PolicyServer.
fn destination_differs(client: &Value, policy: &Policy, name: &str) -> Option<String> {
    let path = format!("/validate/{name}");
    if let Some(url) = client["url"].as_str() {
        return (!url.ends_with(&path)).then(|| url.to_owned());
    }
    let service = &client["service"];
    let server = format!("policy-server-{}", policy.spec.policy_server);
    let text = |field: &str| service[field].as_str().unwrap_or("?");
    (text("name") != server || text("path") != path)
        .then(|| format!("Service {}/{}{}", text("namespace"), text("name"), text("path")))
}

/// The fields in which a webhook differs from its policy.
fn differences(facts: &Facts, policy: &Policy, webhook: &Webhook) -> Vec<&'static str> {
    let spec = &policy.spec;
    let mut found = Vec::new();
    let mut differs = |field, is_same: bool| {
        if !is_same {
            found.push(field);
        }
    };
    let failure = spec.failure_policy.as_deref().unwrap_or("Fail");
    differs("failurePolicy", webhook.failure_policy.is_empty() || webhook.failure_policy == failure);
    let wanted = spec.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
    differs("timeoutSeconds", webhook.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT) == wanted);
    differs("rules", rules(&spec.rules) == rules(&webhook.rules));
    differs("objectSelector", selector(&spec.object_selector) == selector(&webhook.object_selector));
    differs("namespaceSelector", is_same_namespaces(facts, policy, webhook));
    if facts.evaluates_conditions() == Some(true) {
        differs("matchConditions", spec.match_conditions == webhook.match_conditions);
    }
    found
}

/// The controller adds an expression for its own namespace, and uses only the expressions.
fn is_same_namespaces(facts: &Facts, policy: &Policy, webhook: &Webhook) -> bool {
    let expressions = |selector: &Value| selector["matchExpressions"].as_array().cloned().unwrap_or_default();
    let wanted = expressions(&policy.spec.namespace_selector);
    let actual = expressions(&webhook.namespace_selector);
    let own =
        json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": [facts.server_namespace.as_str()]});
    wanted.iter().all(|one| actual.contains(one))
        && actual.iter().all(|one| *one == own || wanted.contains(one))
        && webhook.namespace_selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// Rules with the API server's default.
fn rules(rules: &[Value]) -> Vec<Value> {
    let with_default = |rule: &Value| {
        let mut rule = rule.clone();
        if let Some(fields) = rule.as_object_mut() {
            fields.entry("scope").or_insert_with(|| json!("*"));
        }
        rule
    };
    rules.iter().map(with_default).collect()
}

fn selector(selector: &Value) -> Value {
    if selector.is_null() { json!({}) } else { selector.clone() }
}

/// The API server calls mutating webhooks in the order of the configurations' names, and does not call this policy's
/// again. Whether a later one changes the affinity cannot be seen.
fn check_later(facts: &Facts, findings: &mut Findings) {
    let Some(all) = facts.mutating.items() else { return };
    let ours = webhook_name(&facts.settings.policy);
    let is_ours = |name: &str| name.strip_prefix("clusterwide-").is_some_and(|policy| facts.is_ours(policy));
    let later: Vec<String> = all
        .iter()
        .filter(|other| other.metadata.name > ours && !is_ours(&other.metadata.name))
        .filter(|other| changes_new_pods(other))
        .map(|other| other.metadata.name.clone())
        .collect();
    if !later.is_empty() {
        findings.info(
            Code::LaterWebhooks,
            format!("MutatingWebhookConfiguration {ours}"),
            format!("{} also change new Pods, and run later: {}", later.len(), some_of(&later)),
            "if one of them replaces spec.affinity, exclude the Pods there that have a PersistentPodState",
        );
    }
}

fn changes_new_pods(configuration: &WebhookConfiguration) -> bool {
    configuration.webhooks.iter().flat_map(|webhook| &webhook.rules).any(has_new_pods)
}
