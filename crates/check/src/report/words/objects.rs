//! The words about PersistentPodStates, their namespaces and custom kinds.

use pps_core::{DEFAULT_NAMESPACE_SELECTOR, INJECTION_LABEL};

use super::{MAX_NAMES, Words, some_of};
use crate::facts::{Facts, Recorded};
use crate::finding::{Listed, ObjectsDiagnosis as D};

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    match diagnosis {
        D::ObjectsRecorded(listed) => {
            Words::seen(format!("{}, none reports a problem", count(*listed)))
        }
        D::ObjectsNotRecorded { failed, listed } => not_recorded(failed, *listed),
        D::NamespacesNotCovered { namespaces } => not_covered(namespaces, facts),
        D::WhitelistMalformed { error } => Words::seen(error.as_str())
            .advise("correct it; until then the sidecar uses the last list that it could read"),
        D::CustomKindNotCovered { kinds } => Words::seen(format!(
            "the sidecar records {}, but no policy covers their Pods",
            some_of(kinds)
        ))
        .advise("add the kind to the policy for custom workloads (chart: workloads)"),
    }
}

fn not_recorded(failed: &[Recorded], listed: Listed) -> Words {
    let named: Vec<String> = failed.iter().map(name_with_reason).collect();
    let first = failed.first().map_or_else(String::new, |one| {
        format!("{} -n {}", one.name, one.namespace)
    });
    Words::seen(format!(
        "{} of {} are not recorded: {}",
        failed.len(),
        count(listed),
        some_of(&named)
    ))
    .advise("correct what the reason names; for all of it")
    .run(format!("kubectl describe pps {first}"))
}

fn name_with_reason(object: &Recorded) -> String {
    let reason = object.recording.as_ref().map_or("", |one| &one.reason);
    format!("{}/{} ({reason})", object.namespace, object.name)
}

fn not_covered(namespaces: &[String], facts: &Facts) -> Words {
    let are = if facts.settings.is_before() {
        "would not be"
    } else {
        "are not"
    };
    let words = Words::seen(format!(
        "{are} in scope, so Pods start without their states: {}",
        some_of(namespaces)
    ))
    .advise("if that is not meant (chart: scope, namespaces, policy.excludedNamespaces)");
    // The label does not help a namespace that has it.
    let unlabeled: Vec<&str> = namespaces
        .iter()
        .filter(|namespace| !is_labeled(namespace, facts))
        .take(MAX_NAMES)
        .map(String::as_str)
        .collect();
    if unlabeled.is_empty() {
        return words;
    }
    words.run(format!(
        "kubectl label namespace {} {DEFAULT_NAMESPACE_SELECTOR} --overwrite",
        unlabeled.join(" ")
    ))
}

fn is_labeled(namespace: &str, facts: &Facts) -> bool {
    let labels = facts.labels_of(namespace);
    labels
        .get(INJECTION_LABEL)
        .is_some_and(|value| value == "enabled")
}

fn count(Listed { read, more }: Listed) -> String {
    if more == 0 {
        read.to_string()
    } else {
        format!("{read} (and {more} more that were not read)")
    }
}
