//! Scenarios as the page gives them, and results as it gets them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeSet;

use pps_playground::run_text;
use proptest::prelude::*;
use serde_json::{Value, json};

const OBJECTS: &str = "\
# The nodes
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1, topology.kubernetes.io/zone: a}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {kubernetes.io/hostname: node-2, topology.kubernetes.io/zone: b}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: postgres}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
";

fn run(scenario: &Value) -> Value {
    serde_json::from_str(&run_text(&scenario.to_string())).unwrap()
}

fn returning() -> Value {
    run(&json!({"version": 1, "objects": OBJECTS, "actions": [
        {"do": "rollOut"}, {"do": "scale", "workload": "db", "replicas": 3}, {"do": "deletePod", "pod": "db-0"},
    ]}))
}

#[test]
fn a_pod_that_returns_is_shown_with_what_was_injected() {
    let result = returning();
    assert_eq!(result["problems"], json!([]));
    assert_eq!(result["steps"].as_array().unwrap().len(), 4);
    assert_eq!(
        result["steps"][2]["action"],
        json!({"do": "scale", "workload": "db", "replicas": 3})
    );
    let world = &result["steps"][3]["world"];
    let pod = &world["pods"][0];
    assert_eq!(
        (&pod["name"], &pod["injected"], &pod["cameHome"]),
        (&json!("db-0"), &json!(true), &json!(true))
    );
    let added: Vec<&Value> = pod["manifest"]["diff"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["op"] == "+")
        .collect();
    assert!(
        added.contains(&&json!({"op": "+", "text": "  affinity:"})),
        "{added:?}"
    );
    assert!(
        pod["manifest"]["before"]
            .as_str()
            .unwrap()
            .starts_with("apiVersion: v1\nkind: Pod\nmetadata:\n  name: db-0\n")
    );
    let yaml = world["pps"][0]["yaml"].as_str().unwrap();
    assert!(
        yaml.starts_with("apiVersion: apps.kruise.io/v1alpha1\nkind: PersistentPodState\n"),
        "{yaml}"
    );
}

#[test]
fn what_the_page_judges_by_has_a_field_of_its_own() {
    let cordoned = "metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1, \
                    topology.kubernetes.io/zone: a}}
spec:
  unschedulable: true
  taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}, {key: slow, effect: \
                    PreferNoSchedule}]
";
    let with_data = "image: postgres}]\n      volumes: [{name: a, hostPath: {type: Directory, \
                     path: /data}}, {name: b, emptyDir: {}}]";
    let line = OBJECTS
        .lines()
        .find(|line| line.contains("node-1"))
        .unwrap();
    let objects = OBJECTS
        .replace(&format!("{line}\n"), cordoned)
        .replace("image: postgres}]", with_data);
    let recording = |annotation: &str| {
        let objects = format!("{objects}  persistentPodAnnotations: [{{key: {annotation}}}]\n");
        run(&json!({"version": 1, "objects": objects, "actions": [{"do": "rollOut"}]}))
    };
    let result = recording("ovn.kubernetes.io/ip_address");
    let world = &result["steps"][1]["world"];
    assert_eq!(
        world["nodes"][0]["taints"],
        json!(["slow:PreferNoSchedule"]),
        "{result:.2000}"
    );
    assert_eq!(world["pods"][0]["manifest"]["hostPaths"], json!(["/data"]));
    assert_eq!(world["pps"][0]["recordsAddresses"], json!(true));
    assert_eq!(
        recording("example.io/ip")["steps"][1]["world"]["pps"][0]["recordsAddresses"],
        json!(false)
    );
}

/// The first problem's place and message.
fn problem(scenario: &Value) -> (Value, Value, Value, String) {
    let result = run(scenario);
    let problem = result["problems"]
        .get(0)
        .unwrap_or_else(|| panic!("no problem: {result}"));
    let message = problem["message"].as_str().unwrap().to_owned();
    (
        problem["source"].clone(),
        problem["line"].clone(),
        problem["column"].clone(),
        message,
    )
}

#[test]
fn a_problem_is_where_its_field_is() {
    let with = |from: &str, to: &str| json!({"version": 1, "objects": OBJECTS.replacen(from, to, 1), "actions": [{"do": "rollOut"}]});
    let (source, line, column, message) = problem(&with(
        "nodeTopologyKeys: [topology.kubernetes.io/zone]",
        "nodeTopologyKeys: [a, \"b c\"]",
    ));
    assert_eq!(
        (source, line, column),
        (json!("objects"), json!(27), json!(27)),
        "{message}"
    );
    assert!(message.contains("b c"), "{message}");

    let (source, line, column, message) = problem(&with("replicas: 2", "replicas: 251"));
    assert_eq!(
        (source, line, column),
        (json!("objects"), json!(14), json!(3)),
        "{message}"
    );
    assert!(message.contains("at most 250"), "{message}");

    let settings =
        json!({"version": 1, "settings": "# none\nannotations:\n  allow:\n  - a\n  - b*c\n"});
    let (source, line, column, message) = problem(&settings);
    assert_eq!(
        (source, line, column),
        (json!("settings"), json!(5), json!(5)),
        "{message}"
    );

    let action = json!({"version": 1, "actions": [{"do": "rollOut"}, {"do": "addNode", "yaml": "kind: Node\nkind: Node\n"}]});
    let (source, line, column, message) = problem(&action);
    assert_eq!(
        (source, line, column),
        (json!("action"), json!(2), json!(1)),
        "{message}"
    );
    assert_eq!(
        run(&action)["problems"][0]["action"],
        json!(1),
        "the syntax of its text"
    );
    let action = json!({"version": 1, "actions": [{"do": "addNode", "yaml": "apiVersion: v1\nkind: Node\nmetadata: {}\n"}]});
    assert_eq!(run(&action)["problems"][0]["action"], json!(0));
}

