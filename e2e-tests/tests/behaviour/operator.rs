//! A simple controller for custom workload kinds: it creates the Pods that a workload wants, and
//! creates deleted ones again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
};
use pps_e2e::cluster::PodInfo;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The pause after each pass over all workloads.
const PAUSE: Duration = Duration::from_millis(200);
/// The names of Pods without ordinals.
const WORDS: [&str; 6] = ["red", "green", "blue", "black", "white", "grey"];
/// On a workload: its operator compares the node affinity of its Pods. An annotation, since a
/// change of the spec would be a rollout.
pub(crate) const COMPARES_AFFINITY: &str = "e2e.pps.kubewarden.io/compares-affinity";

/// A workload kind.
#[derive(Clone, Debug)]
pub(crate) struct OperatedKind {
    /// The API resource.
    pub(crate) resource: ApiResource,
    /// The path of the number of Pods, as a JSON pointer from the root of the object.
    pub(crate) replicas: &'static str,
    /// How its Pods are named.
    pub(crate) names: Names,
}

/// How the Pods of a workload `w` are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// `w-0`, `w-1`, …, from `spec.ordinals.start` and without the ordinals in
    /// `spec.reserveOrdinals`.
    Ordinals,
    /// `w-red`, `w-green`, …
    Words,
    /// The names of the Pods in `spec.pods`, as Strimzi's `StrimziPodSet` has them.
    PodSet,
    /// The names in `status.instanceNames`, as in the Cluster of `CloudNativePG`.
    Instances,
}

impl OperatedKind {
    /// A kind with that group, version, kind and plural name.
    pub(crate) fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let resource = ApiResource {
            api_version: format!("{group}/{version}"),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self {
            resource,
            replicas: "/spec/replicas",
            names: Names::Ordinals,
        }
    }

    /// The Pods that a workload wants.
    pub(crate) fn wanted(&self, workload: &DynamicObject) -> Vec<String> {
        let root = json!({"spec": workload.data["spec"]});
        let replicas = root
            .pointer(self.replicas)
            .and_then(Value::as_u64)
            .unwrap_or(1);
        let replicas = usize::try_from(replicas).unwrap_or(0);
        let reserved = reserved(&root["spec"]["reserveOrdinals"]);
        let name = workload.name_any();
        match self.names {
            Names::Words => WORDS
                .iter()
                .take(replicas)
                .map(|word| format!("{name}-{word}"))
                .collect(),
            Names::PodSet => texts(&root["spec"]["pods"], "/metadata/name"),
            Names::Instances => texts(&workload.data["status"]["instanceNames"], ""),
            Names::Ordinals => (root["spec"]["ordinals"]["start"].as_u64().unwrap_or(0)..)
                .filter(|ordinal| !reserved.contains(ordinal))
                .take(replicas)
                .map(|ordinal| format!("{name}-{ordinal}"))
                .collect(),
        }
    }
}

/// The text of each item of a list at a path.
fn texts(items: &Value, path: &str) -> Vec<String> {
    let items = items.as_array().into_iter().flatten();
    items
        .filter_map(|item| Some(item.pointer(path)?.as_str()?.to_owned()))
        .collect()
}

/// Parses numbers and ranges such as `"3-5"`.
fn reserved(items: &Value) -> BTreeSet<u64> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-')?;
        Some(first.parse::<u64>().ok()?..=last.parse::<u64>().ok()?)
    };
    let mut reserved = BTreeSet::new();
    for item in items.as_array().into_iter().flatten() {
        reserved.extend(item.as_u64());
        reserved.extend(item.as_str().and_then(range).into_iter().flatten());
    }
    reserved
}

/// The running controller. Dropping it stops it.
pub(crate) struct Operator(JoinHandle<()>);

impl Operator {
    /// Starts it for these kinds, in the caller's runtime. The kinds need not be served yet.
    pub(crate) fn start(client: Client, kinds: Vec<OperatedKind>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                for kind in &kinds {
                    // The next pass repeats what failed.
                    let _ = reconcile(&client, kind).await;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn reconcile(client: &Client, kind: &OperatedKind) -> Result<()> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource);
    for workload in all.list(&ListParams::default()).await? {
        if workload.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let namespace = workload.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let params = ListParams::default().labels(&format!("app={}", workload.name_any()));
        let there: BTreeMap<String, Pod> = pods
            .list(&params)
            .await?
            .into_iter()
            .map(|pod| (pod.name_any(), pod))
            .collect();
        let wanted = kind.wanted(&workload);
        if wanted.is_empty() && kind.names == Names::Instances {
            // After a restore, the status is empty until the operator has found the volumes.
            continue;
        }
        for (name, pod) in &there {
            let is_own = pod
                .owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == workload.uid().as_ref());
            let is_unwanted =
                !wanted.contains(name) || has_failed(pod) || is_drifted(&workload, pod);
            if is_own && is_unwanted && pod.metadata.deletion_timestamp.is_none() {
                pods.delete(name, &DeleteParams::default()).await?;
            }
        }
        for name in wanted.iter().filter(|name| !there.contains_key(*name)) {
            let pod = serde_json::from_value(pod(kind, &workload, name))?;
            pods.create(&PostParams::default(), &pod).await?;
        }
    }
    Ok(())
}

/// Whether the kubelet has refused or evicted the Pod: only another one can run.
fn has_failed(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Failed")
}

/// Whether the operator compares the node affinity of a Ready Pod with what it asked for, as Vitess
/// does, and finds another one.
fn is_drifted(workload: &DynamicObject, pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let has_node_affinity = affinity.is_some_and(|affinity| affinity.node_affinity.is_some());
    workload.annotations().contains_key(COMPARES_AFFINITY)
        && PodInfo::from(pod).ready
        && has_node_affinity
}

/// A Pod from the workload's template.
fn pod(kind: &OperatedKind, workload: &DynamicObject, name: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example.invalid/main:1"}],
        },
    });
    json_patch::merge(&mut pod, &workload.data["spec"]["template"]);
    pod["metadata"]["labels"]["app"] = json!(workload.name_any());
    if kind.resource.kind == "StatefulSet" {
        // As OpenKruise's controller does.
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(name);
    }
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
        "name": workload.name_any(), "uid": workload.uid(), "controller": true,
    }]);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_reserved_ordinals() {
        let kind = OperatedKind::new("g", "v1", "K", "ks");
        let workload = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "w"},
            "spec": {"replicas": 3, "ordinals": {"start": 1}, "reserveOrdinals": [0, "2-3"]}});
        let workload: DynamicObject = serde_json::from_value(workload).unwrap();
        assert_eq!(kind.wanted(&workload), ["w-1", "w-4", "w-5"]);
        assert_eq!(
            OperatedKind {
                names: Names::Words,
                ..kind
            }
            .wanted(&workload),
            ["w-red", "w-green", "w-blue"]
        );
    }
}
