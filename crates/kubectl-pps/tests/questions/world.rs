//! A small cluster: four nodes in two zones, and the StatefulSet `db` with its PersistentPodState.

use std::ops::Deref;

use kubectl_pps::decide::command_line::CommandLine;
use kubectl_pps::decide::explain::{Cause, Question, explain};
use kubectl_pps::decide::status::{Status, status};
use kubectl_pps::render::status::{Columns, Line};
use kubectl_pps::render::{self, Style};
use kubectl_pps::snapshot::{Namespaces, Node, Pod, Pps, Resource, Snapshot, Unread, Workload};
use kubectl_pps::{Failure, Outcome};
use serde_json::{Value, json};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const IP: &str = "example.io/ip";

/// A cluster that is changed before it is asked.
pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
}

pub(crate) fn commands() -> CommandLine {
    CommandLine {
        own_namespace: Some("shop".into()),
        ..CommandLine::default()
    }
}

impl World {
    /// `node-0` and `node-2` in zone `a`, `node-1` and `node-3` in zone `b`.
    pub(crate) fn new() -> Self {
        let mut snapshot = Snapshot::empty(Namespaces::One("shop".into()));
        snapshot.nodes = Some(std::collections::BTreeMap::new());
        let mut world = Self { snapshot };
        for (name, zone) in [
            ("node-0", "a"),
            ("node-1", "b"),
            ("node-2", "a"),
            ("node-3", "b"),
        ] {
            world.node(name, zone);
        }
        world
    }

    pub(crate) fn node(&mut self, name: &str, zone: &str) {
        let resources = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
        let node = json!({
            "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
            "spec": {},
            "status": {"allocatable": resources, "capacity": resources,
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.put_node(node);
    }

    fn put_node(&mut self, node: Value) {
        let node = Node::read(node).unwrap();
        self.snapshot
            .nodes
            .as_mut()
            .unwrap()
            .insert(node.name().to_owned(), node);
    }

    /// Merges a patch into a Node.
    pub(crate) fn change_node(&mut self, name: &str, patch: &Value) {
        let mut node = self.snapshot.node(name).unwrap().object().clone();
        json_patch::merge(&mut node, patch);
        self.put_node(node);
    }

    pub(crate) fn lose_node(&mut self, name: &str) {
        self.snapshot.nodes.as_mut().unwrap().remove(name);
    }

    /// A StatefulSet with a PersistentPodState of this spec.
    pub(crate) fn workload(&mut self, name: &str, replicas: u64, spec: &Value) {
        self.bare_workload(name, replicas, &json!({}));
        self.pps(name, name, spec);
    }

    /// A StatefulSet.
    pub(crate) fn bare_workload(&mut self, name: &str, replicas: u64, patch: &Value) {
        let mut object = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {"replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main",
                    "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}},
        });
        json_patch::merge(&mut object, patch);
        self.snapshot
            .workloads
            .push(Workload::read(object, "apps/v1").unwrap());
    }

    pub(crate) fn pps(&mut self, name: &str, workload: &str, spec: &Value) {
        let mut object = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-pps-{name}"),
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload}},
            "status": {"podStates": {}, "conditions":
                [{"type": "Recording", "status": "True", "reason": "AllRecorded", "message": "m"}]},
        });
        json_patch::merge(&mut object["spec"], spec);
        self.snapshot.pps.push(Pps::read(object).unwrap());
    }

    /// Merges a patch into a PersistentPodState.
    pub(crate) fn change_pps(&mut self, name: &str, patch: &Value) {
        let pps = self
            .snapshot
            .pps
            .iter_mut()
            .find(|pps| pps.name() == name)
            .unwrap();
        let mut object = pps.object().clone();
        json_patch::merge(&mut object, patch);
        *pps = Pps::read(object).unwrap();
    }

    /// Records a Pod on a node.
    pub(crate) fn record(&mut self, pps: &str, pod: &str, node: &str) {
        let zone = if matches!(node, "node-1" | "node-3") {
            "b"
        } else {
            "a"
        };
        let state = json!({"nodeName": node, "nodeTopologyLabels": {HOSTNAME: node, ZONE: zone}});
        self.change_pps(pps, &json!({"status": {"podStates": {pod: state}}}));
    }

    /// A Pod of a StatefulSet, merged with a patch.
    pub(crate) fn pod(&mut self, workload: &str, ordinal: u64, patch: &Value) {
        let name = format!("{workload}-{ordinal}");
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                "labels": {"app": workload}, "creationTimestamp": "2026-11-22T19:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload,
                    "uid": format!("uid-{workload}"), "controller": true}]},
            "spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"},
        });
        json_patch::merge(&mut pod, patch);
        self.snapshot.pods.push(Pod::read(pod).unwrap());
    }

    pub(crate) fn ready_pod(&mut self, workload: &str, ordinal: u64, node: &str) {
        self.pod(workload, ordinal, &ready(node, ordinal));
    }

    /// A Pod that no node could take, with what was injected.
    pub(crate) fn pending_pod(&mut self, workload: &str, ordinal: u64, required: &[(&str, &str)]) {
        let mut patch = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/4 nodes are available: 4 node(s) didn't match."}]}});
        if !required.is_empty() {
            json_patch::merge(&mut patch, &injected(workload, required));
        }
        self.pod(workload, ordinal, &patch);
    }

    /// Takes the right away to list a kind in the namespace, or nodes.
    pub(crate) fn forbid(&mut self, resource: Resource) {
        if resource == Resource::Nodes {
            self.snapshot.nodes = None;
        }
        let namespace = (!resource.is_cluster_wide()).then(|| "shop".to_owned());
        self.snapshot.unread.push(Unread {
            resource,
            namespace,
            why: None,
        });
    }
}

