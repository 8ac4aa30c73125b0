//! Which of the listed kinds of workloads the cluster serves, and how to watch them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::demand::{Naming, ReplicasPath};
use crate::whitelist::{Entry, KEY};

/// The part of a `CustomResourceDefinition` that says how to watch its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Definition {
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Whether the API server serves the kind.
    pub established: bool,
    /// Whether the definition is being deleted, and all objects of the kind with it.
    pub terminating: bool,
    pub versions: Vec<Version>,
    /// `metadata.generation`, which changes with the definition's spec.
    pub generation: i64,
    /// Whether the version that this product uses has the field `status.packed`, or keeps fields that it does
    /// not have.
    pub keeps_packed: bool,
}

/// A served version of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub name: String,
    /// The path of the number of replicas, such as `.spec.size`, if there is a scale subresource.
    pub replicas: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub naming: Naming,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watchable {
    /// The listed kinds that the cluster serves, by group and kind.
    pub resources: BTreeMap<(String, String), Resource>,
    pub refusals: Vec<String>,
}

/// The listed kinds that can be watched now. A kind that the cluster does not serve yet is left out without a
/// refusal.
pub fn watchable<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    definitions: impl IntoIterator<Item = &'a Definition>,
) -> Watchable {
    let definitions: BTreeMap<_, _> = definitions
        .into_iter()
        .filter(|definition| definition.established)
        .map(|definition| ((definition.group.as_str(), definition.kind.as_str()), definition))
        .collect();
    let mut watchable = Watchable::default();
    for entry in entries {
        let Some(definition) = definitions.get(&(entry.group.as_str(), entry.kind.as_str())) else {
            continue;
        };
        if !definition.namespaced {
            watchable.refusals.push(format!(
                "{KEY} names {} of {}; remove it: the kind is cluster-scoped, so it cannot own Pods",
                entry.kind, entry.group
            ));
            continue;
        }
        let key = (entry.group.clone(), entry.kind.clone());
        if let Some(resource) = resource(entry, definition) {
            watchable.resources.entry(key).or_insert(resource);
        }
    }
    watchable
}

fn resource(entry: &Entry, definition: &Definition) -> Option<Resource> {
    let asked = entry.version.as_deref();
    let version = definition
        .versions
        .iter()
        .find(|version| asked == Some(version.name.as_str()))
        .or_else(|| definition.versions.iter().max_by_key(|version| preference(&version.name)))?;
    let openkruise = Entry::openkruise_stateful_set();
    let naming = if (&entry.group, &entry.kind) == (&openkruise.group, &openkruise.kind) {
        Naming::StatefulSet
    } else {
        Naming::Custom(version.replicas.as_deref().map_or_else(ReplicasPath::default, ReplicasPath::new))
    };
    Some(Resource {
        group: definition.group.clone(),
        version: version.name.clone(),
        kind: definition.kind.clone(),
        plural: definition.plural.clone(),
        naming,
    })
}

/// Sorts the versions of a custom kind as the API server does: it prefers stable to beta to alpha versions,
/// then newer ones. Other names come last, in alphabetical order.
fn preference(version: &str) -> (u8, u64, u64, Reverse<&str>) {
    let (stability, major, minor) = parse_version(version).unwrap_or_default();
    (stability, major, minor, Reverse(version))
}

/// The stability, major and minor number of a version: `v2beta3` is (2, 2, 3), where 3 is stable, 2 beta and
/// 1 alpha.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((3, major, 0));
    }
    if let Some(minor) = rest.strip_prefix("beta") {
        return Some((2, major, minor.parse().ok()?));
    }
    Some((1, major, rest.strip_prefix("alpha")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(kind: &str, versions: &[(&str, Option<&str>)]) -> Definition {
        let version = |&(name, replicas): &(&str, Option<&str>)| Version {
            name: name.into(),
            replicas: replicas.map(Into::into),
        };
        Definition {
            group: "a.io".into(),
            kind: kind.into(),
            plural: kind.to_lowercase() + "s",
            namespaced: true,
            established: true,
            terminating: false,
            versions: versions.iter().map(version).collect(),
            generation: 1,
            keeps_packed: false,
        }
    }

    fn entry(kind: &str, version: Option<&str>) -> Entry {
        Entry { group: "a.io".into(), version: version.map(Into::into), kind: kind.into() }
    }

    fn version_of(asked: Option<&str>, versions: &[&str]) -> String {
        let versions: Vec<_> = versions.iter().map(|version| (*version, None)).collect();
        let watchable = watchable([&entry("K", asked)], [&definition("K", &versions)]);
        watchable.resources.values().map(|resource| resource.version.clone()).collect()
    }

    #[test]
    fn watches_the_listed_version_or_else_the_preferred_one() {
        assert_eq!(version_of(None, &["v1", "v2alpha1", "v10", "v2", "v11beta2"]), "v10");
        assert_eq!(version_of(None, &["v1alpha1", "v1beta1", "v1beta2", "foo"]), "v1beta2");
        assert_eq!(version_of(None, &["foo10", "foo1"]), "foo1");
        assert_eq!(version_of(Some("v1alpha1"), &["v1", "v1alpha1"]), "v1alpha1");
        assert_eq!(version_of(Some("v9"), &["v1", "v1alpha1"]), "v1");
        assert_eq!(version_of(Some("v1"), &[]), "", "nothing is served");
    }

    #[test]
    fn watches_only_kinds_that_are_listed_served_and_namespaced() {
        let absent = entry("Absent", None);
        let mut pending = definition("Pending", &[("v1", None)]);
        pending.established = false;
        let mut cluster_scoped = definition("Wide", &[("v1", None)]);
        cluster_scoped.namespaced = false;
        let definitions = [
            definition("A", &[("v1", Some(".spec.shape.size"))]),
            definition("B", &[("v1", None)]),
            pending,
            cluster_scoped,
        ];
        let entries = [entry("A", None), absent, entry("Pending", None), entry("Wide", None)];
        let watchable = watchable(&entries, &definitions);
        let resource = Resource {
            group: "a.io".into(),
            version: "v1".into(),
            kind: "A".into(),
            plural: "as".into(),
            naming: Naming::Custom(ReplicasPath::new(".spec.shape.size")),
        };
        assert_eq!(watchable.resources, BTreeMap::from([(("a.io".into(), "A".into()), resource)]));
        assert_eq!(watchable.refusals.len(), 1);
        assert!(watchable.refusals[0].contains("Wide"), "{:?}", watchable.refusals);
    }

    #[test]
    fn names_pods_of_openkruises_stateful_set_by_ordinals() {
        let built_in = Entry::openkruise_stateful_set();
        let mut definition =
            definition("StatefulSet", &[("v1alpha1", None), ("v1beta1", Some(".spec.replicas"))]);
        definition.group = "apps.kruise.io".into();
        let watchable = watchable([&built_in], [&definition]);
        let resource = watchable.resources.values().next().unwrap();
        assert_eq!((resource.version.as_str(), &resource.naming), ("v1beta1", &Naming::StatefulSet));
    }
}
