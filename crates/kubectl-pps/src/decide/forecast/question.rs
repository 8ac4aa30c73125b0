//! The question, and the scenario of the simulation that answers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::TargetReference;
use pps_core::pps::{API_VERSION, GROUP, KIND, group_of};
use pps_simulation::{Action, Scenario};
use serde_json::{Map, Value, json};

use super::Note;
use crate::Failure;
use crate::decide::command_line::CommandLine;
use crate::decide::similar::similar;
use crate::snapshot::{Node, Resource, Snapshot, Workload};

/// A question about the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// These nodes are deleted.
    WithoutNodes(Vec<String>),
    /// These nodes are drained.
    Drain(Vec<String>),
    /// All nodes of this zone are lost.
    ZoneDown(String),
    /// These StatefulSets and PersistentPodStates are applied, and the workloads restarted. Each has its
    /// namespace.
    Spec(Vec<Value>),
}

/// Where Pods, by namespace and name, would be instead; none if they would have no node.
pub(super) type Placed = BTreeMap<(String, String), Option<String>>;

/// What the question changes in a namespace.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) actions: Vec<Action>,
    pub(super) notes: Vec<Note>,
}

impl Question {
    /// Fails if it names what does not exist.
    pub(super) fn check(
        &self,
        snapshot: &Snapshot,
        nodes: &BTreeMap<String, Node>,
        commands: &CommandLine,
    ) -> Result<(), Failure> {
        match self {
            Self::WithoutNodes(named) | Self::Drain(named) => {
                let mut missing = named.iter().filter(|name| !nodes.contains_key(*name));
                missing.try_for_each(|name| self.check_gone(snapshot, name, commands))
            }
            Self::ZoneDown(zone) => {
                let zones: BTreeSet<&str> = nodes.values().filter_map(Node::zone).collect();
                if zones.contains(zone.as_str()) {
                    return Ok(());
                }
                let known: Vec<&str> = zones.into_iter().take(10).collect();
                let known = match known.as_slice() {
                    [] => "no node has the label topology.kubernetes.io/zone".to_owned(),
                    known => format!("there are {}", known.join(", ")),
                };
                Err(Failure::Usage(format!("no node is in zone {zone}: {known}")))
            }
            Self::Spec(objects) => objects.iter().try_for_each(|object| check_kind(snapshot, object)),
        }
    }