/// A patch of a Pod that is Ready on a node.
pub(crate) fn ready(node: &str, number: u64) -> Value {
    json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "podIP": format!("10.0.0.{number}"),
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]}})
}

/// A patch with what the policy injects.
pub(crate) fn injected(pps: &str, required: &[(&str, &str)]) -> Value {
    let expressions: Vec<Value> = required
        .iter()
        .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
        .collect();
    json!({
        "metadata": {"annotations": {"kruise.io/injected-persistent-pod-state": pps}},
        "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}},
    })
}

pub(crate) fn required(keys: &[&str]) -> Value {
    json!({"requiredPersistentTopology": {"nodeTopologyKeys": keys}})
}

pub(crate) fn preferred(key: &str) -> Value {
    json!({"preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [key]}}]})
}

/// What `explain` answers, as types and as users read it.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) cause: Cause,
    outcome: Outcome,
    document: render::explanation::Document,
}

impl Deref for Explained {
    type Target = render::explanation::Document;

    fn deref(&self) -> &Self::Target {
        &self.document
    }
}

impl Explained {
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(crate) fn commands(&self) -> Vec<&str> {
        self.remedies
            .iter()
            .filter_map(|remedy| remedy.command.as_deref())
            .collect()
    }
}

/// What `status` answers, as types and as users read it.
#[derive(Debug)]
pub(crate) struct Answered {
    status: Status,
    pub(crate) advice: Vec<Line>,
    pub(crate) unread: Vec<String>,
    json: String,
}

impl Deref for Answered {
    type Target = Status;

    fn deref(&self) -> &Self::Target {
        &self.status
    }
}

impl Answered {
    pub(crate) fn of(world: &World, status: Status) -> Self {
        let document =
            render::status::Document::of(&status, &world.snapshot.namespaces, &commands());
        let (advice, unread) = (document.advice.clone(), document.unread.clone());
        let json =
            render::for_programs(kubectl_pps::args::Output::Json, "Status", &document).unwrap();
        Self {
            status,
            advice,
            unread,
            json,
        }
    }

    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    pub(crate) fn text(&self, world: &World, style: Style, is_wide: bool) -> String {
        self.document(world).text(
            style,
            if is_wide {
                Columns::Wide
            } else {
                Columns::Pods
            },
            false,
        )
    }

    /// What `-A` shows.
    pub(crate) fn summary(&self, world: &World, style: Style) -> String {
        self.document(world).text(style, Columns::Workloads, true)
    }

    fn document(&self, world: &World) -> render::status::Document<'_> {
        render::status::Document::of(&self.status, &world.snapshot.namespaces, &commands())
    }

    /// What `--problems` leaves.
    pub(crate) fn retain_problems(&mut self) {
        self.status.retain_problems();
    }

    /// What is advised: each text with its command.
    pub(crate) fn lines(&self) -> Vec<(&str, &str)> {
        self.advice
            .iter()
            .map(|one| (one.text.as_str(), one.command.as_str()))
            .collect()
    }
}

impl World {
    pub(crate) fn explain(&self, pod: &str, refusals: &[String]) -> Result<Explained, Failure> {
        let event = |message: &String| json!({"reason": "FailedCreate", "message": message});
        self.explain_with(
            pod,
            &json!({"items": refusals.iter().map(event).collect::<Vec<_>>()}),
        )
    }

    /// The same with these Events about the workload.
    pub(crate) fn explain_with(&self, pod: &str, events: &Value) -> Result<Explained, Failure> {
        let question = Question {
            snapshot: &self.snapshot,
            namespace: "shop",
            pod,
            events,
        };
        let explanation = explain(&question)?;
        let document = render::explanation::Document::of(&explanation, &commands());
        Ok(Explained {
            outcome: explanation.outcome(),
            cause: explanation.cause,
            document,
        })
    }

    pub(crate) fn status(&self, workload: Option<&str>) -> Result<Answered, Failure> {
        Ok(Answered::of(
            self,
            status(&self.snapshot, workload, None, &commands())?,
        ))
    }

    /// The answer about the workloads of the snapshot, which a selector has chosen.
    pub(crate) fn selected(&self, selector: &str) -> Result<Answered, Failure> {
        Ok(Answered::of(
            self,
            status(&self.snapshot, None, Some(selector), &commands())?,
        ))
    }
}

/// What a user reads of a failure, and the exit code.
pub(crate) fn said(failure: &Failure) -> (String, u8) {
    (failure.to_string(), failure.exit_code())
}
