//! The Helm chart renders the same as kustomize and can be installed, upgraded and removed.

mod namespaces;
mod pods;
pub(crate) mod release;
mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use pps_e2e::{
    manifests::{
        self,
        render::{
            CHART, REQUIRED, files_below, helm, kustomizations, name_of, render_chart,
            render_chart_with, render_kustomize,
        },
    },
    repository::repository_file,
    scratch::Scratch,
    sidecar::NAMESPACE,
};
use serde_json::{Value, json};

/// The file of values with which the chart renders the same as a folder below `deploy`.
fn values_of(folder: &str) -> PathBuf {
    let name = folder.strip_prefix("deploy/overlays/").unwrap_or("default");
    repository_file(&format!("{CHART}/ci/{name}-values.yaml"))
}

/// The chart with one of these files, as a release `any` in the product's namespace. Several tests
/// ask for the same.
pub(crate) fn render_ci(values: &Path) -> Vec<Value> {
    static RENDERED: Mutex<BTreeMap<PathBuf, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    let render = || render_chart("any", NAMESPACE, Some(values)).unwrap();
    rendered
        .entry(values.to_owned())
        .or_insert_with(render)
        .clone()
}

/// The labels that only the chart sets.
const LABELS_OF_HELM: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

/// An object without what may differ between kustomize and Helm.
fn comparable(mut object: Value) -> Value {
    let generated = object["kind"] == "CustomResourceDefinition";
    let metadata = object["metadata"].as_object_mut().unwrap();
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|label, _| !LABELS_OF_HELM.contains(&label.as_str()));
    }
    if generated {
        // The CRD is generated from the types, without labels.
        metadata.remove("labels");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            assert_eq!(
                annotations.remove("helm.sh/resource-policy"),
                Some(json!("keep"))
            );
        }
    }
    metadata.retain(|_, value| value != &json!({}));
    object
}

/// The objects without those of the check, which kustomize has as a file of its own.
fn without_check(mut objects: Vec<Value>) -> Vec<Value> {
    objects.retain(|object| object["metadata"]["labels"]["app.kubernetes.io/component"] != "check");
    objects
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    objects
        .into_iter()
        .map(|object| (name_of(&object), comparable(object)))
        .collect()
}

#[test]
fn chart_renders_the_same_objects_as_kustomize() {
    let folders: Vec<String> = kustomizations()
        .unwrap()
        .into_iter()
        .filter(|folder| folder != "deploy/base")
        .collect();
    let values: BTreeSet<PathBuf> = files_below(&repository_file(&format!("{CHART}/ci")))
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(
        values,
        folders.iter().map(|folder| values_of(folder)).collect()
    );
    for folder in folders {
        let mut expected = by_name(render_kustomize(&folder).unwrap());
        // Helm creates the namespace with --create-namespace.
        assert!(
            expected
                .remove(&format!("Namespace /{NAMESPACE}"))
                .is_some()
        );
        let rendered = render_ci(&values_of(&folder));
        // Argo CD runs any other hook at each sync.
        for object in &rendered {
            let hook = &object["metadata"]["annotations"]["helm.sh/hook"];
            assert!(hook.is_null() || hook == "test", "{folder}: {object}");
        }
        let rendered = without_check(rendered);
        let count = rendered.len();
        let mut rendered = by_name(rendered);
        assert_eq!(rendered.len(), count, "{folder}");
        for (name, object) in expected {
            let ours = rendered
                .remove(&name)
                .unwrap_or_else(|| panic!("{folder}: {name} is not in the chart"));
            assert_eq!(ours, object, "{folder}: {name}");
        }
        assert_eq!(
            rendered.keys().collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "{folder}: these are only in the chart"
        );
    }
}

/// A file with these values.
fn values_file(name: &str, values: &Value) -> Scratch {
    Scratch::file(&format!("{name}.yaml"), values.to_string()).unwrap()
}

fn render_with(name: &str, values: &Value) -> anyhow::Result<Vec<Value>> {
    let file = values_file(name, values);
    render_chart("pps", "elsewhere", Some(file.path()))
}

/// What [`render_with`] gives without values.
fn defaults() -> &'static [Value] {
    static RENDERED: OnceLock<Vec<Value>> = OnceLock::new();
    RENDERED.get_or_init(|| render_with("defaults", &json!({})).unwrap())
}

