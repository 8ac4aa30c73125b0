//! What Artifact Hub shows of the chart.

use std::fs;

use serde::Serialize;
use serde_json::Value;

use crate::{VERSION, is_update, path, read, yaml, yaml_of};

const CHART: &str = "charts/persistent-pod-state/Chart.yaml";

/// A change, as <https://artifacthub.io> lists it.
#[derive(Serialize)]
pub(crate) struct Change {
    kind: String,
    description: String,
}

/// The changes of this version in CHANGELOG.md, or of the next one.
pub(crate) fn changes() -> Vec<Change> {
    let changelog = read("CHANGELOG.md");
    let sections = || changelog.split("\n## ").skip(1);
    let name_of = |section: &str| {
        section
            .trim_start_matches('[')
            .split([']', ' ', '\n'])
            .next()
            .map(str::to_owned)
    };
    let of = |name: &str| sections().find(|section| name_of(section).as_deref() == Some(name));
    let section = of(VERSION).or_else(|| of("Unreleased")).unwrap();
    let mut found: Vec<Change> = Vec::new();
    let mut kind = None;
    for line in section.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            kind = Some(heading.to_lowercase());
        } else if let Some(text) = line.strip_prefix("- ") {
            let kind = kind
                .clone()
                .unwrap_or_else(|| panic!("CHANGELOG.md: no heading above {line:?}"));
            found.push(Change {
                kind,
                description: text.to_owned(),
            });
        } else if let (Some(text), Some(last)) = (line.strip_prefix("  "), found.last_mut()) {
            last.description.extend([" ", text]);
        }
    }
    found
}

/// Compares the list in Chart.yaml, which is between its annotation and the next one.
pub(crate) fn check_changes() {
    let text = read(CHART);
    let (before, rest) = text.split_once("  artifacthub.io/changes: |\n").unwrap();
    let after = &rest[rest.find("  artifacthub.io/").unwrap()..];
    let list = yaml_of(&changes()).trim_end().replace('\n', "\n    ");
    let expected = format!("{before}  artifacthub.io/changes: |\n    {list}\n{after}");
    if is_update() {
        fs::write(path(CHART), expected).unwrap();
        return;
    }
    assert!(
        expected == text,
        "{CHART} has other changes than CHANGELOG.md. To update it: UPDATE=1 cargo test --test \
         metadata"
    );
}

/// The URLs of the logo and of the screenshots, which are the same for the policy.
pub(crate) fn pictures() -> (Value, Value) {
    let chart = yaml(&read(CHART));
    (chart["icon"].clone(), annotation(&chart, "screenshots"))
}

/// An annotation of Chart.yaml, which holds YAML.
fn annotation(chart: &Value, name: &str) -> Value {
    let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
    yaml(text.unwrap_or_else(|| panic!("Chart.yaml has no annotation artifacthub.io/{name}")))
}

/// See <https://artifacthub.io/docs/topics/annotations/helm/>.
#[test]
fn artifact_hub_reads_the_annotations_of_the_chart() {
    let chart = yaml(&read(CHART));
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
    assert!(
        categories.contains(&category.as_str().unwrap()),
        "{category}"
    );
    assert_eq!(annotation(&chart, "license"), "Apache-2.0");
    assert_eq!(
        annotation(&chart, "prerelease"),
        chart["version"].as_str().unwrap().starts_with("0.")
    );
    let kinds = [
        "added",
        "changed",
        "deprecated",
        "removed",
        "fixed",
        "security",
    ];
    let changes = annotation(&chart, "changes");
    for change in changes.as_array().unwrap() {
        assert!(
            kinds.contains(&change["kind"].as_str().unwrap()),
            "{change}"
        );
        assert!(
            change["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{change}"
        );
    }
    assert!(!changes.as_array().unwrap().is_empty());
    let is_security = changes
        .as_array()
        .unwrap()
        .iter()
        .any(|change| change["kind"] == "security");
    assert_eq!(annotation(&chart, "containsSecurityUpdates"), is_security);
    let (icon, screenshots) = pictures();
    let screenshots = screenshots
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["url"]);
    for url in screenshots.chain([&icon]) {
        let file = url
            .as_str()
            .and_then(|url| url.strip_prefix(env!("CARGO_PKG_REPOSITORY")));
        let file = file
            .and_then(|file| file.strip_prefix("/raw/main/"))
            .unwrap_or_else(|| panic!("{url}"));
        assert!(path(file).is_file(), "the repository has no {file}");
    }

    let deployed = read("deploy/base/deployment.yaml");
    let deployed = deployed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("image: "));
    let images = annotation(&chart, "images");
    let images: Vec<&str> = images
        .as_array()
        .unwrap()
        .iter()
        .map(|image| image["image"].as_str().unwrap())
        .collect();
    assert_eq!(images, deployed.collect::<Vec<_>>());

    let definition = yaml(&read("deploy/base/crd.yaml"));
    let crds = annotation(&chart, "crds");
    assert_eq!(crds[0]["name"], definition["metadata"]["name"]);
    assert_eq!(crds[0]["kind"], definition["spec"]["names"]["kind"]);
    let examples = annotation(&chart, "crdsExamples");
    assert_eq!(examples[0]["kind"], crds[0]["kind"]);
    assert_eq!(
        examples[0]["apiVersion"],
        format!(
            "{}/{}",
            definition["spec"]["group"].as_str().unwrap(),
            crds[0]["version"].as_str().unwrap()
        )
    );
}
