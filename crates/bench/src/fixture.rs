//! Requests like those of a real cluster, and a host that answers the policy's calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use persistent_pod_state_policy::Host;
use pps_core::TargetReference;
use pps_core::alias::target_of_alias;
use pps_core::generate::second_name;
use pps_corpus::{FakeHost, HostQuirks};
use pps_e2e::kubewarden::stand_in::HostCalls;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::form::Form;

pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// The controller owner of the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    None,
    ReplicaSet,
    DaemonSet,
    StatefulSet,
}

/// The workload's PPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    /// There is none.
    None,
    /// It has the workload's name, as those that the sidecar generates.
    SameName,
    /// It has another name, to which an alias leads.
    OtherName,
    /// It has the workload's name, and no state of this Pod yet.
    OtherPods,
}

/// A request, and the namespace that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) owner: Owner,
    pub(crate) recording: Recording,
    /// How many Pods the PPS has recorded.
    pub(crate) states: usize,
    /// The form of the recorded states.
    pub(crate) form: Form,
    pub(crate) containers: usize,
    /// The host ignores field masks and returns whole objects.
    pub(crate) ignores_masks: bool,
    pub(crate) settings: Value,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            owner: Owner::StatefulSet,
            recording: Recording::SameName,
            states: 10,
            form: Form::Plain,
            containers: 1,
            ignores_masks: false,
            settings: json!({}),
        }
    }
}

impl Case {
    pub(crate) fn pod(&self) -> Value {
        pod(self.owner, self.containers)
    }

    /// The request of an admission review.
    pub(crate) fn request(&self) -> Value {
        json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": self.pod()["metadata"]["name"],
            "namespace": NAMESPACE,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:statefulset-controller",
                "uid": "8d1ddc2d-f0a7-4d1c-a5ef-4a4e1d9c7dc9",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]},
            "object": self.pod(),
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        })
    }

    /// What PolicyServer passes to the policy.
    pub(crate) fn payload(&self) -> Vec<u8> {
        json!({"request": self.request(), "settings": self.settings}).to_string().into_bytes()
    }

    pub(crate) fn host(&self) -> CachedHost {
        let mut objects = Vec::new();
        match self.recording {
            Recording::None => {}
            Recording::SameName => objects.push(self.object("web", 0)),
            Recording::OtherName => objects.extend([alias("keep-web", "web"), self.object("keep-web", 0)]),
            Recording::OtherPods => objects.push(self.object("web", 1)),
        }
        let quirks = HostQuirks { ignores_masks: self.ignores_masks, ..HostQuirks::default() };
        CachedHost { host: FakeHost::new(objects, quirks), responses: Arc::default() }
    }

    /// The PPS, which has recorded the workload's Pods from this ordinal on.
    pub(crate) fn object(&self, name: &str, first: usize) -> Value {
        let pods: Vec<String> = (first..first + self.states).map(pod_name).collect();
        let mut object = object(name, "web", &pods);
        if self.form == Form::Compact {
            let states = BTreeMap::deserialize(&object["status"]["podStates"]).unwrap_or_default();
            object["status"] = self.form.status(&states);
        }
        object
    }
}

fn pod_name(ordinal: usize) -> String {
    format!("web-{ordinal}")
}

/// A PersistentPodState with a recorded state for each of these Pods.
pub(crate) fn object(name: &str, workload: &str, pods: &[String]) -> Value {
    let states: serde_json::Map<String, Value> =
        pods.iter().enumerate().map(|(index, pod)| (pod.clone(), state(index))).collect();
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": NAMESPACE, "generation": 1, "resourceVersion": "73418",
            "uid": "2f8f4a6e-6c6a-4a43-8f0a-0a4c0a4c0a4c", "creationTimestamp": "2026-01-07T09:10:11Z"},
        "spec": spec(workload),
        "status": {"observedGeneration": 1, "podStates": states, "recorded": pods.len(), "desired": pods.len()},
    })
}

/// The alias that leads from a workload to its PersistentPodState.
pub(crate) fn alias(pps: &str, workload: &str) -> Value {
    let target = TargetReference::read(&spec(workload)["targetRef"]);
    let TargetReference { api_version, kind, name } = target_of_alias(pps);
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PersistentPodState",
        "metadata": {"name": second_name(&target), "namespace": NAMESPACE},
        "spec": {"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}},
    })
}

