//! docs/reference, the alert rules and the dashboard name the metrics and alerts that exist, and
//! the documents name all of them. docs/troubleshooting.md does so with the reasons of conditions
//! and Events.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pps_sidecar::telemetry::metrics::Metrics;
use serde_json::Value;

const RULES: &str = "deploy/components/monitoring/prometheus-rule.yaml";
const METRICS: &str = "docs/reference/metrics.md";
const ALERTS: &str = "docs/reference/alerts.md";
const DASHBOARD: &str = "deploy/components/monitoring/dashboard.json";

fn file(path: &str) -> String {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(path),
    )
    .unwrap()
}

fn rendered() -> String {
    let metrics = Metrics::default();
    // Its series exist only once a watch has reported something.
    metrics.set_watch_up("pods", true);
    metrics.render(true, true)
}

/// The names of the metrics as Prometheus stores them.
fn metrics() -> BTreeSet<String> {
    let text = rendered();
    let types = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types
        .map(|(name, metric_type)| match metric_type {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

/// Every word of a text that begins like the name of a metric.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words
        .filter(|word| word.starts_with("persistentpodstate_") || word.starts_with("process_"));
    names
        .map(|name| name.trim_end_matches("_bucket").to_owned())
        .collect()
}

#[test]
fn documents_all_metrics_and_no_others() {
    let metrics = metrics();
    for name in [
        "persistentpodstate_writes_total",
        "persistentpodstate_build_info",
    ] {
        assert!(metrics.contains(name), "{name} in {metrics:?}");
    }
    #[cfg(target_os = "linux")]
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes"] {
        assert!(metrics.contains(name), "{name} in {metrics:?}");
    }
    assert_eq!(metrics_in(&file(METRICS)), metrics);
    for path in [RULES, DASHBOARD, ALERTS] {
        let named = metrics_in(&file(path));
        assert!(
            !named.is_empty() && named.is_subset(&metrics),
            "{path}: {named:?}"
        );
    }
}

#[test]
fn documents_all_labels_and_their_known_values() {
    let documented = file(METRICS);
    let text = rendered();
    let series = text
        .lines()
        .filter(|line| line.starts_with("persistentpodstate_"));
    for line in series {
        let Some((name, labels)) = line.split_once('{') else {
            continue;
        };
        let name = name.trim_end_matches("_bucket");
        for label in labels.split('}').next().unwrap().split(',') {
            let (label, value) = label.split_once('=').unwrap();
            if label == "le" {
                continue;
            }
            let row = documented
                .lines()
                .find(|row| row.starts_with(&format!("| `{name}{{")))
                .unwrap_or_default();
            assert!(
                row.split('}').next().unwrap().contains(label),
                "{label} of {name}"
            );
            if name != "persistentpodstate_build_info" {
                assert!(
                    documented.contains(&format!("`{}`", value.trim_matches('"'))),
                    "{label}={value} of {name}"
                );
            }
        }
    }
}

/// The rows of the table after a comment in docs/troubleshooting.md: reason and second column.
fn documented_reasons(comment: &str) -> BTreeMap<String, String> {
    let documented = file("docs/troubleshooting.md");
    let (_, after) = documented
        .split_once(&format!("<!-- {comment} -->"))
        .unwrap();
    let (table, _) = after.split_once("<!-- end -->").unwrap();
    let rows = table
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(reason, rest)| {
        (
            reason.to_owned(),
            rest.split(" |").next().unwrap().to_owned(),
        )
    })
    .collect()
}

/// The reasons that a source file names, without its tests.
fn reasons_in(path: &str) -> BTreeSet<String> {
    let code = file(path);
    let code = code.split("#[cfg(test)]").next().unwrap();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric();
    let names = code
        .split("Reason::")
        .skip(1)
        .map(|rest| rest.split(|letter| !is_letter(letter)).next());
    names
        .flatten()
        .filter(|name| name.starts_with(char::is_uppercase))
        .map(str::to_owned)
        .collect()
}

