//! Laws about what is sent and what the policy does with it, for any Pod and any
//! PersistentPodState.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use kubewarden_policy_sdk::response::ValidationResponse;
use persistent_pod_state_policy::answer as admit;
use pps_admission::Host;
use pps_admission::deletion::{CLUSTER_CONTROLLERS, PROTECTION_LABEL};
use pps_core::INJECTION_LABEL;
use pps_core::owner::KINDS_WITHOUT_STABLE_NAMES;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::conditions::Deployed;
use crate::{CUSTOM, PODS, VALIDATION, deployed};

static POLICY_FOR_PODS: LazyLock<Deployed> = LazyLock::new(|| deployed(PODS));
static POLICY_FOR_CUSTOM_KINDS: LazyLock<Deployed> = LazyLock::new(|| deployed(CUSTOM));
static POLICY_FOR_OBJECTS: LazyLock<Deployed> = LazyLock::new(|| deployed(VALIDATION));

/// Counts the calls and answers none.
#[derive(Default)]
struct CountingHost(Cell<usize>);

impl Host for CountingHost {
    fn call(&self, _: &str, _: &str, _: &str) -> Result<String, String> {
        self.0.set(self.0.get() + 1);
        Err("not reachable".into())
    }
}

/// The policy's answer, and how often it called the host.
fn answer(request: &Value) -> (ValidationResponse, usize) {
    let host = CountingHost::default();
    let payload = json!({"request": request, "settings": {}});
    let response = admit(payload.to_string().as_bytes(), &host);
    (response, host.0.get())
}

const GROUPS: [&str; 10] = [
    "v1",
    "apps/v1",
    "apps/v1beta2",
    "apps.kruise.io/v1beta1",
    "apps.example.io/v1",
    "batch/v1",
    "extensions/v1beta1",
    "example.io/v1",
    "other.example.io/v1",
    "apps",
];
const KINDS: [&str; 9] = [
    "StatefulSet",
    "ReplicaSet",
    "DaemonSet",
    "Job",
    "CloneSet",
    "Node",
    "Database",
    "Databases",
    "statefulset",
];
const LABELS: [&str; 5] = [
    "statefulset.kubernetes.io/pod-name",
    "pod-template-hash",
    "job-name",
    "app",
    "pod-template-generation",
];
/// The labels of built-in controllers that the policy for custom kinds leaves out.
const LEFT_OUT: [&str; 3] = ["pod-template-hash", "job-name", "pod-template-generation"];

/// A Pod with at most one controller: the API server refuses others after it has asked the
/// policies.
fn pod() -> impl Strategy<Value = Value> {
    // Half of the owners are near the border.
    let group = prop_oneof![
        select(&GROUPS[..]),
        select(&["apps/v1", "example.io/v1", "apps.example.io/v1"][..])
    ];
    let kind = prop_oneof![select(&KINDS[..]), select(&["StatefulSet", "Database"][..])];
    let owner = (group, kind, option::of(Just(false)));
    let owners = proptest::collection::vec(owner, 0..4);
    let text = || option::of(select(vec!["", "web-0"]));
    (
        owners,
        option::weighted(0.8, 0..4usize),
        subsequence(&LABELS[..], 0..4),
        text(),
        text(),
    )
        .prop_map(|(owners, controller, labels, name, node)| {
            let mut pod = json!({"metadata": {"namespace": "shop"}, "spec": {}});
            let owners: Vec<Value> = owners
                .into_iter()
                .enumerate()
                .map(|(index, (api_version, kind, flag))| {
                    let mut owner =
                        json!({"apiVersion": api_version, "kind": kind, "name": "w", "uid": "1"});
                    if controller == Some(index) {
                        owner["controller"] = true.into();
                    } else if let Some(flag) = flag {
                        owner["controller"] = flag.into();
                    }
                    owner
                })
                .collect();
            if !owners.is_empty() {
                pod["metadata"]["ownerReferences"] = owners.into();
            }
            if !labels.is_empty() {
                pod["metadata"]["labels"] = labels
                    .into_iter()
                    .map(|label| (label.to_owned(), json!("x")))
                    .collect();
            }
            if let Some(name) = name {
                pod["metadata"]["name"] = name.into();
            }
            if let Some(node) = node {
                pod["spec"]["nodeName"] = node.into();
            }
            pod
        })
}

fn pod_request(pod: &Value) -> Value {
    json!({
        "operation": "CREATE", "namespace": "shop", "userInfo": {"username": "admin"},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": pod, "oldObject": null,
    })
}

fn has_label(pod: &Value, label: &str) -> bool {
    pod["metadata"]["labels"].get(label).is_some()
}

