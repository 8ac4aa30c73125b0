//! An installation without a flaw, and ways to change it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::facts::{
    Facts, LeaseReads, Module, ModuleAnswer, Objects, Phase, Pod, Policy, Read, RegistryService, Right,
    WebhookConfiguration,
};
use crate::rules::cluster;

pub(super) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn known<T: DeserializeOwned>(value: Value) -> Read<T> {
    Read::Known(of(value))
}

/// A policy as `deploy/base` has it.
pub(super) fn shipped(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base").join(file);
    yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(super) fn policies() -> [Value; 2] {
    ["cluster-admission-policy.yaml", "cluster-admission-policy-validation.yaml"].map(|file| {
        let mut policy = shipped(file);
        policy["spec"]["policyServer"] = "own".into();
        policy["status"] = json!({"policyStatus": "active", "mode": "protect", "conditions": [
            {"type": "PolicyActive", "status": "True", "reason": "PolicyActive", "message": "The policy webhook has been created"},
            {"type": "PolicyUniquelyReachable", "status": "True"},
        ]});
        policy
    })
}

/// The webhook that Kubewarden's controller derives from a policy.
pub(super) fn webhook(policy: &Value) -> WebhookConfiguration {
    let id = format!("clusterwide-{}", policy["metadata"]["name"].as_str().unwrap());
    let spec = &policy["spec"];
    let mut expressions =
        vec![json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kubewarden"]})];
    expressions
        .extend(spec["namespaceSelector"]["matchExpressions"].as_array().into_iter().flatten().cloned());
    of(json!({"metadata": {"name": id}, "webhooks": [{
        "name": format!("{id}.kubewarden.admission"),
        "clientConfig": {"service": {"namespace": "kubewarden", "name": "policy-server-own", "path": format!("/validate/{id}")}},
        "rules": spec["rules"], "failurePolicy": spec["failurePolicy"], "timeoutSeconds": spec["timeoutSeconds"],
        "objectSelector": spec["objectSelector"], "namespaceSelector": {"matchExpressions": expressions},
        "matchConditions": spec["matchConditions"],
    }]}))
}

pub(super) fn pod(name: &str, ready: bool) -> Pod {
    of(
        json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}),
    )
}

pub(super) fn lease(holder: &str, first: &str, second: &str) -> Read<LeaseReads> {
    let read = |time: &str| Some(of(json!({"holderIdentity": holder, "renewTime": time})));
    Read::Known(LeaseReads { first: read(first), second: read(second) })
}

/// An installation without a flaw.
pub(super) fn healthy() -> Facts {
    let own = ["metadata", "spec", "status"];
    let [pods, objects] = policies();
    let definition = |file| {
        let mut definition = shipped(file);
        definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1alpha1"]});
        assert!(own.iter().all(|field| definition.get(field).is_some()));
        known(definition)
    };
    let fields: serde_json::Map<String, Value> =
        cluster::POLICY_FIELDS.iter().map(|field| ((*field).to_owned(), json!({}))).collect();
    let kubewarden = json!({"spec": {"versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema":
        {"properties": {"spec": {"properties": fields}}}}}]}});
    Facts {
        kubernetes: Read::Known((1, 32, "v1.32.0".into())),
        definition: definition("crd.yaml"),
        policy_definition: known(kubewarden.clone()),
        server_definition: known(kubewarden),
        controllers: known(json!([{"metadata": {"name": "kubewarden-controller", "namespace": "kubewarden",
            "labels": {"app.kubernetes.io/version": "v1.36.0"}}, "status": {"availableReplicas": 1}}])),
        mutating: Read::Known(vec![webhook(&pods)]),
        validating: Read::Known(vec![webhook(&objects)]),
        policies: known(json!([pods, objects])),
        server_name: "own".into(),
        server: known(
            json!({"metadata": {"name": "own"}, "spec": {"image": "ghcr.io/kubewarden/policy-server:v1.36.0",
            "replicas": 2, "serviceAccountName": "policy-server-own"}}),
        ),
        server_namespace: "kubewarden".into(),
        server_deployment: known(
            json!({"metadata": {"name": "policy-server-own", "namespace": "kubewarden"}}),
        ),
        server_pods: Read::Known(vec![pod("a", true), pod("b", true)]),
        server_account: Read::Known(()),
        server_may_look_up: Read::Known(true),
        modules: vec![Module {
            reference: "registry://r.example/p:v0.1.0".into(),
            answer: ModuleAnswer::Found,
        }],
        registry_services: vec![RegistryService {
            namespace: "tools".into(),
            name: "registry".into(),
            stateful_owners: Vec::new(),
        }],
        namespaces: known(json!([
            {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}},
            {"name": "off", "labels": {"persistent-pod-state/injection": "disabled"}},
        ])),
        sidecars: known(json!([sidecar("persistent-pod-state", 2)])),
        sidecar_pods: Read::Known(vec![pod("pps-sidecar-1", true), pod("pps-sidecar-2", true)]),
        sidecar_rights: vec![(Right::new("list", "", "pods"), true)],
        lease: lease("pps-sidecar-1_x", "1", "2"),
        openkruise_lease: Read::Absent,
        whitelist: Read::Known(String::new()),
        objects: Read::Known(Objects { listed: vec![of(object("default", "True"))], more: 0 }),
        ..Facts::default()
    }
}

