//! What the page loads, and how fast it answers.

use anyhow::{Result, ensure};
use pps_e2e::browser::{Browser, playground};
use pps_e2e::report::note;
use serde_json::json;

use super::corpus;

/// All that a browser loads before the first answer.
#[test]
fn the_playground_has_less_than_700_kb() -> Result<()> {
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
    ensure!(
        bytes > 0 && bytes <= 700_000,
        "the playground has {bytes} bytes, more than 700,000"
    );
    Ok(())
}

const SCENARIO: &str = r"
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
";

#[tokio::test]
async fn the_engine_answers_in_a_browser() -> Result<()> {
    let browser = Browser::start().await?;
    browser.open("").await?;
    a_scenario_is_answered_and_nothing_is_asked_of_any_server_after_the_page_has_loaded(&browser)
        .await?;
    garbage_and_very_long_texts_are_refused_in_a_moment(&browser).await?;
    corpus::the_page_gives_the_answers_of_the_corpus(&browser).await?;
    corpus::numbers_pass_through_the_page_unchanged(&browser).await?;
    browser.close().await
}

async fn a_scenario_is_answered_and_nothing_is_asked_of_any_server_after_the_page_has_loaded(
    browser: &Browser,
) -> Result<()> {
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
    let script = "const engine = await import('/engine/pps_playground.js'); await \
                  engine.default();
        return engine.run(arguments[0]) + engine.validateSettings('a: [');";
    browser.script(script, vec![json!("{}")]).await?;
    let before = browser.requests().len();
    for text in ["{}", "{\"version\": 1, \"objects\": \"a: [\"}"] {
        browser.script(script, vec![json!(text)]).await?;
    }
    ensure!(
        served > 0 && browser.requests().len() == before,
        "{:?}",
        browser.requests()
    );
    Ok(())
}

/// The page shows a problem, and the next run works as if nothing had happened.
async fn garbage_and_very_long_texts_are_refused_in_a_moment(browser: &Browser) -> Result<()> {
    let outcome = browser
        .script(
            r#"const engine = await import("/engine/pps_playground.js");
               await engine.default();
               const good = JSON.stringify({ version: 1, objects: arguments[0], actions: [{ do: "rollOut" }] });
               const expected = engine.run(good);
               const long = 1 << 20;
               const texts = {
                   brackets: "[".repeat(long), braces: "{a: ".repeat(long / 4), dashes: "- ".repeat(long / 2), colons: ": ".repeat(long / 2),
                   quotes: "'".repeat(long), tabs: "\t".repeat(long), anchors: "&a ".repeat(long / 4), stars: "*a ".repeat(long / 4),
                   questions: "? ".repeat(long / 2), emoji: "\u{1f600}".repeat(long / 4), half: "\ud800", nul: "\0".repeat(1000),
                   list: "- a\n".repeat(long / 16), map: Array.from({ length: 15000 }, (_, key) => `key${key}: 1`).join("\n"),
                   marks: "}{ ][ : - ? ! & * | > ' \" % @ `", directive: "%YAML 9.9\n---\n&a [*a, *b]", twice: "kind: Pod\nkind: Pod\n",
                   kinds: "kind: [Node]\nmetadata: 7\n---\nnull\n---\n- 1\n", tab: "apiVersion: v1\r\nkind: Node\r\nmetadata: {name: a}\r\n\t- tab",
                   again: "kind: Node\nmetadata:\n" + "    a: b\n".repeat(500),
                   documents: "--- {a: 1}\n".repeat(20000), "too long": "x".repeat(long + 1), percent: "%".repeat(long), block: "a: |\n" + " x\n".repeat(300000),
                   bomb: "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + [..."bcdefghijk"].map((name, at) => `${name}: &${name} [${Array(10).fill("*" + "abcdefghij"[at])}]\n`).join(""),
               };
               const seen = {};
               for (const [name, objects] of Object.entries(texts)) {
                   const start = performance.now();
                   const { problems } = JSON.parse(engine.run(JSON.stringify({ version: 1, objects, actions: [{ do: "rollOut" }] })));
                   seen[name] = { ms: Math.round(performance.now() - start), problem: problems[0] ?? null };
                   if (engine.run(good) !== expected) throw new Error(`${name} changed the next run`);
               }
               engine.restart();
               if (engine.run(good) !== expected) throw new Error("a fresh start changed the next run");
               return seen;"#,
            vec![json!(SCENARIO)],
        )
        .await?;
    for (name, seen) in outcome.as_object().into_iter().flatten() {
        let problem = &seen["problem"];
        note(&format!(
            "{name}: {} ms, line {}: {:.100}",
            seen["ms"],
            problem["line"],
            problem["message"].to_string()
        ));
        ensure!(
            problem["severity"] == "error" || problem["severity"] == "warning",
            "{name} has no problem: {seen}"
        );
        ensure!(
            seen["ms"].as_u64().is_some_and(|ms| ms < 30_000),
            "{name} took {} ms",
            seen["ms"]
        );
    }
    Ok(())
}
