//! The alert rules and the dashboard: promtool tests the rules, and what they name is what real
//! parts report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output},
};

use pps_e2e::{
    cluster::Cluster,
    manifests::{self, render::render_chart},
    metrics::{self, Sample},
    programs::Group,
    repository::repository_file,
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::{
    behaviour::openkruise,
    support::{HOSTNAME, Pool, TIMEOUT},
};

const FOLDER: &str = "deploy/components/monitoring";

/// Metrics of programs that do not run here, with the page that documents them.
const FOREIGN: [(&str, &[&str]); 1] = [
    // https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/deployment-metrics.md
    (
        "kube_deployment_status_replicas_available",
        &["namespace", "deployment"],
    ),
];
const FAIL_OPEN: &str = "apiserver_admission_webhook_fail_open_count";

fn rules() -> Value {
    manifests::read(&repository_file(&format!("{FOLDER}/prometheus-rule.yaml")))
        .unwrap()
        .remove(0)["spec"]
        .take()
}

fn alerts(rules: &Value) -> Vec<&Value> {
    let groups = rules["groups"].as_array().unwrap().iter();
    groups
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect()
}

fn name_of(alert: &Value) -> &str {
    alert["alert"].as_str().unwrap()
}

/// Each file of tests.
fn test_files() -> Vec<(String, Value)> {
    let folder = repository_file("testdata/alerts");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, manifests::read(&path).unwrap().remove(0))
        })
        .collect();
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    files
}

