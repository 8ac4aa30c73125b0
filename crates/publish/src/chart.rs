//! The Helm chart in the form that `helm push` and `helm pull` use.

use std::{collections::BTreeMap, io::Read, path::Component};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::{
    artifact::{Annotations, Artifact, Blob},
    provenance::{Provenance, VERSION},
};

const CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const LAYER_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Under this tag of a chart's repository, <https://artifacthub.io> looks for the owners.
pub(crate) const HUB_TAG: &str = "artifacthub.io";
const HUB_CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.artifacthub.config.v1+yaml";
const HUB_LAYER_MEDIA_TYPE: &str =
    "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml";
/// `<chart>/Chart.yaml`.
const DEFINITION: &str = "Chart.yaml";

/// Builds the artifact: the configuration is `Chart.yaml` as JSON, the layer is the packed chart,
/// unchanged.
pub(crate) fn build_artifact(package: &[u8], provenance: &Provenance) -> Result<Artifact> {
    let definition = read_definition(package)?;
    let text = |field: &str| {
        definition[field]
            .as_str()
            .with_context(|| format!("{DEFINITION} has no {field}"))
    };
    let version = text("version")?;
    ensure!(
        version == VERSION,
        "pack the chart again with `make release`: it has version {version}, not {VERSION}"
    );
    let annotations = provenance.annotations(text("name")?, text("description")?);
    let config = Blob::new(CONFIG_MEDIA_TYPE, serde_json::to_vec(&definition)?);
    Artifact::new(config, Blob::new(LAYER_MEDIA_TYPE, package), annotations)
}

/// Builds the artifact for Artifact Hub of `artifacthub-repo.yml`.
pub(crate) fn build_hub_metadata(file: &[u8]) -> Result<Artifact> {
    let config = Blob::new(HUB_CONFIG_MEDIA_TYPE, "{}");
    Artifact::new(
        config,
        Blob::new(HUB_LAYER_MEDIA_TYPE, file),
        Annotations::new(),
    )
}

fn read_definition(package: &[u8]) -> Result<Value> {
    let mut archive = tar::Archive::new(GzDecoder::new(package));
    for entry in archive.entries().context("not a packed chart")? {
        let mut entry = entry.context("not a packed chart")?;
        let path = entry.path()?.into_owned();
        let mut parts = path
            .components()
            .filter(|part| *part != Component::CurDir)
            .skip(1);
        if parts
            .next()
            .is_some_and(|name| name.as_os_str() == DEFINITION)
        {
            let mut text = String::new();
            entry
                .read_to_string(&mut text)
                .with_context(|| path.display().to_string())?;
            let definition: BTreeMap<String, Value> =
                yaml_serde::from_str(&text).with_context(|| path.display().to_string())?;
            return Ok(definition.into_iter().collect());
        }
    }
    anyhow::bail!("not a packed chart: pack it with `make release` (it has no {DEFINITION})")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn packed(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            archive
                .append_data(&mut header, path, content.as_bytes())
                .unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn reads_the_definition_of_the_chart_itself() {
        let chart = "name: pps\nversion: 1.2.3\nkeywords: [a]\n";
        let package = packed(&[
            ("pps/values.yaml", ""),
            ("pps/charts/x/Chart.yaml", "name: x"),
            ("pps/Chart.yaml", chart),
        ]);
        let found = read_definition(&package).unwrap();
        assert_eq!(
            (&found["name"], &found["keywords"][0]),
            (&"pps".into(), &"a".into())
        );
    }

    #[test]
    fn refuses_anything_that_is_not_a_chart() {
        let mut text = GzEncoder::new(Vec::new(), Compression::default());
        text.write_all(b"text").unwrap();
        for package in [
            b"PK".to_vec(),
            text.finish().unwrap(),
            packed(&[("pps/values.yaml", "")]),
        ] {
            let error = format!("{:#}", read_definition(&package).unwrap_err());
            assert!(error.contains("not a packed chart"), "{error}");
        }
        let broken = format!(
            "{:#}",
            read_definition(&packed(&[("pps/Chart.yaml", "[")])).unwrap_err()
        );
        assert!(broken.contains("pps/Chart.yaml"), "{broken}");
    }
}
