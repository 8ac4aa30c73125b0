//! The golden corpus through the compiled policy in a waPC host, and what the module says of itself.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use anyhow::{Result, ensure};
use pps_corpus::{Case, Outcome};
use pps_e2e::kubewarden::stand_in::{HostCalls, PolicyModule};
use pps_e2e::repository::policy_path;
use serde_json::{Value, json};
use wasmparser::{Parser, Payload};

fn through_the_host(module: &PolicyModule, case: &Case) -> Result<Outcome> {
    let host = case.host();
    let host: Arc<dyn HostCalls> = Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
        host.call(operation, &String::from_utf8_lossy(payload)).map(String::into_bytes)
    });
    let evaluation = module.evaluate(&case.request, &case.settings, &host)?;
    let patch = match serde_json::to_value(evaluation.patch)? {
        Value::Array(operations) => operations,
        _ => Vec::new(),
    };
    let status = evaluation.response.status.unwrap_or_default();
    ensure!(evaluation.logs.iter().all(|entry| entry.level == "warning"), "{:?}", evaluation.logs);
    Ok(Outcome {
        accepted: evaluation.response.allowed,
        patch,
        warnings: evaluation.response.warnings.unwrap_or_default(),
        code: status.code,
        message: status.message,
        audit: evaluation.response.audit_annotations.unwrap_or_default(),
        host_calls: evaluation
            .host_calls
            .iter()
            .map(|call| (call.operation.clone(), call.payload_json()))
            .collect(),
        log: evaluation.logs.into_iter().filter_map(|entry| entry.message).collect(),
    })
}

#[test]
fn the_module_answers_as_the_corpus_says() -> Result<()> {
    let module = PolicyModule::load_file(&policy_path())?;
    let cases = pps_corpus::run(|case| through_the_host(&module, case))?;
    ensure!(cases >= 150, "only {cases} cases");
    Ok(())
}

#[test]
fn the_module_is_what_kubewarden_takes() -> Result<()> {
    let wasm = fs::read(policy_path())?;
    ensure!(wasm.len() <= 200_000, "{} bytes are too many", wasm.len());
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
    assert_eq!(imports, BTreeSet::from(["wapc".to_owned()]), "a host of Kubewarden offers nothing else");
    assert_eq!(metadata.len(), 1, "the host looks at the first section only");
    let metadata = &metadata[0];
    assert_eq!(metadata["protocolVersion"], "v1");
    assert_eq!(metadata["annotations"]["io.kubewarden.policy.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(metadata["mutating"], true);
    Ok(())
}

#[test]
fn settings_are_checked_with_a_way_out() -> Result<()> {
    let module = PolicyModule::load_file(&policy_path())?;
    for good in [
        json!(null),
        json!({}),
        json!({"lookup": "byName", "onLookupFailure": "accept"}),
        json!({"annotations": {"allow": ["ovn.kubernetes.io/*"], "deny": ["a"]}}),
    ] {
        let verdict = module.validate_settings(&good)?;
        assert!(verdict.valid, "{good}: {verdict:?}");
    }
    for (bad, piece) in [
        (json!({"lookup": "byname"}), "settings.lookup is \"byname\": set it to \"full\" or \"byName\""),
        (json!({"onLookupFailure": 1}), "settings.onLookupFailure is 1"),
        (json!({"lookUp": "full"}), "settings.lookUp is unknown"),
        (
            json!({"annotations": {"deny": ["a*b"]}}),
            "settings.annotations.deny[0] is \"a*b\": use the key of",
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
