//! StatefulSets and their Pods.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::{Value, json};

use super::running::Cluster;
use crate::wait::{Progress, wait_for};

/// Describes a StatefulSet. Its Pods have the label `app: <name>`.
#[derive(Clone, Debug)]
pub struct StatefulSetSpec {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// How many Pods.
    pub replicas: u32,
    /// Annotations of the StatefulSet itself.
    pub annotations: BTreeMap<String, String>,
    /// A JSON merge patch of the Pod template.
    pub template: Value,
    /// A JSON merge patch of the whole object, applied last.
    pub overrides: Value,
}

impl StatefulSetSpec {
    /// Pods start in parallel and have one container.
    pub fn new(namespace: &str, name: &str, replicas: u32) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            replicas,
            annotations: BTreeMap::new(),
            template: json!({}),
            overrides: json!({}),
        }
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Merges a JSON patch into the Pod template.
    #[must_use]
    pub fn template(mut self, patch: &Value) -> Self {
        json_patch::merge(&mut self.template, patch);
        self
    }

    /// Merges a JSON patch into the whole object.
    #[must_use]
    pub fn overrides(mut self, patch: &Value) -> Self {
        json_patch::merge(&mut self.overrides, patch);
        self
    }

    /// Adds the annotations that make the sidecar generate a PersistentPodState: the required
    /// topology, the preferred topology and the Pod annotations to keep. Empty ones are left out.
    #[must_use]
    pub fn persistent(mut self, required: &str, preferred: &str, annotations: &str) -> Self {
        self = self.annotation("kruise.io/auto-generate-persistent-pod-state", "true");
        for (key, value) in [
            ("kruise.io/required-persistent-topology", required),
            ("kruise.io/preferred-persistent-topology", preferred),
            ("kruise.io/persistent-pod-annotations", annotations),
        ] {
            if !value.is_empty() {
                self = self.annotation(key, value);
            }
        }
        self
    }

    /// The object.
    pub fn object(&self) -> Value {
        let labels = json!({"app": self.name});
        let mut template = json!({
            "metadata": {"labels": labels},
            "spec": {
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "example.invalid/main:1"}],
            },
        });
        json_patch::merge(&mut template, &self.template);
        let mut object = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"namespace": self.namespace, "name": self.name, "annotations": self.annotations},
            "spec": {
                "replicas": self.replicas,
                "serviceName": self.name,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": template,
            },
        });
        json_patch::merge(&mut object, &self.overrides);
        object
    }
}

/// The parts of a Pod that scenarios look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its node.
    pub node: Option<String>,
    /// Its first address.
    pub ip: Option<String>,
    /// It is Ready and not terminating.
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl From<&Pod> for PodInfo {
    fn from(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let conditions = status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let terminating = pod.metadata.deletion_timestamp.is_some();
        let ready = conditions
            .into_iter()
            .any(|one| one.type_ == "Ready" && one.status == "True");
        Self {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            ip: status.and_then(|status| status.pod_ip.clone()),
            ready: ready && !terminating,
            terminating,
            annotations: pod.annotations().clone(),
        }
    }
}

impl Cluster {
    /// The StatefulSets of a namespace.
    pub fn stateful_sets(&self, namespace: &str) -> Api<StatefulSet> {
        Api::namespaced(self.client(), namespace)
    }

