//! Pods, nodes, workloads and PersistentPodStates.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_recorder::Fact;
use pps_recorder::demand::{Naming, ReplicasPath};
use pps_recorder::facts::{GroupKind, NamespacedName};
use pps_sidecar::observe::objects;
use serde_json::{Value, json};

use super::world::{ANNOTATIONS, LABELS, World, database, keys_in, naming, object_of_database};
use super::{name_of, read};
use crate::injected::list;

/// Kinds of controllers that give each Pod a new name.
const UNSTABLE: [&str; 5] = [
    "ReplicaSet",
    "ReplicationController",
    "DaemonSet",
    "Job",
    "Node",
];
/// The annotations of a workload that are kept.
const GENERATION: [&str; 5] = [
    "kruise.io/auto-generate-persistent-pod-state",
    "kruise.io/required-persistent-topology",
    "kruise.io/required-persistent-topology-fallback-after-seconds",
    "kruise.io/preferred-persistent-topology",
    "kruise.io/persistent-pod-annotations",
];

const NAMES_IN_SPEC: &str = "spec.pods[*].metadata.name";
const NAMES_IN_STATUS: &str = "status.instanceNames";
/// How many names a workload may list.
const MAX_NAMES: usize = 10_000;

fn pairs(object: &Value, keys: &[&str]) -> Vec<(String, String)> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    let pair = |key: &str| Some((key.to_owned(), object[key].as_str()?.to_owned()));
    keys.into_iter().filter_map(pair).collect()
}

