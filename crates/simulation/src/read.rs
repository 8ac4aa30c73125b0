//! Reads the objects that users write: which are simulated, and what is wrong with them.

mod fields;
mod stateful_set;

use std::sync::Arc;

use pps_core::owner::has_stable_names;
use pps_core::pps::{API_VERSIONS, GROUP, KIND, group_of};
use pps_core::{is_dns_subdomain, shorten};
use serde_json::{Value, json};

pub(crate) use self::fields::check_label;
pub(crate) use self::stateful_set::is_allowed_change;
use crate::finding::{Finding, check_strings};
use crate::result::Severity;
use crate::shared::Shared;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Kinds that are not simulated although the scheduler, a drain or the API server heeds them.
const INFLUENTIAL: [&str; 6] =
    ["StorageClass", "PriorityClass", "RuntimeClass", "LimitRange", "ResourceQuota", "Service"];

#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Node(Value),
    Workload(Value),
    Pps(Value),
    Pod(Value),
    /// A claim of a volume, or a volume.
    Volume(Value),
    Budget(Value),
}

/// Which objects a cluster takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) namespace: &'a str,
    /// Whether there may be Pods and claims of other namespaces.
    pub(crate) is_live: bool,
}

/// An object, with the index of its document and its place in a list: `items[3].`.
#[derive(Clone, Debug)]
pub(crate) struct Document<'a> {
    pub(crate) index: usize,
    pub(crate) prefix: String,
    pub(crate) object: &'a Value,
    /// Its kind, which a Pod of a live cluster does not say.
    pub(crate) kind: &'a str,
}

fn kind_of(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

/// All objects of a list of documents. A `List` counts as its items.
pub(crate) fn expand(objects: &[Value]) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    for (index, object) in objects.iter().enumerate().filter(|(_, object)| !object.is_null()) {
        let kind = kind_of(object);
        match object["items"].as_array().filter(|_| kind.ends_with("List")) {
            Some(items) => documents.extend(items.iter().enumerate().map(|(item, object)| Document {
                index,
                prefix: format!("items[{item}]."),
                object,
                kind: kind_of(object),
            })),
            None => documents.push(Document { index, prefix: String::new(), object, kind }),
        }
    }
    documents
}

/// The namespace of a list of objects: the first one that any of them names.
pub(crate) fn namespace_of(documents: &[Document<'_>]) -> String {
    let namespaced = documents.iter().filter(|one| ["StatefulSet", "Pod", KIND].contains(&one.kind));
    let mut named = namespaced.filter_map(|one| one.object["metadata"]["namespace"].as_str());
    named.find(|namespace| !namespace.is_empty()).unwrap_or("default").to_owned()
}

/// Reads an object. Nothing is returned if it is not simulated; the findings say why.
pub(crate) fn parse(object: &Value, scope: &Scope<'_>) -> (Option<Parsed>, Vec<Finding>) {
    let namespace = scope.namespace;
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = kind_of(object);
    if !object.is_object() || kind.is_empty() || api_version.is_empty() {
        let message = "this is not a Kubernetes object: add apiVersion, kind and metadata.name";
        return (None, vec![Finding::of_all(message)]);
    }
    let mut findings = Vec::new();
    check_metadata(object, &mut findings);
    let found = &mut findings;
    let parsed = match (group_of(api_version), kind) {
        ("", "Node") => {
            check_maps(object, &["spec", "status"], found);
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
            fields::check_pps(object, found);
            Parsed::Pps(in_namespace(object, namespace, found))
        }
        ("", "Pod") => {
            check_maps(object, &["spec", "status"], found);
            Parsed::Pod(in_scope(object, scope, found))
        }
        ("", "PersistentVolume") => Parsed::Volume(object.clone()),
        ("", "PersistentVolumeClaim") => Parsed::Volume(in_scope(object, scope, found)),
        ("policy", "PodDisruptionBudget") => {
            let own = object["metadata"]["namespace"].as_str();
            if scope.is_live && own.is_some_and(|own| own != namespace) {
                // It protects none of the Pods that are simulated.
                return (None, Vec::new());
            }
            Parsed::Budget(in_namespace(object, namespace, found))
        }
        _ => return (None, vec![Finding::warning("kind", not_simulated(object, api_version, kind))]),
    };
    (Some(parsed).filter(|_| is_usable(&findings)), findings)
}

fn not_simulated(object: &Value, api_version: &str, kind: &str) -> String {
    let name = shorten(kind);
    if !has_stable_names(api_version, kind) {
        return format!(
            "{kind} is not simulated: its Pods get a new name each time, so that no state can be recorded for them; use a StatefulSet"
        );
    }
    if object["spec"]["replicas"].is_u64() || object["spec"]["template"].is_object() {
        return format!(
            "{name} is not simulated: this simulation has StatefulSets of apps/v1 and apps.kruise.io, and no other workloads"
        );
    }
    if INFLUENTIAL.contains(&kind) {
        return format!(
            "{kind} is not simulated: in a cluster it may decide where Pods run, or whether they are created or evicted"
        );
    }
    format!("{name} is ignored: it has no influence on where Pods run")
}

fn is_usable(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity == Severity::Warning)
}

