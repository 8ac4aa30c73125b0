//! A scenario that is too large has one problem, and costs nothing more.

use pps_simulation::{Limits, Scenario, run, run_live};
use serde_json::{Value, json};

use crate::worlds::{HOSTNAME, last, node, play, pps, required, scenario, stateful_set, with};

/// The message of the only problem, and how many steps there are.
fn refusal(scenario: &Scenario) -> (String, usize) {
    let result = run(scenario);
    let [problem] = result.problems.as_slice() else {
        panic!("{:#?}", result.problems)
    };
    (problem.message.clone(), result.steps.len())
}

#[test]
fn large_inputs_are_refused_as_a_whole() {
    let large = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "x".repeat(Limits::PAGE.bytes)}});
    let deep = (0..100).fold(json!(1), |value, _| json!([value]));
    let objects = vec![json!({"apiVersion": "v1", "kind": "Secret"}); Limits::PAGE.objects + 1];
    let actions = json!(vec![json!({"do": "rollOut"}); Limits::PAGE.actions + 1]);
    let change = json!([{"do": "changeSpec", "object": large}]);
    for (scenario, expected) in [
        (
            scenario(vec![large.clone()], json!([])),
            "the scenario is too large: use less than 1024 KiB",
        ),
        (scenario(vec![deep], json!([])), "the scenario is too large"),
        (
            Scenario {
                settings: large.clone(),
                ..Scenario::default()
            },
            "the scenario is too large",
        ),
        (
            scenario(objects, json!([])),
            "there are 1001 objects: use at most 1000",
        ),
        (
            scenario(Vec::new(), actions),
            "there are 201 actions: use at most 200",
        ),
        (scenario(Vec::new(), change), "the scenario is too large"),
    ] {
        let (message, steps) = refusal(&scenario);
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(steps, 0);
    }
}

#[test]
fn nodes_and_replicas_beyond_the_limit_are_refused_alone() {
    let objects: Vec<Value> = (0..Limits::PAGE.nodes + 9)
        .map(|index| node(&format!("n{index}"), "a"))
        .collect();
    let scenario = |objects| scenario(objects, json!([]));
    let (message, steps) = refusal(&scenario(objects));
    assert!(
        message.starts_with("at most 100 nodes are simulated"),
        "{message}"
    );
    assert_eq!(steps, 1);
    let (message, _) = refusal(&scenario(vec![
        stateful_set("a", 200),
        stateful_set("b", 51),
    ]));
    assert!(
        message.starts_with("all workloads together want 251 Pods"),
        "{message}"
    );
    let huge = with(stateful_set("a", 1), "spec.replicas", json!(u64::MAX));
    assert!(
        refusal(&scenario(vec![huge]))
            .0
            .contains("at most 250 are simulated")
    );
}

#[test]
fn the_largest_cluster_is_simulated() {
    let mut objects: Vec<Value> = (0..Limits::PAGE.nodes)
        .map(|index| node(&format!("n{index}"), ["a", "b", "c"][index % 3]))
        .collect();
    objects.push(with(
        stateful_set("db", 250),
        "spec.podManagementPolicy",
        json!("Parallel"),
    ));
    objects.push(pps("db", required(HOSTNAME)));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}]),
    );
    assert_eq!(last(&result).world.workloads[0].ready, 250);
    assert_eq!(last(&result).world.pods[0].came_home, Some(true));
}

#[test]
fn a_scenario_that_creates_pods_without_end_is_stopped() {
    let limits = Limits {
        created_pods: 1000,
        ..Limits::PAGE
    };
    let objects = vec![with(
        stateful_set("db", 100),
        "spec.podManagementPolicy",
        json!("Parallel"),
    )];
    let mut actions = vec![json!({"do": "rollOut"})];
    let delete = json!({"do": "deleteWorkload", "workload": "db"});
    for _ in 0..99 {
        actions.extend([
            delete.clone(),
            json!({"do": "createWorkload", "workload": "db"}),
        ]);
    }
    let result = run_live(&scenario(objects, actions.into()), &[], &limits);
    let [problem] = result.problems.as_slice() else {
        panic!("{:#?}", result.problems)
    };
    assert!(problem.message.contains("at most 1000 Pods"), "{problem:?}");
    assert_eq!(
        result.steps.len(),
        1 + 1 + 2 * (limits.created_pods / 100 - 1)
    );
}

#[test]
fn many_problems_are_counted() {
    let objects = vec![json!("no object"); 500];
    let problems = run(&scenario(objects, json!([]))).problems;
    assert_eq!(problems.len(), 101);
    assert_eq!(
        problems[100].message,
        "and 400 more problems: correct these first"
    );
}

#[test]
fn a_result_that_becomes_too_large_ends_with_all_details() {
    let limits = Limits {
        result_bytes: 4 << 20,
        ..Limits::PAGE
    };
    let labels: serde_json::Map<String, Value> = (0..60)
        .map(|index| (format!("label-{index}"), "v".repeat(60).into()))
        .collect();
    let labelled = |index| {
        with(
            node(&format!("n{index}"), "a"),
            "metadata.labels",
            labels.clone().into(),
        )
    };
    let mut objects: Vec<Value> = (0..10).map(labelled).collect();
    objects.push(stateful_set("db", 1));
    let mut actions = vec![json!({"do": "rollOut"})];
    actions.extend(vec![json!({"do": "deletePod", "pod": "db-0"}); 199]);
    let result = run_live(&scenario(objects, actions.into()), &[], &limits);
    let [problem] = result.problems.as_slice() else {
        panic!("{:#?}", result.problems)
    };
    assert!(
        problem.message.ends_with("its steps have at most 4 MiB"),
        "{problem:?}"
    );
    assert!(
        (30..190).contains(&result.steps.len()),
        "{}",
        result.steps.len()
    );
    assert!(last(&result).world.pods[0].manifest.is_some());
}
