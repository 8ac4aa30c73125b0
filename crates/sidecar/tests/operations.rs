//! docs/operations.md, the alert rules and the dashboard speak of what there is, and of all of it.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pps_sidecar::serve::metrics::Metrics;
use serde_json::Value;

const RULES: &str = "deploy/components/monitoring/prometheus-rule.yaml";
const DASHBOARD: &str = "deploy/components/monitoring/dashboard.json";

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The names of the metrics as Prometheus stores them.
fn metrics() -> BTreeSet<String> {
    let (metrics, kind) = (Metrics::default(), Arc::from("pods"));
    // A metric with labels is there once it has a value.
    metrics.watch_event(&kind);
    metrics.watch_error(&kind);
    metrics.watching(&kind, true);
    metrics.write("status", "ok");
    metrics.node_looked_for("gone");
    metrics.sizes([("pods", 1)], 0);
    metrics.fullness(1, 1, 1);
    let text = metrics.render(true, true);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types
        .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
        .collect()
}

/// Every word of a text that begins like the name of a metric.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("persistentpodstate_"));
    names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn all_metrics_are_documented_and_no_others_are_spoken_of() {
    let metrics = metrics();
    assert!(metrics.contains("persistentpodstate_writes_total"), "{metrics:?}");
    assert_eq!(metrics_in(&file("docs/operations.md")), metrics);
    for path in [RULES, DASHBOARD] {
        let named = metrics_in(&file(path));
        assert!(!named.is_empty() && named.is_subset(&metrics), "{path}: {named:?}");
    }
}

#[test]
fn all_reasons_are_documented() {
    let code = file("crates/core/src/reason.rs");
    let documented = file("docs/operations.md");
    let reasons: Vec<&str> =
        code.lines().filter_map(|line| line.split_once("=> \"")?.1.split('"').next()).collect();
    assert!(reasons.len() > 5, "{reasons:?}");
    for reason in reasons {
        assert!(documented.contains(&format!("| `{reason}` |")), "{reason}");
    }
}

#[test]
fn every_alert_says_what_to_do() {
    let documented = file("docs/operations.md");
    let alerts = file(RULES);
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 2, "{names:?}");
    for name in names {
        assert!(documented.contains(&format!("### {name}\n")), "{name}");
    }
}

#[test]
fn the_dashboard_is_json_with_a_panel_for_each_query() {
    let dashboard: Value = serde_json::from_str(&file(DASHBOARD)).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(panel["targets"][0]["expr"].is_string() && panel["title"].is_string(), "{panel}");
    }
}