/// Runs `promtool` in a folder.
fn promtool(folder: &Path, arguments: &[&str]) -> Output {
    let program = Group::System.program("promtool").unwrap();
    Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs tests against rules. Returns whether all pass, and what promtool prints.
fn run(rules: &Value, tests: &[(String, Value)]) -> (bool, String) {
    let folder = Scratch::folder("alerts").unwrap();
    // JSON is valid YAML.
    fs::write(folder.path().join("rules.yaml"), rules.to_string()).unwrap();
    let mut arguments = vec!["test", "rules"];
    for (name, tests) in tests {
        fs::write(folder.path().join(name), tests.to_string()).unwrap();
        arguments.push(name);
    }
    let check = promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    assert!(check.status.success(), "{check:?}");
    let output = promtool(folder.path(), &arguments);
    (
        output.status.success(),
        format!("{output:?}").replace("\\n", "\n"),
    )
}

#[test]
fn alert_rules_pass_their_tests() {
    let (passed, output) = run(&rules(), &test_files());
    assert!(passed, "{output}");
}

/// The longest time between two tries of a controller.
const LONGEST_WAIT: f64 = 1000.0;

/// What a counter of refusals shows at each scrape for three hours, if a Pod is refused from the
/// beginning of the second hour to its end: the controller tries again after 5 ms, and waits twice
/// as long after each refusal.
fn refusals(scrape_seconds: u32) -> String {
    let (mut tries, mut wait, mut at) = (Vec::new(), 0.005, 3600.0);
    while at < 2.0 * 3600.0 {
        tries.push(at);
        at += wait;
        wait = f64::min(2.0 * wait, LONGEST_WAIT);
    }
    let scrapes = (0..3 * 3600 / scrape_seconds).map(|scrape| f64::from(scrape * scrape_seconds));
    let counts = scrapes.map(|time| tries.iter().filter(|&&at| at <= time).count().to_string());
    counts.collect::<Vec<_>>().join(" ")
}

/// Between two tries nothing is refused. An alert that ends then is taken for the end of the fault.
#[test]
fn alerts_of_refused_pods_last_while_their_controller_waits() {
    let metric = "apiserver_admission_webhook_rejection_count";
    let webhook = unserved("");
    for (alert, error_type) in [
        ("PersistentPodStatePodsRefused", "no_error"),
        (
            "PersistentPodStatePolicyUnreachable",
            "calling_webhook_error",
        ),
    ] {
        let mut rules = rules();
        for group in rules["groups"].as_array_mut().unwrap() {
            group["rules"]
                .as_array_mut()
                .unwrap()
                .retain(|rule| rule["alert"] == alert);
        }
        let firing = format!("count(ALERTS{{alertstate=\"firing\",alertname=\"{alert}\"}})");
        let at = |minute: u32, fires: bool| {
            let samples = if fires {
                json!([{"labels": "{}", "value": 1}])
            } else {
                json!([])
            };
            json!({"expr": firing, "eval_time": format!("{minute}m"), "exp_samples": samples})
        };
        let silent = (0..60).chain(145..180).map(|minute| at(minute, false));
        let queries: Vec<_> = silent
            .chain((70..120).map(|minute| at(minute, true)))
            .collect();
        let tests = [15, 30, 60].map(|scrape_seconds| {
            json!({
                "name": format!("{alert}, scraped every {scrape_seconds} s"),
                "interval": format!("{scrape_seconds}s"),
                "input_series": [{
                    "series": format!("{metric}{{name=\"{webhook}\",error_type=\"{error_type}\"}}"),
                    "values": refusals(scrape_seconds),
                }],
                "promql_expr_test": queries,
            })
        });
        let file =
            json!({"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests});
        let (passed, output) = run(&rules, &[("backoff.yaml".to_owned(), file)]);
        assert!(passed, "{output}");
    }
}

/// The example of docs/reference/alerts.md.
#[test]
fn values_of_the_chart_change_the_alerts() {
    let documented = fs::read_to_string(repository_file("docs/reference/alerts.md")).unwrap();
    let example = documented
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mut values = manifests::parse(example).unwrap().remove(0);
    values["policyServer"] = json!({"create": true, "name": "stateful"});
    values["nameOverride"] = "pins".into();
    let render = |values: &Value| {
        let file = Scratch::file("alerts.yaml", values.to_string()).unwrap();
        render_chart("pps", "elsewhere", Some(file.path()))
    };
    let objects = render(&values).unwrap();
    let object = objects
        .iter()
        .find(|object| object["kind"] == "PrometheusRule")
        .unwrap();
    assert_eq!(object["metadata"]["labels"]["release"], "prometheus");
    let spec = &object["spec"];
    let changed: BTreeMap<&str, &Value> = alerts(spec)
        .into_iter()
        .map(|alert| (name_of(alert), alert))
        .collect();
    let rules = rules();
    assert_eq!(changed.len() + 1, alerts(&rules).len());
    assert!(!changed.contains_key("PersistentPodStateMissingStates"));
    for (name, alert) in &changed {
        assert_eq!(alert["labels"]["team"], "storage");
        assert_eq!(
            alert["annotations"]["dashboard"],
            "https://grafana.example.com/d/persistent-pod-state"
        );
        let runbook = format!("https://wiki.example.com/pps#{}", name.to_lowercase());
        assert_eq!(alert["annotations"]["runbook_url"], runbook);
    }
    let pending = changed["PersistentPodStatePodsPending"];
    assert!(
        pending["expr"].as_str().unwrap().ends_with("> 3600"),
        "{pending}"
    );
    assert_eq!(pending["labels"]["severity"], "critical");
    assert_eq!(changed["PersistentPodStateNotReady"]["for"], "15m");
    assert!(
        changed["PersistentPodStatePodsRefused"]["expr"]
            .as_str()
            .unwrap()
            .contains("clusterwide-pins(")
    );
    let next = changed["PersistentPodStateNotReady"]["annotations"]["description"]
        .as_str()
        .unwrap();
    assert!(
        next.ends_with("Run kubectl pps check -n elsewhere."),
        "{next}"
    );
    let down = changed["PersistentPodStatePolicyServerDown"]["expr"]
        .as_str()
        .unwrap();
    assert!(down.contains("\"policy-server-stateful\""), "{down}");

    // Without policies there is no PolicyServer to name.
    values["policy"] = json!({"enabled": false});
    values["policyServer"] = json!({"create": false});
    render(&values).unwrap();

    for (wrong, named) in [
        (json!({"disabled": ["Typo"]}), "\"Typo\""),
        (json!({"overrides": {"Typo": {"threshold": 1}}}), "\"Typo\""),
        (
            json!({"overrides": {"PersistentPodStateNotReady": {"for": "soon"}}}),
            "for",
        ),
        (json!({"runbookUrl": "wiki"}), "runbookUrl"),
    ] {
        let mut values = values.clone();
        for (key, value) in wrong.as_object().unwrap() {
            values["metrics"]["prometheusRule"][key] = value.clone();
        }
        let error = format!("{:#}", render(&values).unwrap_err());
        assert!(error.contains(named), "{wrong}: {error}");
    }
}

/// The metrics of one namespace's sidecar end with it, and those of the others go on.
#[test]
fn a_namespace_whose_sidecar_is_gone_is_named() {
    let values =
        json!({"namespaces": ["shop", "web"], "metrics": {"prometheusRule": {"enabled": true}}});
    let file = Scratch::file("alerts.yaml", values.to_string()).unwrap();
    let objects = render_chart("pps", "pps", Some(file.path())).unwrap();
    let spec = &objects
        .iter()
        .find(|object| object["kind"] == "PrometheusRule")
        .unwrap()["spec"];
    let series = |namespace: &str, values: &str| {
        let series =
            format!("persistentpodstate_ready{{persistent_pod_state_namespace=\"{namespace}\"}}");
        json!({"series": series, "values": values})
    };
    let alert = |at: &str, namespaces: &[&str]| {
        let expected = namespaces.iter().map(|namespace| {
            let labels = format!("{{persistent_pod_state_namespace=\"{namespace}\"}}");
            json!({"labels": labels, "value": 1})
        });
        let expr = "count by (persistent_pod_state_namespace) (ALERTS{alertstate=\"firing\", \
                    alertname=\"PersistentPodStateNotReady\"})";
        json!({"expr": expr, "eval_time": at, "exp_samples": expected.collect::<Vec<_>>()})
    };
    let test = json!({"interval": "1m", "promql_expr_test": [alert("9m", &[]), alert("30m", &["web"])],
        "input_series": [series("shop", "1x60"), series("web", "1x9 stale")]});
    let tests = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]});
    let (passed, output) = run(spec, &[("namespaces.yaml".to_owned(), tests)]);
    assert!(passed, "{output}");
}