fn texts(pairs: &[(Arc<str>, Arc<str>)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

fn key_of(object: &Value) -> NamespacedName {
    let (namespace, name) = name_of(object);
    NamespacedName::new(namespace, name)
}

/// A Pod: what is read is in the JSON, only the keys of interest are kept, and no other object is
/// written.
pub fn check_pod(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut world = World::new();
    let interest = world.interest.clone();
    let Some((object, item)) = read(&text, |text| objects::read_pod(text, &interest)) else {
        return;
    };
    assert_eq!(item.key, key_of(&object));
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"].as_array();
    let controller = owners
        .into_iter()
        .flatten()
        .find(|owner| owner["controller"] == true);
    if let Some(fact) = &item.fact {
        assert_eq!(
            fact.terminating,
            !metadata["deletionTimestamp"].is_null(),
            "{object}"
        );
        let is_whole = item.unreadable.is_none();
        if is_whole {
            let node = object["spec"]["nodeName"]
                .as_str()
                .filter(|node| !node.is_empty());
            assert_eq!(fact.node.as_deref(), node);
            assert_eq!(
                fact.owner.as_deref(),
                controller.map(|owner| owner["uid"].as_str().unwrap_or_default())
            );
            let annotations = if fact.ready {
                pairs(&metadata["annotations"], &ANNOTATIONS)
            } else {
                Vec::new()
            };
            assert_eq!(texts(&fact.annotations), annotations, "{object}");
        }
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        assert_eq!(fact.ready, is_whole && is_ready, "{object}");
        assert!(
            fact.pending.is_none() || (is_whole && fact.node.is_none()),
            "{object}"
        );
        let is_unschedulable = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|one| {
                one["type"] == "PodScheduled"
                    && one["status"] == "False"
                    && one["reason"] == "Unschedulable"
            });
        let may_fall_back = fact
            .pending
            .as_ref()
            .is_some_and(|pending| pending.is_unschedulable);
        let is_gated = !list(&object["spec"]["schedulingGates"]).is_empty();
        assert!(
            !may_fall_back || (is_unschedulable && !is_gated),
            "{object}"
        );
    } else {
        assert!(
            controller.is_some_and(|owner| UNSTABLE.contains(&owner["kind"].as_str().unwrap_or_default())),
            "{object}"
        );
    }
    let is_recordable = item
        .fact
        .as_ref()
        .is_some_and(|fact| fact.ready && !fact.terminating);
    world.apply_pod(&object.to_string(), item.key.clone(), item.fact);
    let writes = world.settle();
    let own = NamespacedName::new("n", "web");
    assert!(writes.keys().all(|key| *key == own), "{writes:?}");
    for patch in writes.values().flatten() {
        for (pod, state) in patch["podStates"].as_object().into_iter().flatten() {
            assert!(
                state.is_null() || (*pod == *item.key.name && is_recordable),
                "{patch} of {object}"
            );
        }
    }
    let (labels, annotations) = keys_in(writes.get(&own).map_or(&[], Vec::as_slice));
    assert!(
        labels.iter().all(|key| LABELS.contains(key))
            && annotations.iter().all(|key| ANNOTATIONS.contains(key))
    );
}

/// The metadata of a node: only the keys of interest are kept.
pub fn check_node(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut world = World::new();
    let interest = world.interest.clone();
    let Some((object, item)) = read(&text, |text| objects::read_node(text, &interest)) else {
        return;
    };
    assert_eq!(*item.key, *name_of(&object).1);
    let fact = item.fact.unwrap();
    if item.unreadable.is_none() {
        assert_eq!(
            texts(&fact.labels),
            pairs(&object["metadata"]["labels"], &LABELS),
            "{object}"
        );
    }
    world.apply_node(&object.to_string(), item.key.clone(), fact);
    for patch in world.settle().values().flatten() {
        for state in patch["podStates"]
            .as_object()
            .into_iter()
            .flat_map(|states| states.values())
        {
            assert!(
                state["nodeName"].is_null() || state["nodeName"] == *item.key,
                "{patch} of {object}"
            );
        }
    }
}

/// A workload; the first byte selects its kind. The number of Pods is the one at the path of the
/// kind.
pub fn check_workload(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    let listed = |path: &str| {
        Some(Naming::Listed {
            names: path.parse().unwrap(),
            replicas: ReplicasPath::default(),
        })
    };
    let (kind, naming) = match kind % 6 {
        0 => (GroupKind::stateful_set(), None),
        1 => (
            GroupKind {
                group: "apps.kruise.io".into(),
                kind: "StatefulSet".into(),
            },
            Some(Naming::StatefulSet),
        ),
        2 => (database(), Some(Naming::Custom(ReplicasPath::default()))),
        3 => (database(), Some(naming())),
        4 => (database(), listed(NAMES_IN_SPEC)),
        _ => (database(), listed(NAMES_IN_STATUS)),
    };
    let reader = |text: &str| match &naming {
        None => objects::read_stateful_set(text),
        Some(naming) => objects::read_custom_workload(text, "a.io/v1", naming),
    };
    let Some((object, item)) = read(&text, reader) else {
        return;
    };
    assert_eq!(item.key, key_of(&object));
    let fact = item.fact.unwrap();
    let spec = &object["spec"];
    let expected = match &naming {
        _ if item.unreadable.is_some() => None,
        None => Some(
            spec["replicas"]
                .as_i64()
                .map_or(1, |count| u64::try_from(count).unwrap_or(0)),
        ),
        Some(Naming::StatefulSet) => Some(spec["replicas"].as_u64().unwrap_or(1)),
        Some(naming) if *naming == Naming::Custom(ReplicasPath::default()) => {
            spec["replicas"].as_u64()
        }
        Some(Naming::Custom(_)) => spec["shape"]["size"].as_u64(),
        Some(Naming::Listed { names, .. }) => {
            let names = if names.is_in_status() {
                names_at(&object["status"]["instanceNames"])
            } else {
                names_of_pods(&spec["pods"])
            };
            let count = names.filter(|names| !names.is_empty() && names.len() <= MAX_NAMES);
            spec["replicas"]
                .as_u64()
                .or(count.map(|names| names.len() as u64))
        }
    };
    assert_eq!(fact.demand.replicas(), expected, "{object}");
    assert!(
        fact.annotations
            .keys()
            .all(|key| GENERATION.contains(&key.as_str())),
        "{object}"
    );
    let is_gone = fact.terminating;
    let mut world = World::new();
    if kind.group.as_ref() == "apps.kruise.io" {
        world.recorder.apply(Fact::KindWatched(kind.clone()));
    }
    let governing = objects::read_pps(&object_of_database().to_string()).unwrap();
    world.apply_object(governing.key, governing.fact.unwrap());
    world.apply_workload(&kind, item.key, fact);
    let writes = world.settle();
    // An unreadable workload, and one that does not say how many Pods it wants, never costs a
    // state. A name that is no longer listed does not cost one at once.
    let is_listed = matches!(naming, Some(Naming::Listed { .. }));
    let keeps_all =
        (expected.is_none() || is_listed) && !is_gone && object["metadata"]["uid"] == "set";
    for patch in writes.values().flatten().filter(|_| keeps_all) {
        let mut states = patch["podStates"].as_object().into_iter().flatten();
        assert!(
            states.all(|(_, state)| !state.is_null()),
            "{patch} of {object}"
        );
    }
}

/// The names in a list of strings, or in one string; none if there is something else.
fn names_at(value: &Value) -> Option<BTreeSet<&str>> {
    let is_name = |name: &&str| (1..=253).contains(&name.len());
    match value {
        Value::Null => Some(BTreeSet::new()),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().filter(is_name))
            .collect(),
        name => Some([name.as_str().filter(is_name)?].into()),
    }
}

