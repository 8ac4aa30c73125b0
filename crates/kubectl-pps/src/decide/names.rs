//! Similar names, and the meaning of WORKLOAD on the command line.

use std::collections::BTreeSet;

use crate::Failure;
use crate::snapshot::{Index, Resource, Snapshot, WorkloadKey};

const SHOWN: usize = 3;
/// Longer texts are not compared: the comparison takes quadratic time.
const MAX_LENGTH: usize = 80;

/// The names that are most like this one, the best first.
pub fn similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|other| Some((distance(name, other)?, other)))
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(SHOWN)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// How far a name is from another; none if nobody would mix them up.
fn distance(name: &str, other: &str) -> Option<usize> {
    if name.len().max(other.len()) > MAX_LENGTH {
        return None;
    }
    let distance = strsim::levenshtein(name, other);
    let is_near = distance <= name.chars().count() / 3 + 1;
    let is_part = name.len() > 2 && (other.starts_with(name) || name.starts_with(other));
    // The name of a workload in place of its Pod's name, and the other way round.
    let is_pod = is_pod_of(other, name) || is_pod_of(name, other);
    (is_near || is_part || is_pod).then_some(distance)
}

/// Whether a name is that of a workload with an ordinal.
fn is_pod_of(name: &str, workload: &str) -> bool {
    name.strip_prefix(workload)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|ordinal| ordinal.parse::<u64>().is_ok())
}

/// The workloads that a text may mean, at least one: `NAME` or `KIND/NAME`, with kinds as kubectl
/// takes them.
pub fn named(snapshot: &Snapshot, index: &Index, text: &str) -> Result<Vec<WorkloadKey>, Failure> {
    let (kind, name) = text
        .split_once('/')
        .map_or((None, text), |(kind, name)| (Some(kind), name));
    // All workloads that were read or that a PersistentPodState names.
    let read = snapshot
        .workloads
        .iter()
        .map(|one| WorkloadKey::of(one.namespace(), &one.target()));
    let known: BTreeSet<WorkloadKey> = read
        .chain(index.targeted().map(|(key, _)| key.clone()))
        .filter(|key| snapshot.namespaces.contains(&key.namespace))
        .collect();
    let found: Vec<WorkloadKey> = known
        .iter()
        .filter(|key| key.name == name && kind.is_none_or(|kind| is_kind(key, kind)))
        .cloned()
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let kinds = [
        Resource::StatefulSets,
        Resource::KruiseStatefulSets,
        Resource::PersistentPodStates,
    ];
    let unread = snapshot
        .unread
        .iter()
        .find(|one| kinds.contains(&one.resource))
        .cloned();
    let text = text.to_owned();
    if let Some(unread) = unread {
        return Err(Failure::UnreadWorkload { text, unread });
    }
    let similar = similar(name, known.iter().map(|key| key.name.as_str()));
    Err(Failure::NoWorkload {
        text,
        namespaces: snapshot.namespaces.clone(),
        similar,
    })
}

/// The name of a Pod, which may be written as kubectl takes it: `pod/NAME`.
pub fn pod_name(text: &str) -> &str {
    match text.split_once('/') {
        Some((kind, name)) if matches!(kind.to_lowercase().as_str(), "pod" | "pods" | "po") => name,
        _ => text,
    }
}

/// Whether a text is a kind: `StatefulSet`, `statefulsets`, `sts`, `statefulsets.apps`, in any case
/// of letters.
fn is_kind(key: &WorkloadKey, text: &str) -> bool {
    let text = text.to_lowercase();
    let (word, group) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(word, group)| (word, Some(group)));
    let kind = key.kind.to_lowercase();
    let is_word = word == kind
        || word.strip_suffix('s') == Some(&kind)
        || (word == "sts" && kind == "statefulset");
    is_word && group.is_none_or(|group| group == key.group.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_a_user_may_have_meant_and_nothing_else() {
        let pods = ["db-0", "db-1", "web-0", "coredns-x"];
        assert_eq!(similar("db0", pods), ["db-0", "db-1"]);
        assert_eq!(similar("dbb-1", pods), ["db-1", "db-0"]);
        assert_eq!(similar("coredns", pods), ["coredns-x"]);
        assert_eq!(similar("something-else-0", pods), [""; 0]);
        assert_eq!(similar("", pods), [""; 0]);
        assert_eq!(similar("z", ["z-0", "z-1", "x-yz", "z-a"]), ["z-0", "z-1"]);
        assert_eq!(similar("z-0", ["z", "w"]), ["z"]);
    }
}
