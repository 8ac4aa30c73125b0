//! The golden corpus through `try`: the plugin answers as the policy does, wherever that runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;

use kubectl_pps::decide::attempt::{Answers, Source, attempt};
use pps_corpus::{Case, Outcome, cases, diff};
use serde_json::json;

fn source(name: &str, value: &serde_json::Value) -> Source {
    Source { name: name.into(), text: value.to_string() }
}

fn answers(case: &Case) -> Answers {
    let request = source("request.json", &json!({"request": case.request}));
    let items = json!({"apiVersion": "v1", "kind": "List", "items": case.objects});
    let objects = source("pps.json", &items);
    let settings = (!case.settings.is_null()).then(|| source("settings.json", &case.settings));
    attempt(&[request, objects], settings.as_ref(), "default")
}

/// What the plugin says about the request of a case; none if it does not take this file.
fn outcome(case: &Case) -> Option<Outcome> {
    let answers = answers(case);
    let answer = answers.attempts.iter().find(|attempt| attempt.file == "request.json")?;
    let patch = match &answer.object {
        Some(after) => diff(&answer.before, after).unwrap(),
        None => Vec::new(),
    };
    let audit = [("pps", &answer.persistent_pod_state), ("injected", &answer.injected)];
    let audit: BTreeMap<String, String> =
        audit.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?))).collect();
    // The plugin shows no other annotations of an audit.
    let others = case.expected.audit.iter().filter(|(key, _)| !["pps", "injected"].contains(&key.as_str()));
    let others = others.map(|(key, value)| (key.clone(), value.clone()));
    Some(Outcome {
        accepted: answer.refusal.is_none(),
        patch,
        warnings: answer.warnings.clone(),
        code: answer.refusal.as_ref().map(|refusal| refusal.code),
        message: answer.refusal.as_ref().map(|refusal| refusal.message.clone()),
        audit: audit.into_iter().chain(others).collect(),
        ..Outcome::default()
    })
}

#[test]
fn the_plugin_answers_as_the_policy_does() {
    // A cluster that fails, or answers wrongly, cannot be written to a file.
    let is_normal = |case: &&Case| {
        let quirks = &case.quirks;
        quirks.errors.is_empty()
            && quirks.answers.is_empty()
            && quirks.serves.is_none()
            && !quirks.ignores_masks
    };
    let all = cases().unwrap();
    let normal: Vec<&Case> = all.iter().filter(is_normal).collect();
    let (mut failures, mut taken) = (Vec::new(), 0);
    for case in &normal {
        match outcome(case) {
            // Settings that the policy refuses are a mistake in a file, with its place.
            None => {
                let problems = answers(case).problems;
                let is_named = problems.iter().any(|one| one.is_error && one.file == "settings.json");
                assert!(is_named && !case.expected.accepted, "{}: {problems:?}", case.name);
            }
            Some(outcome) => {
                taken += 1;
                if let Err(error) = case.check_answer(&outcome) {
                    failures.push(format!("{}: {error:#}", case.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), normal.len(), failures.join("\n\n"));
    assert!(taken * 10 > all.len() * 8, "only {taken} of {} were tried", all.len());
}
