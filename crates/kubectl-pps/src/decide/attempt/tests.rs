//! What is tried, what is said about it, and which input is refused.

use std::fmt::Write;

use serde_json::{Value, json};

use super::*;

const STATEFUL_SET: &str = "\
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
";

const PPS: &str = "\
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
  persistentPodAnnotations: [{key: example.io/ip}]
status:
  podStates:
    db-0:
      nodeName: node-1
      nodeTopologyLabels: {topology.kubernetes.io/zone: a}
      annotations: {example.io/ip: 10.0.0.1}
";

fn source(name: &str, text: impl Into<String>) -> Source {
    Source { name: name.into(), text: text.into() }
}

fn try_texts(texts: &[&str]) -> Answers {
    let sources: Vec<Source> =
        texts.iter().enumerate().map(|(index, text)| source(&format!("{index}.yaml"), *text)).collect();
    attempt(&sources, None, "default")
}

/// `Pod db-0: injected …`, one for each object.
fn summary(answers: &Answers) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in &answers.attempts {
        let refusal = attempt.refusal.as_ref().map(|refusal| refusal.message.clone());
        let told =
            [attempt.injected.clone(), attempt.unchanged.clone(), refusal].into_iter().flatten().next();
        lines.push(format!("{} {}: {}", attempt.kind, attempt.name, told.unwrap_or_default()));
    }
    lines
}

#[test]
fn pods_of_a_stateful_set_get_what_is_recorded_for_them() {
    let answers = try_texts(&[STATEFUL_SET, PPS]);
    assert_eq!(
        summary(&answers),
        [
            "Pod db-0: required: topology.kubernetes.io/zone; annotations: example.io/ip",
            "Pod db-1: PersistentPodState db has recorded nothing of it",
            "PersistentPodState db: ",
        ]
    );
    assert_eq!(answers.problems, []);
    let pod = &answers.attempts[0];
    assert_eq!((pod.file.as_str(), pod.made_from.as_deref()), ("0.yaml", Some("StatefulSet db")));
    let stored = pod.object.as_ref().unwrap();
    assert_eq!(stored["metadata"]["annotations"]["example.io/ip"], "10.0.0.1");
    assert!(!answers.is_refused());
}

#[test]
fn a_manifest_stands_for_the_workload_that_is_recorded() {
    let mut pps: Value = pps_manifest::yaml::parse_one(PPS).unwrap().value;
    pps["status"]["targetUID"] = json!("uid-of-the-cluster");
    let pps = pps.to_string();
    let attempt = |workload: &str| try_texts(&[workload, &pps]).attempts[0].clone();
    let manifest = attempt(STATEFUL_SET);
    assert!(manifest.injected.is_some() && manifest.warnings.is_empty(), "{manifest:?}");
    let other = attempt(&STATEFUL_SET.replacen("metadata: {", "metadata: {uid: another, ", 1));
    assert!(other.warnings.iter().any(|warning| warning.contains("an earlier StatefulSet db")), "{other:?}");
}

#[test]
fn a_pod_without_a_state_is_told_why() {
    let pod = |owner: Value, node: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "ownerReferences": [owner]},
            "spec": {"containers": [], "nodeName": node}})
        .to_string()
    };
    let owner = |kind: &str, name: &str| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true});
    let why = |pod: &str| try_texts(&[pod, PPS]).attempts[0].unchanged.clone().unwrap();
    assert!(why(&pod(json!({}), Value::Null)).contains("no controller"));
    assert!(why(&pod(owner("ReplicaSet", "db"), Value::Null)).contains("get new names"));
    assert_eq!(
        why(&pod(owner("StatefulSet", "web"), Value::Null)),
        "no PersistentPodState in the files targets StatefulSet web"
    );
    let elsewhere = format!(
        "{}---\n{}",
        PPS.replace("{name: db}\nspec", "{name: db, namespace: shop}\nspec"),
        pod(owner("StatefulSet", "db"), Value::Null)
    );
    let unchanged = try_texts(&[&elsewhere]).attempts[1].unchanged.clone().unwrap();
    assert!(unchanged.contains("one of namespace shop does"), "{unchanged}");

    // As kubectl get pod -o yaml shows it.
    let answers = try_texts(&[&pod(owner("StatefulSet", "db"), json!("node-7")), PPS]);
    assert!(answers.attempts[0].injected.is_some(), "{answers:?}");
    assert!(answers.notes[0].contains("is bound to node node-7"), "{answers:?}");
}

#[test]
fn an_object_of_another_name_is_found_as_by_its_alias() {
    let other = PPS.replacen("{name: db}", "{name: mine}", 1);
    let answers = try_texts(&[STATEFUL_SET, &other]);
    assert_eq!(answers.attempts[0].persistent_pod_state.as_deref(), Some("mine"));
    let two = try_texts(&[STATEFUL_SET, PPS, &other]);
    assert_eq!(two.attempts[0].persistent_pod_state.as_deref(), Some("db"));
    let refusal = two.attempts[3].refusal.as_ref().unwrap();
    assert!(refusal.message.contains("already the target of PersistentPodState db"), "{refusal:?}");
    assert_eq!((two.problems[0].line, two.problems[0].file.as_str()), (5, "2.yaml"));
}

