//! The check at the end of every fault: the recorded states match the cluster exactly.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use pps_e2e::{
    cluster::{Cluster, PodInfo, is_alias},
    recorded::recorded_states,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::{TIMEOUT, WHILE, list, recording};

/// Waits until each object of the namespace matches the cluster, and checks that this lasts.
/// `entries` is the expected number of entries, so that an empty namespace does not pass.
pub(crate) async fn end_state(cluster: &Cluster, namespace: &str, entries: usize) {
    let good = async || {
        let world = World::of(cluster, namespace).await?;
        let (seen, problems) = world.compare();
        let count = (seen != entries).then(|| format!("{seen} entries instead of {entries}"));
        anyhow::Ok(problems.into_iter().chain(count).collect::<Vec<_>>())
    };
    wait_for(
        &format!("the objects of {namespace} to match the cluster"),
        TIMEOUT,
        async || {
            let problems = good().await?;
            Ok(Progress::when(problems.is_empty(), (), problems.join("; ")))
        },
    )
    .await
    .unwrap();
    tokio::time::sleep(WHILE).await;
    assert_eq!(
        good().await.unwrap(),
        Vec::<String>::new(),
        "the objects matched only for a moment"
    );
}

/// Everything that is compared, read from the API.
struct World {
    pods: Vec<Pod>,
    nodes: BTreeMap<String, BTreeMap<String, String>>,
    sets: BTreeMap<String, StatefulSet>,
    objects: Vec<DynamicObject>,
}

impl World {
    async fn of(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let all = ListParams::default();
        let sets: Api<StatefulSet> = cluster.stateful_sets(namespace);
        let nodes: Vec<Node> = cluster.nodes.api().list(&all).await?.items;
        Ok(Self {
            pods: cluster.pods_api(namespace).list(&all).await?.items,
            nodes: nodes
                .into_iter()
                .map(|node| (node.name_any(), node.labels().clone()))
                .collect(),
            sets: sets
                .list(&all)
                .await?
                .into_iter()
                .map(|set| (set.name_any(), set))
                .collect(),
            objects: cluster
                .pps_api(namespace)
                .list(&all)
                .await?
                .into_iter()
                .filter(|one| !is_alias(one))
                .collect(),
        })
    }

    /// The number of entries that should exist, and all differences.
    fn compare(&self) -> (usize, Vec<String>) {
        let (mut entries, mut problems) = (0, Vec::new());
        let mut served = BTreeSet::new();
        for object in &self.objects {
            let name = object.name_any();
            let target = object.data["spec"]["targetRef"]["name"]
                .as_str()
                .unwrap_or_default();
            let Some(set) = self.sets.get(target) else {
                problems.push(format!("{name} targets {target}, which does not exist"));
                continue;
            };
            served.insert(target);
            let expected = self.entries(set, &object.data["spec"], &mut problems);
            entries += expected.len();
            let expected = json!({
                "states": expected,
                "recorded": expected.len(),
                "desired": set.spec.replicas,
                "targetUID": set.metadata.uid,
                "observedGeneration": object.metadata.generation,
                "Recording": "True",
            });
            let actual = comparable_status(object);
            if actual != expected {
                problems.push(format!("{name} has {actual}, expected {expected}"));
            }
        }
        for (name, set) in &self.sets {
            let asks = set
                .annotations()
                .get("kruise.io/auto-generate-persistent-pod-state");
            if asks.is_some_and(|asks| asks == "true") && !served.contains(name.as_str()) {
                problems.push(format!("no object for {name}"));
            }
        }
        (entries, problems)
    }

    /// The entries that a workload's object should have. Reports Pods that are missing.
    fn entries(
        &self,
        set: &StatefulSet,
        spec: &Value,
        problems: &mut Vec<String>,
    ) -> BTreeMap<String, Value> {
        let name = set.name_any();
        let replicas = set.spec.replicas.unwrap_or(1);
        let mut missing: BTreeSet<String> = (0..replicas)
            .map(|ordinal| format!("{name}-{ordinal}"))
            .collect();
        let mut entries = BTreeMap::new();
        for pod in &self.pods {
            let owned = pod
                .owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == set.uid().as_ref());
            let info = PodInfo::from(pod);
            if !owned {
                continue;
            }
            match info
                .node
                .as_ref()
                .and_then(|node| Some((node, self.nodes.get(node)?)))
            {
                Some((node, labels)) if info.ready && missing.remove(&info.name) => {
                    entries.insert(info.name.clone(), state(spec, &info, node, labels));
                }
                _ => problems.push(format!("{} is not Ready or not wanted", info.name)),
            }
        }
        problems.extend(missing.iter().map(|pod| format!("{pod} is missing")));
        entries
    }
}

/// The state that should be recorded of a Pod.
fn state(spec: &Value, pod: &PodInfo, node: &str, labels: &BTreeMap<String, String>) -> Value {
    let mut state = json!({"nodeName": node});
    let preferred = list(&spec["preferredPersistentTopology"]).map(|term| &term["preference"]);
    for key in preferred
        .chain([&spec["requiredPersistentTopology"]])
        .flat_map(|one| list(&one["nodeTopologyKeys"]))
    {
        if let Some((key, value)) = key.as_str().and_then(|key| labels.get_key_value(key)) {
            state["nodeTopologyLabels"][key] = json!(value);
        }
    }
    for key in list(&spec["persistentPodAnnotations"]).filter_map(|one| one["key"].as_str()) {
        if let Some(value) = pod.annotations.get(key).filter(|value| !value.is_empty()) {
            state["annotations"][key] = json!(value);
        }
    }
    state
}

/// The parts of an object's status that are compared.
fn comparable_status(object: &DynamicObject) -> Value {
    let status = &object.data["status"];
    let states = recorded_states(status)
        .map_or_else(|error| json!(error.to_string()), |states| json!(states));
    json!({
        "states": states,
        "recorded": status["recorded"],
        "desired": status["desired"],
        "targetUID": status["targetUID"],
        "observedGeneration": status["observedGeneration"],
        "Recording": recording(object)["status"],
    })
}