    /// A node that does not exist has an answer if Pods are still bound to it.
    fn check_gone(&self, snapshot: &Snapshot, node: &str, commands: &CommandLine) -> Result<(), Failure> {
        let bound = snapshot.pods.iter().filter(|pod| pod.node() == Some(node)).count();
        match (self, bound) {
            (_, 0) => {
                let all = snapshot.nodes.iter().flat_map(|nodes| nodes.values().map(Node::name));
                let hint = match similar(node, all).as_slice() {
                    [] => format!("{} lists the nodes", commands.kubectl("get nodes")),
                    near => format!("similar names: {}", near.join(", ")),
                };
                Err(Failure::Usage(format!("there is no node {node}; {hint}")))
            }
            (Self::Drain(_), bound) => {
                let pods = if bound == 1 { "1 Pod is".to_owned() } else { format!("{bound} Pods are") };
                Err(Failure::Usage(format!(
                    "node {node} does not exist any more, and cannot be drained. {pods} still bound to it: use \
                     --without-node {node}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The nodes that it names.
    pub(super) fn nodes(&self) -> &[String] {
        match self {
            Self::WithoutNodes(named) | Self::Drain(named) => named,
            Self::ZoneDown(_) | Self::Spec(_) => &[],
        }
    }

    /// The nodes that it names and that do not exist any more.
    pub(super) fn gone_nodes(&self, nodes: &BTreeMap<String, Node>) -> Vec<String> {
        self.nodes().iter().filter(|name| !nodes.contains_key(*name)).cloned().collect()
    }

    /// Whether a node is one that is drained or lost.
    pub(super) fn concerns(&self, snapshot: &Snapshot, node: &str) -> bool {
        match self {
            Self::ZoneDown(zone) => snapshot.node(node).and_then(Node::zone) == Some(zone.as_str()),
            _ => self.nodes().iter().any(|name| name == node),
        }
    }

    /// The namespaces that it names.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let Self::Spec(objects) = self else { return BTreeSet::new() };
        objects.iter().map(|object| text(&object["metadata"]["namespace"])).collect()
    }

    /// The actions in a namespace.
    pub(super) fn changes(&self, snapshot: &Snapshot, namespace: &str) -> Changes {
        let mut changes = Changes::default();
        match self {
            Self::WithoutNodes(nodes) => {
                changes.actions = vec![Action::LoseNodes { nodes: nodes.clone() }, Action::EndGracePeriod {}];
            }
            Self::Drain(nodes) => {
                changes.actions = nodes.iter().map(|node| Action::Drain { node: node.clone() }).collect();
            }
            Self::ZoneDown(zone) => {
                changes.actions = vec![Action::LoseZone { zone: zone.clone() }, Action::EndGracePeriod {}];
            }
            Self::Spec(objects) => {
                for object in objects.iter().filter(|object| object["metadata"]["namespace"] == namespace) {
                    changes.apply(snapshot, namespace, object);
                }
            }
        }
        changes
    }

    /// A scenario of the workloads of one namespace, and the Pods of all: those of others take room. `gone`
    /// are nodes that do not exist any more, and whose loss is the question.
    pub(super) fn scenario(
        &self,
        snapshot: &Snapshot,
        namespace: &str,
        actions: Vec<Action>,
        gone: &[String],
        placed: &Placed,
    ) -> (Scenario, Vec<Arc<Value>>) {
        let is_here = |object: &Value| object["metadata"]["namespace"] == namespace;
        let mut objects = Vec::new();
        for node in snapshot.nodes.iter().flat_map(BTreeMap::values) {
            let mut object = typed(node.object(), "v1", "Node");
            // No Pod starts there before the event: kubectl too cordons all nodes before it drains the first.
            if self.concerns(snapshot, node.name()) {
                object["spec"]["unschedulable"] = true.into();
            }
            objects.push(object);
        }
        // They are there until the action takes them away, and their Pods with them.
        objects.extend(gone.iter().map(|name| {
            let labels = json!({"kubernetes.io/hostname": name});
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": true}})
        }));
        let workloads = snapshot.workloads.iter().filter(|workload| workload.namespace() == namespace);
        objects.extend(workloads.map(|workload| workload.object().clone()));
        let pps = snapshot.pps.iter().filter(|pps| pps.namespace() == namespace);
        objects.extend(pps.map(|pps| typed(pps.object(), API_VERSION, KIND)));
        let claims = snapshot.claims.iter().filter(|claim| is_here(claim));
        objects.extend(claims.map(|claim| typed(claim, "v1", "PersistentVolumeClaim")));
        objects.extend(snapshot.volumes.iter().map(|volume| typed(volume, "v1", "PersistentVolume")));
        let budgets = snapshot.budgets.iter().filter(|budget| is_here(budget));
        objects.extend(budgets.map(|budget| typed(budget, "policy/v1", "PodDisruptionBudget")));
        let pods = snapshot.pods.iter().filter_map(|pod| {
            let place = placed.get(&(pod.namespace().to_owned(), pod.name().to_owned()));
            // It is copied only if it is changed.
            let mut shared = Arc::clone(pod.shared());
            match place {
                Some(None) => return None,
                Some(Some(node)) => {
                    let pod = Arc::make_mut(&mut shared);
                    pod["spec"]["nodeName"] = node.as_str().into();
                    pod["status"] = json!({"phase": "Running"});
                }
                None => {}
            }
            if gone.iter().any(|node| shared["spec"]["nodeName"] == **node) {
                let pod = Arc::make_mut(&mut shared);
                // Its deletion is a part of the loss. A Pod that is not Ready is not recorded again.
                remove(&mut pod["metadata"], "deletionTimestamp");
                remove(&mut pod["status"], "conditions");
            }
            Some(shared)
        });
        let pods = pods.collect();
        // The first action lets happen what would happen anyway, so that it is not taken for an effect of the
        // others.
        let actions = [Action::RollOut {}].into_iter().chain(actions).collect();
        let scenario = Scenario {
            objects,
            live: true,
            namespace: namespace.to_owned(),
            with_pps: true,
            actions,
            ..Scenario::default()
        };
        (scenario, pods)
    }
}

fn remove(fields: &mut Value, field: &str) {
    if let Some(fields) = fields.as_object_mut() {
        fields.remove(field);
    }
}

/// The items of a list carry no type.
fn typed(object: &Value, api_version: &str, kind: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    object
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What an object of a file is.
pub fn reference(object: &Value) -> TargetReference {
    TargetReference {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        name: text(&object["metadata"]["name"]),
    }
}

fn check_kind(snapshot: &Snapshot, object: &Value) -> Result<(), Failure> {
    let own = reference(object);
    let group = group_of(&own.api_version);
    if !matches!((group, own.kind.as_str()), ("apps" | GROUP, "StatefulSet") | (GROUP, KIND)) {
        return Err(Failure::Usage(format!(
            "the file has {}/{}: a forecast takes StatefulSets and PersistentPodStates",
            own.kind, own.name
        )));
    }
    let target = if own.kind == KIND { TargetReference::read(&object["spec"]["targetRef"]) } else { own };
    if target.group() == GROUP && target.kind != KIND {
        snapshot.require(Resource::KruiseStatefulSets)?;
    }
    Ok(())
}

fn find<'a>(snapshot: &'a Snapshot, namespace: &str, target: &TargetReference) -> Option<&'a Workload> {
    let is_meant = |one: &&Workload| one.namespace() == namespace && one.target().is_same_workload(target);
    snapshot.workloads.iter().find(is_meant)
}

impl Changes {
    fn apply(&mut self, snapshot: &Snapshot, namespace: &str, object: &Value) {
        if object["kind"] == KIND {
            self.actions.push(Action::ChangeSpec { object: object.clone() });
            return self.restart(snapshot, namespace, &TargetReference::read(&object["spec"]["targetRef"]));
        }
        let target = reference(object);
        let Some(live) = find(snapshot, namespace, &target) else {
            self.actions.push(Action::ChangeSpec { object: object.clone() });
            return self.notes.push(Note::Created(target));
        };
        let mut changed = overlay(live.object(), object);
        // The version in which it was read is the one that the simulation has.
        changed["apiVersion"] = live.object()["apiVersion"].clone();
        let is_new_template = changed["spec"]["template"] != live.object()["spec"]["template"];
        self.actions.push(Action::ChangeSpec { object: changed });
        self.notes.push(Note::KeepsFields(target.clone()));
        if !is_new_template {
            self.restart(snapshot, namespace, &target);
        }
    }

    /// Restarts a workload, so that each Pod is created again.
    fn restart(&mut self, snapshot: &Snapshot, namespace: &str, target: &TargetReference) {
        let name = target.name.clone();
        let Some(live) = find(snapshot, namespace, target) else {
            return self.notes.push(Note::NothingToRestart(name));
        };
        if live.object()["spec"]["updateStrategy"]["type"] == "OnDelete" {
            self.notes.push(Note::OnDelete(name.clone()));
        }
        let restart = Action::RollingUpdate { workload: name };
        if !self.actions.contains(&restart) {
            self.actions.push(restart);
        }
    }
}

/// A live object with the fields of a file. As the API server does, items of lists that have a name are
/// merged by it.
fn overlay(live: &Value, file: &Value) -> Value {
    match (live, file) {
        (Value::Object(live), Value::Object(file)) => {
            let mut merged: Map<String, Value> = live.clone();
            for (field, value) in file {
                let value = merged.get(field).map_or_else(|| value.clone(), |own| overlay(own, value));
                if value.is_null() {
                    merged.remove(field);
                } else {
                    merged.insert(field.clone(), value);
                }
            }
            merged.into()
        }
        (Value::Array(live), Value::Array(file)) => {
            let name =
                |item: &Value| item["name"].as_str().or(item["metadata"]["name"].as_str()).map(str::to_owned);
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
