//! Pods and fields that the policy must not change.

use std::sync::Arc;

use json_patch::{AddOperation, PatchOperation};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER},
    kubewarden::stand_in::{Evaluation, HostCalls, KubernetesHost},
};
use serde_json::{Value, json};

use crate::support::{HOSTNAME, IP_ANNOTATION, MARKER, Pool, TIMEOUT, ZONE, homes, list};

pub(crate) async fn makes_no_host_call_for_pods_without_stable_names(cluster: &Cluster) {
    let pool = Pool::new(cluster, "nocalls", 2, 1).await;
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"nodeSelector": pool.selector(), "automountServiceAccountToken": false, "restartPolicy": "Always",
            "containers": [{"name": "main", "image": "example.invalid/main:1"}]},
    });
    let with = |name: &str, patch: Value| {
        let mut template = template.clone();
        json_patch::merge(
            &mut template,
            &json!({"metadata": {"labels": {"app": name}}}),
        );
        json_patch::merge(&mut template, &patch);
        template
    };
    let selector = |name: &str| json!({"matchLabels": {"app": name}});
    let object = |api_version: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "nocalls", "name": name}, "spec": spec});
    let job = with("job", json!({"spec": {"restartPolicy": "Never"}}));
    let mut bare = object("v1", "Pod", "bare", template["spec"].clone());
    bare["metadata"]["labels"] = json!({"app": "bare"});
    let replicated = |name: &str| json!({"replicas": 2, "selector": selector(name), "template": with(name, json!({}))});
    let objects = [
        bare,
        object(
            "apps/v1",
            "Deployment",
            "deployment",
            replicated("deployment"),
        ),
        object(
            "apps/v1",
            "DaemonSet",
            "daemons",
            json!({"selector": selector("daemons"), "template": with("daemons", json!({}))}),
        ),
        object("batch/v1", "Job", "job", json!({"template": job})),
        object(
            "v1",
            "ReplicationController",
            "controller",
            json!({"replicas": 1, "selector": {"app": "controller"}, "template": with("controller", json!({}))}),
        ),
    ];
    cluster.apply_objects(&objects).await.unwrap();
    cluster
        .run_stateful_set(&pool.stateful_set("stateful", 1))
        .await
        .unwrap();
    for (name, pods) in [
        ("bare", 1),
        ("deployment", 2),
        ("daemons", 2),
        ("job", 1),
        ("controller", 1),
    ] {
        cluster
            .wait_ready("nocalls", name, pods, TIMEOUT)
            .await
            .unwrap();
    }

    // The API server sent all of them to the policy. Only the Pod of the StatefulSet caused a host
    // call.
    let served = cluster.webhook().unwrap().served();
    let mine: Vec<_> = served
        .iter()
        .filter(|one| one.namespace == "nocalls" && one.kind == "Pod")
        .collect();
    assert!(mine.len() >= 8, "{} requests", mine.len());
    for one in &mine {
        let calls = one.evaluation.host_calls.len();
        assert_eq!(
            calls > 0,
            one.name == "stateful-0",
            "{} made {calls} host calls",
            one.name
        );
        assert!(one.evaluation.response.allowed && one.evaluation.patch.is_none());
    }
}

/// Evaluates a request for a Pod, with the live cluster as the host.
async fn evaluate(cluster: &Cluster, namespace: &str, pod: &Value, more: &Value) -> Evaluation {
    let mut request = json!({
        "uid": "00000000-0000-0000-0000-000000000001",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod["metadata"]["name"], "namespace": namespace, "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:statefulset-controller"},
        "object": pod, "dryRun": false,
    });
    json_patch::merge(&mut request, more);
    let client = cluster.control_plane.client_for(POLICY_SERVER).unwrap();
    let host: Arc<dyn HostCalls> = Arc::new(KubernetesHost::new(
        tokio::runtime::Handle::current(),
        client,
    ));
    let module = cluster.webhook().unwrap().module().clone();
    let evaluation = move || module.evaluate(&request, &json!({}), &host).unwrap();
    tokio::task::spawn_blocking(evaluation).await.unwrap()
}

/// A live Pod without the fields that the cluster added after its creation.
fn as_sent(mut pod: Value) -> Value {
    pod.as_object_mut().unwrap().remove("status");
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        pod["metadata"].as_object_mut().unwrap().remove(field);
    }
    pod
}

pub(crate) async fn preserves_unknown_fields(cluster: &Cluster) {
    let pool = Pool::new(cluster, "unknown", 2, 2).await;
    let web = pool
        .stateful_set("web", 1)
        .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;

    let mut pod = as_sent(pool.pod_json("web-0").await);
    pod["metadata"]["annotations"] = json!({"own": "1"});
    pod["x-top"] =
        json!({"deep": [{"er": null, "number": 12_345_678_901_234_567_890_u64, "float": 1.0e-7}]});
    pod["metadata"]["x-meta"] = json!([[], {}, "ü\u{1F600}\n"]);
    pod["spec"]["x-spec"] = json!({"n": 0.1, "empty": ""});
    pod["spec"]["containers"][0]["x-container"] = json!(true);
    pod["spec"]["affinity"] = json!({"x-affinity": 1, "podAffinity": {"x-pods": []}, "nodeAffinity": {
        "x-node-affinity": "kept",
        "requiredDuringSchedulingIgnoredDuringExecution": {"x-required": 1, "nodeSelectorTerms": [
            {"x-term": {}, "matchExpressions": [{"key": "a", "operator": "Exists", "x-expression": 1}]},
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
        ]},
    }});
    let more = json!({"x-request": 1, "userInfo": {"extra": {"x": ["y"]}}, "options": {"kind": "CreateOptions", "x": 1}});
    let evaluation = evaluate(cluster, "unknown", &pod, &more).await;
    let patch = evaluation.patch.expect("a patch");
    for operation in &patch.0 {
        assert!(
            matches!(operation, PatchOperation::Add(AddOperation { .. })),
            "only additions are expected: {operation}"
        );
        assert!(!operation.to_string().contains("x-"), "{operation}");
    }

    // Nothing but the planned paths changed.
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    let state = &pool.states("web").await["web-0"];
    assert_eq!(after, planned(pod, state));
}