/// A custom kind that differs from a valid one in these fields.
fn custom_kind(change: &Value) -> Value {
    let mut kind = json!({"group": "example.io", "kind": "Database", "resource": "databases"});
    json_patch::merge(&mut kind, change);
    kind
}

/// Values with custom kinds that differ from a valid one in these fields.
fn workloads(changes: &[Value]) -> Value {
    json!({"workloads": changes.iter().map(custom_kind).collect::<Vec<_>>()})
}

/// Values with one custom kind and these.
fn with_workload(values: &Value) -> Value {
    let mut all = workloads(&[json!({})]);
    json_patch::merge(&mut all, values);
    all
}

/// The chart refuses these values with an error that has each of the words: Helm names all mistakes
/// at once.
fn is_refused(values: &Value, words: &str) {
    let error = render_with("wrong", values).expect_err(&format!("{values} is accepted"));
    let error = format!("{error:#}");
    for word in words.split(' ') {
        assert!(error.contains(word), "{word} is accepted: {error}");
    }
}

#[test]
fn schema_refuses_invalid_values_with_their_path() {
    let digest = format!("sha256:{}", "g".repeat(64));
    let mistakes = json!({
        "replicas": 2, "replicaCount": "two", "scope": "Some", "strategy": {"type": "OnDelete"},
        "image": {"digest": digest, "repository": "ghcr.io/x:v1", "pullPolicy": "Sometimes"},
        "sidecar": {"recorder": "both", "nodeGracePeriod": "5"},
        "policy": {
            "failurePolicy": "ignore", "mode": "warn", "timeoutSeconds": 31, "timeoutEvalSeconds": 1,
            "extraMatchConditions": [{"name": "a b", "expression": "true"}],
            "namespaceSelector": {"matchLabels": {"a": "b"}}, "module": {"repository": "registry://ghcr.io/x"},
            "settings": {"onLookupFailure": "ignore", "annotation": {"deny": []}, "annotations": {"deny": "a"}},
            "formerPolicyServers": [{"name": "a"}],
        },
        "networkPolicy": {"apiServerPorts": [0]},
        "workloads": [{"group": "example.io", "kind": "Database"}, custom_kind(&json!({"group": "batch"})),
            custom_kind(&json!({"namesPath": "spec.pods[0].name"})), custom_kind(&json!({"namesPath": "metadata.name"})),
            custom_kind(&json!({"group": "example.io/v1"})), custom_kind(&json!({"kind": "Data' || true || '"}))],
        "policyServer": {"maxUnavailable": "half", "image": {"tag": "v1:2", "repository": "a b"}, "namespace": ""},
        "metrics": {"serviceMonitor": {"interval": 30}, "podMonitor": {"scrapeTimeout": "10"}},
        "livenessProbe": {"httpGet": {}}, "podDisruptionBudget": {"unhealthyPodEvictionPolicy": "Always"},
        "check": {"schedule": "each day"}, "global": {"imagePullSecrets": [{}]},
    });
    let fields = "'replicas' /replicaCount /image/digest /image/repository /image/pullPolicy \
                  /sidecar/recorder /sidecar/nodeGracePeriod /policy/failurePolicy /policy/mode \
                  /policy/timeoutSeconds /policy/timeoutEvalSeconds /scope \
                  /policy/extraMatchConditions/0/name 'matchLabels' /policy/module/repository \
                  /policy/settings/onLookupFailure 'annotation' /policy/settings/annotations/deny \
                  /networkPolicy/apiServerPorts/0 /workloads/0 /workloads/1/group \
                  /workloads/2/namesPath /workloads/3/namesPath /workloads/4/group \
                  /workloads/5/kind /policyServer/maxUnavailable \
                  /policyServer/image/tag /policyServer/image/repository /policyServer/namespace \
                  /strategy/type /policy/formerPolicyServers/0 /metrics/serviceMonitor/interval \
                  /metrics/podMonitor/scrapeTimeout /livenessProbe \
                  /podDisruptionBudget/unhealthyPodEvictionPolicy /check/schedule \
                  /global/imagePullSecrets";
    is_refused(&mistakes, fields);
    for (values, complaint) in [
        (
            json!({"replicaCount": 2, "sidecar": {"leaderElection": false}}),
            "/replicaCount",
        ),
        (
            json!({"policy": {"timeoutEvalSeconds": 5}}),
            "policy.timeoutEvalSeconds is 5: set it to at most",
        ),
        (
            json!({"policy": {"extraMatchConditions": [{"name": "pod-has-a-name", "expression": "true"}]}}),
            "policy.extraMatchConditions has a condition \"pod-has-a-name\": rename it",
        ),
        (
            workloads(&[
                json!({}),
                json!({"kind": "Cache", "podSelector": {"matchLabels": {"a": "b"}}}),
            ]),
            "workloads[1].podSelector differs from that of workloads[0]",
        ),
        (
            with_workload(&json!({"sidecar": {"configNamespace": "kruise"}})),
            "sidecar.configNamespace is \"kruise\": remove it",
        ),
        (
            with_workload(
                &json!({"sidecar": {"recorder": "openkruise"}, "replicaCount": 1, "crds": {"enabled": false}}),
            ),
            "set workloadsConfigMap.create to false",
        ),
        (
            with_workload(&json!({"sidecar": {"openkruiseNamespace": "elsewhere"}})),
            "is OpenKruise's",
        ),
        (
            json!({"policyServer": {"image": {"repository": "", "tag": "v1"}}}),
            "policyServer.image.repository is empty: set repository and tag to what your \
             Kubewarden has. This prints them: kubectl get policyserver default -o \
             jsonpath='{.spec.image}'",
        ),
        (
            json!({"policyServer": {"image": {"tag": ""}}}),
            "policyServer.image.tag is empty",
        ),
        (
            json!({"metrics": {"serviceMonitor": {"enabled": true}, "podMonitor": {"enabled": true}},
                "networkPolicy": {"enabled": false}}),
            "set one of them to false",
        ),
        (
            json!({"policyServer": {"create": false, "insecureSources": ["localhost:5000"]},
                "policy": {"policyServer": "default", "policyServerServiceAccount": "default"}}),
            "set spec.insecureSources in the PolicyServer default",
        ),
    ] {
        let error = render_with("wrong", &values).expect_err(&format!("{values} is accepted"));
        assert!(
            format!("{error:#}").contains(complaint),
            "{values}: {error:#}"
        );
    }
}

