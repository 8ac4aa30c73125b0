//! Which PPS governs a workload if several target it.

use std::collections::BTreeSet;

use crate::pps::{Metadata, TargetReference};

/// A PPS, as much of it as the choice needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The object's metadata.
    pub metadata: &'a Metadata,
    /// The workload that it targets.
    pub target_ref: &'a TargetReference,
}

/// The PPS that governs a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Its name.
    pub name: &'a str,
    /// Names of the others that target the same workload, oldest first.
    pub ignored: Vec<&'a str>,
}

/// Whether a PPS can govern a workload: it targets it, and is not terminating.
pub fn governs(metadata: &Metadata, target_ref: &TargetReference, workload: &TargetReference) -> bool {
    metadata.deletion_timestamp.is_none() && target_ref.is_same_workload(workload)
}

/// Chooses the PPS of a workload: the oldest of those that target it; of equally old ones, the first by
/// name.
pub fn choose<'a>(
    candidates: impl IntoIterator<Item = Candidate<'a>>,
    workload: &TargetReference,
) -> Option<Choice<'a>> {
    // A set, not a sorted list: sorting code would add 1.4 KB to the Wasm module.
    let mut oldest_first = BTreeSet::new();
    for Candidate { metadata, target_ref } in candidates {
        if governs(metadata, target_ref, workload) {
            oldest_first.insert((&metadata.creation_timestamp, metadata.name.as_str()));
        }
    }
    let mut names = oldest_first.into_iter().map(|(_, name)| name);
    let name = names.next()?;
    let ignored = names.collect();
    Some(Choice { name, ignored })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(name: &str, created: &str, deleted: bool) -> Metadata {
        Metadata {
            name: name.into(),
            creation_timestamp: Some(created.into()),
            deletion_timestamp: deleted.then(|| "2026-01-01T00:00:00Z".into()),
        }
    }

    fn workload(name: &str) -> TargetReference {
        TargetReference { api_version: "apps/v1".into(), kind: "StatefulSet".into(), name: name.into() }
    }

    #[test]
    fn chooses_the_oldest_then_the_first_by_name() {
        let target = workload("w");
        let other = workload("v");
        let objects = [
            (metadata("young", "2026-01-03T00:00:00Z", false), &target),
            (metadata("b", "2026-01-02T00:00:00Z", false), &target),
            (metadata("a", "2026-01-02T00:00:00Z", false), &target),
            (metadata("terminating", "2026-01-01T00:00:00Z", true), &target),
            (metadata("unrelated", "2026-01-01T00:00:00Z", false), &other),
        ];
        let candidates = objects.iter().map(|(metadata, target_ref)| Candidate { metadata, target_ref });
        let choice = choose(candidates.clone(), &target).unwrap();
        assert_eq!((choice.name, choice.ignored), ("a", vec!["b", "young"]));
        assert_eq!(choose(candidates, &workload("unknown")), None);
    }
}