/// Each threshold can be changed: the chart replaces the number at the end of the expression.
#[test]
fn each_expression_ends_with_its_threshold() {
    let rules = rules();
    for alert in alerts(&rules) {
        let expression = alert["expr"].as_str().unwrap();
        let mut words = expression.rsplit(' ');
        let (number, comparison) = (words.next().unwrap(), words.next().unwrap());
        assert!(
            number.parse::<f64>().is_ok() && ["<", ">"].contains(&comparison),
            "{expression}"
        );
    }
}

/// All expressions of the rules and of the dashboard.
fn expressions() -> Vec<String> {
    let rules = rules();
    let dashboard =
        fs::read_to_string(repository_file(&format!("{FOLDER}/dashboard.json"))).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let text = |expression: &Value| expression.as_str().unwrap().to_owned();
    let of_rules = alerts(&rules).into_iter().map(|alert| text(&alert["expr"]));
    of_rules
        .chain(targets.map(|target| text(&target["expr"])))
        .collect()
}

/// The text of the API server's `/metrics`.
async fn api_server_metrics(cluster: &Cluster) -> String {
    let request = axum::http::Request::get("/metrics")
        .body(Vec::new())
        .unwrap();
    cluster.client().request_text(request).await.unwrap()
}

/// A test of promtool with these samples, unchanged for two hours, in which no alert fires.
fn quiet(name: &str, samples: &[(String, Sample)]) -> Value {
    let series = samples.iter().map(|(instance, sample)| {
        let labels = sample.labels.iter().map(|(name, value)| format!("{name}=\"{value}\""));
        let labels: Vec<_> = labels.chain([format!("instance=\"{instance}\"")]).collect();
        json!({"series": format!("{}{{{}}}", sample.name, labels.join(",")), "values": format!("{}x120", sample.value)})
    });
    json!({
        "name": name,
        "interval": "1m",
        "input_series": series.collect::<Vec<_>>(),
        "promql_expr_test": [{"expr": "ALERTS", "eval_time": "2h", "exp_samples": []}],
    })
}

/// What two sidecars report, a standby and a leader, or one of them alone.
async fn reported(sidecars: &[&pps_e2e::sidecar::Sidecar]) -> Vec<(String, Sample)> {
    let mut samples = Vec::new();
    for sidecar in sidecars {
        let own = metrics::parse(&sidecar.metrics().await.unwrap());
        samples.extend(
            own.into_iter()
                .map(|sample| (sidecar.admin_address(), sample)),
        );
    }
    samples
}