#[test]
fn schema_and_values_have_the_same_fields() {
    fn compare(values: &Value, schema: &Value, definitions: &Value, path: &str) {
        let schema = match schema["$ref"].as_str() {
            Some(name) => &definitions[name.strip_prefix("#/definitions/").unwrap()],
            None => schema,
        };
        let (Some(values), Some(properties)) =
            (values.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        let is_open = path == ".podSecurityContext" || path.starts_with(".global");
        assert!(
            schema["additionalProperties"] == false || is_open,
            "{path} accepts unknown fields"
        );
        for (name, below) in properties {
            let path = format!("{path}.{name}");
            // `claims` belongs to Kubernetes.
            let value = values.get(name);
            assert!(
                value.is_some()
                    || path.ends_with(".resources.claims")
                    || path.starts_with(".strategy")
                    || path == ".policy.settings.annotations"
                    || path.starts_with(".policyServer.securityContexts"),
                "{path} is not in values.yaml"
            );
            compare(value.unwrap_or(&Value::Null), below, definitions, &path);
        }
    }
    let values = manifests::read(&repository_file(&format!("{CHART}/values.yaml")))
        .unwrap()
        .remove(0);
    let schema =
        fs::read_to_string(repository_file(&format!("{CHART}/values.schema.json"))).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    compare(&values, &schema, &schema["definitions"], "");
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

#[test]
fn values_reach_the_objects() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let values = json!({
        "nameOverride": "states", "fullnameOverride": "mine",
        "image": {"repository": "registry.example:5000/sidecar", "tag": "v9", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "key"}],
        "replicaCount": 1,
        "sidecar": {"configNamespace": "kruise", "openkruiseNamespace": "open", "nodeGracePeriod": "90s", "leaderElection": false,
            "logLevel": "debug", "extraArgs": ["--max-object-size=900"],
            "extraEnv": [{"name": "PPS_TEST", "value": "text"}]},
        "workloads": [{"group": "example.io", "kind": "Database", "resource": "databases"}],
        "workloadsConfigMap": {"create": false},
        "nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}}, "priorityClassName": "high",
        "podAnnotations": {"a": "1"}, "podLabels": {"b": "2"},
        "serviceAccount": {"create": false, "name": "given"},
        "podDisruptionBudget": {"maxUnavailable": null, "minAvailable": "50%"},
        "networkPolicy": {"ingressFrom": [{"podSelector": {}}], "apiServerPorts": [7443], "extraEgress": [{}]},
        "service": {"annotations": {"c": "3"}},
        "crds": {"keep": false},
        "policyServer": {"create": false, "namespace": "there"},
        "policy": {"module": {"digest": digest}, "failurePolicy": "Ignore", "mode": "monitor", "timeoutSeconds": 5,
            "policyServer": "reserved", "policyServerServiceAccount": "them",
            "excludedNamespaces": ["a"], "settings": {"onLookupFailure": "accept", "annotations": {"deny": ["*"]}},
            "namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}},
    });
    let objects = render_with("reach", &values).unwrap();
    let deployment = &find(&objects, "Deployment", "mine-sidecar");
    assert_eq!(deployment["metadata"]["namespace"], "elsewhere");
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    let labels =
        json!({"app.kubernetes.io/name": "states", "app.kubernetes.io/component": "sidecar"});
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    let template = &deployment["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["b"], "2");
    assert_eq!(template["metadata"]["annotations"]["a"], "1");
    let pod = &template["spec"];
    assert_eq!(pod["serviceAccountName"], "given");
    assert_eq!(
        pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        labels
    );
    assert_eq!(
        [
            &pod["nodeSelector"],
            &pod["tolerations"],
            &pod["affinity"],
            &pod["priorityClassName"],
            &pod["imagePullSecrets"]
        ],
        [
            &json!({"disk": "fast", "kubernetes.io/os": "linux"}),
            &values["tolerations"],
            &values["affinity"],
            &json!("high"),
            &values["imagePullSecrets"]
        ],
    );
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.example:5000/sidecar:v9");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(
        container["args"],
        json!([
            "--admin-address=[::]:8080",
            "--leader-election=false",
            "--lease-name=mine-sidecar",
            "--namespace-selector=persistent-pod-state/injection=enabled,kubernetes.io/metadata.\
             name notin (kube-system,kube-public,kube-node-lease,a,elsewhere,there),env",
            "--max-object-size=900"
        ])
    );
    let env: BTreeMap<&str, &str> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| Some((one["name"].as_str()?, one["value"].as_str()?)))
        .collect();
    let expected = [
        ("PPS_CONFIG_NAMESPACE", "kruise"),
        ("PPS_LOG", "debug"),
        ("PPS_NODE_GRACE_PERIOD", "90s"),
        ("PPS_OPENKRUISE_NAMESPACE", "open"),
        ("PPS_TEST", "text"),
    ];
    assert_eq!(env, BTreeMap::from(expected));

    let installed = without_check(objects.clone());
    let kinds: Vec<&str> = installed
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    // Without leader election there is no Role, and with a given account no ServiceAccount.
    assert!(!kinds.contains(&"ConfigMap"), "{kinds:?}");
    assert!(
        !kinds.contains(&"Role") && !kinds.contains(&"ServiceAccount"),
        "{kinds:?}"
    );
    let custom = find(&objects, "ClusterRole", "mine-sidecar-custom-workloads");
    assert_eq!(
        custom["rules"],
        json!([{"apiGroups": ["example.io"], "resources": ["databases"], "verbs": ["list", "watch"]}])
    );
    let aggregates = find(&objects, "ClusterRole", "mine-sidecar-custom-kinds");
    let label = &aggregates["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
    let (key, value) = label.as_object().unwrap().iter().next().unwrap();
    assert_eq!(&custom["metadata"]["labels"][key], value);
    let account = json!([{"kind": "ServiceAccount", "name": "given", "namespace": "elsewhere"}]);
    assert_eq!(
        find(&objects, "ClusterRoleBinding", "mine-sidecar")["subjects"],
        account
    );
    let server = json!([{"kind": "ServiceAccount", "name": "them", "namespace": "there"}]);
    assert_eq!(
        find(&objects, "ClusterRoleBinding", "mine-policy-reserved")["subjects"],
        server
    );

    let budget = &find(&objects, "PodDisruptionBudget", "mine-sidecar")["spec"];
    assert_eq!(
        (&budget["minAvailable"], budget.get("maxUnavailable")),
        (&json!("50%"), None)
    );
    let network = &find(&objects, "NetworkPolicy", "mine-sidecar")["spec"];
    let admin = json!([{"port": "admin", "protocol": "TCP"}]);
    assert_eq!(
        network["ingress"],
        json!([{"from": [{"podSelector": {}}], "ports": admin}])
    );
    assert_eq!(
        network["egress"][0],
        json!({"ports": [{"port": 7443, "protocol": "TCP"}]})
    );
    assert_eq!(network["egress"][1], json!({}));
    let service = find(&objects, "Service", "mine-sidecar");
    assert_eq!(
        (
            &service["spec"]["ports"][0]["port"],
            &service["metadata"]["annotations"]["c"]
        ),
        (&json!(8080), &json!("3"))
    );
    let definition = find(
        &objects,
        "CustomResourceDefinition",
        "persistentpodstates.apps.kruise.io",
    );
    assert_eq!(definition["metadata"].get("annotations"), None);

    let policy = &find(&objects, "ClusterAdmissionPolicy", "states")["spec"];
    assert_eq!(
        policy["module"],
        format!("registry://registry.example.com/pps/policies/persistent-pod-state@{digest}")
    );
    assert_eq!(
        [
            &policy["failurePolicy"],
            &policy["mode"],
            &policy["timeoutSeconds"],
            &policy["timeoutEvalSeconds"],
            &policy["policyServer"],
            &policy["settings"]
        ],
        [
            &json!("Ignore"),
            &json!("monitor"),
            &json!(5),
            &json!(4),
            &json!("reserved"),
            &values["policy"]["settings"]
        ],
    );
    assert_eq!(
        policy["namespaceSelector"]["matchExpressions"],
        json!([
            {"key": "persistent-pod-state/injection", "operator": "In", "values": ["enabled"]},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kube-public", "kube-node-lease", "a", "elsewhere"]},
            {"key": "env", "operator": "Exists"},
        ])
    );
    let selector = "--namespace-selector=persistent-pod-state/injection=enabled,kubernetes.io/\
                    metadata.name notin \
                    (kube-system,kube-public,kube-node-lease,a,elsewhere,there),env";
    assert_eq!(selectors_of(&objects, "mine-sidecar"), [selector]);
    let validation = &find(&objects, "ClusterAdmissionPolicy", "states-validation")["spec"];
    for field in [
        "module",
        "mode",
        "policyServer",
        "settings",
        "timeoutEvalSeconds",
    ] {
        assert_eq!(validation[field], policy[field], "{field}");
    }
    assert_eq!(validation["failurePolicy"], "Fail");
}

/// The base with some components that no overlay has.
fn render_components(components: &[&str]) -> Vec<Value> {
    let deploy = repository_file("deploy");
    let copy = Scratch::path_for("components");
    for file in files_below(&deploy).unwrap() {
        let target = copy.path().join(file.strip_prefix(&deploy).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
    fs::create_dir_all(copy.path().join("mine")).unwrap();
    let components: Vec<String> = components
        .iter()
        .map(|name| format!("../components/{name}"))
        .collect();
    let kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["../base"], "components": components});
    fs::write(
        copy.path().join("mine/kustomization.yaml"),
        kustomization.to_string(),
    )
    .unwrap();
    render_kustomize(copy.path().join("mine").to_str().unwrap()).unwrap()
}

#[test]
fn components_without_an_overlay_are_values_too() {
    // In the component, the path is a part of the text that is replaced.
    let kind = workloads(&[json!({"namesPath": ""})]);
    let mut both = kind.clone();
    both["scope"] = json!("All");
    let shared = json!({
        "metrics": {"serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}, "dashboard": {"enabled": true}},
        "networkPolicy": {"ingressFrom":
            [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
        "policyServer": {"create": false},
        "policy": {"policyServer": "default", "policyServerServiceAccount": "policy-server"},
    });
    for (components, values) in [
        (&["custom-workloads"][..], kind),
        (&["custom-workloads", "all-namespaces"], both),
        // The alert names the PolicyServer.
        (&["monitoring", "shared-policy-server"], shared),
    ] {
        let mut expected = by_name(render_components(components));
        expected.remove(&format!("Namespace /{NAMESPACE}"));
        let file = values_file(&components.join("-"), &values);
        let rendered = by_name(without_check(
            render_chart("any", NAMESPACE, Some(file.path())).unwrap(),
        ));
        assert_eq!(
            rendered.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{components:?}"
        );
        for (name, object) in expected {
            assert_eq!(rendered[&name], object, "{components:?}: {name}");
        }
    }
}

#[test]
fn custom_kinds_are_named_once() {
    let selector = json!({"matchLabels": {"managed-by": "us"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let values = workloads(&[
        json!({"podSelector": selector}),
        json!({"group": "cache.example.io", "kind": "Cache", "resource": "caches", "version": "v2", "namesPath": "spec.pods[*].metadata.name", "podSelector": selector}),
    ]);
    let objects = render_with("named-once", &values).unwrap();
    let list = &find(&objects, "ConfigMap", "kruise-configuration")["data"]["PPS_Watch_Custom_Workload_WhiteList"];
    let list: Value = serde_json::from_str(list.as_str().unwrap()).unwrap();
    assert_eq!(
        list,
        json!({"workloads": [
            {"group": "example.io", "kind": "Database"},
            {"group": "cache.example.io", "kind": "Cache", "version": "v2", "namesPath": "spec.pods[*].metadata.name"},
        ]})
    );
    assert_eq!(
        find(&objects, "ClusterRole", "pps-sidecar-custom-workloads")["rules"],
        json!([
            {"apiGroups": ["example.io"], "resources": ["databases"], "verbs": ["list", "watch"]},
            {"apiGroups": ["cache.example.io"], "resources": ["caches"], "verbs": ["list", "watch"]},
        ])
    );
    let policy = &find(
        &objects,
        "ClusterAdmissionPolicy",
        "persistent-pod-state-custom-workloads",
    )["spec"];
    assert_eq!(
        policy["objectSelector"]["matchLabels"],
        selector["matchLabels"]
    );
    let selected = policy["objectSelector"]["matchExpressions"]
        .as_array()
        .unwrap();
    assert_eq!(selected.last(), Some(&selector["matchExpressions"][0]));
    let condition = policy["matchConditions"][2]["expression"].as_str().unwrap();
    assert!(
        condition.ends_with(
            "(owner.kind == 'Database' && owner.apiVersion.startsWith('example.io' + '/') || \
             owner.kind == 'Cache' && owner.apiVersion.startsWith('cache.example.io' + '/')))"
        ),
        "{condition}"
    );
    let counts = [&objects[..], defaults()].map(|objects| {
        objects
            .iter()
            .filter(|object| object["kind"] == "ClusterAdmissionPolicy")
            .count()
    });
    assert_eq!(counts, [3, 2]);
}

#[test]
fn a_custom_kind_is_named_once_for_kustomize_too() {
    let deploy = repository_file("deploy/components/custom-workloads");
    let copy = Scratch::path_for("custom-workloads");
    fs::create_dir_all(copy.path().join("component")).unwrap();
    for file in files_below(&deploy).unwrap() {
        let text = fs::read_to_string(&file).unwrap();
        let text = if file.ends_with("workload.yaml") {
            let changed = text
                .replace("example.io", "kafka.strimzi.io")
                .replace("Database", "Broker");
            let path = r#"namesPath: "spec.pods[*].metadata.name""#;
            changed
                .replace("databases", "brokers")
                .replace(r#"namesPath: """#, path)
        } else {
            text
        };
        fs::write(
            copy.path()
                .join("component")
                .join(file.file_name().unwrap()),
            text,
        )
        .unwrap();
    }
    let base = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "pps-sidecar"},
        "spec": {"template": {"spec": {"containers": [{"name": "sidecar", "env": [{"name": "A", "value": "b"}]}]}}}});
    let policy = json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": "persistent-pod-state"},
        "spec": {"module": "registry://mine", "policyServer": "mine", "settings": {"onLookupFailure": "accept"}}});
    fs::write(
        copy.path().join("base.yaml"),
        format!("{base}\n---\n{policy}"),
    )
    .unwrap();
    let kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["base.yaml"], "components": ["component"]});
    fs::write(
        copy.path().join("kustomization.yaml"),
        kustomization.to_string(),
    )
    .unwrap();
    let objects = render_kustomize(copy.path().to_str().unwrap()).unwrap();
    let policies: Vec<&Value> = objects
        .iter()
        .filter(|object| object["kind"] == "ClusterAdmissionPolicy")
        .map(|object| &object["spec"])
        .collect();
    for field in ["module", "policyServer", "settings"] {
        assert_eq!(policies[0][field], policies[1][field], "{field}");
    }
    let text = serde_json::to_string(&objects).unwrap();
    for old in [
        "example.io",
        "Database",
        "databases",
        "pps-custom-workload\"",
    ] {
        assert!(!text.contains(old), "{old}: {text}");
    }
    for (new, count) in [
        ("kafka.strimzi.io", 3),
        ("Broker", 2),
        ("brokers", 1),
        ("spec.pods[*].metadata.name", 1),
    ] {
        assert_eq!(text.matches(new).count(), count, "{new}: {text}");
    }
}

#[test]
fn scope_and_limits_of_the_policy_are_values() {
    let policies = |name: &str, values: Value| {
        let objects = render_with(name, &json!({"policy": values})).unwrap();
        ["persistent-pod-state", "persistent-pod-state-validation"]
            .map(|name| find(&objects, "ClusterAdmissionPolicy", name)["spec"].clone())
    };
    let condition =
        json!({"name": "pod-is-no-test", "expression": "object.metadata.namespace != 'test'"});
    let [pods, objects] = policies(
        "scope",
        json!({"excludedNamespaces": null, "extraMatchConditions": [condition],
            "timeoutEvalSeconds": 2, "validation": {"failurePolicy": "Ignore"}}),
    );
    assert_eq!(
        pods["namespaceSelector"]["matchExpressions"],
        json!([
            {"key": "persistent-pod-state/injection", "operator": "In", "values": ["enabled"]},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kube-public", "kube-node-lease", "elsewhere"]},
        ])
    );
    assert_eq!(
        pods["matchConditions"].as_array().unwrap().last(),
        Some(&condition)
    );
    let fields = ["failurePolicy", "timeoutSeconds", "timeoutEvalSeconds"];
    assert_eq!(
        fields.map(|field| &pods[field]),
        [&json!("Fail"), &json!(4), &json!(2)]
    );
    assert_eq!(
        fields.map(|field| &objects[field]),
        [&json!("Ignore"), &json!(4), &json!(2)]
    );
    assert_eq!(
        (
            objects.get("namespaceSelector"),
            objects.get("objectSelector")
        ),
        (None, None)
    );
    // Kubewarden refuses less than 2 seconds, and more than the API server waits.
    let pods = &find(defaults(), "ClusterAdmissionPolicy", "persistent-pod-state")["spec"];
    assert_eq!(
        fields.map(|field| &pods[field]),
        [&json!("Fail"), &json!(4), &json!(3)]
    );
    for (timeout, limit) in [(2, 2), (3, 2), (30, 29)] {
        let [pods, _] = policies(
            &format!("timeout-{timeout}"),
            json!({"timeoutSeconds": timeout}),
        );
        assert_eq!(pods["timeoutEvalSeconds"], limit, "{timeout}");
    }
}

/// The sidecar's selectors.
fn selectors_of(objects: &[Value], deployment: &str) -> Vec<String> {
    let container =
        &find(objects, "Deployment", deployment)["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap().to_owned());
    args.filter(|arg| arg.starts_with("--namespace-selector"))
        .collect()
}

#[test]
fn what_is_excluded_is_added_to_what_always_is_for_policy_and_sidecar_alike() {
    let of = |name: &str, values: Value| {
        let objects = render_with(name, &values).unwrap();
        selectors_of(&objects, "pps-sidecar")
    };
    assert!(
        selectors_of(defaults(), "pps-sidecar").is_empty(),
        "the sidecar's default"
    );
    let more = json!({"scope": "All", "policy": {"excludedNamespaces": ["registry"],
    "namespaceSelector": {"matchExpressions": [
        {"key": "env", "operator": "In", "values": ["a", "b"]},
        {"key": "team", "operator": "In", "values": ["c"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]}}});
    assert_eq!(
        of("all-but-more", more),
        [
            "--namespace-selector=persistent-pod-state/injection!=disabled,kubernetes.io/metadata.\
             name notin \
             (kube-system,kube-public,kube-node-lease,registry,elsewhere,kubewarden),env in \
             (a,b),team=c,!old"
        ]
    );
    let without = of(
        "no-policies",
        json!({"scope": "All", "policy": {"enabled": false}}),
    );
    assert!(
        without[0].ends_with("(kube-system,kube-public,kube-node-lease,elsewhere)"),
        "{without:?}"
    );
}

/// Only these values: what Helm and Argo CD render is the same.
fn render_alone(release: &str, values: &Value) -> anyhow::Result<Vec<Value>> {
    let file = values_file("alone", values);
    render_chart_with(release, "any", &[file.path()])
}

#[test]
fn three_images_render_the_chart_and_an_error_names_the_missing_one() {
    for file in files_below(&repository_file(&format!("{CHART}/templates"))).unwrap() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            !text.contains("lookup \""),
            "{} asks the cluster",
            file.display()
        );
    }
    let both = json!({"image": {"repository": "r.example/sidecar"}, "policy": {"module": {"repository": "r.example/policy"}},
        "policyServer": {"image": {"repository": "r.example/policy-server", "tag": "v1"}}});
    let version = env!("CARGO_PKG_VERSION");
    let objects = render_alone("persistent-pod-state", &both).unwrap();
    let deployment = &find(&objects, "Deployment", "persistent-pod-state-sidecar")["spec"];
    let image = &deployment["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, &format!("r.example/sidecar:v{version}"));
    let policy = find(&objects, "ClusterAdmissionPolicy", "persistent-pod-state");
    assert_eq!(
        policy["spec"]["module"],
        format!("registry://r.example/policy:v{version}")
    );
    for (missing, field) in [
        ("image", "image.repository"),
        ("policy", "policy.module.repository"),
        ("policyServer", "policyServer.image.repository"),
    ] {
        let mut values = both.clone();
        values.as_object_mut().unwrap().remove(missing);
        let error = format!("{:#}", render_alone("any", &values).unwrap_err());
        assert!(error.contains(&format!("{field} is empty")), "{error}");
    }
    // A mirror may have what its owner put there. The version of Kubewarden stays unknown.
    let mirror = json!({"global": {"imageRegistry": "mirror.example"}, "policyServer": both["policyServer"]});
    render_alone("any", &mirror).unwrap();
}

#[test]
fn names_follow_the_release() {
    let required = json!({"image": {"repository": "a/b"}, "policy": {"module": {"repository": "a/b"}},
        "policyServer": {"image": {"repository": "a/b", "tag": "v1"}}});
    for (release, mut values, expected) in [
        ("persistent-pod-state", json!({}), "persistent-pod-state"),
        (
            "my-persistent-pod-state",
            json!({}),
            "my-persistent-pod-state",
        ),
        ("shop", json!({}), "shop-persistent-pod-state"),
        ("shop", json!({"nameOverride": "states"}), "shop-states"),
        ("shop", json!({"fullnameOverride": "pps"}), "pps"),
    ] {
        json_patch::merge(&mut values, &required);
        let objects = render_alone(release, &values).unwrap();
        let sidecar = format!("{expected}-sidecar");
        let pod = &find(&objects, "Deployment", &sidecar)["spec"]["template"]["spec"];
        // What has another default in the programs is a flag.
        let lease = (expected != "pps").then(|| json!(format!("--lease-name={sidecar}")));
        assert_eq!(
            pod["containers"][0]["args"].get(1),
            lease.as_ref(),
            "{release}: {values}"
        );
        let leases = &find(&objects, "Role", &sidecar)["rules"][1]["resourceNames"];
        assert_eq!(leases, &json!([sidecar]), "{release}: {values}");
        let check = &find(&objects, "Pod", &format!("{expected}-check-after"))["spec"]["containers"]
            [0]["args"];
        assert!(
            check
                .as_array()
                .unwrap()
                .contains(&json!(format!("--sidecar={sidecar}"))),
            "{check}"
        );
    }
}

#[test]
fn a_monitor_that_may_not_read_is_refused() {
    for monitor in ["serviceMonitor", "podMonitor"] {
        let values = json!({"metrics": {monitor: {"enabled": true}}});
        let refused = render_with("unread-metrics", &values).unwrap_err();
        assert!(
            format!("{refused:#}").contains(&format!(
                "networkPolicy.ingressFrom is empty, and metrics.{monitor}.enabled is true"
            )),
            "{refused:#}"
        );
    }
}

#[test]
fn helm_lint_finds_nothing() {
    let [chart, required] = [CHART, REQUIRED].map(repository_file);
    let mut files = files_below(&chart.join("ci")).unwrap();
    files.push(chart.join("production.yaml"));
    for values in files {
        let [chart, required, values] =
            [&chart, &required, &values].map(|path| path.to_str().unwrap());
        let report = helm(&[
            "lint", chart, "--strict", "--values", required, "--values", values,
        ])
        .unwrap();
        assert!(
            !report.contains("[WARNING]") && report.contains("0 chart(s) failed"),
            "{report}"
        );
    }
}