/// The names in a list of Pods; none if an item has no name.
fn names_of_pods(pods: &Value) -> Option<BTreeSet<&str>> {
    let pods = match pods {
        Value::Null => return Some(BTreeSet::new()),
        pods => pods.as_array()?,
    };
    let mut all = BTreeSet::new();
    for pod in pods {
        let name = &pod["metadata"]["name"];
        if name.is_null() {
            return None;
        }
        all.extend(names_at(name)?);
    }
    Some(all)
}

/// A PersistentPodState: nothing is written to one that cannot be read or is being deleted, and to
/// no other one than those of the same workload. Only its own keys are recorded in it.
pub fn check_object(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some((object, item)) = read(&text, objects::read_pps) else {
        return;
    };
    assert_eq!(item.key, key_of(&object));
    let fact = item.fact.unwrap();
    assert_eq!(fact.unreadable, item.unreadable);
    let is_writable =
        item.unreadable.is_none() && object["metadata"]["deletionTimestamp"].is_null();
    let spec = &object["spec"];
    if item.unreadable.is_none() {
        assert_eq!(
            fact.spec.target_ref.name,
            spec["targetRef"]["name"].as_str().unwrap()
        );
        let states = object["status"]["podStates"].as_object();
        assert_eq!(
            fact.status.pod_states.len(),
            states.map_or(0, serde_json::Map::len),
            "{object}"
        );
        // What was read can be read again.
        let again =
            json!({"metadata": object["metadata"], "spec": fact.spec, "status": {}}).to_string();
        let again = objects::read_pps(&again).unwrap();
        assert_eq!(
            (again.unreadable, again.fact.unwrap().spec),
            (None, fact.spec.clone())
        );
    } else {
        assert!(
            fact.status.pod_states.is_empty() && fact.spec.persistent_pod_annotations.is_empty()
        );
    }
    let topology: BTreeSet<&str> = topology_keys(spec);
    let annotations = spec["persistentPodAnnotations"]
        .as_array()
        .into_iter()
        .flatten();
    let annotations: BTreeSet<&str> = annotations
        .filter_map(|one| one.as_str().or_else(|| one["key"].as_str()))
        .collect();

    let mut world = World::new();
    world.apply_object(item.key.clone(), fact);
    let writes = world.settle();
    let patches = writes.get(&item.key).map_or(&[][..], Vec::as_slice);
    assert!(is_writable || patches.is_empty(), "{patches:?} to {object}");
    let (recorded_labels, recorded_annotations) = keys_in(patches);
    assert!(
        recorded_labels.is_subset(&topology) && recorded_annotations.is_subset(&annotations),
        "{patches:?} to {object}"
    );
}

fn topology_keys(spec: &Value) -> BTreeSet<&str> {
    let preferred = spec["preferredPersistentTopology"]
        .as_array()
        .into_iter()
        .flatten();
    let terms = preferred
        .map(|term| &term["preference"])
        .chain([&spec["requiredPersistentTopology"]]);
    let keys = terms.flat_map(|term| [&term["nodeTopologyKeys"], &term["keys"]]);
    keys.filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
