//! The examples of the documents, run as the playground runs them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::fs;
use std::path::{Path, PathBuf};

use pps_playground::run_text;
use pps_site::contents::{pages, parse};
use pps_site::example::find;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The scenarios of all examples, each with its page and line.
fn scenarios() -> Vec<(String, Value)> {
    let summary = fs::read_to_string(repository().join("docs/SUMMARY.md")).unwrap();
    let mut scenarios = Vec::new();
    for page in pages(&parse(&summary).unwrap()) {
        let document = fs::read_to_string(repository().join(&page.file)).unwrap();
        for example in find(&document).unwrap() {
            let scenario = serde_json::from_str(&example.scenario()).unwrap();
            scenarios.push((format!("{}:{}", page.file, example.line), scenario));
        }
    }
    scenarios
}

/// What the playground shows: the objects, the settings and the first actions of a state.
fn run(state: &Value, actions: usize) -> Value {
    let mut scenario = state.clone();
    let fields = scenario.as_object_mut().unwrap();
    // The page keeps it for itself.
    fields.remove("done").unwrap();
    fields["actions"].as_array_mut().unwrap().truncate(actions);
    serde_json::from_str(&run_text(&scenario.to_string())).unwrap()
}

#[test]
fn every_example_opens_without_an_error_and_its_pods_run() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 7, "only {} examples", scenarios.len());
    for (at, state) in scenarios {
        let done = usize::try_from(state["done"].as_u64().unwrap()).unwrap();
        let result = run(&state, done);
        let errors: Vec<&Value> = result["problems"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|problem| problem["severity"] == "error")
            .collect();
        assert!(errors.is_empty(), "{at}: {errors:?}");
        let world = &result["steps"].as_array().unwrap().last().unwrap()["world"];
        let pods = world["pods"].as_array().unwrap();
        assert!(pods.len() >= 3, "{at}: {world}");
        for pod in pods {
            assert_eq!(pod["phase"], "Running", "{at}: {pod}");
        }
        let recorded: usize = world["pps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pps| pps["states"].as_object().map_or(0, serde_json::Map::len))
            .sum();
        assert_eq!(recorded, pods.len(), "{at}: {}", world["pps"]);
    }
}

/// The Pod that the last action deletes, after it.
fn deleted_pod(at: &str, state: &Value, with_pps: bool) -> Value {
    let mut state = state.clone();
    state["withPps"] = with_pps.into();
    let actions = state["actions"].as_array().unwrap();
    let name = actions.last().unwrap()["pod"].as_str().unwrap().to_owned();
    let result = run(&state, actions.len());
    let world = &result["steps"].as_array().unwrap().last().unwrap()["world"];
    let pods = world["pods"].as_array().unwrap();
    pods.iter()
        .find(|pod| pod["name"] == name.as_str())
        .unwrap_or_else(|| panic!("{at}: no Pod {name}"))
        .clone()
}

#[test]
fn the_pod_that_an_example_deletes_comes_home_only_with_its_recorded_state() {
    let mut differ = 0;
    for (at, state) in scenarios() {
        let (with, without) = (
            deleted_pod(&at, &state, true),
            deleted_pod(&at, &state, false),
        );
        assert_eq!(
            (&with["phase"], &with["cameHome"]),
            (&"Running".into(), &true.into()),
            "{at}: {with}"
        );
        // An example that records only the zone has the same node.
        if state["objects"]
            .as_str()
            .unwrap()
            .contains("[kubernetes.io/hostname]")
        {
            assert_eq!(
                (&with["node"], &without["node"]),
                (&"node-2".into(), &"node-1".into()),
                "{at}"
            );
            differ += 1;
        }
    }
    assert!(differ >= 4, "only {differ} examples name the host name");
}