    /// The Pods of a namespace.
    pub fn pods_api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client(), namespace)
    }

    /// Makes a StatefulSet, and its namespace unless it exists.
    pub async fn create_stateful_set(&self, spec: &StatefulSetSpec) -> Result<StatefulSet> {
        self.namespace(&spec.namespace).await?;
        let object = serde_json::from_value(spec.object()).context("not a StatefulSet")?;
        Ok(self
            .stateful_sets(&spec.namespace)
            .create(&PostParams::default(), &object)
            .await?)
    }

    /// Makes a StatefulSet and waits until all its Pods are Ready.
    pub async fn run_stateful_set(
        &self,
        spec: &StatefulSetSpec,
    ) -> Result<BTreeMap<String, PodInfo>> {
        self.create_stateful_set(spec).await?;
        self.wait_ready(
            &spec.namespace,
            &spec.name,
            spec.replicas as usize,
            Duration::from_mins(1),
        )
        .await
    }

    /// Changes the number of Pods.
    pub async fn scale(&self, namespace: &str, name: &str, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.stateful_sets(namespace)
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Merges a JSON patch into a StatefulSet.
    pub async fn patch_stateful_set(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<StatefulSet> {
        let patch = Patch::Merge(patch);
        Ok(self
            .stateful_sets(namespace)
            .patch(name, &PatchParams::default(), &patch)
            .await?)
    }

    /// Deletes a StatefulSet and waits until it is gone. With `orphan` its Pods stay.
    pub async fn delete_stateful_set(
        &self,
        namespace: &str,
        name: &str,
        orphan: bool,
    ) -> Result<()> {
        let policy = if orphan {
            PropagationPolicy::Orphan
        } else {
            PropagationPolicy::Background
        };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        let api = self.stateful_sets(namespace);
        api.delete(name, &params).await?;
        wait_for(
            &format!("StatefulSet {name} to be gone"),
            Duration::from_mins(2),
            async || {
                let found = api.get_opt(name).await?;
                Ok(Progress::when(found.is_none(), (), "still there"))
            },
        )
        .await
    }

    /// The Pods with the StatefulSet's label, by name.
    pub async fn pods(&self, namespace: &str, name: &str) -> Result<BTreeMap<String, PodInfo>> {
        let params = ListParams::default().labels(&format!("app={name}"));
        let pods = self.pods_api(namespace).list(&params).await?;
        Ok(pods
            .items
            .iter()
            .map(|pod| (pod.name_any(), PodInfo::from(pod)))
            .collect())
    }

    /// Waits until the StatefulSet has exactly `replicas` Pods, all of them Ready.
    pub async fn wait_ready(
        &self,
        namespace: &str,
        name: &str,
        replicas: usize,
        timeout: Duration,
    ) -> Result<BTreeMap<String, PodInfo>> {
        self.wait_for_pods(
            namespace,
            name,
            &format!("{replicas} Pods of {name} to be Ready"),
            timeout,
            |pods| pods.len() == replicas && pods.values().all(|pod| pod.ready),
        )
        .await
    }

    /// Waits until `done` holds for the Pods of a StatefulSet.
    pub async fn wait_for_pods(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        timeout: Duration,
        done: impl Fn(&BTreeMap<String, PodInfo>) -> bool,
    ) -> Result<BTreeMap<String, PodInfo>> {
        wait_for(what, timeout, async || {
            let pods = self.pods(namespace, name).await?;
            let seen = describe(&pods);
            Ok(Progress::when(done(&pods), pods, seen))
        })
        .await
    }

    /// Deletes the named Pods and waits until each is Ready again with another UID. Returns all
    /// Pods of the StatefulSet.
    pub async fn recreate_pods(
        &self,
        namespace: &str,
        name: &str,
        names: &[&str],
        timeout: Duration,
    ) -> Result<BTreeMap<String, PodInfo>> {
        let before = self.delete_pods(namespace, name, names).await?;
        self.wait_for_pods(
            namespace,
            name,
            &format!("{names:?} to be back and Ready"),
            timeout,
            |pods| {
                names.iter().all(|&pod| {
                    pods.get(pod).is_some_and(|now| {
                        now.ready && before.get(pod).is_none_or(|old| old.uid != now.uid)
                    })
                })
            },
        )
        .await
    }

    /// Deletes the named Pods. Returns all Pods of the StatefulSet as they were before.
    pub async fn delete_pods(
        &self,
        namespace: &str,
        name: &str,
        names: &[&str],
    ) -> Result<BTreeMap<String, PodInfo>> {
        let before = self.pods(namespace, name).await?;
        let api = self.pods_api(namespace);
        let params = DeleteParams::default();
        futures::future::try_join_all(names.iter().map(|pod| api.delete(pod, &params))).await?;
        Ok(before)
    }
}

fn describe(pods: &BTreeMap<String, PodInfo>) -> String {
    let one = |pod: &PodInfo| {
        let state = if pod.terminating {
            "terminating"
        } else if pod.ready {
            "ready"
        } else {
            "not ready"
        };
        let unknown = "-".to_owned();
        let (node, ip) = (
            pod.node.as_ref().unwrap_or(&unknown),
            pod.ip.as_ref().unwrap_or(&unknown),
        );
        format!("{} {state} on {node} with {ip}", pod.name)
    };
    // Show the Pods that are not Ready first: the list is cut.
    let mut shown: Vec<String> = pods.values().filter(|pod| !pod.ready).map(one).collect();
    shown.extend(pods.values().filter(|pod| pod.ready).map(one));
    shown.truncate(12);
    format!("{} Pods: {}", pods.len(), shown.join("; "))
}
