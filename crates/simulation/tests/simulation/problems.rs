//! What is wrong with a scenario is said with the object and the field.

use pps_simulation::{EventKind, Problem, Scenario, Severity, Source, run};
use serde_json::{Value, json};

use crate::worlds::{HOSTNAME, last, node, pps, required, scenario, stateful_set, texts, with};

fn problems(objects: Vec<Value>) -> Vec<Problem> {
    run(&scenario(objects, json!([]))).problems
}

/// The only problem of these objects: its object, severity, field and message.
fn problem(objects: Vec<Value>) -> (Option<usize>, Severity, String, String) {
    let problems = problems(objects);
    let [
        Problem {
            source: Source::Objects { object },
            severity,
            field,
            message,
        },
    ] = problems.as_slice()
    else {
        panic!("{problems:#?}")
    };
    (
        *object,
        *severity,
        field.clone().unwrap_or_default(),
        message.clone(),
    )
}

#[test]
fn what_the_policy_refuses_is_said_field_by_field() {
    let wrong = json!({
        "preferredPersistentTopology": [{"weight": 1000, "preference": {"nodeTopologyKeys": ["no key"]}}],
    });
    let found = problems(vec![stateful_set("db", 1), pps("db", wrong)]);
    let fields: Vec<&str> = found
        .iter()
        .filter_map(|problem| problem.field.as_deref())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.preferredPersistentTopology[0].weight",
            "spec.preferredPersistentTopology[0].preference.nodeTopologyKeys[0]"
        ]
    );
    assert!(
        found
            .iter()
            .all(|problem| problem.source == Source::Objects { object: Some(1) })
    );
    assert!(
        found[0]
            .message
            .contains("is 1000: use a whole number from 1 to 100"),
        "{found:?}"
    );
}

#[test]
fn a_stateful_set_that_the_api_server_would_refuse_is_not_simulated() {
    let cases = [
        ("spec.replicas", json!(-1), "spec.replicas"),
        ("spec.replicas", json!("3"), "spec.replicas"),
        (
            "spec.podManagementPolicy",
            json!("Sequential"),
            "spec.podManagementPolicy",
        ),
        (
            "spec.updateStrategy",
            json!({"type": "Recreate"}),
            "spec.updateStrategy.type",
        ),
        ("spec.template.spec", Value::Null, "spec.template.spec"),
        (
            "spec.template.metadata.labels",
            json!({"app": "other"}),
            "spec.selector.matchLabels.app",
        ),
        (
            "spec.template.metadata.labels.tier",
            json!(1),
            "spec.template.metadata.labels.tier",
        ),
        ("spec.selector", Value::Null, "spec.selector.matchLabels"),
        ("metadata.name", json!("Db"), "metadata.name"),
        ("metadata.labels", json!({"a": 1}), "metadata.labels.a"),
        ("spec", json!([]), "spec"),
    ];
    for (path, value, expected) in cases {
        let (object, severity, field, message) =
            problem(vec![with(stateful_set("db", 1), path, value)]);
        assert_eq!(
            (object, severity, field.as_str()),
            (Some(0), Severity::Error, expected),
            "{message}"
        );
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn other_kinds_are_named_and_ignored() {
    let of = |api_version: &str, kind: &str, spec: Value| {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let (_, severity, field, message) = problem(vec![object]);
        assert_eq!((severity, field.as_str()), (Severity::Warning, "kind"));
        message
    };
    assert!(
        of("apps/v1", "Deployment", json!({"replicas": 1}))
            .contains("its Pods get a new name each time")
    );
    assert!(
        of("example.com/v1", "Database", json!({"replicas": 1}))
            .contains("the simulation has Nodes, Pods, StatefulSets")
    );
    let (_, severity, _, message) = problem(vec![json!("text")]);
    assert_eq!(severity, Severity::Error);
    assert!(message.contains("not a Kubernetes object"), "{message}");
    assert_eq!(problems(vec![Value::Null]), []);
}

#[test]
fn an_object_in_a_list_is_named_with_its_place() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [node("n1", "a"), with(stateful_set("db", 1), "spec.replicas", json!(-1))]});
    let (object, _, field, _) = problem(vec![node("n2", "a"), list]);
    assert_eq!(
        (object, field.as_str()),
        (Some(1), "items[1].spec.replicas")
    );
}

