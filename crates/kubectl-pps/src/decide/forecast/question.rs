//! What is asked, and which actions of the simulation it is.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::TargetReference;
use pps_core::pps::{GROUP, KIND, group_of};
use pps_simulation::Action;
use serde_json::{Map, Value};

use crate::Failure;
use crate::decide::hand::Hand;
use crate::decide::similar::similar;
use crate::decide::unread::require;
use crate::snapshot::{KRUISE_WORKLOADS, Node, Snapshot};

/// A question about the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// These nodes are deleted.
    WithoutNodes(Vec<String>),
    /// These nodes are drained.
    Drain(Vec<String>),
    /// All nodes of this zone are lost.
    ZoneDown(String),
    /// These StatefulSets and PersistentPodStates are applied, and the workloads restarted. Each has its namespace.
    Spec(Vec<Value>),
}

/// What the question changes in a namespace.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) actions: Vec<Action>,
    pub(super) notes: Vec<String>,
}

impl Question {
    /// In words.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::WithoutNodes(nodes) => format!("{} {} deleted", nodes.join(", "), is_or_are(nodes)),
            Self::Drain(nodes) => format!("{} {} drained", nodes.join(", "), is_or_are(nodes)),
            Self::ZoneDown(zone) => format!("zone {zone} is lost"),
            Self::Spec(objects) => {
                let names: Vec<String> = objects.iter().map(reference).collect();
                format!("{} is applied, and the workload restarted", names.join(", "))
            }
        }
    }

    /// Whether what it names exists.
    pub(super) fn check(
        &self,
        snapshot: &Snapshot,
        nodes: &BTreeMap<String, Node>,
        hand: &Hand,
    ) -> Result<(), Failure> {
        match self {
            Self::WithoutNodes(named) | Self::Drain(named) => {
                let mut missing = named.iter().filter(|name| !nodes.contains_key(*name));
                missing.try_for_each(|name| self.check_gone(snapshot, name, hand))
            }
            Self::ZoneDown(zone) => {
                let zones: BTreeSet<&str> = nodes.values().filter_map(Node::zone).collect();
                if zones.contains(zone.as_str()) {
                    return Ok(());
                }
                let known: Vec<&str> = zones.into_iter().take(10).collect();
                let known = if known.is_empty() {
                    "no node has the label topology.kubernetes.io/zone".to_owned()
                } else {
                    format!("there are {}", known.join(", "))
                };
                Err(Failure::Usage(format!("no node is in zone {zone}: {known}")))
            }
            Self::Spec(objects) => objects.iter().try_for_each(|object| check_kind(snapshot, object)),
        }
    }

    /// Whether the question has an answer for a node that does not exist: the Pods that are still bound to it.
    fn check_gone(&self, snapshot: &Snapshot, node: &str, hand: &Hand) -> Result<(), Failure> {
        let bound = snapshot.pods.iter().filter(|pod| pod.node() == Some(node)).count();
        if bound == 0 {
            let recording = snapshot.pps.iter().find(|pps| {
                pps.states().is_ok_and(|states| states.values().any(|state| state.node_name == node))
            });
            let hint = if let Some(pps) = recording {
                let status = hand.pps("status", pps.namespace());
                format!("recorded states name it, and {status} shows the Pods that wait for it")
            } else {
                let all = snapshot.nodes.iter().flat_map(|nodes| nodes.values().map(Node::name));
                match similar(node, all).as_slice() {
                    [] => format!("{} lists those that there are", hand.kubectl("get nodes")),
                    near => format!("similar names: {}", near.join(", ")),
                }
            };
            return Err(Failure::Usage(format!("there is no node {node}; {hint}")));
        }
        if matches!(self, Self::Drain(_)) {
            let (pods, start) = if bound == 1 {
                ("1 Pod is".to_owned(), "it starts")
            } else {
                (format!("{bound} Pods are"), "they start")
            };
            return Err(Failure::Usage(format!(
                "node {node} does not exist any more, and cannot be drained. {pods} still bound to it: --without-node {node} forecasts where {start}"
            )));
        }
        Ok(())
    }

    /// The nodes that it names and that do not exist any more.
    pub(super) fn gone_nodes(&self, nodes: &BTreeMap<String, Node>) -> Vec<String> {
        match self {
            Self::WithoutNodes(named) => {
                named.iter().filter(|name| !nodes.contains_key(*name)).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a node is one that is drained or lost.
    pub(super) fn concerns(&self, snapshot: &Snapshot, node: &str) -> bool {
        match self {
            Self::WithoutNodes(named) | Self::Drain(named) => named.iter().any(|name| name == node),
            Self::ZoneDown(zone) => snapshot.node(node).and_then(Node::zone) == Some(zone.as_str()),
            Self::Spec(_) => false,
        }
    }

    /// The namespaces that it names.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        match self {
            Self::Spec(objects) => {
                objects.iter().map(|object| text(&object["metadata"]["namespace"])).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// The actions in a namespace.
    pub(super) fn changes(&self, snapshot: &Snapshot, namespace: &str) -> Changes {
        let mut changes = Changes::default();
        match self {
            Self::WithoutNodes(nodes) => {
                changes.actions = vec![Action::LoseNodes { nodes: nodes.clone() }, Action::EndGracePeriod {}];
            }
            Self::Drain(nodes) => {
                // kubectl cordons all of them first.
                let cordoned = |name: &&String| !snapshot.node(name).is_some_and(Node::is_cordoned);
                let cordon = nodes.iter().filter(cordoned).map(|node| Action::Cordon { node: node.clone() });
                let drain = nodes.iter().map(|node| Action::Drain { node: node.clone() });
                changes.actions = cordon.chain(drain).collect();
            }
            Self::ZoneDown(zone) => {
                changes.actions = vec![Action::LoseZone { zone: zone.clone() }, Action::EndGracePeriod {}];
            }
            Self::Spec(objects) => {
                for object in objects.iter().filter(|object| object["metadata"]["namespace"] == namespace) {
                    apply(&mut changes, snapshot, namespace, object);
                }
            }
        }
        changes
    }
}

fn is_or_are(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn reference(object: &Value) -> String {
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

fn check_kind(snapshot: &Snapshot, object: &Value) -> Result<(), Failure> {
    let group = group_of(object["apiVersion"].as_str().unwrap_or_default());
    let kind = object["kind"].as_str().unwrap_or_default();
    if !matches!((group, kind), ("apps" | GROUP, "StatefulSet") | (GROUP, KIND)) {
        return Err(Failure::Usage(format!(
            "the file has {}: a forecast takes StatefulSets and PersistentPodStates",
            reference(object)
        )));
    }
    let target = if kind == KIND { &object["spec"]["targetRef"] } else { object };
    let target = TargetReference::read(target);
    let is_openkruises = target.group() == GROUP && target.kind != KIND;
    if is_openkruises { require(snapshot, KRUISE_WORKLOADS) } else { Ok(()) }
}

fn apply(changes: &mut Changes, snapshot: &Snapshot, namespace: &str, object: &Value) {
    if object["kind"] == KIND {
        let target = TargetReference::read(&object["spec"]["targetRef"]);
        changes.actions.push(Action::ChangeSpec { object: object.clone() });
        restart(changes, snapshot, namespace, &target);
        return;
    }
    let target = TargetReference { name: text(&object["metadata"]["name"]), ..TargetReference::read(object) };
    let live = snapshot
        .workloads
        .iter()
        .find(|workload| workload.namespace() == namespace && workload.target().is_same_workload(&target));
    let Some(live) = live else {
        changes.actions.push(Action::ChangeSpec { object: object.clone() });
        changes.notes.push(format!("{} does not exist yet, and is created", reference(object)));
        return;
    };
    let mut changed = overlay(live.object(), object);
    // The version in which it was read is the one that the simulation has.
    changed["apiVersion"] = live.object()["apiVersion"].clone();
    let is_new_template = changed["spec"]["template"] != live.object()["spec"]["template"];
    changes.actions.push(Action::ChangeSpec { object: changed });
    changes.notes.push(format!(
        "fields that the file does not set for {} stay as they are in the cluster",
        reference(object)
    ));
    if !is_new_template {
        restart(changes, snapshot, namespace, &target);
    }
}

/// Restarts a workload, so that each Pod is created again.
fn restart(changes: &mut Changes, snapshot: &Snapshot, namespace: &str, target: &TargetReference) {
    let live = snapshot
        .workloads
        .iter()
        .find(|workload| workload.namespace() == namespace && workload.target().is_same_workload(target));
    let Some(live) = live else {
        changes.notes.push(format!(
            "there is no StatefulSet {} that could be restarted; other kinds of workloads are not simulated",
            target.name
        ));
        return;
    };
    if live.object()["spec"]["updateStrategy"]["type"] == "OnDelete" {
        changes.notes.push(format!(
            "StatefulSet {} replaces no Pod by itself (updateStrategy: OnDelete): the change counts for Pods that are deleted",
            target.name
        ));
    }
    let again = changes
        .actions
        .iter()
        .any(|action| matches!(action, Action::RollingUpdate { workload } if *workload == target.name));
    if !again {
        changes.actions.push(Action::RollingUpdate { workload: target.name.clone() });
    }
}

/// A live object with the fields of a file. As the API server does, items of lists that have a name are merged by it.
fn overlay(live: &Value, file: &Value) -> Value {
    match (live, file) {
        (Value::Object(live), Value::Object(file)) => {
            let mut merged: Map<String, Value> = live.clone();
            for (field, value) in file {
                let value = match merged.get(field) {
                    Some(own) => overlay(own, value),
                    None => value.clone(),
                };
                if value.is_null() {
                    merged.remove(field);
                } else {
                    merged.insert(field.clone(), value);
                }
            }
            merged.into()
        }
        (Value::Array(live), Value::Array(file)) => {
            let name = |item: &Value| {
                let own = item["name"].as_str().or_else(|| item["metadata"]["name"].as_str());
                own.map(str::to_owned)
            };
            let merge = |item: &Value| {
                let own =
                    name(item).and_then(|wanted| live.iter().find(|one| name(one).as_ref() == Some(&wanted)));
                own.map_or_else(|| item.clone(), |own| overlay(own, item))
            };
            file.iter().map(merge).collect()
        }
        (_, file) => file.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_changes_what_it_sets_and_keeps_the_defaults_of_the_api_server() {
        let live = json!({"spec": {"replicas": 3, "template": {"spec": {
            "dnsPolicy": "ClusterFirst", "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "main", "image": "a:1", "imagePullPolicy": "Always"}, {"name": "old"}]}}}});
        let file = json!({"spec": {"template": {"spec": {"nodeSelector": null, "containers": [{"name": "main", "image": "a:2"}]}}}});
        assert_eq!(
            overlay(&live, &file),
            json!({"spec": {"replicas": 3, "template": {"spec": {"dnsPolicy": "ClusterFirst",
                "containers": [{"name": "main", "image": "a:2", "imagePullPolicy": "Always"}]}}}})
        );
        assert_eq!(overlay(&live, &live), live);
    }
}
