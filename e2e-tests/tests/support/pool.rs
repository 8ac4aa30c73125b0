//! A place of its own for each scenario, and what scenarios do there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{
        Cluster, PodInfo, StatefulSetSpec,
        nodes::{NodeSpec, ZONE},
    },
    recorded::recorded_states,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{TIMEOUT, list};

/// The label on the Nodes of one scenario.
const POOL: &str = "e2e.pps.kubewarden.io/pool";

/// A namespace and Nodes that no other scenario uses.
#[derive(Clone, Copy)]
pub(crate) struct Pool<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: &'static str,
}

impl<'a> Pool<'a> {
    /// Nodes `<namespace>-0`…, spread over the zones `<namespace>-zone-0`….
    pub(crate) async fn new(
        cluster: &'a Cluster,
        namespace: &'static str,
        nodes: usize,
        zones: usize,
    ) -> Self {
        cluster.namespace(namespace).await.unwrap();
        let node = |index: usize| {
            NodeSpec::new(format!("{namespace}-{index}"))
                .zone(format!("{namespace}-zone-{}", index % zones))
                .label(POOL, namespace)
        };
        futures::future::try_join_all((0..nodes).map(|index| cluster.nodes.create(node(index))))
            .await
            .unwrap();
        Self { cluster, namespace }
    }

    /// A namespace whose Pods run on the real nodes of the cluster.
    pub(crate) async fn on_real_nodes(cluster: &'a Cluster, namespace: &'static str) -> Self {
        cluster.namespace(namespace).await.unwrap();
        Self { cluster, namespace }
    }

    /// A StatefulSet on these Nodes.
    pub(crate) fn stateful_set(&self, name: &str, replicas: u32) -> StatefulSetSpec {
        StatefulSetSpec::new(self.namespace, name, replicas)
            .template(&json!({"spec": {"nodeSelector": {POOL: self.namespace}}}))
    }

    /// The node selector of these Nodes.
    pub(crate) fn selector(&self) -> Value {
        json!({POOL: self.namespace})
    }

