//! The PersistentPodStates, their namespaces, and custom kinds of workloads.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use pps_core::{INJECTION_LABEL, Reason};
use pps_recorder::whitelist;

use super::Findings;
use crate::facts::{Facts, Recorded};
use crate::finding::{Diagnosis, Listed};
use crate::settings::CUSTOM_WORKLOADS;

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
    let has_failed = |object: &&Recorded| {
        object
            .recording
            .as_ref()
            .is_some_and(|one| one.status == "False")
    };
    let failed = objects
        .listed
        .iter()
        .filter(has_failed)
        .filter(|object| !is_excluded(object));
    let failed: Vec<Recorded> = failed.cloned().collect();
    let listed = Listed {
        read: objects.listed.len(),
        more: objects.more,
    };
    if failed.is_empty() {
        findings.ok(SUBJECT, Diagnosis::ObjectsRecorded(listed));
    } else {
        findings.warning(SUBJECT, Diagnosis::ObjectsNotRecorded(failed, listed));
    }
}

fn check_namespaces(facts: &Facts, findings: &mut Findings) {
    let (Some(objects), Some(_)) = (facts.objects.known(), facts.namespaces.known()) else {
        return;
    };
    let is_before = facts.settings.is_before();
    let is_uncovered =
        |object: &&Recorded| match (is_covered_now(facts, &object.namespace), is_before) {
            (is_covered, true) => {
                is_covered == Some(true) && !will_be_covered(facts, &object.namespace)
            }
            (is_covered, false) => is_covered == Some(false) || is_excluded(object),
        };
    let uncovered = objects
        .listed
        .iter()
        .filter(is_uncovered)
        .map(|object| object.namespace.clone());
    let uncovered: BTreeSet<String> = uncovered.collect();
    if !uncovered.is_empty() {
        let uncovered = uncovered.into_iter().collect();
        findings.warning(SUBJECT, Diagnosis::NamespacesNotCovered(uncovered));
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
    let is_label = |value: &str| label.as_deref() == Some(value);
    !is_skipped
        && if settings.scope == "OptIn" {
            is_label("enabled")
        } else {
            !is_label("disabled")
        }
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
        Err(error) => return findings.warning(subject, Diagnosis::WhitelistMalformed(error)),
    };
    let settings = &facts.settings;
    if settings.is_before() || settings.without_policies || facts.policies.items().is_none() {
        return;
    }
    let custom = format!("{}{CUSTOM_WORKLOADS}", settings.policy);
    let policy = facts.own_policies().find(|policy| policy.name() == custom);
    let conditions = policy
        .into_iter()
        .flat_map(|policy| &policy.spec.match_conditions);
    let conditions: String = conditions
        .map(|condition| condition.expression.as_str())
        .collect();
    let is_covered = |kind: &str, group: &str| {
        let owner =
            format!("owner.kind == '{kind}' && owner.apiVersion.startsWith('{group}' + '/')");
        group == "apps.kruise.io" && kind == "StatefulSet" || conditions.contains(&owner)
    };
    let uncovered = listed
        .entries
        .iter()
        .filter(|entry| !is_covered(&entry.kind, &entry.group));
    let uncovered: Vec<String> = uncovered
        .map(|entry| format!("{}.{}", entry.kind, entry.group))
        .collect();
    if !uncovered.is_empty() {
        findings.warning(subject, Diagnosis::CustomKindNotCovered(uncovered));
    }
}
