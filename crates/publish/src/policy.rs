//! The policy as Kubewarden's tools push and pull it.

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

/// Its package, and what it is compiled for.
pub(crate) const PACKAGE: &str = "persistent-pod-state-policy";
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// The custom section that holds the metadata.
const SECTION: &str = "io.kubewarden.metadata";
const SOURCE: &str = "io.kubewarden.policy.source";

/// What matters here of the metadata.
#[derive(Debug, Deserialize)]
struct Metadata {
    annotations: Annotations,
}

/// The manifest's annotations are those that kwctl makes of the metadata, and where it comes from.
pub(crate) fn artifact(module: &[u8], provenance: &Provenance) -> Result<Artifact> {
    let metadata = metadata(module)?;
    let of = |key: &str| {
        let key = format!("io.kubewarden.policy.{key}");
        metadata.annotations.get(&key).with_context(|| format!("its metadata lacks the annotation {key}"))
    };
    let version = of("version")?;
    ensure!(version == VERSION, "it is version {version}, not {VERSION}: build it anew (make policy.wasm)");
    let mut annotations = provenance.annotations(of("title")?, of("description")?);
    annotations.extend(of_metadata(metadata.annotations));
    let config = Blob::new(WASM_CONFIG_MEDIA_TYPE, "{}");
    Artifact::new(config, Blob::new(WASM_LAYER_MEDIA_TYPE, module), annotations)
}

/// As `kwctl push` does it: a manifest's annotations have one line, and the source is told twice.
fn of_metadata(annotations: Annotations) -> Annotations {
    let mut kept: Annotations = annotations
        .into_iter()
        .filter(|(_, value)| value.lines().count() <= 1)
        .map(|(key, value)| (key, value.trim().to_owned()))
        .collect();
    if let Some(source) = kept.get(SOURCE).cloned() {
        kept.entry(ORG_OPENCONTAINERS_IMAGE_SOURCE.to_owned()).or_insert(source);
    }
    kept
}

fn metadata(module: &[u8]) -> Result<Metadata> {
    ensure!(module.starts_with(b"\0asm"), "this is no Wasm module");
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::CustomSection(section) = payload.context("this is no Wasm module")?
            && section.name() == SECTION
        {
            return serde_json::from_slice(section.data())
                .with_context(|| format!("what is embedded as {SECTION} is no metadata of a policy"));
        }
    }
    bail!("this is no policy of Kubewarden: it has no section {SECTION} (make policy.wasm embeds it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(of: &[(&str, &str)]) -> Annotations {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn annotations_are_those_that_kwctl_makes() {
        let made = of_metadata(annotations(&[
            (SOURCE, "https://example.com/source"),
            ("io.kubewarden.policy.usage", "two\nlines"),
            ("io.kubewarden.policy.description", "one line with an end\n"),
        ]));
        let wanted = annotations(&[
            (SOURCE, "https://example.com/source"),
            ("io.kubewarden.policy.description", "one line with an end"),
            (ORG_OPENCONTAINERS_IMAGE_SOURCE, "https://example.com/source"),
        ]);
        assert_eq!(made, wanted);
        let told = annotations(&[(SOURCE, "a"), (ORG_OPENCONTAINERS_IMAGE_SOURCE, "b")]);
        assert_eq!(of_metadata(told.clone()), told);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let empty = b"\0asm\x01\0\0\0";
        for (module, wanted) in [
            (b"\x7fELF".as_slice(), "this is no Wasm module"),
            (b"\0asm", "this is no Wasm module"),
            (b"\0asm\x01\0\0\0\xff\xff", "this is no Wasm module"),
            (empty, "this is no policy of Kubewarden: it has no section io.kubewarden.metadata"),
            (b"\0asm\x01\0\0\0\0\x1a\x16io.kubewarden.metadata{}\n", "is no metadata of a policy"),
        ] {
            let error = format!("{:#}", metadata(module).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }
}