/// An independent implementation of the injection: zone required, host preferred, and the address.
fn planned(mut pod: Value, state: &Value) -> Value {
    let is = |key: &str| json!({"key": key, "operator": "In", "values": [state["nodeTopologyLabels"][key]]});
    let affinity = &mut pod["spec"]["affinity"]["nodeAffinity"];
    let terms =
        &mut affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    if terms.is_null() {
        *terms = json!([{"matchExpressions": []}]);
    }
    for term in terms.as_array_mut().unwrap() {
        if term["matchExpressions"].is_null() {
            term["matchExpressions"] = json!([]);
        }
        term["matchExpressions"]
            .as_array_mut()
            .unwrap()
            .push(is(ZONE));
    }
    let preferred = &mut affinity["preferredDuringSchedulingIgnoredDuringExecution"];
    if preferred.is_null() {
        *preferred = json!([]);
    }
    let preference = json!({"weight": 100, "preference": {"matchExpressions": [is(HOSTNAME)]}});
    preferred.as_array_mut().unwrap().push(preference);
    let annotations = &mut pod["metadata"]["annotations"];
    annotations[IP_ANNOTATION] = state["annotations"][IP_ANNOTATION].clone();
    annotations[MARKER] = json!("web");
    pod
}

/// A template that uses many fields.
fn rich_template() -> Value {
    json!({
        "metadata": {"annotations": {"own": "1", "example.io/empty": ""}, "labels": {"more": "labels"}},
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE, "operator": "Exists"}, {"key": "no/such", "operator": "DoesNotExist"}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["elsewhere"]}]},
                    ]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [{"key": "some", "operator": "Gt", "values": ["3"]}]}}],
                },
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}}]},
            },
            "containers": [{
                "name": "main", "image": "example.invalid/main:1", "args": ["--a", ""], "stdin": true,
                "env": [{"name": "A", "value": "b"}, {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [{"containerPort": 80, "name": "http"}],
                "resources": {"requests": {"cpu": "1500m", "memory": "1.5Gi"}, "limits": {"cpu": "2"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "info", "mountPath": "/info"}],
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            }],
            "initContainers": [{"name": "init", "image": "example.invalid/init:1", "command": ["sh", "-c", "é"]}],
            "volumes": [
                {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "info", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                {"name": "both", "projected": {"sources": [{"configMap": {"name": "none", "optional": true}}]}},
                {"name": "private", "ephemeral": {"volumeClaimTemplate": {
                    "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}}}}}},
            ],
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}],
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}}}],
            "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a", "b"]}],
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "readinessGates": [{"conditionType": "example.io/gate"}],
            "securityContext": {"fsGroup": 5, "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]},
            "shareProcessNamespace": true,
        },
    })
}

/// A volume for a claim that names no storage class.
fn persistent_volume(number: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("rich-{number}")},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": format!("/rich-{number}")}}})
}

pub(crate) async fn changes_nothing_else_in_a_pod(cluster: &Cluster) {
    let pool = Pool::new(cluster, "rich", 4, 2).await;
    // Requests in the namespace kubewarden bypass the policy.
    let rich = rich_template();
    // Nothing provisions volumes here: one for each Pod that the scenario creates.
    cluster
        .apply_objects(&[1, 2, 3].map(persistent_volume))
        .await
        .unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "kubewarden", "labels": {"kubernetes.io/metadata.name": "kubewarden"}}});
    cluster.apply_objects(&[namespace]).await.unwrap();
    let with = pool.stateful_set("web", 1).template(&rich);
    let mut without = with.clone();
    "kubewarden".clone_into(&mut without.namespace);
    let with = with.persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&without).await.unwrap();
    let before = cluster.run_stateful_set(&with).await.unwrap();
    let state = pool.recorded("web", "web").await.remove("web-0").unwrap();
    pool.load(&homes(&before)["web-0"]).await;
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!(homes(&after), homes(&before));

    let served = cluster.webhook().unwrap().served();
    assert!(
        served.iter().all(|one| one.namespace != "kubewarden"),
        "the Pod in kubewarden should bypass the policy"
    );
    let plain = Pool {
        cluster,
        namespace: "kubewarden",
    };
    let mut plain = as_sent(plain.pod_json("web-0").await);
    let mut pinned = as_sent(pool.pod_json("web-0").await);
    for pod in [&mut plain, &mut pinned] {
        pod["metadata"]["namespace"] = json!("x");
        pod["metadata"]["ownerReferences"][0]["uid"] = json!("x");
        // Written by the CNI.
        pod["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(IP_ANNOTATION);
        // The revision may depend on the namespace.
        pod["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("controller-revision-hash");
    }
    assert!(list(&plain["spec"]["volumes"]).count() >= 3, "{plain}");
    assert_eq!(
        plain["metadata"]["annotations"].get(MARKER),
        None,
        "nothing should be injected into the Pod in kubewarden"
    );
    let mut expected = planned(plain, &state);
    expected["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(IP_ANNOTATION);
    assert_eq!(pinned, expected);
}
