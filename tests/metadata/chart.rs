//! What Artifact Hub shows of the chart.

use std::fs;

use serde::Serialize;
use serde_json::Value;

use crate::{VERSION, is_update, path, read, yaml, yaml_of};

const CHART: &str = "charts/persistent-pod-state/Chart.yaml";
const VALUES: &str = "charts/persistent-pod-state/values.yaml";

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

/// What values ask of a cluster: the request of one resource, as a number and its unit.
fn requested(resource: &str) -> String {
    let values = yaml(&read(VALUES));
    let number = |text: &Value| -> (u64, String) {
        let text = text.as_str().unwrap();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        (digits.parse().unwrap(), text[digits.len()..].to_owned())
    };
    let (sidecar, unit) = number(&values["resources"]["requests"][resource]);
    let (server, unit_of_server) = number(&values["policyServer"]["requests"][resource]);
    assert_eq!(unit, unit_of_server);
    let sidecars = values["replicaCount"].as_u64().unwrap() * sidecar;
    let servers = values["policyServer"]["replicas"].as_u64().unwrap() * server;
    format!("{}{unit}", sidecars + servers)
}

/// See <https://ranchermanager.docs.rancher.com/how-to-guides/new-user-guides/helm-charts-in-rancher/create-apps>.
#[test]
fn rancher_asks_for_values_of_the_chart_and_knows_what_it_needs() {
    let questions = yaml(&read("charts/persistent-pod-state/questions.yaml"));
    let values = yaml(&read(VALUES));
    let value_of = |variable: &str| values.pointer(&format!("/{}", variable.replace('.', "/")));
    let mut asked = Vec::new();
    for question in questions["questions"].as_array().unwrap() {
        let variable = question["variable"].as_str().unwrap();
        let value = value_of(variable).unwrap_or_else(|| panic!("there is no value {variable}"));
        assert_eq!(&question["default"], value, "{variable}");
        for field in ["label", "description", "type", "group"] {
            assert!(question[field].is_string(), "{variable} has no {field}");
        }
        if let Some(condition) = question["show_if"].as_str() {
            let (shown_by, _) = condition.split_once('=').unwrap();
            assert!(asked.contains(&shown_by), "{variable}: {condition}");
        }
        asked.push(variable);
    }
    // Without these the chart does not render.
    for required in ["policyServer.image.repository", "policyServer.image.tag"] {
        assert!(asked.contains(&required), "{required} is not asked for");
    }

    let chart = yaml(&read(CHART));
    let catalog = |name: &str| &chart["annotations"][format!("catalog.cattle.io/{name}")];
    assert_eq!(catalog("kube-version"), &chart["kubeVersion"]);
    assert_eq!(catalog("requests-cpu"), &requested("cpu"));
    assert_eq!(catalog("requests-memory"), &requested("memory"));
}

/// A site without a network gets what an installation pulls.
pub(crate) fn check_hauler() {
    let text = read("deploy/hauler.yaml");
    let documents: Vec<Value> = text.split("\n---\n").map(yaml).collect();
    let names = |kind: &str, list: &str, field: &str| -> Vec<String> {
        let document = documents.iter().find(|one| one["kind"] == kind).unwrap();
        assert_eq!(document["apiVersion"], "content.hauler.cattle.io/v1");
        let listed = document["spec"][list].as_array().unwrap();
        listed
            .iter()
            .map(|one| one[field].as_str().unwrap().to_owned())
            .collect()
    };
    let sidecar = annotation(&yaml(&read(CHART)), "images")[0]["image"].clone();
    let policy = yaml(&read("deploy/base/cluster-admission-policy.yaml"));
    let module = policy["spec"]["module"].as_str().unwrap();
    assert_eq!(
        names("Images", "images", "name"),
        [
            sidecar.as_str().unwrap(),
            module.strip_prefix("registry://").unwrap()
        ]
    );
    assert_eq!(names("Charts", "charts", "version"), [VERSION]);
    for file in names("Files", "files", "path") {
        let released = format!("{}/releases/download/v", env!("CARGO_PKG_REPOSITORY"));
        assert!(file.starts_with(&released), "{file}");
    }
}