#[test]
fn what_the_policy_refuses_has_its_file_line_and_column() {
    let wrong = PPS.replace("[topology.kubernetes.io/zone]", "[\"b c\"]").replace("spec:", "sepc: {}\nspec:");
    let answers = try_texts(&[&wrong]);
    assert!(answers.is_refused());
    assert_eq!(answers.attempts[0].refusal.as_ref().unwrap().code, 422);
    let places: Vec<(usize, usize, bool)> =
        answers.problems.iter().map(|problem| (problem.line, problem.column, problem.is_error)).collect();
    assert_eq!(places, [(4, 1, false), (7, 51, true)], "{:#?}", answers.problems);
    assert!(answers.problems[1].message.contains("b c"), "{:?}", answers.problems);

    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodStateList", "items": [
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": {"name": "x"},
             "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "requiredPersistentTopology": {"nodeTopologyKeys": ["a"]}}},
        ]},
    ]});
    let text = serde_json::to_string_pretty(&list).unwrap();
    let line = text.lines().position(|line| line.contains("Deployment")).unwrap() + 1;
    assert_eq!(try_texts(&[&text]).problems[0].line, line);
}

#[test]
fn settings_count_and_wrong_ones_end_it() {
    let sources = [source("db.yaml", format!("{STATEFUL_SET}---\n{PPS}"))];
    let with = |settings: &str| attempt(&sources, Some(&source("s.yaml", settings)), "default");
    let denied = with("annotations: {deny: [example.io/*]}");
    assert_eq!(denied.attempts[0].injected.as_deref(), Some("required: topology.kubernetes.io/zone"));
    assert!(denied.attempts[0].warnings[0].contains("example.io/ip"), "{denied:?}");
    assert!(denied.attempts[2].refusal.is_some());
    let wrong = with("annotations:\n  deny: [a*b]\n");
    assert!(wrong.is_unreadable && wrong.attempts.is_empty());
    assert_eq!((wrong.problems[0].file.as_str(), wrong.problems[0].line), ("s.yaml", 2));
}

#[test]
fn annotations_of_a_workload_are_read_as_the_sidecar_reads_them() {
    let annotated = |keys: &str| {
        let annotations = format!(
            "{{name: db, annotations: {{kruise.io/auto-generate-persistent-pod-state: \"true\", kruise.io/required-persistent-topology: {keys}}}}}"
        );
        STATEFUL_SET.replacen("{name: db}", &annotations, 1)
    };
    let answers = try_texts(&[&annotated("zone")]);
    assert!(answers.notes[0].contains("which the sidecar generates"), "{answers:?}");
    let wrong = try_texts(&[&annotated("\"no key\"")]);
    assert!(wrong.is_refused());
    assert!(wrong.problems[0].message.contains("is no label key"), "{wrong:?}");
    assert_eq!(wrong.problems[0].line, 3);
}

#[test]
fn requests_of_the_api_server_are_answered() {
    let request = json!({
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "namespace": "default",
        "object": {"metadata": {"name": "db-0", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true},
        ]}, "spec": {"containers": []}},
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    for text in
        [request.to_string(), review.to_string(), json!({"request": request, "settings": {}}).to_string()]
    {
        let answers = try_texts(&[&text, PPS]);
        assert_eq!(answers.attempts[0].persistent_pod_state.as_deref(), Some("db"), "{text}");
    }
}

#[test]
fn a_huge_workload_is_tried_where_something_is_recorded() {
    let huge = STATEFUL_SET.replace("replicas: 2", "replicas: 9223372036854775807");
    let answers = try_texts(&[&huge, PPS]);
    assert_eq!(summary(&answers).len(), 2, "{:?}", summary(&answers));
    assert!(answers.notes[0].contains("more Pods are not tried"), "{:?}", answers.notes);
    assert_eq!(try_texts(&[&STATEFUL_SET.replace("replicas: 2", "replicas: 0")]).attempts, []);
    let many = try_texts(&[&STATEFUL_SET.replace("replicas: 2", "replicas: 250")]);
    assert_eq!(many.attempts.len(), MAX_PODS);
}

#[test]
fn whatever_is_in_a_file_is_answered() {
    let mut large = String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n");
    for line in 0..40_000 {
        let _ = writeln!(large, "  key-{line}: value-{line}");
    }
    let texts = [
        "",
        "\n---\n---\n",
        "text",
        "7",
        "[]",
        "[1, 2]",
        "null",
        "kind: Pod",
        "kind: {}",
        "{\"kind\": \"Pod\", \"metadata\": 7, \"apiVersion\": \"v1\"}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: 7, namespace: [], ownerReferences: {}}\nspec: 7\n",
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\nspec: 7\n",
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {}\nspec: {template: [], replicas: {}, volumeClaimTemplates: 1}\n",
        "apiVersion: apps.kruise.io/v1alpha1\nkind: PersistentPodState\nmetadata: {}\n",
        "apiVersion: apps.kruise.io/v1alpha1\nkind: PersistentPodState\nmetadata: {name: \"\\e[2J\"}\nspec: []\nstatus: {packed: 7}\n",
        "apiVersion: v1\nkind: List\nitems: {}\n",
        "apiVersion: v1\nkind: List\nitems: [1, null, [], {}]\n",
        "{\"request\": {\"operation\": \"CREATE\", \"kind\": {}}}",
        "apiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: a\r\n",
        "\u{feff}apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
        large.as_str(),
    ];
    for text in texts {
        let answers = try_texts(&[text, PPS]);
        let is_told =
            !answers.attempts.is_empty() || !answers.problems.is_empty() || !answers.notes.is_empty();
        assert!(is_told, "{text:.60}: {answers:?}");
        assert!(!answers.is_unreadable, "{text:.60}: {answers:?}");
    }
    for text in ["{", "a: b: c", "a: *x", &"[".repeat(100_000), &"x".repeat(5 << 20), "a: 1\na: 2\n"] {
        let answers = try_texts(&[text]);
        assert!(answers.is_unreadable && answers.attempts.is_empty(), "{text:.60}");
        assert_eq!(answers.problems[0].file, "0.yaml");
    }
}
