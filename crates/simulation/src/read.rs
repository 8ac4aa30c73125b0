//! Reads the objects that users write: which are simulated, and what is wrong with them.

mod check;
mod stateful_set;

use std::sync::Arc;

use pps_core::owner::has_stable_names;
use pps_core::pps::{API_VERSIONS, GROUP, KIND, group_of};
use pps_core::shorten;
use pps_scheduler::HOSTNAME;
use pps_scheduler::fields::text;
use serde_json::Value;

pub(crate) use self::check::check_label;
use crate::cluster::Cluster;
use crate::finding::Finding;
use crate::result::Severity;

#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Node(Value),
    Workload(Value),
    Pps(Value),
    Pod(Arc<Value>),
    /// A claim of a volume, or a volume.
    Volume(Value),
    Budget(Value),
}

/// What was read of an object.
#[derive(Debug)]
pub(crate) struct ParsedObject {
    /// None if the object is not simulated; the findings say why.
    pub(crate) parsed: Option<Parsed>,
    pub(crate) findings: Vec<Finding>,
}

impl ParsedObject {
    /// An object with a finding that is no warning is not simulated.
    fn checked(parsed: Parsed, findings: Vec<Finding>) -> Self {
        let is_usable = findings
            .iter()
            .all(|finding| finding.severity == Severity::Warning);
        Self {
            parsed: is_usable.then_some(parsed),
            findings,
        }
    }

    fn not_simulated(findings: Vec<Finding>) -> Self {
        Self {
            parsed: None,
            findings,
        }
    }
}

/// An object, with the index of its document and its place in a list: `items[3].`.
#[derive(Clone, Debug)]
pub(crate) struct Document<'a> {
    pub(crate) index: usize,
    pub(crate) prefix: String,
    pub(crate) object: &'a Value,
}

/// All objects of a list of documents. A `List` counts as its items.
pub(crate) fn expand(objects: &[Value]) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    for (index, object) in objects
        .iter()
        .enumerate()
        .filter(|(_, object)| !object.is_null())
    {
        match object["items"]
            .as_array()
            .filter(|_| text(&object["kind"]).ends_with("List"))
        {
            Some(items) => {
                documents.extend(items.iter().enumerate().map(|(item, object)| Document {
                    index,
                    prefix: format!("items[{item}]."),
                    object,
                }));
            }
            None => documents.push(Document {
                index,
                prefix: String::new(),
                object,
            }),
        }
    }
    documents
}

/// The namespace of a list of objects: the first one that any of them names.
pub(crate) fn namespace_of(documents: &[Document<'_>]) -> String {
    let is_namespaced =
        |object: &&Value| ["StatefulSet", "Pod", KIND].contains(&text(&object["kind"]));
    let objects = documents
        .iter()
        .map(|document| document.object)
        .filter(is_namespaced);
    let mut named = objects.map(|object| text(&object["metadata"]["namespace"]));
    named
        .find(|namespace| !namespace.is_empty())
        .unwrap_or("default")
        .to_owned()
}

pub(crate) fn parse(object: &Value, cluster: &Cluster) -> ParsedObject {
    let namespace = &cluster.namespace;
    let api_version = text(&object["apiVersion"]);
    let kind = text(&object["kind"]);
    if !object.is_object() || kind.is_empty() || api_version.is_empty() {
        let message = "this is not a Kubernetes object: add apiVersion, kind and metadata.name";
        return ParsedObject::not_simulated(Finding::of_all(message).into());
    }
    let mut findings = Vec::new();
    let found = &mut findings;
    check::metadata(object, found);
    let parsed = match (group_of(api_version), kind) {
        ("", "Node") => {
            check::maps(object, &["spec", "status"], found);
            Parsed::Node(with_host_name(object))
        }
        ("apps" | GROUP, "StatefulSet") => {
            stateful_set::check(object, found);
            Parsed::Workload(in_namespace(object, namespace, found))
        }
        (GROUP, KIND) => {
            if !API_VERSIONS.contains(&api_version) {
                let remedy = format!("use {}", API_VERSIONS[0]);
                found.push(Finding::wrong("apiVersion", &object["apiVersion"], &remedy));
            }
            check::pps(object, found);
            Parsed::Pps(in_namespace(object, namespace, found))
        }
        ("", "Pod") => return parse_pod(&Arc::new(object.clone()), cluster),
        ("", "PersistentVolume") => Parsed::Volume(object.clone()),
        ("", "PersistentVolumeClaim") if keeps_namespace(object, cluster) => {
            Parsed::Volume(object.clone())
        }
        ("", "PersistentVolumeClaim") => Parsed::Volume(in_namespace(object, namespace, found)),
        ("policy", "PodDisruptionBudget") => {
            if keeps_namespace(object, cluster) && object["metadata"]["namespace"] != *namespace {
                // It protects none of the Pods that are simulated.
                return ParsedObject::not_simulated(Vec::new());
            }
            Parsed::Budget(in_namespace(object, namespace, found))
        }
        _ => {
            let finding = Finding::warning("kind", not_simulated(api_version, kind));
            return ParsedObject::not_simulated(finding.into());
        }
    };
    ParsedObject::checked(parsed, findings)
}

fn not_simulated(api_version: &str, kind: &str) -> String {
    let name = shorten(kind);
    if has_stable_names(api_version, kind) {
        return format!(
            "{name} is not simulated: the simulation has Nodes, Pods, StatefulSets, \
             PersistentPodStates, volumes and PodDisruptionBudgets"
        );
    }
    format!(
        "{name} is not simulated: its Pods get a new name each time, so that no state can be \
         recorded for them; use a StatefulSet"
    )
}

/// Reads a Pod. One of a live cluster is shared, and need not say its kind.
pub(crate) fn parse_pod(pod: &Arc<Value>, cluster: &Cluster) -> ParsedObject {
    let mut findings = Vec::new();
    check::metadata(pod, &mut findings);
    check::maps(pod, &["spec", "status"], &mut findings);
    let pod = if keeps_namespace(pod, cluster) {
        Arc::clone(pod)
    } else {
        in_namespace(pod, &cluster.namespace, &mut findings).into()
    };
    ParsedObject::checked(Parsed::Pod(pod), findings)
}

/// Objects of a live cluster may have another namespace than the workloads.
fn keeps_namespace(object: &Value, cluster: &Cluster) -> bool {
    cluster.is_live && object["metadata"]["namespace"].is_string()
}

fn in_namespace(object: &Value, namespace: &str, findings: &mut Vec<Finding>) -> Value {
    let own = text(&object["metadata"]["namespace"]);
    if !own.is_empty() && own != namespace {
        let message = format!(
            "metadata.namespace is {}: a PersistentPodState and its workload have to be in one \
             namespace; use {namespace}",
            shorten(own)
        );
        findings.push(Finding::error("metadata.namespace", message));
    }
    let mut object = object.clone();
    if object["metadata"].is_object() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// The Node with the label that each kubelet sets.
fn with_host_name(object: &Value) -> Value {
    let mut node = object.clone();
    let labels = &object["metadata"]["labels"];
    if (labels.is_object() || labels.is_null())
        && labels[HOSTNAME].is_null()
        && object["metadata"].is_object()
    {
        node["metadata"]["labels"][HOSTNAME] = object["metadata"]["name"].clone();
    }
    node
}
