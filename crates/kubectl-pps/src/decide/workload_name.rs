//! What WORKLOAD on the command line stands for.

use std::collections::BTreeSet;

use super::similar::hint;
use crate::Failure;
use crate::snapshot::{Index, Resource, Scope, Snapshot, WorkloadKey};

/// The workloads that a text may mean: `NAME` or `KIND/NAME`, where the kind may be written as kubectl takes it. There is
/// at least one.
///
/// # Errors
///
/// If there is none. The text names similar ones.
pub fn named(snapshot: &Snapshot, index: &Index, text: &str) -> Result<Vec<WorkloadKey>, Failure> {
    let (kind, name) = text.split_once('/').map_or((None, text), |(kind, name)| (Some(kind), name));
    let known = known(snapshot, index);
    let is_meant = |key: &&WorkloadKey| key.name == name && kind.is_none_or(|kind| is_kind(key, kind));
    let found: Vec<WorkloadKey> = known.iter().filter(is_meant).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let within = match &snapshot.scope {
        Scope::All => "in any namespace".to_owned(),
        Scope::Namespace(namespace) => format!("in namespace {namespace}"),
    };
    let hint = hint(name, known.iter().map(|key| key.name.as_str()));
    let kinds = [Resource::StatefulSets, Resource::KruiseStatefulSets, Resource::PersistentPodStates];
    let unseen = snapshot.unread.iter().find(|one| kinds.contains(&one.resource));
    match unseen {
        Some(unseen) => Err(Failure::Unreadable(format!("cannot find workload {text}: {unseen}"))),
        None => Err(Failure::Usage(format!(
            "there is no StatefulSet {text} {within}, and no PersistentPodState names such a workload{hint}"
        ))),
    }
}

/// The name of a Pod, which may be written as kubectl takes it: `pod/NAME`.
pub fn pod_name(text: &str) -> &str {
    match text.split_once('/') {
        Some((kind, name)) if matches!(kind.to_lowercase().as_str(), "pod" | "pods" | "po") => name,
        _ => text,
    }
}

/// All workloads that were read or that a PersistentPodState names.
fn known(snapshot: &Snapshot, index: &Index) -> BTreeSet<WorkloadKey> {
    let read = snapshot.workloads.iter().map(|one| WorkloadKey::of(one.namespace(), &one.target()));
    let named = index.targeted().map(|(key, _)| key.clone());
    read.chain(named).filter(|key| snapshot.scope.contains(&key.namespace)).collect()
}

/// Whether a text is a kind: `StatefulSet`, `statefulsets`, `sts`, `statefulsets.apps`, in any case of letters.
fn is_kind(key: &WorkloadKey, text: &str) -> bool {
    let text = text.to_lowercase();
    let (word, group) =
        text.split_once('.').map_or((text.as_str(), None), |(word, group)| (word, Some(group)));
    let kind = key.kind.to_lowercase();
    let is_word =
        word == kind || word.strip_suffix('s') == Some(&kind) || (word == "sts" && kind == "statefulset");
    is_word && group.is_none_or(|group| group == key.group.to_lowercase())
}
