//! The golden corpus, evaluated in the page.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pps_corpus::{Case, Outcome, diff};
use pps_e2e::browser::Browser;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A host call: namespace, operation, payload.
type Call = (String, String, String);

/// What the page knows about a case.
#[derive(Clone, Debug, Default, Serialize)]
struct Question {
    payload: String,
    /// The host's answers, by the call as JSON.
    answers: BTreeMap<String, Result<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Answer {
    response: String,
    calls: Vec<Call>,
    /// The first call that had no answer.
    missing: Option<Call>,
}

/// Evaluates each question. A host call without an answer ends the evaluation.
const SCRIPT: &str = r#"
    const engine = await import("/engine/pps_playground.js");
    await engine.default();
    return arguments[0].map(({ payload, answers }) => {
        const calls = [];
        let missing = null;
        const host = (...call) => {
            calls.push(call);
            if (call[0] === "tracing") return "";
            const answer = answers[JSON.stringify(call)];
            if (answer === undefined) {
                missing ??= call;
                throw "no answer yet";
            }
            if ("Err" in answer) throw `Host error: ${answer.Err}`;
            return answer.Ok;
        };
        return { response: engine.evaluate(payload, host), calls, missing };
    });
"#;

/// The page's calls are answered by the case's host, which runs here: a call that it has not
/// answered yet is answered in the next round.
async fn evaluate_all(
    browser: &Browser,
    cases: &[Case],
    payload: impl Fn(&Case) -> String,
) -> Result<Vec<Answer>> {
    let question = |case: &Case| Question {
        payload: payload(case),
        ..Question::default()
    };
    let mut questions: Vec<Question> = cases.iter().map(question).collect();
    let mut complete: BTreeMap<usize, Answer> = BTreeMap::new();
    for _ in 0..6 {
        let open: Vec<usize> = (0..cases.len())
            .filter(|index| !complete.contains_key(index))
            .collect();
        let asked: Vec<&Question> = open.iter().map(|&index| &questions[index]).collect();
        let answers = browser.script(SCRIPT, vec![json!(asked)]).await?;
        for (index, answer) in open
            .into_iter()
            .zip(serde_json::from_value::<Vec<Answer>>(answers)?)
        {
            let Some(call) = &answer.missing else {
                complete.insert(index, answer);
                continue;
            };
            let (namespace, operation, payload) = call;
            ensure!(
                namespace == "kubernetes",
                "{}: a call of {namespace}",
                cases[index].name
            );
            let key = serde_json::to_string(call)?;
            questions[index]
                .answers
                .insert(key, cases[index].host().call(operation, payload));
        }
        if complete.len() == cases.len() {
            return Ok(complete.into_values().collect());
        }
    }
    anyhow::bail!("the policy makes more host calls than it may")
}

fn outcome_of(case: &Case, answer: &Answer) -> Result<Outcome> {
    let response: Value = serde_json::from_str(&answer.response)?;
    let after = &response["mutated_object"];
    let mut outcome = Outcome {
        accepted: response["accepted"] == true,
        patch: if after.is_null() {
            Vec::new()
        } else {
            diff(&case.request["object"], after)?
        },
        warnings: serde_json::from_value::<Option<_>>(response["warnings"].clone())?
            .unwrap_or_default(),
        code: serde_json::from_value(response["code"].clone())?,
        message: serde_json::from_value(response["message"].clone())?,
        audit: serde_json::from_value::<Option<_>>(response["audit_annotations"].clone())?
            .unwrap_or_default(),
        ..Outcome::default()
    };
    for (namespace, operation, payload) in &answer.calls {
        let payload: Value = serde_json::from_str(payload)?;
        if namespace == "tracing" {
            ensure!(payload["level"] == "warning", "{payload}");
            outcome
                .log
                .push(payload["message"].as_str().unwrap_or_default().to_owned());
        } else {
            outcome.host_calls.push((operation.clone(), payload));
        }
    }
    Ok(outcome)
}

pub(super) async fn the_page_gives_the_answers_of_the_corpus(browser: &Browser) -> Result<()> {
    let cases = pps_corpus::cases()?;
    let answers = evaluate_all(browser, &cases, |case| case.payload().to_string()).await?;
    let by_name: BTreeMap<&str, &Answer> = cases
        .iter()
        .map(|case| case.name.as_str())
        .zip(&answers)
        .collect();
    let count = pps_corpus::run(|case| outcome_of(case, by_name[case.name.as_str()]))?;
    ensure!(count >= 150, "only {count} cases");
    Ok(())
}

/// The extreme numbers that an API server can hold are in the answer as they were.
pub(super) async fn numbers_pass_through_the_page_unchanged(browser: &Browser) -> Result<()> {
    let cases = pps_corpus::cases()?;
    let is_changed = |case: &&Case| case.expected.accepted && !case.expected.patch.is_empty();
    let case = cases
        .iter()
        .find(is_changed)
        .context("no case is changed")?;
    let numbers = "[9223372036854775807,-9223372036854775808,-0.0,0.1,5e-324]";
    let mut changed = case.clone();
    changed.request["object"]["spec"]["numbers"] = json!("NUMBERS");
    let payload = |case: &Case| case.payload().to_string().replace("\"NUMBERS\"", numbers);
    let answers = evaluate_all(browser, &[changed], payload).await?;
    ensure!(
        answers[0].response.contains(numbers),
        "{}",
        answers[0].response
    );
    Ok(())
}
