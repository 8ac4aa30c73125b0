//! What all scenarios use.
#![allow(dead_code, reason = "no test program needs all of it")]

mod random;

use std::{
    collections::BTreeMap,
    env,
    io::{self, Write},
    panic::AssertUnwindSafe,
    pin::Pin,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, PodInfo, StatefulSetSpec},
    nodes::NodeSpec,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

pub(crate) use pps_e2e::{
    kubelet::IP_ANNOTATION,
    nodes::{HOSTNAME, ZONE},
};
#[allow(unused_imports, reason = "no test program needs all of it")]
pub(crate) use random::Random;

/// For what depends on the machine's speed.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// For what has to happen at once, on a machine that has other things to do.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// How long something is watched that must not happen.
pub(crate) const WHILE: Duration = Duration::from_millis(1500);
pub(crate) const MARKER: &str = "kruise.io/injected-persistent-pod-state";
/// The label that tells the Nodes of one scenario from those of others.
const POOL: &str = "e2e.pps.kubewarden.io/pool";

pub(crate) type Scenario<'a> = (&'static str, Pin<Box<dyn Future<Output = ()> + 'a>>);

macro_rules! scenarios {
    ($cluster:expr; $($name:path),* $(,)?) => {
        vec![$((
            stringify!($name),
            Box::pin($name($cluster)) as std::pin::Pin<Box<dyn std::future::Future<Output = ()>>>,
        )),*]
    };
}

/// Runs all scenarios at the same time; one that fails does not keep the others from going on.
pub(crate) async fn run(scenarios: Vec<Scenario<'_>>) -> Result<()> {
    let all = chosen(scenarios).map(attempt);
    failures(futures::future::join_all(all).await)
}

/// Runs one scenario after the other.
pub(crate) async fn run_in_turn(scenarios: Vec<Scenario<'_>>) -> Result<()> {
    let mut failed = Vec::new();
    for scenario in chosen(scenarios) {
        failed.push(attempt(scenario).await);
    }
    failures(failed)
}

