//! docs/troubleshooting.md explains each refusal of the golden corpus, and quotes only what the
//! policy really says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use persistent_pod_state_policy::answer;
use pps_admission::Host;
use pps_corpus::FakeHost;

/// The sections about refusals.
const SECTIONS: [&str; 2] = [
    "## Creating a Pod is refused with",
    "## A PersistentPodState is refused with",
];

/// Quoted texts that no case of the corpus has: the API server's, the PolicyServer's, the answer to
/// what is no request, and other damage than that of the corpus.
const OTHERS: [&str; 6] = [
    "failed calling webhook",
    "Policy execution interrupted",
    "not an admission request",
    "status.packed.buckets is damaged: no bucket can have one of the names",
    "status.packed.version is missing",
    "status.packed.version is 0, which no release writes: it must be 1",
];

/// Answers from a case's objects.
struct CorpusHost(FakeHost);

impl Host for CorpusHost {
    fn call(&self, _: &str, operation: &str, payload: &str) -> Result<String, String> {
        self.0.call(operation, payload)
    }
}

/// The texts in the first column of the tables about refusals.
fn quoted() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/troubleshooting.md");
    let document = fs::read_to_string(path).unwrap();
    let sections = SECTIONS.iter().map(|title| {
        let (_, rest) = document.split_once(title).unwrap();
        rest.split("\n## ").next().unwrap()
    });
    let rows = sections
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("| "));
    let messages = rows.map(|row| row.split(" | ").next().unwrap());
    messages
        .flat_map(|message| message.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_document_explains_each_refusal_and_quotes_only_what_the_policy_says() {
    let quoted = quoted();
    let mut refusals = Vec::new();
    for case in pps_corpus::cases().unwrap() {
        let payload = case.payload().to_string();
        let response = answer(payload.as_bytes(), &CorpusHost(case.host()));
        let Some(message) = response.message else {
            continue;
        };
        // A message about a field says all by itself.
        assert!(
            message.contains(" is refused: ") || quoted.iter().any(|text| message.contains(text)),
            "no row for {}: {message}",
            case.name
        );
        refusals.push(message);
    }
    assert!(refusals.len() > 100, "only {} refusals", refusals.len());
    for text in &quoted {
        let is_said = refusals.iter().any(|message| message.contains(text));
        assert_ne!(
            is_said,
            OTHERS.contains(&text.as_str()),
            "{text:?} is quoted, and the policy does not say it; or a case of the corpus has it, \
             and OTHERS need not"
        );
    }
}
