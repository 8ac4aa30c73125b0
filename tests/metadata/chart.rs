//! What Artifact Hub shows of the chart.

use serde_json::Value;

use crate::{read, yaml};

/// An annotation of Chart.yaml, which holds YAML.
fn annotation(chart: &Value, name: &str) -> Value {
    let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
    yaml(text.unwrap_or_else(|| panic!("Chart.yaml has no annotation artifacthub.io/{name}")))
}

/// See <https://artifacthub.io/docs/topics/annotations/helm/>.
#[test]
fn artifact_hub_reads_the_annotations_of_the_chart() {
    let chart = yaml(&read("charts/persistent-pod-state/Chart.yaml"));
    let categories = [
        "ai-machine-learning",
        "database",
        "integration-delivery",
        "monitoring-logging",
        "networking",
        "security",
        "storage",
        "streaming-messaging",
    ];
    let category = annotation(&chart, "category");
    assert!(categories.contains(&category.as_str().unwrap()), "{category}");
    assert_eq!(annotation(&chart, "license"), "Apache-2.0");
    assert_eq!(annotation(&chart, "prerelease"), chart["version"].as_str().unwrap().starts_with("0."));
    let kinds = ["added", "changed", "deprecated", "removed", "fixed", "security"];
    let changes = annotation(&chart, "changes");
    for change in changes.as_array().unwrap() {
        assert!(kinds.contains(&change["kind"].as_str().unwrap()), "{change}");
        assert!(change["description"].as_str().is_some_and(|text| !text.is_empty()), "{change}");
    }
    assert!(!changes.as_array().unwrap().is_empty());

    let deployed = read("deploy/base/deployment.yaml");
    let deployed = deployed.lines().filter_map(|line| line.trim().strip_prefix("image: "));
    let images = annotation(&chart, "images");
    let images: Vec<&str> =
        images.as_array().unwrap().iter().map(|image| image["image"].as_str().unwrap()).collect();
    assert_eq!(images, deployed.collect::<Vec<_>>());

    let definition = yaml(&read("deploy/base/crd.yaml"));
    let crds = annotation(&chart, "crds");
    assert_eq!(crds[0]["name"], definition["metadata"]["name"]);
    assert_eq!(crds[0]["kind"], definition["spec"]["names"]["kind"]);
    let examples = annotation(&chart, "crdsExamples");
    assert_eq!(examples[0]["kind"], crds[0]["kind"]);
    assert_eq!(
        examples[0]["apiVersion"],
        format!("{}/{}", definition["spec"]["group"].as_str().unwrap(), crds[0]["version"].as_str().unwrap())
    );
}