fn chosen(scenarios: Vec<Scenario<'_>>) -> impl Iterator<Item = Scenario<'_>> {
    let only = env::var("PPS_E2E_ONLY").unwrap_or_default();
    scenarios.into_iter().filter(move |(name, _)| name.contains(&only))
}

async fn attempt((name, scenario): Scenario<'_>) -> Option<&'static str> {
    let started = Instant::now();
    let good = AssertUnwindSafe(scenario).catch_unwind().await.is_ok();
    let verdict = if good { "passed" } else { "FAILED" };
    note(&format!("{verdict} {name}, {:.1?}", started.elapsed()));
    (!good).then_some(name)
}

/// Says something at once; the test runner holds back what println! says until the test is over.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "  {text}");
}

fn failures(failed: Vec<Option<&str>>) -> Result<()> {
    let failed: Vec<&str> = failed.into_iter().flatten().collect();
    if !failed.is_empty() {
        bail!("these scenarios failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Where a Pod is, and with which address.
pub(crate) type Place = (String, String);

/// Where each Pod is.
pub(crate) fn places(pods: &BTreeMap<String, PodInfo>) -> BTreeMap<String, Place> {
    let place = |pod: &PodInfo| (pod.node.clone().unwrap(), pod.ip.clone().unwrap());
    pods.iter().map(|(name, pod)| (name.clone(), place(pod))).collect()
}

/// On which node each Pod is.
pub(crate) fn homes(pods: &BTreeMap<String, PodInfo>) -> BTreeMap<String, String> {
    pods.iter().map(|(name, pod)| (name.clone(), pod.node.clone().unwrap())).collect()
}

/// A namespace with Nodes that no other scenario uses.
#[derive(Clone, Copy)]
pub(crate) struct Pool<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: &'static str,
}

impl<'a> Pool<'a> {
    /// Nodes `<namespace>-0`… in the zones `<namespace>-zone-0`…, in turn.
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

    /// A StatefulSet on these Nodes.
    pub(crate) fn stateful_set(&self, name: &str, replicas: u32) -> StatefulSetSpec {
        StatefulSetSpec::new(self.namespace, name, replicas)
            .template(&json!({"spec": {"nodeSelector": {POOL: self.namespace}}}))
    }

    /// The node selector of these Nodes.
    pub(crate) fn selector(&self) -> Value {
        json!({POOL: self.namespace})
    }

    /// Makes it a bad choice to put one more Pod on that Node: the others are empty.
    pub(crate) async fn load(&self, node: &str) {
        let resources = json!({"requests": {"cpu": "350", "memory": "350Gi"}});
        let pod = json!({
            "metadata": {"generateName": "load-"},
            "spec": {"nodeName": node, "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "example.invalid/load:1", "resources": resources}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.cluster.pods_api(self.namespace).create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Loads each of these Nodes once.
    pub(crate) async fn load_all<'b>(&self, nodes: impl IntoIterator<Item = &'b String>) {
        let nodes: std::collections::BTreeSet<&String> = nodes.into_iter().collect();
        for node in nodes {
            self.load(node).await;
        }
    }

    pub(crate) async fn ready(&self, name: &str, replicas: usize) -> BTreeMap<String, PodInfo> {
        self.cluster.wait_ready(self.namespace, name, replicas, TIMEOUT).await.unwrap()
    }

    pub(crate) async fn recreate(&self, name: &str, pods: &[&str]) -> BTreeMap<String, PodInfo> {
        self.cluster.recreate_pods(self.namespace, name, pods, TIMEOUT).await.unwrap()
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        self.cluster.scale(self.namespace, name, replicas).await.unwrap();
    }

    /// Makes a PersistentPodState by hand, or changes it.
    pub(crate) async fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"namespace": self.namespace, "name": name}, "spec": spec});
        self.cluster.apply_objects(&[object]).await.unwrap().remove(0)
    }

    /// Makes a second object for a workload, as one could be made before there was a policy. Not for
    /// scenarios that run beside others: it changes the policy's settings for a moment.
    pub(crate) async fn second_object(&self, name: &str, spec: &Value) {
        let webhook = self.cluster.webhook().unwrap();
        webhook.set_settings(json!({"lookup": "byName"})).unwrap();
        self.object(name, spec).await;
        webhook.set_settings(json!({})).unwrap();
    }

    /// What the policy says when it refuses an object.
    pub(crate) async fn refusal(&self, name: &str, spec: &Value) -> String {
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"namespace": self.namespace, "name": name}, "spec": spec});
        format!("{:#}", self.cluster.apply_objects(&[object]).await.unwrap_err())
    }

    pub(crate) async fn pps(&self, name: &str) -> Result<DynamicObject> {
        Ok(self.cluster.pps_api(self.namespace).get(name).await?)
    }

    pub(crate) async fn states(&self, name: &str) -> BTreeMap<String, Value> {
        self.cluster.pod_states(self.namespace, name).await.unwrap()
    }

    /// Empties the status of an object, as somebody might.
    pub(crate) async fn wipe(&self, name: &str) {
        let wipe = Patch::Merge(json!({"status": null}));
        let api = self.cluster.pps_api(self.namespace);
        api.patch_status(name, &PatchParams::default(), &wipe).await.unwrap();
    }

    /// Waits until the object is as `done` wants it.
    pub(crate) async fn wait_for_object(
        &self,
        name: &str,
        what: &str,
        timeout: Duration,
        done: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        wait_for(what, timeout, async || {
            let object = self.pps(name).await?;
            let seen = format!("{} {}", json!(object.metadata.owner_references), object.data);
            Ok(Progress::when(done(&object), object, seen))
        })
        .await
        .unwrap()
    }

    /// Waits until there is no such object.
    pub(crate) async fn wait_until_no_object(&self, name: &str) {
        wait_for(&format!("PersistentPodState {name} to be gone"), TIMEOUT, async || {
            let found = self.cluster.pps_api(self.namespace).get_opt(name).await?;
            Ok(Progress::when(found.is_none(), (), "still there"))
        })
        .await
        .unwrap();
    }

    /// Waits until the recorded states have exactly these names.
    pub(crate) async fn wait_for_entries(&self, name: &str, names: &[&str]) -> BTreeMap<String, Value> {
        wait_for(&format!("entries {names:?} in {name}"), TIMEOUT, async || {
            let states = self.cluster.pod_states(self.namespace, name).await?;
            let same = states.keys().map(String::as_str).eq(names.iter().copied());
            Ok(Progress::when(same, states.clone(), format!("{states:?}")))
        })
        .await
        .unwrap()
    }

    /// Waits until what is recorded is exactly what the cluster shows of the workload's Pods.
    pub(crate) async fn recorded(&self, object: &str, workload: &str) -> BTreeMap<String, Value> {
        self.recorded_within(object, workload, TIMEOUT).await
    }

    pub(crate) async fn recorded_within(
        &self,
        object: &str,
        workload: &str,
        timeout: Duration,
    ) -> BTreeMap<String, Value> {
        wait_for(&format!("{}/{object} to say where the Pods are", self.namespace), timeout, async || {
            let pps = self.pps(object).await?;
            let expected = self.shown(&pps, workload).await?;
            let mut actual = pps.data["status"]["podStates"].clone();
            for state in actual.as_object_mut().into_iter().flat_map(|states| states.values_mut()) {
                // Whether there is nothing or an empty map makes no difference.
                state.as_object_mut().unwrap().retain(|_, value| *value != json!({}));
            }
            let same = actual == json!(expected) && !expected.is_empty();
            let seen = format!("recorded {actual}, the cluster shows {}", json!(expected));
            Ok(Progress::when(same, expected, seen))
        })
        .await
        .unwrap()
    }

    /// What should be recorded by the look of the cluster: of Ready Pods, from nothing but the API.
    async fn shown(&self, pps: &DynamicObject, workload: &str) -> Result<BTreeMap<String, Value>> {
        let spec = &pps.data["spec"];
        let mut keys: Vec<&Value> = Vec::new();
        keys.extend(list(&spec["requiredPersistentTopology"]["nodeTopologyKeys"]));
        for term in list(&spec["preferredPersistentTopology"]) {
            keys.extend(list(&term["preference"]["nodeTopologyKeys"]));
        }
        let mut states = BTreeMap::new();
        for (name, pod) in self.cluster.pods(self.namespace, workload).await? {
            let Some(node) = pod.node.filter(|_| pod.ready) else { continue };
            let labels = self.cluster.nodes.api().get(&node).await?.metadata.labels.unwrap_or_default();
            let mut state = json!({"nodeName": node});
            for key in keys.iter().filter_map(|key| key.as_str()) {
                if let Some(value) = labels.get(key) {
                    state["nodeTopologyLabels"][key] = json!(value);
                }
            }
            for annotation in list(&spec["persistentPodAnnotations"]) {
                let key = annotation["key"].as_str().unwrap_or_default();
                if let Some(value) = pod.annotations.get(key).filter(|value| !value.is_empty()) {
                    state["annotations"][key] = json!(value);
                }
            }
            states.insert(name, state);
        }
        Ok(states)
    }

    /// Waits for an Event on an object, and gives its message.
    pub(crate) async fn event(&self, object: &str, reason: &str) -> String {
        wait_for(&format!("an Event {reason} on {object}"), Duration::from_secs(30), async || {
            let message = self.events(object, reason).await?.into_iter().next();
            Ok(Progress::when(message.is_some(), message.unwrap_or_default(), "none"))
        })
        .await
        .unwrap()
    }

    /// The messages of all Events on an object with that reason.
    pub(crate) async fn events(&self, object: &str, reason: &str) -> Result<Vec<String>> {
        let api: Api<Event> = Api::namespaced(self.cluster.client(), self.namespace);
        let events = api.list(&ListParams::default()).await?.items.into_iter();
        let found = events.filter(|event| {
            event.involved_object.name.as_deref() == Some(object) && event.reason.as_deref() == Some(reason)
        });
        Ok(found.filter_map(|event| event.message).collect())
    }

    /// Sets annotations of a StatefulSet; null removes one.
    pub(crate) async fn annotate(&self, workload: &str, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.cluster.patch_stateful_set(self.namespace, workload, &patch).await.unwrap();
    }

    pub(crate) async fn annotate_pod(&self, pod: &str, annotations: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let api = self.cluster.pods_api(self.namespace);
        api.patch(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Changes the Pod template, and waits until every Pod is a new one.
    pub(crate) async fn roll_out(&self, workload: &str, revision: &str) -> BTreeMap<String, PodInfo> {
        self.start_rollout(workload, revision).await;
        self.rolled_out(workload, revision).await
    }

    pub(crate) async fn start_rollout(&self, workload: &str, revision: &str) {
        let template = json!({"metadata": {"annotations": {"revision": revision}}});
        let patch = json!({"spec": {"template": template}});
        self.cluster.patch_stateful_set(self.namespace, workload, &patch).await.unwrap();
    }

    pub(crate) async fn rolled_out(&self, workload: &str, revision: &str) -> BTreeMap<String, PodInfo> {
        let replicas = self.cluster.stateful_sets(self.namespace).get(workload).await.unwrap();
        let replicas = usize::try_from(replicas.spec.unwrap().replicas.unwrap()).unwrap();
        let what = format!("all {replicas} Pods of {workload} to be of revision {revision}");
        let current =
            |pod: &PodInfo| pod.ready && pod.annotations.get("revision").is_some_and(|now| now == revision);
        self.cluster
            .wait_for_pods(self.namespace, workload, &what, Duration::from_mins(2), |pods| {
                pods.len() == replicas && pods.values().all(current)
            })
            .await
            .unwrap()
    }

    /// The zone of a node.
    pub(crate) async fn zone(&self, node: &str) -> String {
        let node: Node = self.cluster.nodes.api().get(node).await.unwrap();
        node.labels()[ZONE].clone()
    }

    /// A Pod as the API server has it.
    pub(crate) async fn pod_json(&self, name: &str) -> Value {
        serde_json::to_value(self.cluster.pods_api(self.namespace).get(name).await.unwrap()).unwrap()
    }
}

/// A spec that names the StatefulSet.
pub(crate) fn spec_for(workload: &str, rest: &Value) -> Value {
    let mut spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload}});
    json_patch::merge(&mut spec, rest);
    spec
}

/// A spec that requires these topology keys.
pub(crate) fn required(workload: &str, keys: &[&str]) -> Value {
    spec_for(workload, &json!({"requiredPersistentTopology": {"nodeTopologyKeys": keys}}))
}

/// The elements of a list; none if it is no list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The condition of type Recording.
pub(crate) fn recording(object: &DynamicObject) -> Value {
    let condition = list(&object.data["status"]["conditions"]).find(|one| one["type"] == "Recording");
    condition.cloned().unwrap_or_default()
}
