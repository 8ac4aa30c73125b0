//! What the page loads, and how fast it answers.

use anyhow::{Result, ensure};
use pps_e2e::browser::{Browser, playground};
use pps_e2e::report::note;
use serde_json::json;

/// All that a browser loads before the first answer.
#[test]
fn the_playground_has_less_than_500_kb() -> Result<()> {
    let mut bytes = 0;
    let mut folders = vec![playground()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if !entry.file_name().to_string_lossy().ends_with(".d.ts") {
                bytes += entry.metadata()?.len();
            }
        }
    }
    ensure!(bytes > 0 && bytes <= 500_000, "the playground has {bytes} bytes, more than 500,000");
    Ok(())
}

const SCENARIO: &str = r#"
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
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: postgres}]}}
---
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
"#;

#[tokio::test]
async fn a_scenario_is_answered_and_nothing_is_asked_of_any_server_after_the_page_has_loaded() -> Result<()> {
    let browser = Browser::start().await?;
    browser.open("").await?;
    let times = browser
        .script(
            r#"const start = performance.now();
               const engine = await import("/engine/pps_playground.js?measured");
               await engine.default();
               const loaded = performance.now();
               const result = JSON.parse(engine.run(arguments[0]));
               const first = performance.now();
               for (let again = 0; again < 10; again++) engine.run(arguments[0]);
               return { load: loaded - start, first: first - loaded, again: (performance.now() - first) / 10, result };"#,
            vec![json!(
                json!({"version": 1, "objects": SCENARIO, "actions": [{"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}, {"do": "scale", "workload": "db", "replicas": 3}]})
                    .to_string()
            )],
        )
        .await?;
    note(&format!(
        "load {} ms, first answer {} ms, later {} ms",
        times["load"], times["first"], times["again"]
    ));
    let result = &times["result"];
    ensure!(result["problems"] == json!([]), "{result}");
    let served = browser.requests().len();
    browser.requested_urls().await?;
    let script = "const engine = await import('/engine/pps_playground.js'); await engine.default();
        return engine.run(arguments[0]) + engine.validateSettings('a: [');";
    browser.script(script, vec![json!("{}")]).await?;
    let before = browser.requests().len();
    for text in ["{}", "{\"version\": 1, \"objects\": \"a: [\"}"] {
        browser.script(script, vec![json!(text)]).await?;
    }
    ensure!(served > 0 && browser.requests().len() == before, "{:?}", browser.requests());
    browser.close().await
}
