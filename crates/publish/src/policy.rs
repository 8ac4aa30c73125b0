//! The policy in the form that Kubewarden's tools push and pull.

use anyhow::{Context, Result, bail, ensure};
use oci_client::{
    annotations::ORG_OPENCONTAINERS_IMAGE_SOURCE,
    manifest::{WASM_CONFIG_MEDIA_TYPE, WASM_LAYER_MEDIA_TYPE},
};
use serde::Deserialize;
use wasmparser::{Parser, Payload};

use crate::{
    artifact::{Annotations, Artifact, Blob},
    provenance::{Provenance, VERSION},
};

/// The policy's package, and its compilation target.
pub(crate) const PACKAGE: &str = "persistent-pod-state-policy";
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
const SECTION: &str = "io.kubewarden.metadata";
const SOURCE: &str = "io.kubewarden.policy.source";

/// The part of the metadata that a manifest needs.
#[derive(Debug, Deserialize)]
struct PolicyMetadata {
    annotations: Annotations,
}

/// Builds the artifact. Its annotations are the ones that kwctl derives from the metadata, and the
/// provenance.
pub(crate) fn build_artifact(module: &[u8], provenance: &Provenance) -> Result<Artifact> {
    let metadata = read_metadata(module)?;
    let annotation = |key: &str| {
        let key = format!("io.kubewarden.policy.{key}");
        metadata
            .annotations
            .get(&key)
            .with_context(|| format!("the metadata has no annotation {key}"))
    };
    let version = annotation("version")?;
    ensure!(
        version == VERSION,
        "build the policy again with `make policy.wasm`: it has version {version}, not {VERSION}"
    );
    let mut annotations = provenance.annotations(annotation("title")?, annotation("description")?);
    annotations.extend(manifest_annotations(metadata.annotations));
    let config = Blob::new(WASM_CONFIG_MEDIA_TYPE, "{}");
    Artifact::new(
        config,
        Blob::new(WASM_LAYER_MEDIA_TYPE, module),
        annotations,
    )
}

/// Derives the manifest's annotations like `kwctl push`: only values of one line, and the source
/// under two keys.
fn manifest_annotations(annotations: Annotations) -> Annotations {
    let mut derived: Annotations = annotations
        .into_iter()
        .filter(|(_, value)| value.lines().count() <= 1)
        .map(|(key, value)| (key, value.trim().to_owned()))
        .collect();
    if let Some(source) = derived.get(SOURCE).cloned() {
        derived
            .entry(ORG_OPENCONTAINERS_IMAGE_SOURCE.to_owned())
            .or_insert(source);
    }
    derived
}

fn read_metadata(module: &[u8]) -> Result<PolicyMetadata> {
    ensure!(module.starts_with(b"\0asm"), "not a Wasm module");
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::CustomSection(section) = payload.context("not a Wasm module")?
            && section.name() == SECTION
        {
            return serde_json::from_slice(section.data()).with_context(|| {
                format!("the section {SECTION} is not valid metadata of a policy")
            });
        }
    }
    bail!("not a Kubewarden policy: build it with `make policy.wasm` (it has no section {SECTION})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(of: &[(&str, &str)]) -> Annotations {
        of.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn derives_the_same_annotations_as_kwctl() {
        let derived = manifest_annotations(annotations(&[
            (SOURCE, "https://example.com/source"),
            ("io.kubewarden.policy.usage", "two\nlines"),
            ("io.kubewarden.policy.description", "one line with an end\n"),
        ]));
        let wanted = annotations(&[
            (SOURCE, "https://example.com/source"),
            ("io.kubewarden.policy.description", "one line with an end"),
            (
                ORG_OPENCONTAINERS_IMAGE_SOURCE,
                "https://example.com/source",
            ),
        ]);
        assert_eq!(derived, wanted);
        let explicit = annotations(&[(SOURCE, "a"), (ORG_OPENCONTAINERS_IMAGE_SOURCE, "b")]);
        assert_eq!(manifest_annotations(explicit.clone()), explicit);
    }

    #[test]
    fn refuses_anything_that_is_not_a_policy() {
        let empty = b"\0asm\x01\0\0\0";
        for (module, wanted) in [
            (b"\x7fELF".as_slice(), "not a Wasm module"),
            (b"\0asm", "not a Wasm module"),
            (b"\0asm\x01\0\0\0\xff\xff", "not a Wasm module"),
            (
                empty,
                "not a Kubewarden policy: build it with `make policy.wasm` (it has no section \
                 io.kubewarden.metadata)",
            ),
            (
                b"\0asm\x01\0\0\0\0\x1a\x16io.kubewarden.metadata{}\n",
                "is not valid metadata of a policy",
            ),
        ] {
            let error = format!("{:#}", read_metadata(module).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }
}