/// Reads a Pod of a live cluster, which is shared.
pub(crate) fn parse_shared_pod(pod: &Arc<Value>, scope: &Scope<'_>) -> (Option<Shared>, Vec<Finding>) {
    let mut findings = Vec::new();
    check_metadata(pod, &mut findings);
    check_maps(pod, &["spec", "status"], &mut findings);
    let shared = if keeps_namespace(pod, scope) {
        Arc::clone(pod).into()
    } else {
        in_namespace(pod, scope.namespace, &mut findings).into()
    };
    (Some(shared).filter(|_| is_usable(&findings)), findings)
}

fn check_metadata(object: &Value, findings: &mut Vec<Finding>) {
    let metadata = &object["metadata"];
    if !metadata.is_object() {
        findings.push(Finding::wrong("metadata", metadata, "give the object a name"));
        return;
    }
    let name = &metadata["name"];
    if !name.as_str().is_some_and(is_dns_subdomain) {
        let remedy = "use lower-case letters, digits, - and ., at most 253 of them";
        findings.push(Finding::wrong("metadata.name", name, remedy));
    }
    for field in ["uid", "namespace", "creationTimestamp"] {
        let value = &metadata[field];
        if !value.is_null() && !value.is_string() {
            findings.push(Finding::wrong(&format!("metadata.{field}"), value, "use a string, or remove it"));
        }
    }
    for field in ["labels", "annotations"] {
        check_strings(&format!("metadata.{field}"), &metadata[field], findings);
    }
    fields::check_labels("metadata.labels", &metadata["labels"], findings);
}

/// Checks that these fields are maps, or missing.
fn check_maps(object: &Value, fields: &[&str], findings: &mut Vec<Finding>) {
    for field in fields {
        let value = &object[*field];
        if !value.is_null() && !value.is_object() {
            findings.push(Finding::wrong(field, value, "use a map"));
        }
    }
}

/// The object with its namespace. Objects of a live cluster may have another one than the workloads.
fn in_scope(object: &Value, scope: &Scope<'_>, findings: &mut Vec<Finding>) -> Value {
    if keeps_namespace(object, scope) {
        return object.clone();
    }
    in_namespace(object, scope.namespace, findings)
}

fn keeps_namespace(object: &Value, scope: &Scope<'_>) -> bool {
    scope.is_live && object["metadata"]["namespace"].is_string()
}

fn in_namespace(object: &Value, namespace: &str, findings: &mut Vec<Finding>) -> Value {
    let own = object["metadata"]["namespace"].as_str().filter(|own| !own.is_empty());
    if let Some(own) = own.filter(|own| *own != namespace) {
        let message = format!(
            "metadata.namespace is {}: all objects have to be in one namespace here, as a PersistentPodState and its workload have to be; use {namespace}",
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
    let Some(metadata) = node["metadata"].as_object_mut() else { return node };
    let labels = metadata.entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.entry(HOSTNAME).or_insert_with(|| object["metadata"]["name"].clone());
    }
    node
}