#[tokio::test]
async fn real_parts_report_what_rules_and_dashboard_name_and_raise_no_alarm() {
    let cluster = Box::pin(Cluster::builder().product().start())
        .await
        .unwrap();
    let pool = Pool::new(&cluster, "watched", 2, 1).await;
    let web = pool.stateful_set("web", 2).persistent(HOSTNAME, "", "");
    cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    pool.recreate("web", &["web-0"]).await;
    let leading = cluster.sidecar().unwrap();
    leading.wait_leading(TIMEOUT).await.unwrap();
    let returned =
        r#"persistentpodstate_bound_pods_total{placement="recorded_node",injected="true"}"#;
    for (metric, expected) in [
        (returned, 1.0),
        (
            r#"persistentpodstate_bound_pods_total{placement="recorded_node",injected="false"}"#,
            0.0,
        ),
        ("persistentpodstate_desired_states", 2.0),
        ("persistentpodstate_missing_states", 0.0),
        ("persistentpodstate_injected_pods", 1.0),
    ] {
        wait_for(&format!("{metric} to be {expected}"), TIMEOUT, async || {
            let value = leading.metric(metric).await?;
            Ok(Progress::when(
                value == Some(expected),
                (),
                format!("{value:?}"),
            ))
        })
        .await
        .unwrap();
    }

    // OpenKruise's manager records, and one replica of the sidecar leaves that to it.
    let mut options = openkruise::non_recording();
    options.name = "idle".to_owned();
    let idle = cluster.run_sidecar(options).unwrap();
    let until_seen = wait_for(
        "the sidecar to see OpenKruise's manager",
        TIMEOUT,
        async || {
            let seen = idle
                .metric("persistentpodstate_conflicting_recorder")
                .await?;
            Ok(Progress::when(seen == Some(1.0), (), format!("{seen:?}")))
        },
    );
    let recording = reported(&[leading]).await;
    tokio::select! {
        () = openkruise::renew(&cluster) => unreachable!(),
        seen = until_seen => seen.unwrap(),
    }
    let idle = reported(&[&idle]).await;
    let leads = |samples: &[(String, Sample)]| {
        samples
            .iter()
            .any(|(_, sample)| sample.name == "persistentpodstate_leader" && sample.value > 0.0)
    };
    assert!(leads(&recording) && !leads(&idle));
    let quiet = [
        quiet("a sidecar that leads", &recording),
        quiet("--recorder openkruise", &idle),
    ];
    let tests = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": quiet});
    let (passed, output) = run(&rules(), &[("quiet.yaml".to_owned(), tests)]);
    assert!(passed, "{output}");

    let text = fail_webhooks(&cluster).await;
    // What the API server lets pass is no refusal.
    let reported = metrics::parse(&text);
    let refusing = reported
        .iter()
        .filter(|sample| sample.name.ends_with("webhook_rejection_count"));
    let refusing: BTreeSet<&str> = refusing
        .map(|sample| sample.labels["name"].as_str())
        .collect();
    assert!(
        !refusing.contains(unserved("-custom-workloads").as_str()),
        "{refusing:?}"
    );
    assert!(refusing.contains(unserved("").as_str()), "{refusing:?}");

    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in metrics::counters(&leading.metrics().await.unwrap()) {
        known.entry(name).or_default();
    }
    let own = recording.into_iter().chain(idle).map(|(_, sample)| sample);
    for sample in own.chain(reported) {
        known
            .entry(sample.name)
            .or_default()
            .extend(sample.labels.into_keys());
    }
    for (name, labels) in FOREIGN {
        assert!(!known.contains_key(name), "{name} is known");
        known.insert(
            name.to_owned(),
            labels.iter().map(|&label| label.to_owned()).collect(),
        );
    }
    let mut used = BTreeSet::new();
    for expression in expressions() {
        for (name, labels) in metrics::selectors(&expression) {
            let of_metric = known
                .get(&name)
                .unwrap_or_else(|| panic!("nothing reports {name}"));
            for label in labels {
                assert!(
                    of_metric.contains(&label),
                    "{name} has no label {label}, only {of_metric:?}"
                );
            }
            used.insert(name);
        }
    }
    for (name, _) in FOREIGN {
        assert!(used.contains(name), "no rule uses {name}: remove it here");
    }
}

/// The webhook of a policy of ours.
fn unserved(suffix: &str) -> String {
    format!("clusterwide-persistent-pod-state{suffix}.kubewarden.admission")
}

/// Registers webhooks under our names that nobody serves, one with each failurePolicy, has the API
/// server call them, and returns its metrics.
async fn fail_webhooks(cluster: &Cluster) -> String {
    let webhook = |name: &str, failure_policy: &str| {
        json!({
            "name": unserved(name),
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "unserved"}},
            "objectSelector": {"matchLabels": {"policy": failure_policy}},
            "failurePolicy": failure_policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "unserved"}});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "unserved"},
        "webhooks": [webhook("", "Fail"), webhook("-custom-workloads", "Ignore")],
    });
    cluster
        .apply_objects(&[namespace, configuration])
        .await
        .unwrap();
    wait_for("the API server to count failed calls", TIMEOUT, async || {
        for policy in ["Fail", "Ignore"] {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
                {"name": policy.to_lowercase(), "namespace": "unserved", "labels": {"policy": policy}}});
            let _ = cluster.apply_objects(&[object]).await;
        }
        let client = cluster.client();
        let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::namespaced(client, "unserved");
        let _ = api.delete("ignore", &kube::api::DeleteParams::default()).await;
        let text = api_server_metrics(cluster).await;
        let expected = ["apiserver_admission_webhook_rejection_count{", FAIL_OPEN];
        let seen = expected.iter().filter(|name| text.contains(&format!("\n{name}"))).count();
        Ok(Progress::when(seen == expected.len(), text, seen))
    })
    .await
    .unwrap()
}
