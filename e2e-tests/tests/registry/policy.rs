//! The policy in a registry.

use std::fs;

use pps_e2e::{
    kubewarden::stand_in::PolicyModule,
    registry::{Publisher, Registry, media_type},
    repository::policy_path,
    supervisor::Supervisor,
};
use serde_json::Value;

use super::{VERSION, all_kinds, provenance};
use crate::support::cases::{host_of, outcome_of};

#[tokio::test]
async fn can_be_pulled_from_every_kind_of_registry() {
    let supervisor = Supervisor::start().unwrap();
    let module = fs::read(policy_path()).unwrap();
    for options in all_kinds() {
        let kind = format!("{options:?}");
        let registry = Registry::start(&supervisor, options).await.unwrap();
        let (publisher, reader) = (Publisher::to(&registry), registry.reader().unwrap());
        let repository = format!("{}/policies/persistent-pod-state", registry.host());

        let pushed = publisher.policy(registry.host()).await.unwrap();
        let tagged = reader
            .manifest(&format!("{repository}:v{VERSION}"))
            .await
            .unwrap();
        assert_eq!(pushed, format!("{repository}@{}", tagged.digest), "{kind}");
        assert_eq!(reader.pull_policy(&pushed).await.unwrap(), module, "{kind}");
    }
}

#[tokio::test]
async fn is_stored_in_kubewardens_format_and_answers_requests() {
    let (_supervisor, registry) = super::start(super::with_password()).await;
    let (publisher, reader) = (Publisher::to(&registry), registry.reader().unwrap());
    let reference = publisher.policy(registry.host()).await.unwrap();
    let manifest = reader.manifest(&reference).await.unwrap();
    assert_eq!(manifest.media_type, media_type::MANIFEST);
    let config = manifest.config.as_ref().unwrap();
    assert_eq!(config.media_type, media_type::POLICY_CONFIG);
    assert_eq!(reader.blob(&reference, config).await.unwrap(), b"{}");
    let types: Vec<_> = manifest
        .layers
        .iter()
        .map(|layer| layer.media_type.as_str())
        .collect();
    assert_eq!(types, [media_type::POLICY_LAYER]);

    for (key, value) in provenance() {
        assert_eq!(manifest.annotations.get(key), Some(&value), "{key}");
    }
    // The annotations are those of the metadata, except values with several lines.
    let module = reader.pull_policy(&reference).await.unwrap();
    let metadata: Value = serde_json::from_slice(embedded_metadata(&module)).unwrap();
    let mut lines = 0;
    for (key, value) in metadata["annotations"].as_object().unwrap() {
        let value = value.as_str().unwrap();
        let wanted = (value.lines().count() <= 1).then(|| value.trim().to_owned());
        assert_eq!(manifest.annotations.get(key), wanted.as_ref(), "{key}");
        lines += value.lines().count();
    }
    assert!(
        lines > metadata["annotations"].as_object().unwrap().len(),
        "no annotation has several lines"
    );
    assert_eq!(
        manifest.annotations["org.opencontainers.image.title"],
        "persistent-pod-state"
    );

    // Pushing again changes nothing.
    let again = publisher.policy(registry.host()).await.unwrap();
    assert_eq!(again, reference);
    answers_requests(&module);
}

/// The content of the custom section `io.kubewarden.metadata`.
fn embedded_metadata(module: &[u8]) -> &[u8] {
    wasmparser::Parser::new(0)
        .parse_all(module)
        .find_map(|payload| match payload.unwrap() {
            wasmparser::Payload::CustomSection(section)
                if section.name() == "io.kubewarden.metadata" =>
            {
                Some(section.data())
            }
            _ => None,
        })
        .unwrap()
}

fn answers_requests(module: &[u8]) {
    let policy = PolicyModule::load(module).unwrap();
    let case = pps_corpus::cases()
        .unwrap()
        .into_iter()
        .find(|case| case.name == "rule-02-alias-found")
        .unwrap();
    let evaluation = policy
        .evaluate(&case.request, &case.settings, &host_of(&case))
        .unwrap();
    let outcome = outcome_of(evaluation.response).unwrap();
    assert!(!outcome.patch.is_empty(), "the case injects nothing");
    case.check_answer(&outcome).unwrap();
}
