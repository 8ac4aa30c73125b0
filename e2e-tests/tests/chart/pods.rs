//! What operators set of Pods, and of what reads their metrics.

use serde_json::{Value, json};

use super::{defaults, find, render_with, values::pods};

/// Helm waits for a Job, and so does Flux: a check that cannot run would stop an installation.
#[test]
fn nothing_waits_for_the_check_that_is_on_by_default() {
    let checks: Vec<&Value> = defaults()
        .iter()
        .filter(|object| object["metadata"]["labels"]["app.kubernetes.io/component"] == "check")
        .collect();
    let waited = |object: &&&Value| ["Job", "Pod"].contains(&object["kind"].as_str().unwrap());
    for object in checks.iter().filter(waited) {
        let hook = &object["metadata"]["annotations"]["helm.sh/hook"];
        assert_eq!(hook, "test", "{object}");
    }
    let scheduled = find(defaults(), "CronJob", "pps-check-scheduled");
    let pod = &scheduled["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    // What could not be read is not what is wrong.
    let args = pod["containers"][0]["args"].as_array().unwrap();
    for arg in ["--phase=after", "--exit-zero=unknown"] {
        assert!(args.contains(&json!(arg)), "{arg}: {args:?}");
    }
    // Its account may read what `helm test` may.
    let rules = |name: &str| &find(defaults(), "ClusterRole", name)["rules"];
    assert_eq!(rules("pps-check-scheduled"), rules("pps-check-after"));
    let bound = find(defaults(), "ClusterRoleBinding", "pps-check-scheduled");
    assert_eq!(bound["subjects"][0]["name"], pod["serviceAccountName"]);

    for off in [
        json!({"check": {"enabled": false}}),
        json!({"rbac": {"create": false}}),
    ] {
        let text = json!(render_with("unchecked", &off).unwrap()).to_string();
        assert!(!text.contains("check-scheduled"), "{off}");
    }
}

#[test]
fn secrets_for_all_images_reach_every_pod_and_the_module() {
    let values = json!({"global": {"imagePullSecrets": ["all", {"name": "more"}]}, "imagePullSecrets": [{"name": "own"}, {"name": "all"}],
        "check": {"beforeChanges": true}, "policyServer": {"serviceAccount": {"imagePullSecrets": [{"name": "theirs"}]}}});
    let objects = render_with("secrets", &values).unwrap();
    let [own, all, more, theirs] =
        ["own", "all", "more", "theirs"].map(|name| json!({"name": name}));
    let mut count = 0;
    for object in objects
        .iter()
        .filter(|object| object["kind"] != "PolicyServer")
    {
        let Some((_, template)) = pods(object) else {
            continue;
        };
        assert_eq!(
            template["spec"]["imagePullSecrets"],
            json!([own, all, more])
        );
        count += 1;
    }
    assert_eq!(count, 4, "the sidecar and three checks");
    let account = find(
        &objects,
        "ServiceAccount",
        "policy-server-persistent-pod-state",
    );
    assert_eq!(account["imagePullSecrets"], json!([theirs, all, more]));
    let module = |objects: &[Value]| {
        find(objects, "PolicyServer", "persistent-pod-state")["spec"]["imagePullSecret"].clone()
    };
    assert_eq!(module(&objects), "all");
    assert_eq!(module(defaults()), Value::Null);
    let own = json!({"global": {"imagePullSecrets": ["all"]}, "policyServer": {"imagePullSecret": "own"}});
    assert_eq!(module(&render_with("secret", &own).unwrap()), "own");
}

#[test]
fn a_monitor_is_what_prometheus_is_to_read() {
    let monitor = json!({"enabled": true, "interval": "15s", "scrapeTimeout": "5s", "labels": {"release": "p"}, "annotations": {"a": "b"},
        "relabelings": [{"targetLabel": "node"}], "metricRelabelings": [{"action": "drop"}]});
    for (value, kind, endpoints, port) in [
        ("serviceMonitor", "ServiceMonitor", "endpoints", "metrics"),
        ("podMonitor", "PodMonitor", "podMetricsEndpoints", "admin"),
    ] {
        let values = json!({"metrics": {value: monitor}, "networkPolicy": {"ingressFrom": [{"podSelector": {}}]}});
        let objects = render_with("monitor", &values).unwrap();
        let object = find(&objects, kind, "pps-sidecar");
        assert_eq!(object["metadata"]["labels"]["release"], "p");
        assert_eq!(object["metadata"]["annotations"]["a"], "b");
        assert_eq!(
            object["spec"][endpoints],
            json!([{"port": port, "path": "/metrics", "interval": "15s", "scrapeTimeout": "5s",
                "relabelings": monitor["relabelings"], "metricRelabelings": monitor["metricRelabelings"]}])
        );
        let selector = &object["spec"]["selector"]["matchLabels"];
        assert_eq!(selector["app.kubernetes.io/component"], "sidecar");
    }
}

/// A `PolicyServer` has neither a node selector nor spread constraints.
#[test]
fn a_policy_server_runs_on_the_nodes_that_are_selected() {
    let affinity = |values: Value| {
        let objects = render_with("nodes", &json!({"policyServer": values})).unwrap();
        find(&objects, "PolicyServer", "persistent-pod-state")["spec"]["affinity"].clone()
    };
    let own = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}});
    let selected = affinity(json!({"nodeSelector": {"disk": "fast"}, "affinity": own}));
    assert_eq!(selected["podAntiAffinity"], own["podAntiAffinity"]);
    let required = &selected["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        required["nodeSelectorTerms"],
        json!([{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}])
    );
    let nodes = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}});
    assert_eq!(affinity(json!({"affinity": nodes})), nodes);
}