#[test]
fn names_and_namespaces_that_do_not_fit_are_reported() {
    let (_, _, field, message) = problem(vec![node("n1", "a"), node("n1", "b")]);
    assert_eq!(field, "metadata.name");
    assert!(message.contains("another Node of the name n1"), "{message}");
    let in_shop = with(stateful_set("db", 1), "metadata.namespace", json!("shop"));
    let elsewhere = with(
        pps("db", required(HOSTNAME)),
        "metadata.namespace",
        json!("other"),
    );
    let (object, _, field, message) = problem(vec![in_shop.clone(), elsewhere]);
    assert_eq!((object, field.as_str()), (Some(1), "metadata.namespace"));
    assert!(message.contains("use shop"), "{message}");
    let beside = with(
        pps("db", required(HOSTNAME)),
        "metadata.namespace",
        json!("shop"),
    );
    assert_eq!(problems(vec![beside, in_shop]), []);
}

#[test]
fn wrong_settings_are_named_with_their_field() {
    let settings = json!({"onLookupFailure": "maybe", "annotations": {"deny": "a"}});
    let result = run(&Scenario {
        settings,
        ..scenario(Vec::new(), json!([]))
    });
    let fields: Vec<(Source, &str)> = result
        .problems
        .iter()
        .map(|problem| (problem.source, problem.field.as_deref().unwrap()))
        .collect();
    assert_eq!(fields, [(Source::Settings, "annotations.deny")]);
}

#[test]
fn an_action_that_cannot_be_done_changes_nothing() {
    let objects = vec![
        node("n1", "a"),
        stateful_set("db", 1),
        pps("db", required(HOSTNAME)),
    ];
    let cases = [
        (
            json!({"do": "deletePod", "pod": "db-7"}),
            "there is no Pod db-7: use db-0",
        ),
        (
            json!({"do": "cordon", "node": "n7"}),
            "there is no node n7: use n1",
        ),
        (
            json!({"do": "returnNode", "node": "n1"}),
            "there is no lost node n1: no lost nodes exist in this step",
        ),
        (
            json!({"do": "loseZone", "zone": "z"}),
            "no node has the label topology.kubernetes.io/zone=z",
        ),
        (
            json!({"do": "scale", "workload": "x", "replicas": 1}),
            "there is no StatefulSet x: use db",
        ),
        (
            json!({"do": "scale", "workload": "db", "replicas": 501}),
            "all workloads together want 501 Pods",
        ),
        (
            json!({"do": "createWorkload", "workload": "db"}),
            "there is no deleted StatefulSet db: no deleted StatefulSets exist in this step",
        ),
        (
            json!({"do": "labelNode", "node": "n1", "key": "", "value": "x"}),
            "=x is no label",
        ),
        (
            json!({"do": "changeSpec", "object": with(stateful_set("db", 1), "apiVersion", json!("apps.kruise.io/v1beta1"))}),
            "apiVersion of StatefulSet/db is apps/v1",
        ),
        (
            json!({"do": "changeSpec", "object": with(pps("db", required("no key")), "metadata.labels", json!({}))}),
            "spec.requiredPersistentTopology",
        ),
        (
            json!({"do": "changeSpec", "object": with(pps("db", required(HOSTNAME)), "spec.targetRef.name", json!("x"))}),
            "spec.targetRef.name",
        ),
    ];
    for (action, expected) in cases {
        let result = run(&scenario(
            objects.clone(),
            json!([{"do": "rollOut"}, action]),
        ));
        let [problem] = result.problems.as_slice() else {
            panic!("{action}: {:#?}", result.problems)
        };
        assert_eq!(problem.source, Source::Action { index: 1 });
        assert!(
            problem.message.starts_with(expected),
            "{expected}: {}",
            problem.message
        );
        let [before, after] = [1, 2].map(|step: usize| &result.steps[step].world);
        assert_eq!(
            (&before.nodes, &before.workloads),
            (&after.nodes, &after.workloads),
            "{action}"
        );
        assert_eq!(before.pods.len(), after.pods.len());
    }
}

