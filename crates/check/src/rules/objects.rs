//! The PersistentPodStates, their namespaces, and custom kinds of workloads.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use pps_core::{INJECTION_LABEL, Reason};
use pps_recorder::whitelist;

use super::Findings;
use crate::facts::{Facts, Recorded};
use crate::finding::{Listed, ObjectsDiagnosis};
use crate::settings::{CUSTOM_WORKLOADS, Phase, Scope};

const SUBJECT: &str = "PersistentPodStates";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if !facts.settings.is_before() {
        check_recording(facts, findings);
    }
    check_namespaces(facts, findings);
    check_custom_kinds(facts, findings);
}

fn check_recording(facts: &Facts, findings: &mut Findings) {
    let Some(objects) = facts.objects.known() else {
        return;
    };
    let failed: Vec<Recorded> = objects
        .listed
        .iter()
        .filter(|object| has_failed(object) && !is_excluded(object))
        .cloned()
        .collect();
    let listed = Listed {
        read: objects.listed.len(),
        more: objects.more,
    };
    if failed.is_empty() {
        findings.ok(SUBJECT, ObjectsDiagnosis::ObjectsRecorded(listed));
    } else {
        let diagnosis = ObjectsDiagnosis::ObjectsNotRecorded { failed, listed };
        findings.warning(SUBJECT, diagnosis);
    }
}

fn has_failed(object: &Recorded) -> bool {
    let recording = object.recording.as_ref();
    recording.is_some_and(|condition| condition.status == "False")
}

fn check_namespaces(facts: &Facts, findings: &mut Findings) {
    let (Some(objects), Some(_)) = (facts.objects.known(), facts.namespaces.known()) else {
        return;
    };
    let uncovered: BTreeSet<&String> = objects
        .listed
        .iter()
        .filter(|object| is_uncovered(facts, object))
        .map(|object| &object.namespace)
        .collect();
    if !uncovered.is_empty() {
        let namespaces = uncovered.into_iter().cloned().collect();
        let diagnosis = ObjectsDiagnosis::NamespacesNotCovered { namespaces };
        findings.warning(SUBJECT, diagnosis);
    }
}

/// Whether an object's Pods start without their states. Before an installation: whether they would
/// lose them.
fn is_uncovered(facts: &Facts, object: &Recorded) -> bool {
    let is_covered = is_covered_now(facts, &object.namespace);
    match facts.settings.phase {
        Phase::Before => is_covered == Some(true) && !will_be_covered(facts, &object.namespace),
        Phase::After => is_covered == Some(false) || is_excluded(object),
    }
}

/// Whether the sidecar says that the namespace is not in scope.
fn is_excluded(object: &Recorded) -> bool {
    object
        .recording
        .as_ref()
        .is_some_and(|one| one.reason == Reason::NamespaceNotEnabled.as_str())
}

/// Whether an installed policy is sent the Pods in a namespace. None if no policy for Pods is
/// installed.
fn is_covered_now(facts: &Facts, namespace: &str) -> Option<bool> {
    let labels = facts.labels_of(namespace);
    let mut policies = facts.policies_for_pods().peekable();
    policies.peek()?;
    let is_sent = policies.any(|policy| {
        // Kubewarden ignores matchLabels.
        let selector = LabelSelector {
            match_labels: None,
            ..policy.spec.namespace_selector.clone()
        };
        Selector::try_from(selector).is_ok_and(|selector| selector.matches(&labels))
    });
    Some(is_sent && namespace != facts.server_namespace)
}

/// Whether the settings of the installation cover a namespace.
fn will_be_covered(facts: &Facts, namespace: &str) -> bool {
    let settings = &facts.settings;
    let is_skipped = namespace == facts.server_namespace
        || namespace == settings.namespace
        || settings
            .skipped_namespace
            .iter()
            .any(|skipped| skipped == namespace);
    let label = facts.labels_of(namespace).remove(INJECTION_LABEL);
    let is_in_scope = match settings.scope {
        Scope::OptIn => label.as_deref() == Some("enabled"),
        Scope::All => label.as_deref() != Some("disabled"),
    };
    is_in_scope && !is_skipped
}

fn check_custom_kinds(facts: &Facts, findings: &mut Findings) {
    let Some(Some(text)) = facts.whitelist.known() else {
        return;
    };
    let subject = format!(
        "ConfigMap {}/{}",
        facts.setup.config_namespace,
        whitelist::CONFIG_MAP
    );
    let listed = match whitelist::parse(text) {
        Ok(listed) => listed,
        Err(error) => {
            return findings.warning(subject, ObjectsDiagnosis::WhitelistMalformed { error });
        }
    };
    let settings = &facts.settings;
    if settings.is_before() || settings.without_policies || facts.policies.items().is_none() {
        return;
    }
    let conditions = custom_workload_conditions(facts);
    let kinds: Vec<String> = listed
        .entries
        .iter()
        .filter(|entry| !is_covered_kind(&conditions, &entry.kind, &entry.group))
        .map(|entry| format!("{}.{}", entry.kind, entry.group))
        .collect();
    if !kinds.is_empty() {
        findings.warning(subject, ObjectsDiagnosis::CustomKindNotCovered { kinds });
    }
}

/// The match conditions of the policy for custom workloads.
fn custom_workload_conditions(facts: &Facts) -> String {
    let name = format!("{}{CUSTOM_WORKLOADS}", facts.settings.policy);
    let policy = facts.own_policies().find(|policy| policy.name() == name);
    policy
        .into_iter()
        .flat_map(|policy| &policy.spec.match_conditions)
        .map(|condition| condition.expression.as_str())
        .collect()
}

fn is_covered_kind(conditions: &str, kind: &str, group: &str) -> bool {
    let owner = format!("owner.kind == '{kind}' && owner.apiVersion.startsWith('{group}' + '/')");
    (group == "apps.kruise.io" && kind == "StatefulSet") || conditions.contains(&owner)
}
