//! The Helm chart renders the same as kustomize and can be installed, upgraded and removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::Duration,
};

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use pps_e2e::{
    cluster::Cluster,
    control_plane::Version,
    kubewarden::install_definitions,
    manifests::{
        self,
        render::{
            CHART, KUBEWARDEN, files_below, helm, kustomizations, name_of, render_chart, render_kustomize,
        },
    },
    repository::repository_file,
    scratch::Scratch,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

/// The file of values with which the chart renders the same as a folder below `deploy`.
fn values_of(folder: &str) -> PathBuf {
    let name = folder.strip_prefix("deploy/overlays/").unwrap_or("default");
    repository_file(&format!("{CHART}/ci/{name}-values.yaml"))
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
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            assert_eq!(annotations.remove("helm.sh/resource-policy"), Some(json!("keep")));
        }
    }
    metadata.retain(|_, value| value != &json!({}));
    object
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (name_of(&object), comparable(object))).collect()
}

#[test]
fn chart_renders_the_same_objects_as_kustomize() {
    let folders: Vec<String> =
        kustomizations().unwrap().into_iter().filter(|folder| folder != "deploy/base").collect();
    let values: BTreeSet<PathBuf> =
        files_below(&repository_file(&format!("{CHART}/ci"))).unwrap().into_iter().collect();
    assert_eq!(values, folders.iter().map(|folder| values_of(folder)).collect());
    for folder in folders {
        let mut expected = by_name(render_kustomize(&folder).unwrap());
        // Helm creates the namespace with --create-namespace.
        assert!(expected.remove(&format!("Namespace /{NAMESPACE}")).is_some());
        let rendered = render_chart("any", NAMESPACE, Some(&values_of(&folder))).unwrap();
        let count = rendered.len();
        let mut rendered = by_name(rendered);
        assert_eq!(rendered.len(), count, "{folder}");
        for (name, object) in expected {
            let ours =
                rendered.remove(&name).unwrap_or_else(|| panic!("{folder}: {name} is not in the chart"));
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

#[test]
fn schema_refuses_invalid_values_with_their_path() {
    let digest = format!("sha256:{}", "g".repeat(64));
    let cases = [
        (json!({"replicas": 2}), "replicas"),
        (json!({"replicaCount": "two"}), "/replicaCount"),
        (json!({"replicaCount": 2, "sidecar": {"leaderElection": false}}), "/replicaCount"),
        (json!({"image": {"digest": digest}}), "/image/digest"),
        (json!({"image": {"repository": "ghcr.io/x:v1@"}}), "/image/repository"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "/image/pullPolicy"),
        (json!({"sidecar": {"recorder": "both"}}), "/sidecar/recorder"),
        (json!({"sidecar": {"nodeGracePeriod": "5"}}), "/sidecar/nodeGracePeriod"),
        (json!({"policy": {"failurePolicy": "ignore"}}), "/policy/failurePolicy"),
        (json!({"policy": {"mode": "warn"}}), "/policy/mode"),
        (json!({"policy": {"timeoutSeconds": 31}}), "/policy/timeoutSeconds"),
        (json!({"policy": {"timeoutEvalSeconds": 1}}), "/policy/timeoutEvalSeconds"),
        (json!({"policy": {"timeoutEvalSeconds": 11}}), "policy.timeoutEvalSeconds is 11: set it to at most"),
        (json!({"policy": {"scope": "Some"}}), "/policy/scope"),
        (
            json!({"policy": {"extraMatchConditions": [{"name": "a b", "expression": "true"}]}}),
            "/policy/extraMatchConditions/0/name",
        ),
        (
            json!({"policy": {"extraMatchConditions": [{"name": "pod-has-a-name", "expression": "true"}]}}),
            "policy.extraMatchConditions has a condition \"pod-has-a-name\": rename it",
        ),
        (json!({"policy": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}), "matchLabels"),
        (json!({"policy": {"settings": {"onLookupFailure": "ignore"}}}), "/policy/settings/onLookupFailure"),
        (json!({"networkPolicy": {"apiServerPorts": [0]}}), "/networkPolicy/apiServerPorts/0"),
        (json!({"customKinds": [{"apiGroup": "example.io"}]}), "/customKinds/0"),
        (json!({"policyServer": {"maxUnavailable": "half"}}), "/policyServer/maxUnavailable"),
        (json!({"policyServer": {"image": {"tag": ""}}}), "/policyServer/image/tag"),
        (json!({"policyServer": {"image": {"repository": ""}}}), "/policyServer/image/tag"),
        (json!({"policy": {"formerPolicyServers": [{"name": "a"}]}}), "/policy/formerPolicyServers/0"),
        (json!({"metrics": {"serviceMonitor": {"interval": 30}}}), "/metrics/serviceMonitor/interval"),
    ];
    for (index, (values, field)) in cases.into_iter().enumerate() {
        let error =
            render_with(&format!("wrong-{index}"), &values).expect_err(&format!("{values} is accepted"));
        assert!(format!("{error:#}").contains(field), "{values}: {error:#}");
    }
}

#[test]
fn schema_and_values_have_the_same_fields() {
    fn compare(values: &Value, schema: &Value, definitions: &Value, path: &str) {
        let schema = match schema["$ref"].as_str() {
            Some(name) => &definitions[name.strip_prefix("#/definitions/").unwrap()],
            None => schema,
        };
        let (Some(values), Some(properties)) = (values.as_object(), schema["properties"].as_object()) else {
            return;
        };
        assert!(
            schema["additionalProperties"] == false || path == ".policy.settings",
            "{path} accepts unknown fields"
        );
        for (name, below) in properties {
            let path = format!("{path}.{name}");
            // `claims` belongs to Kubernetes and `global` to Helm.
            let value = values.get(name);
            assert!(
                value.is_some()
                    || [".global", ".resources.claims"].contains(&path.as_str())
                    || path.starts_with(".securityContexts")
                    || path.starts_with(".policyServer.securityContexts"),
                "{path} is not in values.yaml"
            );
            compare(value.unwrap_or(&Value::Null), below, definitions, &path);
        }
    }
    let values = manifests::read(&repository_file(&format!("{CHART}/values.yaml"))).unwrap().remove(0);
    let schema = fs::read_to_string(repository_file(&format!("{CHART}/values.schema.json"))).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    compare(&values, &schema, &schema["definitions"], "");
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
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
        "sidecar": {"configNamespace": "kruise", "nodeGracePeriod": "90s", "leaderElection": false,
            "logLevel": "debug", "extraArgs": ["--max-writes=4"],
            "extraEnv": [{"name": "PPS_LOG_FORMAT", "value": "text"}]},
        "customKinds": [{"apiGroup": "example.io", "resources": ["databases"]}],
        "nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}}, "priorityClassName": "high",
        "podAnnotations": {"a": "1"}, "podLabels": {"b": "2"},
        "serviceAccount": {"create": false, "name": "given"},
        "podDisruptionBudget": {"maxUnavailable": null, "minAvailable": "50%"},
        "networkPolicy": {"ingressFrom": [], "apiServerPorts": [7443], "extraEgress": [{}]},
        "service": {"port": 80, "annotations": {"c": "3"}},
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
    let labels = json!({"app.kubernetes.io/name": "states", "app.kubernetes.io/component": "sidecar"});
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    let template = &deployment["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["b"], "2");
    assert_eq!(template["metadata"]["annotations"]["a"], "1");
    let pod = &template["spec"];
    assert_eq!(pod["serviceAccountName"], "given");
    assert_eq!(pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"], labels);
    assert_eq!(
        [
            &pod["nodeSelector"],
            &pod["tolerations"],
            &pod["affinity"],
            &pod["priorityClassName"],
            &pod["imagePullSecrets"]
        ],
        [
            &values["nodeSelector"],
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
            "--admin-address=0.0.0.0:8080",
            "--leader-election=false",
            "--lease-name=mine-sidecar",
            "--max-writes=4"
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
        ("PPS_LOG_FORMAT", "text"),
        ("PPS_NODE_GRACE_PERIOD", "90s"),
    ];
    assert_eq!(env, BTreeMap::from(expected));

    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    // Without leader election there is no Role, and with a given account no ServiceAccount.
    assert!(!kinds.contains(&"Role") && !kinds.contains(&"ServiceAccount"), "{kinds:?}");
    let custom = find(&objects, "ClusterRole", "mine-sidecar-custom-kinds-listed");
    assert_eq!(
        custom["rules"],
        json!([{"apiGroups": ["example.io"], "resources": ["databases"], "verbs": ["list", "watch"]}])
    );
    let aggregates = find(&objects, "ClusterRole", "mine-sidecar-custom-kinds");
    let label = &aggregates["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
    let (key, value) = label.as_object().unwrap().iter().next().unwrap();
    assert_eq!(&custom["metadata"]["labels"][key], value);
    let account = json!([{"kind": "ServiceAccount", "name": "given", "namespace": "elsewhere"}]);
    assert_eq!(find(&objects, "ClusterRoleBinding", "mine-sidecar")["subjects"], account);
    let server = json!([{"kind": "ServiceAccount", "name": "them", "namespace": "there"}]);
    assert_eq!(find(&objects, "ClusterRoleBinding", "mine-policy-reserved")["subjects"], server);

    let budget = &find(&objects, "PodDisruptionBudget", "mine-sidecar")["spec"];
    assert_eq!((&budget["minAvailable"], budget.get("maxUnavailable")), (&json!("50%"), None));
    let network = &find(&objects, "NetworkPolicy", "mine-sidecar")["spec"];
    assert_eq!(network["ingress"], json!([]));
    assert_eq!(network["egress"][0], json!({"ports": [{"port": 7443, "protocol": "TCP"}]}));
    assert_eq!(network["egress"][2], json!({}));
    let service = find(&objects, "Service", "mine-sidecar");
    assert_eq!(
        (&service["spec"]["ports"][0]["port"], &service["metadata"]["annotations"]["c"]),
        (&json!(80), &json!("3"))
    );
    let definition = find(&objects, "CustomResourceDefinition", "persistentpodstates.apps.kruise.io");
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
            &json!(3),
            &json!("reserved"),
            &values["policy"]["settings"]
        ],
    );
    assert_eq!(
        policy["namespaceSelector"]["matchExpressions"],
        json!([
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "elsewhere"]},
            {"key": "persistent-pod-state/injection", "operator": "NotIn", "values": ["disabled"]},
            {"key": "env", "operator": "Exists"},
        ])
    );
    let validation = &find(&objects, "ClusterAdmissionPolicy", "states-validation")["spec"];
    for field in ["module", "mode", "policyServer", "settings", "timeoutEvalSeconds"] {
        assert_eq!(validation[field], policy[field], "{field}");
    }
    assert_eq!(validation["failurePolicy"], "Fail");
}

#[test]
fn scope_and_limits_of_the_policy_are_values() {
    let policies = |name: &str, values: Value| {
        let objects = render_with(name, &json!({"policy": values})).unwrap();
        ["persistent-pod-state", "persistent-pod-state-validation"]
            .map(|name| find(&objects, "ClusterAdmissionPolicy", name)["spec"].clone())
    };
    let condition = json!({"name": "pod-is-no-test", "expression": "object.metadata.namespace != 'test'"});
    let [pods, objects] = policies(
        "scope",
        json!({"scope": "OptIn", "excludedNamespaces": [], "extraMatchConditions": [condition],
            "timeoutEvalSeconds": 5, "validation": {"failurePolicy": "Ignore"}}),
    );
    assert_eq!(
        pods["namespaceSelector"]["matchExpressions"],
        json!([
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["elsewhere"]},
            {"key": "persistent-pod-state/injection", "operator": "In", "values": ["enabled"]},
        ])
    );
    assert_eq!(pods["matchConditions"].as_array().unwrap().last(), Some(&condition));
    let fields = ["failurePolicy", "timeoutSeconds", "timeoutEvalSeconds"];
    assert_eq!(fields.map(|field| &pods[field]), [&json!("Fail"), &json!(10), &json!(5)]);
    assert_eq!(fields.map(|field| &objects[field]), [&json!("Ignore"), &json!(10), &json!(5)]);
    assert_eq!((objects.get("namespaceSelector"), objects.get("objectSelector")), (None, None));
    // Kubewarden refuses less than 2 seconds, and more than the API server waits.
    for (timeout, limit) in [(2, 2), (3, 2), (4, 2), (30, 28)] {
        let [pods, _] = policies(&format!("timeout-{timeout}"), json!({"timeoutSeconds": timeout}));
        assert_eq!(pods["timeoutEvalSeconds"], limit, "{timeout}");
    }
}

#[test]
fn helm_lint_finds_nothing() {
    let chart = repository_file(CHART);
    for values in files_below(&chart.join("ci")).unwrap() {
        let (chart, values) = (chart.to_str().unwrap(), values.to_str().unwrap());
        let report = helm(&["lint", chart, "--strict", "--values", values]).unwrap();
        assert!(!report.contains("[WARNING]") && report.contains("0 chart(s) failed"), "{report}");
    }
}

/// The chart for an API server of that version: without `kubeVersion` if Helm would refuse to install it.
fn chart_for(version: Version) -> Scratch {
    let chart = repository_file(CHART);
    let copy = Scratch::path_for("chart");
    for file in files_below(&chart).unwrap() {
        let target = copy.path().join(file.strip_prefix(&chart).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
    if version < Version::minor(21) {
        let file = copy.path().join("Chart.yaml");
        let description = fs::read_to_string(&file).unwrap();
        let lines = description.lines().filter(|line| !line.starts_with("kubeVersion:"));
        fs::write(file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    }
    copy
}

#[tokio::test]
async fn chart_can_be_installed_upgraded_removed_and_installed_again() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    install_definitions(&cluster.client(), cluster.control_plane.version()).await.unwrap();
    let version = cluster.control_plane.version();
    let chart = chart_for(version);
    let budget = version >= Version::minor(21);
    let helm = |command: &str, values: Value| {
        let mut values = values;
        values["podDisruptionBudget"] = json!({"enabled": budget});
        let values = values_file(command, &values);
        let (chart, path) = (chart.argument(), values.argument());
        let names = repository_file(KUBEWARDEN).display().to_string();
        let kubeconfig = cluster.control_plane.kubeconfig_for("admin").unwrap();
        let mut arguments =
            vec![command, "states", "--namespace", NAMESPACE, "--kubeconfig", kubeconfig.to_str().unwrap()];
        if command != "uninstall" {
            arguments.extend([chart.as_str(), "--values", &names, "--values", &path]);
        }
        if command == "install" {
            arguments.push("--create-namespace");
        }
        helm(&arguments).unwrap()
    };
    let said = helm("install", json!({}));
    for words in ["is installed in the namespace", "kubectl get pps", "pod-security"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let replicas = async || {
        let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
        deployments.get_opt("pps-sidecar").await.unwrap().map(|one| one.spec.unwrap().replicas.unwrap())
    };
    assert_eq!(replicas().await, Some(2));
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "web"}, "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}});
    cluster.apply_objects(&[object]).await.unwrap();

    let said = helm(
        "upgrade",
        json!({"replicaCount": 3, "policy": {"enabled": false, "failurePolicy": "Ignore"}, "rbac": {"create": false}}),
    );
    for words in ["policy.enabled=false", "policy.failurePolicy=Ignore", "rbac.create=false"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(replicas().await, Some(3));

    // The recorded states outlive the release, and the next release keeps them.
    helm("uninstall", json!({}));
    assert_eq!(replicas().await, None);
    let kept = async || cluster.control_plane.kubectl(&["get", "pps", "web", "--output=name"]).await.unwrap();
    assert!(kept().await.contains("web"));
    helm("install", json!({}));
    assert_eq!(replicas().await, Some(2));
    assert!(kept().await.contains("web"));

    // With crds.keep=false the CRD is deleted.
    let said = helm("upgrade", json!({"crds": {"keep": false}}));
    assert!(said.contains("crds.keep=false"), "{said}");
    helm("uninstall", json!({}));
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    wait_for("the CRD to be deleted", Duration::from_secs(20), async || {
        let definition = definitions.get_opt("persistentpodstates.apps.kruise.io").await?;
        Ok(Progress::when(definition.is_none(), (), "it still exists"))
    })
    .await
    .unwrap();
}