/// The reasons of the condition.
fn reasons_of_the_condition() -> BTreeSet<String> {
    let files = [
        "crates/recorder/src/decide/status/words.rs",
        "crates/recorder/src/recording.rs",
    ];
    files.into_iter().flat_map(reasons_in).collect()
}

#[test]
fn troubleshooting_has_a_row_for_each_reason_of_the_condition_and_no_other() {
    let documented = documented_reasons("reasons of the condition");
    let reasons = reasons_of_the_condition();
    assert!(reasons.len() > 5, "{reasons:?}");
    assert_eq!(documented.keys().cloned().collect::<BTreeSet<_>>(), reasons);
    for (reason, status) in documented {
        assert!(
            ["True", "False"].contains(&status.as_str()),
            "{reason}: {status}"
        );
    }
}

#[test]
fn troubleshooting_has_a_row_for_each_reason_of_events() {
    let code = file("crates/core/src/reason.rs");
    let all: BTreeSet<String> = code
        .lines()
        .filter_map(|line| line.split_once("=> \"")?.1.split('"').next())
        .map(str::to_owned)
        .collect();
    let of_the_condition = reasons_of_the_condition();
    let documented = documented_reasons("reasons of Events");
    for reason in all.difference(&of_the_condition) {
        assert!(documented.contains_key(reason), "{reason} has no row");
    }
    let events = file("crates/sidecar/src/write/events.rs");
    let normal = events
        .split("fn is_normal")
        .nth(1)
        .unwrap()
        .split('}')
        .next()
        .unwrap();
    for (reason, kind) in documented {
        assert!(all.contains(&reason), "there is no reason {reason}");
        let is_normal = normal.split("Reason::").any(|rest| {
            rest.split(|letter: char| !letter.is_alphanumeric()).next() == Some(&reason)
        });
        let expected = if is_normal { "Normal" } else { "Warning" };
        assert_eq!(
            kind, expected,
            "the type of Events with the reason {reason}"
        );
    }
}

/// The names and the `runbook_url` of all alerts.
fn alerts() -> Vec<(String, Option<String>)> {
    let rules = file(RULES);
    let rules = rules.split("- alert: ").skip(1);
    let field = |rule: &str, name: &str| {
        rule.lines()
            .find_map(|line| line.trim().strip_prefix(name))
            .map(|value| value.trim().to_owned())
    };
    rules
        .map(|rule| {
            (
                rule.lines().next().unwrap().to_owned(),
                field(rule, "runbook_url:"),
            )
        })
        .collect()
}

#[test]
fn documents_all_alerts_and_no_others() {
    let documented = file(ALERTS);
    let headings: Vec<&str> = documented
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|heading| heading.starts_with("PersistentPodState"))
        .collect();
    let alerts: Vec<String> = alerts().into_iter().map(|(name, _)| name).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(
        headings.iter().collect::<BTreeSet<_>>().len(),
        headings.len(),
        "each once"
    );
    let (mut sorted, mut expected) = (headings, alerts);
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    for section in documented.split("\n## PersistentPodState").skip(1) {
        for part in ["**Meaning.** ", "**Look at**", "**Remedy.** "] {
            assert_eq!(
                section.matches(part).count(),
                1,
                "{part} of PersistentPodState{section}"
            );
        }
    }
}

#[test]
fn every_alert_names_its_runbook() {
    for (name, runbook) in alerts() {
        let expected = format!(
            "{}/blob/main/{ALERTS}#{}",
            env!("CARGO_PKG_REPOSITORY"),
            name.to_lowercase()
        );
        assert_eq!(runbook, Some(expected), "{name}");
    }
}

#[test]
fn every_panel_of_the_dashboard_has_a_title_a_query_and_a_place() {
    let dashboard: Value = serde_json::from_str(&file(DASHBOARD)).unwrap();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(panel["title"].is_string(), "{panel}");
        assert!(
            panel["type"] == "row" || panel["targets"][0]["expr"].is_string(),
            "{panel}"
        );
        let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{panel}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(
                    taken.insert((x, y)),
                    "{} overlaps another panel",
                    panel["title"]
                );
            }
        }
    }
}
