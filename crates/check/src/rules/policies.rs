//! The product's `ClusterAdmissionPolicies`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::findings::Findings;
use super::sent::{self, POD_NAME, shipped_conditions};
use crate::facts::{Condition, Facts, Phase, Policy, VALIDATION};
use crate::finding::Code;

/// The API server's default of `timeoutSeconds`.
pub(super) const DEFAULT_TIMEOUT: u64 = 10;
/// How long a policy may take if `timeoutEvalSeconds` is not set: the PolicyServer's `--policy-timeout`.
const DEFAULT_EVALUATION: u64 = 2;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if facts.policy_definition.is_absent() || facts.policies.items().is_none() {
        return;
    }
    let ours: Vec<&Policy> = facts.own_policies().collect();
    if facts.settings.phase == Phase::Before {
        return check_changes(facts, &ours, findings);
    }
    let base = &facts.settings.policy;
    for name in [base.clone(), format!("{base}{VALIDATION}")] {
        if ours.iter().all(|policy| policy.metadata.name != name) {
            findings.error(
                Code::PolicyMissing,
                format!("ClusterAdmissionPolicy {name}"),
                if name.ends_with(VALIDATION) {
                    "does not exist: nobody checks PersistentPodStates that users write"
                } else {
                    "does not exist: states are recorded, but no Pod gets its state back"
                },
                "apply it (kubectl apply -k, or helm upgrade); to stop the product on purpose, see docs/break-glass.md",
            );
        }
    }
    for policy in &ours {
        check_one(facts, policy, findings);
    }
    let distinct =
        |field: fn(&Policy) -> &str| ours.iter().map(|policy| field(policy)).collect::<BTreeSet<_>>();
    let servers = distinct(|policy| &policy.spec.policy_server);
    if servers.len() > 1 {
        findings.warning(
            Code::PolicyServersDiffer,
            format!("ClusterAdmissionPolicy {base}"),
            format!("the policies run on several PolicyServers: {}", servers.into_iter().collect::<Vec<_>>().join(", ")),
            "only one of them is checked here; finish the move that \"Another PolicyServer\" in deploy/README.md describes",
        );
    }
    let modules = distinct(|policy| &policy.spec.module);
    if modules.len() > 1 {
        findings.warning(
            Code::ModulesDiffer,
            format!("ClusterAdmissionPolicy {base}"),
            format!(
                "the policies have different modules: {}",
                modules.into_iter().collect::<Vec<_>>().join(", ")
            ),
            "set spec.module of all to the same reference",
        );
    }
}

/// What Kubewarden refuses to change of an installed policy: `spec.policyServer`, and `spec.mode` from protect to
/// monitor (its webhook in `api/policies/v1/policy_validation.go`).
fn check_changes(facts: &Facts, ours: &[&Policy], findings: &mut Findings) {
    for policy in ours {
        let subject = format!("ClusterAdmissionPolicy {}", policy.metadata.name);
        if let Some(wanted) = &facts.settings.policy_server
            && *wanted != policy.spec.policy_server
        {
            findings.error(
                Code::PolicyServerImmutable,
                subject.as_str(),
                format!(
                    "runs on PolicyServer {}, and would move to {wanted}, which Kubewarden refuses",
                    policy.spec.policy_server
                ),
                "keep the PolicyServer, or move as \"Another PolicyServer\" in deploy/README.md describes",
            );
        }
        if policy.spec.mode == "protect" && facts.settings.mode.as_deref() == Some("monitor") {
            findings.error(
                Code::PolicyModeImmutable,
                subject,
                "has the mode protect, and would change to monitor, which Kubewarden refuses",
                "delete the policy, then install it with the mode monitor",
            );
        }
    }
}