#[test]
fn problems_of_an_object_that_is_older_than_the_policy_are_warnings() {
    let mut old = pps(
        "db",
        json!({"preferredPersistentTopology": [{"weight": 500, "preference": {"keys": [HOSTNAME]}}]}),
    );
    old["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let objects = vec![node("n1", "a"), stateful_set("db", 1), old];
    let (object, severity, field, _) = problem(objects.clone());
    let expected = "spec.preferredPersistentTopology[0].weight";
    assert_eq!(
        (object, severity, field.as_str()),
        (Some(2), Severity::Warning, expected)
    );
    let result = run(&scenario(objects, json!([{"do": "rollOut"}])));
    assert_eq!(last(&result).world.pps[0].states.len(), 1);
}

#[test]
fn a_scenario_reads_and_writes_as_documented() {
    let text = json!({
        "objects": [], "settings": {}, "withPps": true, "evictPendingPods": true,
        "actions": [
            {"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}, {"do": "labelNode", "node": "n", "key": "k", "value": null},
            {"do": "scale", "workload": "db", "replicas": 3}, {"do": "endGracePeriod"},
        ],
    });
    let read: Scenario = serde_json::from_value(text.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), text);
    let problem = Problem {
        source: Source::Action { index: 3 },
        field: None,
        severity: Severity::Error,
        message: "no".into(),
    };
    assert_eq!(
        serde_json::to_value(problem).unwrap(),
        json!({"source": "action", "index": 3, "field": null, "severity": "error", "message": "no"})
    );
}

#[test]
fn an_unknown_field_is_a_warning() {
    let misspelt = with(
        pps("db", required(HOSTNAME)),
        "spec.requiredPersistentTopologie",
        json!({"nodeTopologyKeys": [HOSTNAME]}),
    );
    let (object, severity, field, message) = problem(vec![stateful_set("db", 1), misspelt]);
    assert_eq!((object, severity), (Some(1), Severity::Warning));
    assert_eq!(field, "spec.requiredPersistentTopologie");
    assert!(
        message.contains("use targetRef, requiredPersistentTopology, "),
        "{message}"
    );
}

#[test]
fn what_matters_in_a_cluster_and_is_not_simulated_is_named() {
    for kind in ["StorageClass", "LimitRange", "Service"] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
        let (_, severity, _, message) = problem(vec![object]);
        assert_eq!(severity, Severity::Warning);
        assert!(
            message.starts_with(&format!("{kind} is not simulated: ")),
            "{message}"
        );
    }
    let mut workload = stateful_set("db", 1);
    workload["apiVersion"] = json!("apps.kruise.io/v1beta1");
    let rolling = "spec.updateStrategy.rollingUpdate";
    let harmless = json!({"rollingUpdate": {"maxUnavailable": 1, "paused": false}});
    let quiet = run(&scenario(
        vec![with(workload.clone(), "spec.updateStrategy", harmless)],
        json!([]),
    ));
    assert_eq!(quiet.problems, []);
    let update = |field: &str, value: Value| {
        with(
            workload.clone(),
            "spec.updateStrategy.rollingUpdate",
            json!({field: value}),
        )
    };
    for (field, value) in [
        ("paused", json!(true)),
        ("maxUnavailable", json!("40%")),
        ("unorderedUpdate", json!({"priorityStrategy": {}})),
    ] {
        let (_, severity, at, _) = problem(vec![update(field, value)]);
        assert_eq!(
            (severity, at),
            (Severity::Warning, format!("{rolling}.{field}"))
        );
    }
    let slow = with(stateful_set("db", 1), "spec.minReadySeconds", json!(10));
    assert_eq!(problem(vec![slow]).2, "spec.minReadySeconds");
}

#[test]
fn a_label_that_the_api_server_would_refuse_is_reported() {
    let labels = json!({"disk": "a b!"});
    let (_, severity, _, message) = problem(vec![with(node("n1", "a"), "metadata.labels", labels)]);
    assert_eq!(severity, Severity::Error);
    assert!(
        message.starts_with("metadata.labels: disk=a b! is no label"),
        "{message}"
    );
}

#[test]
fn a_grace_period_that_drops_nothing_says_why() {
    let objects = vec![
        node("n1", "a"),
        stateful_set("db", 1),
        pps("db", required(HOSTNAME)),
    ];
    let result = run(&scenario(
        objects,
        json!([{"do": "rollOut"}, {"do": "endGracePeriod"}]),
    ));
    assert_eq!(
        texts(last(&result), &[EventKind::StatesKept]),
        [
            "PersistentPodState/db has nodeDeletionPolicy: Keep, the default, so no state is \
             dropped"
        ]
    );
}