fn object() -> impl Strategy<Value = Value> {
    let labels = option::of(option::of(select(vec!["Always", "Cascading", "other"])));
    let spec = option::of((select(vec!["web", "db"]), select(vec![1, 200])));
    (labels, spec, any::<bool>(), any::<bool>()).prop_map(|(labels, spec, terminating, recorded)| {
        let mut object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"name": "web", "namespace": "shop"}});
        if let Some(value) = labels {
            object["metadata"]["labels"] = json!({"app": "web"});
            if let Some(value) = value {
                object["metadata"]["labels"][PROTECTION_LABEL] = value.into();
            }
        }
        if let Some((name, weight)) = spec {
            object["spec"] = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                "preferredPersistentTopology": [{"weight": weight, "preference": {"nodeTopologyKeys": ["a"]}}]});
        }
        if terminating {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        if recorded {
            object["status"] = json!({"podStates": {"web-0": {"nodeName": "n"}}});
        }
        object
    })
}

fn object_request() -> impl Strategy<Value = Value> {
    let users = CLUSTER_CONTROLLERS
        .into_iter()
        .chain(["admin"])
        .collect::<Vec<_>>();
    (object(), object(), any::<bool>(), select(vec!["CREATE", "UPDATE", "DELETE"]), select(users)).prop_map(
        |(old, mut new, same_spec, operation, user)| {
            if same_spec {
                new["spec"] = old["spec"].clone();
                if new["spec"].is_null() {
                    new.as_object_mut().unwrap().remove("spec");
                }
            }
            let (object, old_object) = match operation {
                "CREATE" => (new, Value::Null),
                "DELETE" => (Value::Null, old),
                _ => (new, old),
            };
            json!({
                "operation": operation, "namespace": "shop", "name": "web", "userInfo": {"username": user},
                "kind": {"group": "apps.kruise.io", "version": "v1alpha1", "kind": "PersistentPodState"},
                "resource": {"group": "apps.kruise.io", "version": "v1alpha1", "resource": "persistentpodstates"},
                "object": object, "oldObject": old_object,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// With match conditions, exactly the Pods are sent that the policy looks up and whose kind is
    /// recorded. Without, at least these.
    #[test]
    fn a_pod_is_sent_if_and_only_if_the_policy_looks_it_up_and_its_kind_is_recorded(pod in pod()) {
        let request = pod_request(&pod);
        let (response, calls) = answer(&request);
        let looks_up = calls > 0;
        prop_assert!(looks_up || response.accepted && response.mutated_object.is_none() && response.warnings.is_none());

        let owners = pod["metadata"]["ownerReferences"].as_array();
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let text = |field: &str| controller.and_then(|owner| owner[field].as_str()).unwrap_or_default();
        let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        let is_stateful_set = text("kind") == "StatefulSet" && ["apps", "apps.kruise.io"].contains(&group);
        let is_custom = text("kind") == "Database" && group == "example.io";
        let namespace = BTreeMap::from([(INJECTION_LABEL.to_owned(), "enabled".to_owned())]);
        for (policy, is_recorded) in [
            (&*POLICY_FOR_PODS, is_stateful_set && has_label(&pod, LABELS[0])),
            (&*POLICY_FOR_CUSTOM_KINDS, is_custom && !LEFT_OUT.iter().any(|label| has_label(&pod, label))),
        ] {
            let expected = looks_up && is_recorded;
            prop_assert_eq!(policy.is_sent(&request, &namespace, true).unwrap(), expected);
            prop_assert!(!expected || policy.is_sent(&request, &namespace, false).unwrap());
        }
        // The policy needs no selector to leave the Pods of built-in controllers alone.
        let stable = !KINDS_WITHOUT_STABLE_NAMES.contains(&(group, text("kind")));
        let named = pod["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
        let bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        prop_assert_eq!(looks_up, controller.is_some() && stable && named && !bound);
    }

    /// What the conditions keep back, the policy would accept without a host call.
    #[test]
    fn a_request_that_is_not_sent_would_be_accepted(request in object_request()) {
        let policy = &*POLICY_FOR_OBJECTS;
        let namespace = BTreeMap::new();
        prop_assert!(policy.is_sent(&request, &namespace, false).unwrap());
        let (response, calls) = answer(&request);
        if !policy.is_sent(&request, &namespace, true).unwrap() {
            prop_assert!(response.accepted && calls == 0, "{:?}", response.message);
        }
        // A policy that does not mutate has a validating webhook, and its PolicyServer refuses what
        // it changes.
        prop_assert!(response.mutated_object.is_none());
    }
}