/// A spec like those that the sidecar generates from a workload's annotations.
pub(crate) fn spec(workload: &str) -> Value {
    json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload},
        "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
        "persistentPodAnnotations": [{"key": "ovn.kubernetes.io/ip_address"}],
    })
}

/// The recorded state of a Pod.
pub(crate) fn state(index: usize) -> Value {
    let node = format!("worker-{:04}.eu-central-1.compute.internal", index % 5000);
    json!({
        "nodeName": node,
        "nodeTopologyLabels": {ZONE: format!("eu-central-1{}", ["a", "b", "c"][index % 3]), HOSTNAME: node},
        "annotations": {"ovn.kubernetes.io/ip_address": format!("10.{}.{}.{}", 16 + index / 62_500, index / 250 % 250, index % 250 + 1)},
    })
}

/// A Pod as its controller creates it. Each container has about 1.5 KB.
fn pod(owner: Owner, containers: usize) -> Value {
    let (name, controller) = match owner {
        Owner::None => ("debug", None),
        Owner::ReplicaSet => ("web-6c5f7d9b8-x2x4z", Some(("apps/v1", "ReplicaSet", "web-6c5f7d9b8"))),
        Owner::DaemonSet => ("agent-7x9zq", Some(("apps/v1", "DaemonSet", "agent"))),
        Owner::StatefulSet => ("web-0", Some(("apps/v1", "StatefulSet", "web"))),
    };
    let owners: Vec<Value> = controller
        .into_iter()
        .map(|(api_version, kind, name)| {
            json!({"apiVersion": api_version, "kind": kind, "name": name, "controller": true,
                "uid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "blockOwnerDeletion": true})
        })
        .collect();
    let containers: Vec<Value> = (0..containers).map(container).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "creationTimestamp": null,
            "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop",
                "controller-revision-hash": "web-5f8d7c9b6d", "statefulset.kubernetes.io/pod-name": name},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9187"},
            "ownerReferences": owners,
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "time": "2026-01-07T09:10:11Z", "fieldsType": "FieldsV1", "fieldsV1": {
                    "f:metadata": {"f:annotations": {".": {}, "f:prometheus.io/scrape": {}, "f:prometheus.io/port": {}},
                        "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/part-of": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"main-0\"}": {".": {}, "f:env": {".": {}}, "f:image": {},
                        "f:imagePullPolicy": {}, "f:livenessProbe": {".": {}, "f:httpGet": {".": {}}}, "f:name": {}}},
                        "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {}}}}],
        },
        "spec": {
            "hostname": name,
            "subdomain": "web",
            "serviceAccountName": "web",
            "serviceAccount": "web",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "securityContext": {"fsGroup": 999, "runAsUser": 999},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50,
                "podAffinityTerm": {"topologyKey": HOSTNAME,
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "web"}}}}]}},
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}},
                {"name": "config", "configMap": {"name": "web", "defaultMode": 420}},
                {"name": "kube-api-access-x7k2m", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}},
            ],
            "containers": containers,
        },
        "status": {},
    })
}

fn container(index: usize) -> Value {
    let env: Vec<Value> = (0..8)
        .map(|number| json!({"name": format!("SETTING_NUMBER_{number}"), "value": format!("value-of-it-{number}")}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1,
        "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    json!({
        "name": format!("main-{index}"),
        "image": "registry.example.com/shop/web:1.27.3",
        "args": ["--config", "/etc/web/config.yaml", "--data", "/var/lib/web"],
        "ports": [{"name": "http", "containerPort": 8080 + index, "protocol": "TCP"}],
        "env": env,
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/web"}, {"name": "config", "mountPath": "/etc/web"},
            {"name": "kube-api-access-x7k2m", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    })
}

type Responses = HashMap<String, Result<String, String>>;

/// A host that repeats its first response to each request, so that its own work is only a copy.
#[derive(Clone)]
pub(crate) struct CachedHost {
    host: FakeHost,
    responses: Arc<Mutex<Responses>>,
}

impl CachedHost {
    fn answer(&self, operation: &str, payload: &str) -> Result<String, String> {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(response) = responses.get(payload) {
            return response.clone();
        }
        let response = self.host.call(operation, payload);
        responses.insert(payload.to_owned(), response.clone());
        response
    }
}

impl Host for CachedHost {
    fn call(&self, _: &str, operation: &str, payload: &str) -> Result<String, String> {
        self.answer(operation, payload)
    }
}

impl HostCalls for CachedHost {
    fn call(&self, _: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
        self.answer(operation, &String::from_utf8_lossy(payload)).map(String::into_bytes)
    }
}