pub(super) fn sidecar(namespace: &str, available: u64) -> Value {
    json!({"metadata": {"name": "pps-sidecar", "namespace": namespace}, "spec": {"replicas": 2, "template": {"spec":
        {"containers": [{"name": "sidecar", "image": "r.example/persistent-pod-state-sidecar:v0.1.0"}]}}},
        "status": {"availableReplicas": available}})
}

pub(super) fn object(namespace: &str, recording: &str) -> Value {
    json!({"metadata": {"name": "w", "namespace": namespace}, "status": {"conditions":
        [{"type": "Recording", "status": recording, "reason": "Some"}]}})
}

/// An object whose states are in the compact form, as the API server shows it under a definition that hides them.
pub(super) fn packed_object() -> Value {
    let mut object = object("shop", "True");
    object["metadata"]["managedFields"] = json!([
        {"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
        {"manager": "pps-sidecar", "subresource": "status", "fieldsV1": {"f:status": {"f:packed": {".": {}, "f:version": {}}}}},
    ]);
    object
}

/// The definition of a release before the compact form.
pub(super) fn earlier_release() -> Facts {
    definition(|one| {
        for version in &mut one.spec.versions {
            let status = &mut version.schema["openAPIV3Schema"]["properties"]["status"]["properties"];
            status.as_object_mut().unwrap().remove("packed").expect("our definition has the compact form");
        }
    })
}

pub(super) fn before() -> Facts {
    let mut facts = healthy();
    facts.settings.phase = Phase::Before;
    facts
}

pub(super) fn definition(change: impl FnOnce(&mut crate::facts::Definition)) -> Facts {
    let mut facts = healthy();
    let Read::Known(definition) = &mut facts.definition else { panic!() };
    change(definition);
    facts
}

pub(super) fn server(change: impl FnOnce(&mut crate::facts::PolicyServer)) -> Facts {
    let mut facts = healthy();
    let Read::Known(server) = &mut facts.server else { panic!() };
    change(server);
    facts
}

/// Changes the policy for Pods.
pub(super) fn policy(change: impl FnOnce(&mut Policy)) -> Facts {
    let mut facts = healthy();
    let Read::Known(policies) = &mut facts.policies else { panic!() };
    change(&mut policies[0]);
    facts
}

pub(super) fn registry(answer: ModuleAnswer) -> Facts {
    let mut facts = before();
    facts.modules[0].answer = answer;
    facts
}

pub(super) fn with(mut facts: Facts, change: impl FnOnce(&mut Facts)) -> Facts {
    change(&mut facts);
    facts
}

pub(super) fn changed(change: impl FnOnce(&mut Facts)) -> Facts {
    with(healthy(), change)
}