/// The fields that other charts have, too, under the same names.
#[test]
fn what_a_pod_needs_of_its_surroundings_is_a_value() {
    let values = json!({
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["api.example"]}],
        "volumes": [{"name": "authority", "configMap": {"name": "authority"}}],
        "volumeMounts": [{"name": "authority", "mountPath": "/etc/authority"}],
        "livenessProbe": {"failureThreshold": 5, "timeoutSeconds": null}, "readinessProbe": {"periodSeconds": 7},
        "tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "fast"},
        "podDisruptionBudget": {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "check": {"schedule": "@hourly", "priorityClassName": "low", "affinity": {"podAffinity": {}},
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example"}]},
    });
    let objects = render_with("surroundings", &values).unwrap();
    let pod = |kind: &str, name: &str| pods(find(&objects, kind, name)).unwrap().1["spec"].clone();
    let sidecar = pod("Deployment", "pps-sidecar");
    assert_eq!(sidecar["volumes"], values["volumes"]);
    let container = &sidecar["containers"][0];
    assert_eq!(container["volumeMounts"], values["volumeMounts"]);
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"path": "/healthz", "port": "admin"}, "periodSeconds": 10, "failureThreshold": 5})
    );
    assert_eq!(
        container["readinessProbe"],
        json!({"httpGet": {"path": "/readyz", "port": "admin"}, "periodSeconds": 7})
    );
    let budget = find(&objects, "PodDisruptionBudget", "pps-sidecar");
    assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");

    let scheduled = pod("CronJob", "pps-check-scheduled");
    let check = &values["check"];
    assert_eq!(scheduled["priorityClassName"], "low");
    assert_eq!(scheduled["affinity"], check["affinity"]);
    assert_eq!(scheduled["containers"][0]["env"], check["extraEnv"]);
    for field in ["hostAliases", "tolerations"] {
        assert_eq!(sidecar[field], values[field]);
        assert_eq!(scheduled[field], values[field]);
    }
    assert_eq!(scheduled["nodeSelector"], sidecar["nodeSelector"]);
    let elsewhere =
        json!({"check": {"nodeSelector": {"node": "small"}, "tolerations": [{"key": "small"}]}});
    let objects = render_with("elsewhere", &elsewhere).unwrap();
    let scheduled = &pods(find(&objects, "CronJob", "pps-check-scheduled"))
        .unwrap()
        .1["spec"];
    assert_eq!(scheduled["nodeSelector"]["node"], "small");
    assert_eq!(scheduled["tolerations"], elsewhere["check"]["tolerations"]);
}