#[test]
fn what_is_no_scenario_is_a_problem_and_no_panic() {
    let texts = [
        "",
        "[]",
        "{}",
        "null",
        "{\"version\": 2}",
        "{\"version\": 1, \"objects\": 7}",
        "{\"version\": 1, \"more\": 7}",
        "{\"version\": 1, \"actions\": {}}",
        "{\"version\": 1, \"actions\": [7]}",
        "{\"version\": 1, \"actions\": [{\"do\": \"fly\"}]}",
        "{\"version\": 1, \"actions\": [{\"do\": \"addNode\", \"yaml\": 7}]}",
        "{\"version\": 1, \"actions\": [{\"do\": \"addNode\", \"yaml\": \"\"}]}",
        "{\"version\": 1, \"actions\": [{\"do\": \"scale\", \"workload\": \"db\", \"replicas\": \
         1e99}]}",
        "{\"version\": 1, \"objects\": \"- 1\\n- 2\\n\"}",
        "{\"version\": 1, \"objects\": \"text\"}",
        "{\"version\": 1, \"settings\": \"a\\n---\\nb\"}",
    ];
    let deep = "[".repeat(100_000);
    let long = format!(
        "{{\"version\": 1, \"objects\": {}}}",
        json!("x: ".repeat(400_000))
    );
    for text in texts.into_iter().chain([deep.as_str(), long.as_str()]) {
        let result: Value = serde_json::from_str(&run_text(text)).unwrap();
        let problem = &result["problems"][0];
        assert_eq!(problem["severity"], "error", "{text:.100}: {result:.300}");
        assert!(
            !problem["message"].as_str().unwrap().is_empty(),
            "{text:.100}"
        );
    }
}

/// The names of an interface's fields, in `types.d.ts`.
fn interface(name: &str) -> BTreeSet<String> {
    let types = include_str!("../src/types.d.ts");
    let body = types
        .split(&format!("export interface {name} {{\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no interface {name}"));
    let lines = body.split("\n}").next().unwrap().lines().map(str::trim);
    let fields = lines
        .filter(|line| !line.starts_with('/'))
        .filter_map(|line| line.split_once(':'));
    fields.map(|(field, _)| field.to_owned()).collect()
}

/// A field that ends in `?` may be missing.
fn assert_is(name: &str, value: &Value) {
    let fields = value.as_object().unwrap();
    let mut known = interface(name);
    known.retain(|field| !field.ends_with('?') || fields.contains_key(field.trim_end_matches('?')));
    let known: BTreeSet<String> = known
        .iter()
        .map(|field| field.trim_end_matches('?').to_owned())
        .collect();
    assert_eq!(
        fields.keys().cloned().collect::<BTreeSet<_>>(),
        known,
        "{name}"
    );
}

#[test]
fn results_have_the_fields_that_typescript_is_told() {
    let result = returning();
    assert_is("RunResult", &result);
    let step = &result["steps"][3];
    assert_is("Step", step);
    assert_is("ClusterEvent", &step["events"][0]);
    let world = &step["world"];
    assert_is("World", world);
    assert_is("ClusterNode", &world["nodes"][0]);
    assert_is("Workload", &world["workloads"][0]);
    assert_is("Pod", &world["pods"][0]);
    assert_is("NodeVerdict", &world["pods"][0]["scheduler"][0]);
    assert_is("DiffLine", &world["pods"][0]["manifest"]["diff"][0]);
    assert_is("PersistentPodState", &world["pps"][0]);
    assert_is("Problem", &run(&json!({}))["problems"][0]);
    let located = run(
        &json!({"version": 1, "objects": OBJECTS.replace("[topology.kubernetes.io/zone]", "[\"b c\"]")}),
    );
    assert_is("Problem", &located["problems"][0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_objects_are_a_problem_or_are_simulated(at in 0..OBJECTS.len(), length in 0_usize..30, text in "[a-z0-9:{}\\[\\]\" \n&*-]{0,10}") {
        let mut objects = OBJECTS.to_owned();
        objects.replace_range(at..(at + length).min(objects.len()), &text);
        let actions = json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}, {"do": "endGracePeriod"}]);
        let result = run(&json!({"version": 1, "objects": objects, "actions": actions}));
        let steps = result["steps"].as_array().unwrap().len();
        prop_assert!(steps == 4 || !result["problems"].as_array().unwrap().is_empty(), "{}", result);
        for problem in result["problems"].as_array().unwrap() {
            let line = problem["line"].as_u64().unwrap_or(1);
            prop_assert!((1..=objects.lines().count() as u64 + 1).contains(&line), "{}", problem);
        }
    }
}