    /// Loads that Node, so that the scheduler prefers the others, which are empty.
    pub(crate) async fn load(&self, node: &str) {
        let resources = json!({"requests": {"cpu": "350", "memory": "350Gi"}});
        let pod = json!({
            "metadata": {"generateName": "load-"},
            "spec": {"nodeName": node, "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "example.invalid/load:1", "resources": resources}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.cluster
            .pods_api(self.namespace)
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }

    /// Loads each of these Nodes once.
    pub(crate) async fn load_all<'b>(&self, nodes: impl IntoIterator<Item = &'b String>) {
        let nodes: BTreeSet<&String> = nodes.into_iter().collect();
        for node in nodes {
            self.load(node).await;
        }
    }

    pub(crate) async fn ready(&self, name: &str, replicas: usize) -> BTreeMap<String, PodInfo> {
        self.cluster
            .wait_ready(self.namespace, name, replicas, TIMEOUT)
            .await
            .unwrap()
    }

    pub(crate) async fn recreate(&self, name: &str, pods: &[&str]) -> BTreeMap<String, PodInfo> {
        self.cluster
            .recreate_pods(self.namespace, name, pods, TIMEOUT)
            .await
            .unwrap()
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        self.cluster
            .scale(self.namespace, name, replicas)
            .await
            .unwrap();
    }

    /// Applies a PersistentPodState as a user.
    pub(crate) async fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        self.cluster
            .apply_objects(&[self.pps_object(name, spec)])
            .await
            .unwrap()
            .remove(0)
    }

    /// Makes an object that the policy would refuse. The API server does not ask the policy for a
    /// moment, so the scenario must not run beside others.
    pub(crate) async fn refused_object(&self, name: &str, spec: &Value) {
        let (webhook, client) = (self.cluster.webhook().unwrap(), self.cluster.client());
        webhook.unregister(&client).await.unwrap();
        self.object(name, spec).await;
        webhook.register(&client).await.unwrap();
    }

    fn pps_object(&self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"namespace": self.namespace, "name": name}, "spec": spec})
    }

    /// The message with which the policy refuses an object.
    pub(crate) async fn refusal(&self, name: &str, spec: &Value) -> String {
        format!(
            "{:#}",
            self.cluster
                .apply_objects(&[self.pps_object(name, spec)])
                .await
                .unwrap_err()
        )
    }

    pub(crate) async fn pps(&self, name: &str) -> Result<DynamicObject> {
        Ok(self.cluster.pps_api(self.namespace).get(name).await?)
    }

    pub(crate) async fn states(&self, name: &str) -> BTreeMap<String, Value> {
        self.cluster.pod_states(self.namespace, name).await.unwrap()
    }

    /// Deletes the status of an object.
    pub(crate) async fn wipe(&self, name: &str) {
        let wipe = Patch::Merge(json!({"status": null}));
        let api = self.cluster.pps_api(self.namespace);
        api.patch_status(name, &PatchParams::default(), &wipe)
            .await
            .unwrap();
    }

    /// Waits until `done` holds for the object.
    pub(crate) async fn wait_for_object(
        &self,
        name: &str,
        what: &str,
        timeout: Duration,
        done: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        wait_for(what, timeout, async || {
            let object = self.pps(name).await?;
            let seen = format!(
                "{} {}",
                json!(object.metadata.owner_references),
                object.data
            );
            Ok(Progress::when(done(&object), object, seen))
        })
        .await
        .unwrap()
    }

    /// Waits until the object is gone.
    pub(crate) async fn wait_until_no_object(&self, name: &str) {
        wait_for(
            &format!("PersistentPodState {name} to be gone"),
            TIMEOUT,
            async || {
                let found = self.cluster.pps_api(self.namespace).get_opt(name).await?;
                Ok(Progress::when(found.is_none(), (), "still there"))
            },
        )
        .await
        .unwrap();
    }

    /// Waits until states are recorded for exactly these Pods.
    pub(crate) async fn wait_for_entries(
        &self,
        name: &str,
        names: &[&str],
    ) -> BTreeMap<String, Value> {
        wait_for(
            &format!("entries {names:?} in {name}"),
            TIMEOUT,
            async || {
                let object = self.pps(name).await?;
                let states = recorded_states(&object.data["status"])?;
                let same = states.keys().map(String::as_str).eq(names.iter().copied());
                Ok(Progress::when(
                    same,
                    states,
                    object.data["status"].to_string(),
                ))
            },
        )
        .await
        .unwrap()
    }

    /// Waits until the recorded states match the workload's Pods.
    pub(crate) async fn recorded(&self, object: &str, workload: &str) -> BTreeMap<String, Value> {
        self.recorded_within(object, workload, TIMEOUT).await
    }

    pub(crate) async fn recorded_within(
        &self,
        object: &str,
        workload: &str,
        timeout: Duration,
    ) -> BTreeMap<String, Value> {
        wait_for(
            &format!("{}/{object} to say where the Pods are", self.namespace),
            timeout,
            async || {
                let pps = self.pps(object).await?;
                let expected = self.shown(&pps, workload).await?;
                let actual = recorded_states(&pps.data["status"])?;
                let same = actual == expected && !expected.is_empty();
                let seen = format!(
                    "recorded {}, the cluster shows {}",
                    json!(actual),
                    json!(expected)
                );
                Ok(Progress::when(same, expected, seen))
            },
        )
        .await
        .unwrap()
    }

    /// The states that should be recorded, derived from Ready Pods and Nodes as the API shows them.
    async fn shown(&self, pps: &DynamicObject, workload: &str) -> Result<BTreeMap<String, Value>> {
        let spec = &pps.data["spec"];
        let mut keys: Vec<&Value> = Vec::new();
        keys.extend(list(
            &spec["requiredPersistentTopology"]["nodeTopologyKeys"],
        ));
        for term in list(&spec["preferredPersistentTopology"]) {
            keys.extend(list(&term["preference"]["nodeTopologyKeys"]));
        }
        let (mut states, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        for (name, pod) in self.cluster.pods(self.namespace, workload).await? {
            let Some(node) = pod.node.filter(|_| pod.ready) else {
                continue;
            };
            if !nodes.contains_key(&node) {
                let read = self.cluster.nodes.api().get(&node).await?;
                nodes.insert(node.clone(), read.metadata.labels.unwrap_or_default());
            }
            let labels = &nodes[&node];
            let mut state = json!({"nodeName": node});
            for key in keys.iter().filter_map(|key| key.as_str()) {
                if let Some(value) = labels.get(key) {
                    state["nodeTopologyLabels"][key] = json!(value);
                }
            }
            for annotation in list(&spec["persistentPodAnnotations"]) {
                let key = annotation["key"].as_str().unwrap_or_default();
                // The policy makes this annotation of the recorded addresses: a first Pod does not
                // have it.
                let made = pod
                    .ip
                    .as_ref()
                    .filter(|_| annotation["valueFrom"] == "PodIPsJSON");
                let made = made.map(|ip| json!([ip]).to_string());
                if let Some(value) = made
                    .as_ref()
                    .or(pod.annotations.get(key))
                    .filter(|value| !value.is_empty())
                {
                    state["annotations"][key] = json!(value);
                }
            }
            states.insert(name, state);
        }
        Ok(states)
    }

    /// Waits for an Event on an object and returns its message.
    pub(crate) async fn event(&self, object: &str, reason: &str) -> String {
        self.event_with(object, reason, "").await
    }

    /// Waits for an Event on an object whose message contains this, and returns the message.
    pub(crate) async fn event_with(&self, object: &str, reason: &str, part: &str) -> String {
        wait_for(
            &format!("an Event {reason} on {object}: {part}"),
            Duration::from_mins(2),
            async || {
                let messages = self.events(object, reason).await?;
                let found = messages
                    .iter()
                    .find(|message| message.contains(part))
                    .cloned();
                Ok(Progress::when(
                    found.is_some(),
                    found.unwrap_or_default(),
                    format!("{messages:?}"),
                ))
            },
        )
        .await
        .unwrap()
    }

    /// The messages of all Events on an object with that reason.
    pub(crate) async fn events(&self, object: &str, reason: &str) -> Result<Vec<String>> {
        let api: Api<Event> = Api::namespaced(self.cluster.client(), self.namespace);
        let events = api.list(&ListParams::default()).await?.items.into_iter();
        let found = events.filter(|event| {
            event.involved_object.name.as_deref() == Some(object)
                && event.reason.as_deref() == Some(reason)
        });
        Ok(found.filter_map(|event| event.message).collect())
    }

    /// Sets annotations of a StatefulSet. Null removes one.
    pub(crate) async fn annotate(&self, workload: &str, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.cluster
            .patch_stateful_set(self.namespace, workload, &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn annotate_pod(&self, pod: &str, annotations: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let api = self.cluster.pods_api(self.namespace);
        api.patch(pod, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Changes the Pod template and waits until every Pod is replaced.
    pub(crate) async fn roll_out(
        &self,
        workload: &str,
        revision: &str,
    ) -> BTreeMap<String, PodInfo> {
        self.start_rollout(workload, revision).await;
        self.rolled_out(workload, revision).await
    }

    pub(crate) async fn start_rollout(&self, workload: &str, revision: &str) {
        let template = json!({"metadata": {"annotations": {"revision": revision}}});
        let patch = json!({"spec": {"template": template}});
        self.cluster
            .patch_stateful_set(self.namespace, workload, &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn rolled_out(
        &self,
        workload: &str,
        revision: &str,
    ) -> BTreeMap<String, PodInfo> {
        let replicas = self
            .cluster
            .stateful_sets(self.namespace)
            .get(workload)
            .await
            .unwrap();
        let replicas = usize::try_from(replicas.spec.replicas.unwrap()).unwrap();
        let what = format!("all {replicas} Pods of {workload} to be of revision {revision}");
        let current = |pod: &PodInfo| {
            pod.ready
                && pod
                    .annotations
                    .get("revision")
                    .is_some_and(|now| now == revision)
        };
        self.cluster
            .wait_for_pods(
                self.namespace,
                workload,
                &what,
                Duration::from_mins(2),
                |pods| pods.len() == replicas && pods.values().all(current),
            )
            .await
            .unwrap()
    }

    /// The zone of a node.
    pub(crate) async fn zone(&self, node: &str) -> String {
        let node: Node = self.cluster.nodes.api().get(node).await.unwrap();
        node.labels()[ZONE].clone()
    }

    /// A Pod, as JSON.
    pub(crate) async fn pod_json(&self, name: &str) -> Value {
        serde_json::to_value(
            self.cluster
                .pods_api(self.namespace)
                .get(name)
                .await
                .unwrap(),
        )
        .unwrap()
    }
}
