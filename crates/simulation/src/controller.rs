//! The StatefulSet controller: which Pods it creates and deletes, and how it makes them.

use std::collections::BTreeMap;

use pps_core::succession::ordinal;
use pps_scheduler::fields::list;
use serde_json::{Map, Value, json};

use crate::cluster::{Pods, Workload};
use crate::result::Refusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create {
        pod: String,
        revision: usize,
    },
    /// `why` is the cause in words that follow the workload's name.
    Delete {
        pod: String,
        why: &'static str,
    },
}

/// What the controller does in one pass. As in Kubernetes, `OrderedReady` does one thing at a time
/// and waits for each Pod to be Ready, `Parallel` creates and deletes at once, and both replace one
/// Pod at a time.
pub(crate) fn decide(
    workload: &Workload,
    pods: &Pods,
    refusals: &BTreeMap<String, Refusal>,
) -> Vec<Operation> {
    let is_ordered = !workload.is_parallel();
    let mut operations = Vec::new();
    for name in &workload.wanted {
        match pods.get(name) {
            // After an error the controller tries again later, and does nothing else until then.
            None if refusals.contains_key(name) => return operations,
            None => {
                operations.push(Operation::Create {
                    pod: name.clone(),
                    revision: workload.revision_of_next(name),
                });
                if is_ordered {
                    return operations;
                }
            }
            Some(pod) if is_ordered && !pod.is_ready() => return operations,
            Some(_) => {}
        }
    }
    if operations.is_empty() {
        operations = scale_down(workload, pods, is_ordered);
    }
    if operations.is_empty() {
        operations.extend(replace(workload, pods));
    }
    operations
}

fn scale_down(workload: &Workload, pods: &Pods, is_ordered: bool) -> Vec<Operation> {
    let mut condemned: Vec<CondemnedPod> = pods
        .of(&workload.target.name)
        .filter(|(name, _)| !workload.wants(name))
        .map(|(name, pod)| CondemnedPod {
            ordinal: ordinal(&workload.target.name, name),
            name,
            is_ready: pod.is_ready(),
        })
        .collect();
    condemned.sort();
    if is_ordered {
        let first_unhealthy = condemned.iter().find(|pod| !pod.is_ready);
        let first_unhealthy = first_unhealthy.map(|pod| pod.name);
        condemned.drain(..condemned.len().saturating_sub(1));
        // It waits for an unhealthy Pod, unless that is the first one.
        condemned.retain(|pod| pod.is_ready || first_unhealthy == Some(pod.name));
    }
    condemned
        .iter()
        .rev()
        .map(|pod| Operation::Delete {
            pod: pod.name.clone(),
            why: "is scaled down",
        })
        .collect()
}

/// A Pod that the workload no longer wants. The controller deletes those of higher order first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CondemnedPod<'a> {
    ordinal: Option<u64>,
    name: &'a String,
    is_ready: bool,
}

fn replace(workload: &Workload, pods: &Pods) -> Option<Operation> {
    for name in workload
        .wanted
        .iter()
        .rev()
        .take_while(|name| workload.is_replaced(name))
    {
        let pod = pods.get(name)?;
        if pod.revision != workload.update_revision() {
            return Some(Operation::Delete {
                pod: name.clone(),
                why: "has a new template",
            });
        }
        if !pod.is_ready() {
            return None;
        }
    }
    None
}

pub(crate) fn is_update_complete(workload: &Workload, pods: &Pods) -> bool {
    workload.wanted.iter().all(|name| {
        let pod = pods.get(name);
        pod.is_some_and(|pod| pod.is_ready() && pod.revision == workload.update_revision())
    })
}

/// A Pod as the controller creates it: the template with the Pod's identity.
pub(crate) fn new_pod(workload: &Workload, namespace: &str, name: &str, revision: usize) -> Value {
    let revision = workload.revision(revision);
    let template = revision.map_or(&Value::Null, |revision| &revision.template);
    let target = &workload.target;
    let mut metadata = json!({
        "name": name,
        "generateName": format!("{}-", target.name),
        "namespace": namespace,
        "labels": map_of(&template["metadata"]["labels"]),
        "ownerReferences": [{
            "apiVersion": target.api_version,
            "kind": target.kind,
            "name": target.name,
            "uid": workload.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    for field in ["annotations", "finalizers"] {
        if !template["metadata"][field].is_null() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    let labels = &mut metadata["labels"];
    labels["controller-revision-hash"] = revision
        .map_or("", |revision| revision.name.as_str())
        .into();
    labels["statefulset.kubernetes.io/pod-name"] = name.into();
    if let Some(index) = ordinal(&target.name, name) {
        labels["apps.kubernetes.io/pod-index"] = index.to_string().into();
    }
    let mut spec = map_of(&template["spec"]);
    spec.insert("hostname".into(), name.into());
    if let Some(service) = workload.object["spec"]["serviceName"].as_str() {
        spec.insert("subdomain".into(), service.into());
    }
    add_claims(workload, name, &mut spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The fields of an object; none if it is none.
fn map_of(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Adds the volumes of the workload's claims, each in place of one of the same name in the
/// template.
fn add_claims(workload: &Workload, pod: &str, spec: &mut Map<String, Value>) {
    let names: Vec<&str> = list(&workload.object["spec"]["volumeClaimTemplates"])
        .filter_map(|claim| claim["metadata"]["name"].as_str())
        .collect();
    if names.is_empty() {
        return;
    }
    let claimed = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-{pod}")}}));
    let own = spec.get("volumes").map(list).into_iter().flatten();
    let own = own
        .filter(|volume| !names.iter().any(|name| volume["name"] == *name))
        .cloned();
    let volumes: Vec<Value> = claimed.chain(own).collect();
    spec.insert("volumes".into(), volumes.into());
}

pub fn pods_of<'a>(
    stateful_set: &Value,
    namespace: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<Value> {
    let mut object = stateful_set.clone();
    // The names are given, and a workload lists the names that it wants: it may want any number.
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".into(), 0.into());
    }
    let uid = object["metadata"]["uid"]
        .as_str()
        .unwrap_or("00000000-0000-4000-8000-000000000001")
        .to_owned();
    let mut workload = Workload::new(object);
    workload.uid = uid;
    let revision = workload.update_revision();
    names
        .into_iter()
        .map(|name| new_pod(&workload, namespace, name, revision))
        .collect()
}
