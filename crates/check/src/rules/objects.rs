//! The PersistentPodStates, their namespaces, and custom kinds of workloads.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use pps_recorder::whitelist;

use super::Findings;
use super::policies::INJECTION;
use crate::facts::Facts;
use crate::finding::{Diagnosis, NotRecorded};
use crate::settings::CUSTOM_WORKLOADS;

const SUBJECT: &str = "PersistentPodStates";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if !facts.settings.is_before() {
        check_recording(facts, findings);
    }
    if !facts.settings.without_policies {
        check_namespaces(facts, findings);
    }
    check_custom_kinds(facts, findings);
}

fn check_recording(facts: &Facts, findings: &mut Findings) {
    let Some(objects) = facts.objects.known() else { return };
    let failed = objects.listed.iter().filter_map(|object| {
        let condition = object.recording.clone().filter(|condition| condition.status == "False")?;
        Some(NotRecorded { namespace: object.namespace.clone(), name: object.name.clone(), condition })
    });
    let failed: Vec<NotRecorded> = failed.collect();
    let (listed, more) = (objects.listed.len(), objects.more);
    if failed.is_empty() {
        findings.ok(SUBJECT, Diagnosis::ObjectsRecorded { listed, more });
    } else {
        findings.warning(SUBJECT, Diagnosis::ObjectsNotRecorded { failed, listed, more });
    }
}

fn check_namespaces(facts: &Facts, findings: &mut Findings) {
    let (Some(objects), Some(_)) = (facts.objects.known(), facts.namespaces.known()) else { return };
    let is_before = facts.settings.is_before();
    let is_uncovered = |namespace: &&str| match is_covered_now(facts, namespace) {
        // Nothing is installed that could be lost.
        None => false,
        Some(is_covered) if is_before => is_covered && !will_be_covered(facts, namespace),
        Some(is_covered) => !is_covered,
    };
    let namespaces: BTreeSet<&str> = objects.listed.iter().map(|object| object.namespace.as_str()).collect();
    let uncovered: Vec<String> = namespaces.into_iter().filter(is_uncovered).map(str::to_owned).collect();
    match uncovered.as_slice() {
        [] => {}
        _ if is_before => findings.warning(SUBJECT, Diagnosis::NamespacesNotCovered(uncovered)),
        _ => findings.info(SUBJECT, Diagnosis::NamespacesNotCovered(uncovered)),
    }
}

/// Whether an installed policy is sent the Pods in a namespace. None if no policy for Pods is installed.
pub(super) fn is_covered_now(facts: &Facts, namespace: &str) -> Option<bool> {
    let labels = facts.labels_of(namespace);
    let mut policies = facts.policies_for_pods().peekable();
    policies.peek()?;
    let is_sent = policies.any(|policy| {
        // Kubewarden ignores matchLabels.
        let selector = LabelSelector { match_labels: None, ..policy.spec.namespace_selector.clone() };
        Selector::try_from(selector).is_ok_and(|selector| selector.matches(&labels))
    });
    Some(is_sent && namespace != facts.server_namespace)
}

/// Whether the settings of the installation cover a namespace.
pub(super) fn will_be_covered(facts: &Facts, namespace: &str) -> bool {
    let settings = &facts.settings;
    let is_skipped = namespace == facts.server_namespace
        || namespace == settings.namespace
        || settings.skipped_namespace.iter().any(|skipped| skipped == namespace);
    let labels = facts.labels_of(namespace);
    let label = labels.get(INJECTION).map(String::as_str);
    !is_skipped
        && if settings.scope == "OptIn" { label == Some("enabled") } else { label != Some("disabled") }
}

fn check_custom_kinds(facts: &Facts, findings: &mut Findings) {
    let Some(text) = facts.whitelist.known() else { return };
    let subject = format!("ConfigMap {}/{}", facts.recording.config_namespace, whitelist::CONFIG_MAP);
    let listed = match whitelist::parse(text) {
        Ok(listed) => listed,
        Err(error) => return findings.warning(subject, Diagnosis::WhitelistMalformed(error.to_string())),
    };
    let settings = &facts.settings;
    if settings.is_before() || settings.without_policies || facts.policies.items().is_none() {
        return;
    }
    let custom = format!("{}{CUSTOM_WORKLOADS}", settings.policy);
    let policy = facts.own_policies().find(|policy| policy.name() == custom);
    let conditions = policy.into_iter().flat_map(|policy| &policy.spec.match_conditions);
    let conditions: String = conditions.map(|condition| condition.expression.as_str()).collect();
    let uncovered: Vec<String> = listed
        .entries
        .iter()
        .filter(|entry| !(entry.group == "apps.kruise.io" && entry.kind == "StatefulSet"))
        .filter(|entry| {
            !conditions.contains(&entry.group) || !conditions.contains(&format!("'{}'", entry.kind))
        })
        .map(|entry| format!("{}.{}", entry.kind, entry.group))
        .collect();
    if !uncovered.is_empty() {
        findings.warning(subject, Diagnosis::CustomKindNotCovered(uncovered));
    }
}
