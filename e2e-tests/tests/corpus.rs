//! The golden corpus, evaluated by the compiled policy in a waPC host, and the module's metadata.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, ensure};
use pps_corpus::{Case, Outcome};
use pps_e2e::kubewarden::stand_in::PolicyModule;
use pps_e2e::repository::policy_path;
use serde_json::{Value, json};
use wasmparser::{Parser, Payload};

use crate::support::cases::{host_of, outcome_of};

fn evaluate(module: &PolicyModule, case: &Case) -> Result<Outcome> {
    let evaluation = module.evaluate(&case.request, &case.settings, &host_of(case))?;
    ensure!(
        evaluation.logs.iter().all(|entry| entry.level == "warning"),
        "{:?}",
        evaluation.logs
    );
    let calls = evaluation.host_calls.iter();
    Ok(Outcome {
        host_calls: calls
            .map(|call| (call.operation.clone(), call.payload_json()))
            .collect(),
        log: evaluation
            .logs
            .into_iter()
            .filter_map(|entry| entry.message)
            .collect(),
        ..outcome_of(evaluation.response)?
    })
}

#[test]
fn the_module_gives_the_answers_of_the_corpus() -> Result<()> {
    let module = PolicyModule::load_file(&policy_path())?;
    let cases = pps_corpus::run(|case| evaluate(&module, case))?;
    ensure!(cases >= 150, "only {cases} cases");
    Ok(())
}

#[test]
fn the_module_is_small_imports_only_wapc_and_holds_one_metadata_section() -> Result<()> {
    let wasm = fs::read(policy_path())?;
    let length = wasm.len();
    ensure!(
        length <= 300_000,
        "the module has {length} bytes, more than 300,000: every PolicyServer pulls and compiles it"
    );
    let mut imports = BTreeSet::new();
    let mut metadata = Vec::new();
    for payload in Parser::new(0).parse_all(&wasm) {
        match payload? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    imports.insert(import?.module.to_owned());
                }
            }
            Payload::CustomSection(section) if section.name() == "io.kubewarden.metadata" => {
                metadata.push(serde_json::from_slice::<Value>(section.data())?);
            }
            _ => {}
        }
    }
    assert_eq!(
        imports,
        BTreeSet::from(["wapc".to_owned()]),
        "Kubewarden's hosts provide only waPC"
    );
    assert_eq!(
        metadata.len(),
        1,
        "the host ignores every section but the first"
    );
    let metadata = &metadata[0];
    assert_eq!(metadata["protocolVersion"], "v1");
    assert_eq!(
        metadata["annotations"]["io.kubewarden.policy.version"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(metadata["mutating"], true);
    Ok(())
}

#[test]
fn invalid_settings_are_refused_with_the_field_and_a_remedy() -> Result<()> {
    let module = PolicyModule::load_file(&policy_path())?;
    for good in [
        json!(null),
        json!({}),
        json!({"onLookupFailure": "accept"}),
        json!({"annotations": {"allow": ["ovn.kubernetes.io/*"], "deny": ["a"]}}),
    ] {
        let verdict = module.validate_settings(&good)?;
        assert!(verdict.valid, "{good}: {verdict:?}");
    }
    for (bad, piece) in [
        (
            json!({"onLookupFailure": "Reject"}),
            "settings.onLookupFailure: unknown variant `Reject`, expected `reject` or `accept`",
        ),
        (
            json!({"onLookupFailure": 1}),
            "settings.onLookupFailure: invalid type: integer `1`",
        ),
        (
            json!({"lookup": "full"}),
            "settings.lookup: unknown field `lookup`",
        ),
        (
            json!({"annotations": {"deny": ["a*b"]}}),
            "settings.annotations.deny[0]: \"a*b\" can match no annotation, expected a key",
        ),
        (json!([1]), "the settings must be an object"),
    ] {
        let verdict = module.validate_settings(&bad)?;
        assert!(!verdict.valid, "{bad}");
        let message = verdict.message.unwrap_or_default();
        assert!(message.contains(piece), "{message}");
    }
    assert_eq!(module.protocol_version()?, "v1");
    Ok(())
}
