//! The PersistentPodStates, their namespaces, and custom kinds of workloads.

use std::collections::BTreeSet;

use pps_core::whitelist;

use super::findings::{Findings, some_of};
use super::module::{custom_policy, is_covered_now, will_be_covered};
use crate::facts::{Facts, Phase, Recorded};
use crate::finding::Code;

/// The condition that says whether an object is recorded.
pub(super) const RECORDING: &str = "Recording";
/// Up to so many objects are named with the whole message of that condition.
const EXPLAINED: usize = 2;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if facts.settings.phase == Phase::After {
        check_recording(facts, findings);
    }
    if facts.settings.has_policies {
        check_namespaces(facts, findings);
    }
    check_custom_kinds(facts, findings);
}

fn check_recording(facts: &Facts, findings: &mut Findings) {
    let Some(objects) = facts.objects.known() else { return };
    let failed = |object: &&Recorded| {
        object.status.conditions.iter().any(|one| one.kind() == RECORDING && one.status == "False")
    };
    let problems: Vec<&Recorded> = objects.listed.iter().filter(failed).collect();
    let listed = objects.listed.len();
    let all = match objects.more {
        0 => format!("{listed}"),
        more => format!("{listed} (and {more} more that were not read)"),
    };
    let Some(first) = problems.first() else {
        let seen = format!("{all}, none reports a problem");
        return findings.ok(Code::ObjectsRecorded, "PersistentPodStates", seen);
    };
    let names: Vec<String> = problems
        .iter()
        .map(|object| {
            let condition = object.status.conditions.iter().find(|one| one.kind() == RECORDING);
            let (reason, message) =
                condition.map_or(("", ""), |one| (one.reason.as_str(), one.message.as_str()));
            // The messages of many would hide their names.
            let why = if problems.len() > EXPLAINED || message.is_empty() {
                reason.to_owned()
            } else {
                format!("{reason}: {message}")
            };
            format!("{}/{} ({why})", object.metadata.namespace, object.metadata.name)
        })
        .collect();
    findings.warning(
        Code::ObjectsNotRecorded,
        "PersistentPodStates",
        format!("{} of {all} are not recorded: {}", names.len(), some_of(&names)),
        format!(
            "correct what the reason names; for all of it: kubectl describe pps {} -n {}",
            first.metadata.name, first.metadata.namespace
        ),
    );
}

fn check_namespaces(facts: &Facts, findings: &mut Findings) {
    let (Some(objects), Some(_)) = (facts.objects.known(), facts.namespaces.known()) else { return };
    let is_before = facts.settings.phase == Phase::Before;
    let is_uncovered = |namespace: &String| match is_covered_now(facts, namespace) {
        // Nothing is installed that could be lost.
        None => false,
        Some(is_covered) if is_before => is_covered && !will_be_covered(facts, namespace),
        Some(is_covered) => !is_covered,
    };
    let namespaces: BTreeSet<String> =
        objects.listed.iter().map(|object| object.metadata.namespace.clone()).collect();
    let uncovered: Vec<String> = namespaces.into_iter().filter(is_uncovered).collect();
    if !uncovered.is_empty() && is_before {
        findings.warning(
            Code::NamespacesNotCovered,
            "PersistentPodStates",
            format!(
                "the installation would leave out namespaces whose Pods get their states back now: {}. At their next \
                 restart these Pods start without them, on any node",
                some_of(&uncovered)
            ),
            if facts.settings.is_opt_in {
                "first label them: kubectl label namespace NAME persistent-pod-state/injection=enabled --overwrite"
            } else {
                "remove them from the excluded namespaces (chart: policy.excludedNamespaces), if that is not meant"
            },
        );
    } else if !uncovered.is_empty() {
        findings.info(
            Code::NamespacesNotCovered,
            "PersistentPodStates",
            format!("no policy covers the namespace, so no Pod gets its state back: {}", some_of(&uncovered)),
            "if that is not meant, change the namespace's label persistent-pod-state/injection",
        );
    }
}

fn check_custom_kinds(facts: &Facts, findings: &mut Findings) {
    let Some(text) = facts.whitelist.known() else { return };
    let subject = format!("ConfigMap {}/{}", facts.recording.config_namespace, whitelist::CONFIG_MAP);
    let listed = match whitelist::parse(text) {
        Ok(listed) => listed,
        Err(error) => {
            return findings.warning(
                Code::WhitelistMalformed,
                subject,
                error.to_string(),
                "correct it; until then the sidecar uses the last list that it could read",
            );
        }
    };
    if facts.settings.phase == Phase::Before
        || !facts.settings.has_policies
        || facts.policies.items().is_none()
    {
        return;
    }
    let conditions: String = custom_policy(facts).map_or(String::new(), |policy| {
        let conditions = policy.spec.match_conditions.iter();
        conditions.filter_map(|condition| condition["expression"].as_str()).collect()
    });
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
        findings.warning(
            Code::CustomKindNotCovered,
            subject,
            format!("the sidecar records {}, but no policy covers their Pods", some_of(&uncovered)),
            "add the kind to the policy for custom workloads (chart: workloads)",
        );
    }
}
