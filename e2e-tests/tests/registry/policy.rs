//! The policy in a registry.

use std::{fs, sync::Arc};

use pps_corpus::Outcome;
use pps_e2e::{
    cluster::policy_path,
    oci::{Reader, digest, media_type},
    publish::Publisher,
    registry::Registry,
    supervisor::Supervisor,
    wasm_host::{HostCalls, PolicyModule},
};
use serde_json::Value;

use super::{VERSION, all_kinds, provenance};

#[tokio::test]
async fn it_comes_back_from_every_kind_of_registry() {
    let supervisor = Supervisor::start().unwrap();
    let module = fs::read(policy_path()).unwrap();
    for options in all_kinds() {
        let kind = format!("{options:?}");
        let registry = Registry::start(&supervisor, options).await.unwrap();
        let (publisher, reader) = (Publisher::to(&registry), Reader::of(&registry).unwrap());
        let repository = format!("{}/policies/persistent-pod-state", registry.host());

        // Without a tag it is that of the version, and a scheme does no harm.
        let pushed = publisher.policy(&format!("registry://{repository}")).await.unwrap();
        let tagged = reader.manifest(&format!("{repository}:v{VERSION}")).await.unwrap();
        assert_eq!(pushed, format!("{repository}@{}", tagged.digest), "{kind}");
        assert_eq!(reader.pull_policy(&pushed).await.unwrap(), module, "{kind}");

        // Again: nothing changes.
        let again = publisher.policy(&format!("{repository}:again")).await.unwrap();
        assert_eq!(again, pushed, "{kind}");
    }
}

#[tokio::test]
async fn it_is_stored_as_kubewarden_wants_it() {
    let (_supervisor, registry) = super::start(super::with_password()).await;
    let reference = Publisher::to(&registry).policy(&format!("{}/p:v1", registry.host())).await.unwrap();
    let reader = Reader::of(&registry).unwrap();
    let manifest = reader.manifest(&reference).await.unwrap();
    assert_eq!(manifest.media_type, media_type::MANIFEST);
    let config = manifest.config.as_ref().unwrap();
    assert_eq!(config.media_type, media_type::POLICY_CONFIG);
    assert_eq!(reader.blob(&reference, config).await.unwrap(), b"{}");
    let types: Vec<_> = manifest.layers.iter().map(|layer| layer.media_type.as_str()).collect();
    assert_eq!(types, [media_type::POLICY_LAYER]);

    for (key, value) in provenance() {
        assert_eq!(manifest.annotations.get(key), Some(&value), "{key}");
    }
    // What the metadata says, but for what has several lines.
    let module = reader.pull_policy(&reference).await.unwrap();
    let metadata: Value = serde_json::from_slice(embedded_metadata(&module)).unwrap();
    let mut lines = 0;
    for (key, value) in metadata["annotations"].as_object().unwrap() {
        let value = value.as_str().unwrap();
        let wanted = (value.lines().count() <= 1).then(|| value.trim().to_owned());
        assert_eq!(manifest.annotations.get(key), wanted.as_ref(), "{key}");
        lines += value.lines().count();
    }
    assert!(lines > metadata["annotations"].as_object().unwrap().len(), "nothing has several lines");
    assert_eq!(manifest.annotations["org.opencontainers.image.title"], "persistent-pod-state");
}

/// The content of the custom section `io.kubewarden.metadata`.
fn embedded_metadata(module: &[u8]) -> &[u8] {
    wasmparser::Parser::new(0)
        .parse_all(module)
        .find_map(|payload| match payload.unwrap() {
            wasmparser::Payload::CustomSection(section) if section.name() == "io.kubewarden.metadata" => {
                Some(section.data())
            }
            _ => None,
        })
        .unwrap()
}

#[tokio::test]
async fn what_was_pulled_answers() {
    let (_supervisor, registry) = super::start(super::with_password()).await;
    let reference = Publisher::to(&registry).policy(&format!("{}/p:v1", registry.host())).await.unwrap();
    let module = Reader::of(&registry).unwrap().pull_policy(&reference).await.unwrap();
    assert_eq!(digest(&module), digest(&fs::read(policy_path()).unwrap()));
    let policy = PolicyModule::load(&module).unwrap();
    let case = pps_corpus::cases()
        .unwrap()
        .into_iter()
        .find(|case| case.name == "rule-02-found-in-namespace")
        .unwrap();
    let cluster = case.host();
    let host: Arc<dyn HostCalls> = Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
        cluster.call(operation, &String::from_utf8_lossy(payload)).map(String::into_bytes)
    });
    let evaluation = policy.evaluate(&case.request, &case.settings, &host).unwrap();
    let patch = serde_json::to_value(evaluation.patch).unwrap();
    let outcome = Outcome {
        accepted: evaluation.response.allowed,
        patch: patch.as_array().cloned().unwrap_or_default(),
        warnings: evaluation.response.warnings.unwrap_or_default(),
        audit: evaluation.response.audit_annotations.unwrap_or_default(),
        ..Outcome::default()
    };
    assert!(!outcome.patch.is_empty(), "the case injects nothing");
    case.check_answer(&outcome).unwrap();
}