fn check_one(facts: &Facts, policy: &Policy, findings: &mut Findings) {
    let subject = format!("ClusterAdmissionPolicy {}", policy.metadata.name);
    let spec = &policy.spec;
    let (status, reason) = activity(policy);
    if status == Some("True") && policy.metadata.deletion_timestamp.is_none() {
        let seen = format!("active on PolicyServer {}, mode {}", spec.policy_server, mode(policy));
        findings.ok(Code::PolicyActive, subject.as_str(), seen);
    } else {
        findings.error(
            Code::PolicyNotActive,
            subject.as_str(),
            format!("is {} on PolicyServer {}: {reason}", state(policy), spec.policy_server),
            format!(
                "kubectl get pods -n {0} -l kubewarden/policy-server={1}, and the log of a Pod that is not ready",
                facts.server_namespace, spec.policy_server
            ),
        );
    }
    if mode(policy) == "monitor" {
        findings.warning(
            Code::PolicyMonitors,
            subject.as_str(),
            "has the mode monitor: it only logs, and changes and refuses nothing",
            "set spec.mode to protect",
        );
    }
    let is_for_pods = !policy.metadata.name.ends_with(VALIDATION);
    if is_for_pods && spec.failure_policy.as_deref() == Some("Ignore") {
        findings.info(
            Code::FailurePolicyIgnore,
            subject.as_str(),
            "failurePolicy is Ignore: while the PolicyServer cannot be reached, Pods start without their states",
            "set it to Fail if Pods have data on a node",
        );
    }
    let (waits, takes) = (
        spec.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT),
        spec.timeout_eval_seconds.unwrap_or(DEFAULT_EVALUATION),
    );
    if takes >= waits {
        findings.warning(
            Code::TimeoutsDoNotFit,
            subject.as_str(),
            format!("the policy may take {takes} s, and the API server waits {waits} s"),
            "set timeoutEvalSeconds below timeoutSeconds",
        );
    }
    if is_for_pods {
        check_what_is_sent(policy, &subject, findings);
        sent::check(policy, &subject, findings);
        check_lookups(policy, &subject, findings);
    }
}

fn check_what_is_sent(policy: &Policy, subject: &str, findings: &mut Findings) {
    let selector = &policy.spec.object_selector;
    let is_limited = selector["matchExpressions"].as_array().is_some_and(|all| !all.is_empty())
        || selector["matchLabels"].as_object().is_some_and(|all| !all.is_empty());
    if !is_limited {
        findings.warning(
            Code::ObjectSelectorMissing,
            subject,
            "has no objectSelector: where match conditions are not evaluated, Pods of all kinds wait for the PolicyServer",
            format!("set spec.objectSelector to {POD_NAME} Exists"),
        );
    }
    let conditions = &policy.spec.match_conditions;
    let changed: Vec<&str> = shipped_conditions(&policy.metadata.name)
        .iter()
        .filter(|(name, expression)| !conditions.iter().any(|one| is_condition(one, name, expression)))
        .map(|(name, _)| *name)
        .collect();
    if !changed.is_empty() {
        findings.warning(
            Code::MatchConditionsChanged,
            subject,
            format!("the match condition {} is missing or changed", changed.join(", ")),
            "apply the policy of this version again: without its conditions, more Pods wait for the PolicyServer",
        );
    }
}

fn is_condition(condition: &Value, name: &str, expression: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    condition["name"] == name
        && condition["expression"].as_str().is_some_and(|one| words(one) == words(expression))
}

fn check_lookups(policy: &Policy, subject: &str, findings: &mut Findings) {
    let may_look_up = |resource: &Value| {
        resource["kind"] == "PersistentPodState"
            && resource["apiVersion"].as_str().is_some_and(|version| version.starts_with("apps.kruise.io/"))
    };
    if !policy.spec.context_aware_resources.iter().any(may_look_up) {
        findings.error(
            Code::LookupNotGranted,
            subject,
            "spec.contextAwareResources does not name PersistentPodState: the PolicyServer refuses each lookup",
            "apply the policy of this version again",
        );
    }
}

/// The status of the condition `PolicyActive`, and why it is not True.
///
/// Kubewarden's controller sets it to False ("The policy webhook has not been created") at the beginning of each
/// reconciliation, and to True only if the Deployment's Pods are all of the latest ReplicaSet, all ready, and the
/// ConfigMap has the policy: `PolicyUniquelyReachable` (`internal/controller/policy_subreconciler.go`). A PolicyServer
/// that cannot pull a module ends, so its new Pod never becomes ready, and the policy stays `pending`.
fn activity(policy: &Policy) -> (Option<&str>, String) {
    let conditions = &policy.status.conditions;
    let find = |kind: &str| conditions.iter().find(|condition| condition.kind() == kind);
    let active = find("PolicyActive");
    let unmet = find("PolicyUniquelyReachable").filter(|condition| condition.status != "True").or(active);
    let text = |condition: &Condition| {
        format!("{} is {}: {}", condition.kind(), condition.status, condition.message)
    };
    let reason = unmet.map_or_else(|| "Kubewarden's controller has not looked at it yet".to_owned(), text);
    (active.map(|condition| condition.status.as_str()), reason)
}

fn state(policy: &Policy) -> &str {
    match policy.status.policy_status.as_str() {
        _ if policy.metadata.deletion_timestamp.is_some() => "being deleted",
        "" => "not scheduled",
        state => state,
    }
}

/// The mode in which it runs: that of the spec until the PolicyServer has it.
fn mode(policy: &Policy) -> &str {
    match (policy.status.mode.as_str(), policy.spec.mode.as_str()) {
        (mode @ ("protect" | "monitor"), _) => mode,
        (_, "") => "protect",
        (_, mode) => mode,
    }
}
