//! The golden corpus, evaluated in the page.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
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

/// The page's calls are answered by the case's host, which runs here: a call that it has not answered yet is
/// answered in the next round.
async fn evaluate_all(browser: &Browser, cases: &[Case]) -> Result<Vec<Answer>> {
    let question = |case: &Case| Question { payload: case.payload().to_string(), ..Question::default() };
    let mut questions: Vec<Question> = cases.iter().map(question).collect();
    for _ in 0..6 {
        let answers = browser.script(SCRIPT, vec![serde_json::to_value(&questions)?]).await?;
        let answers: Vec<Answer> = serde_json::from_value(answers)?;
        let mut is_complete = true;
        for ((case, question), answer) in cases.iter().zip(&mut questions).zip(&answers) {
            if let Some(call) = &answer.missing {
                let (namespace, operation, payload) = call;
                ensure!(namespace == "kubernetes", "{}: a call of {namespace}", case.name);
                let key = serde_json::to_string(call)?;
                question.answers.insert(key, case.host().call(operation, payload));
                is_complete = false;
            }
        }
        if is_complete {
            return Ok(answers);
        }
    }
    anyhow::bail!("the policy makes more host calls than it may")
}

fn outcome_of(case: &Case, answer: &Answer) -> Result<Outcome> {
    let response: Value = serde_json::from_str(&answer.response)?;
    let after = &response["mutated_object"];
    let mut outcome = Outcome {
        accepted: response["accepted"] == true,
        patch: if after.is_null() { Vec::new() } else { diff(&case.request["object"], after)? },
        warnings: serde_json::from_value::<Option<_>>(response["warnings"].clone())?.unwrap_or_default(),
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
            outcome.log.push(payload["message"].as_str().unwrap_or_default().to_owned());
        } else {
            outcome.host_calls.push((operation.clone(), payload));
        }
    }
    Ok(outcome)
}

#[tokio::test]
async fn the_page_gives_the_answers_of_the_corpus() -> Result<()> {
    let browser = Browser::start().await?;
    browser.open("").await?;
    let cases = pps_corpus::cases()?;
    let answers = evaluate_all(&browser, &cases).await?;
    let by_name: BTreeMap<&str, &Answer> =
        cases.iter().map(|case| case.name.as_str()).zip(&answers).collect();
    let count = pps_corpus::run(|case| outcome_of(case, by_name[case.name.as_str()]))?;
    ensure!(count >= 150, "only {count} cases");
    browser.close().await
}

/// Numbers that no floating-point number holds are in the answer as they were.
#[tokio::test]
async fn numbers_pass_through_the_page_unchanged() -> Result<()> {
    let browser = Browser::start().await?;
    browser.open("").await?;
    let mut cases = pps_corpus::cases()?;
    cases.retain(|case| case.expected.accepted && !case.expected.patch.is_empty());
    let case = cases.first().ok_or_else(|| anyhow::anyhow!("no case is changed"))?;
    let numbers = "[12345678901234567890123,1.10,1e400,-0.0,0.1]";
    let mut changed = case.clone();
    changed.request["object"]["spec"]["numbers"] = json!("NUMBERS");
    let payload = changed.payload().to_string().replace("\"NUMBERS\"", numbers);
    let host = case.host();
    let mut question = Question { payload, ..Question::default() };
    for _ in 0..6 {
        let answers = browser.script(SCRIPT, vec![json!([question])]).await?;
        let answers: Vec<Answer> = serde_json::from_value(answers)?;
        let Some(call) = &answers[0].missing else {
            ensure!(answers[0].response.contains(numbers), "{}", answers[0].response);
            return browser.close().await;
        };
        question.answers.insert(serde_json::to_string(call)?, host.call(&call.1, &call.2));
    }
    anyhow::bail!("the policy makes more host calls than it may")
}
