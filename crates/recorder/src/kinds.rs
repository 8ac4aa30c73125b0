//! Which of the listed kinds of workloads the cluster serves, and how to watch them.

use std::collections::BTreeMap;

use crate::demand::{Naming, ReplicasPath};
use crate::facts::GroupKind;
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
    /// The served versions, the stored one first: the API server need not convert its objects.
    pub versions: Vec<Version>,
    /// `metadata.generation`, which changes with the definition's spec.
    pub generation: i64,
    /// Whether the version that this product uses has the field `status.packed`, or keeps fields
    /// that it does not have.
    pub keeps_packed: bool,
}

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
    /// The listed kinds that the cluster serves.
    pub resources: BTreeMap<GroupKind, Resource>,
    pub refusals: Vec<String>,
}

/// The listed kinds that can be watched now. A kind that the cluster does not serve yet is left out
/// without a refusal.
pub fn watchable<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    definitions: impl IntoIterator<Item = &'a Definition>,
) -> Watchable {
    let served = definitions.into_iter().filter(|one| one.established);
    let served: BTreeMap<_, _> = served
        .map(|one| ((one.group.as_str(), one.kind.as_str()), one))
        .collect();
    let mut watchable = Watchable::default();
    for entry in entries {
        let group = entry.group.as_str();
        let kind = entry.kind.as_str();
        match served.get(&(group, kind)) {
            Some(definition) if definition.namespaced => {
                let key = GroupKind {
                    group: group.into(),
                    kind: kind.into(),
                };
                if let Some(resource) = resource(entry, definition) {
                    watchable.resources.entry(key).or_insert(resource);
                }
            }
            Some(_) => watchable.refusals.push(format!(
                "{KEY} names {kind} of {group}; remove it: the kind is cluster-scoped, so it \
                 cannot own Pods"
            )),
            None => {}
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
        .or_else(|| definition.versions.first())?;
    let openkruise = Entry::openkruise_stateful_set();
    let naming = if (&entry.group, &entry.kind) == (&openkruise.group, &openkruise.kind) {
        Naming::StatefulSet
    } else {
        let replicas = version
            .replicas
            .as_deref()
            .map_or_else(ReplicasPath::default, ReplicasPath::new);
        match entry.names_path.clone() {
            Some(names) => Naming::Listed { names, replicas },
            None => Naming::Custom(replicas),
        }
    };
    Some(Resource {
        group: definition.group.clone(),
        version: version.name.clone(),
        kind: definition.kind.clone(),
        plural: definition.plural.clone(),
        naming,
    })
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
        Entry {
            group: "a.io".into(),
            version: version.map(Into::into),
            kind: kind.into(),
            names_path: None,
        }
    }

    fn version_of(asked: Option<&str>, versions: &[&str]) -> String {
        let versions: Vec<_> = versions.iter().map(|version| (*version, None)).collect();
        let watchable = watchable([&entry("K", asked)], [&definition("K", &versions)]);
        watchable
            .resources
            .values()
            .map(|resource| resource.version.clone())
            .collect()
    }

    #[test]
    fn watches_the_listed_version_or_else_the_first_one() {
        assert_eq!(version_of(None, &["v1", "v2alpha1"]), "v1");
        assert_eq!(
            version_of(Some("v1alpha1"), &["v1", "v1alpha1"]),
            "v1alpha1"
        );
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
        let entries = [
            entry("A", None),
            absent,
            entry("Pending", None),
            entry("Wide", None),
        ];
        let watchable = watchable(&entries, &definitions);
        let resource = Resource {
            group: "a.io".into(),
            version: "v1".into(),
            kind: "A".into(),
            plural: "as".into(),
            naming: Naming::Custom(ReplicasPath::new(".spec.shape.size")),
        };
        assert_eq!(
            watchable.resources,
            BTreeMap::from([(
                GroupKind {
                    group: "a.io".into(),
                    kind: "A".into()
                },
                resource
            )])
        );
        assert_eq!(watchable.refusals.len(), 1);
        assert!(
            watchable.refusals[0].contains("Wide"),
            "{:?}",
            watchable.refusals
        );
    }

    #[test]
    fn reads_the_names_of_pods_where_the_list_says() {
        let listed = Entry {
            names_path: Some("spec.pods[*].metadata.name".parse().unwrap()),
            ..entry("A", None)
        };
        let definition = definition("A", &[("v1", Some(".spec.instances"))]);
        let watchable = watchable([&listed], [&definition]);
        let expected = Naming::Listed {
            names: listed.names_path.clone().unwrap(),
            replicas: ReplicasPath::new(".spec.instances"),
        };
        assert_eq!(
            watchable.resources.values().next().unwrap().naming,
            expected
        );
    }

    #[test]
    fn names_pods_of_openkruises_stateful_set_by_ordinals() {
        let built_in = Entry::openkruise_stateful_set();
        let mut definition = definition(
            "StatefulSet",
            &[("v1beta1", Some(".spec.replicas")), ("v1alpha1", None)],
        );
        definition.group = "apps.kruise.io".into();
        let watchable = watchable([&built_in], [&definition]);
        let resource = watchable.resources.values().next().unwrap();
        assert_eq!(
            (resource.version.as_str(), &resource.naming),
            ("v1beta1", &Naming::StatefulSet)
        );
    }
}
