//! The software bill of materials (SBOM) in CycloneDX form, and the artifact that attaches it to its subject.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use cargo_metadata::Package;
use cyclonedx_bom::{
    models::{
        bom::{Bom, SpecVersion},
        component::{Classification, Component, Components as List},
        dependency::{Dependencies, Dependency},
        external_reference::{ExternalReference, ExternalReferenceType, ExternalReferences},
        hash::{Hash, HashAlgorithm, HashValue, Hashes},
        license::{LicenseChoice, Licenses},
        metadata::Metadata,
        property::{Properties, Property},
        tool::{Tool, Tools},
    },
    prelude::{DateTime, NormalizedString, Purl, SpdxExpression, Uri, Validate},
};
use oci_client::{
    annotations::{ORG_OPENCONTAINERS_IMAGE_CREATED, ORG_OPENCONTAINERS_IMAGE_TITLE},
    manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest},
};

use crate::{
    artifact::{Annotations, Artifact, Blob, sha256_hex},
    components::{Components, PackageKey},
    provenance::{Provenance, VERSION},
};

/// The media type of the layer, and the artifact type by which clients find SBOMs.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The property that says for which platform an executable is.
const PLATFORM: &str = "persistent-pod-state:platform";
const SPEC: SpecVersion = SpecVersion::V1_5;

/// The SBOM of one file.
#[derive(Clone, Debug)]
pub(crate) struct Sbom {
    name: String,
    pub(crate) components: usize,
    pub(crate) json: Vec<u8>,
}

/// Creates the SBOM of a file, which is for a platform if it is an executable. The same file, commit and lock file give the same bytes: there is no random
/// serial number.
pub(crate) fn create(
    name: &str,
    file: &[u8],
    platform: Option<&str>,
    components: &Components,
    provenance: &Provenance,
) -> Result<Sbom> {
    let root = &components.root;
    let hash = Hash { alg: HashAlgorithm::SHA_256, content: HashValue(sha256_hex(file)) };
    let subject = Component {
        hashes: Some(Hashes(vec![hash])),
        properties: platform.map(|platform| Properties(vec![Property::new(PLATFORM, platform)])),
        ..describe(Classification::Application, root)?
    };
    let tool = Tool::new("PersistentPodState", "pps-publish", VERSION);
    let created =
        DateTime::try_from(provenance.created()).context("the commit's time is not valid in an SBOM")?;
    let list = components.packages.values().map(|package| describe(Classification::Library, package));
    let list = list.collect::<Result<Vec<_>>>()?;
    let dependency = |(id, used): (&PackageKey, &BTreeSet<PackageKey>)| Dependency {
        dependency_ref: bom_ref(id),
        dependencies: used.iter().map(bom_ref).collect(),
    };
    let bom = Bom {
        spec_version: SPEC,
        metadata: Some(Metadata {
            timestamp: Some(created),
            tools: Some(Tools::List(vec![tool])),
            component: Some(subject),
            ..Metadata::default()
        }),
        dependencies: Some(Dependencies(components.dependencies.iter().map(dependency).collect())),
        components: Some(List(list)),
        serial_number: None,
        ..Bom::default()
    };
    let verdict = bom.validate_version(SPEC);
    ensure!(verdict.passed(), "the SBOM is not valid: {verdict:?}");
    let mut json = Vec::new();
    bom.output_as_json(&mut json, SPEC).context("cannot write the SBOM")?;
    json.push(b'\n');
    Ok(Sbom { name: name.to_owned(), components: components.packages.len(), json })
}

impl Sbom {
    /// Builds the artifact that attaches the SBOM to its subject.
    pub(crate) fn build_artifact(&self, subject: &Artifact, provenance: &Provenance) -> Result<Artifact> {
        let title = format!("{}.cdx.json", self.name);
        let annotation = |key: &str, value: String| Annotations::from([(key.to_owned(), value)]);
        let config = Blob::new(EMPTY_MEDIA_TYPE, "{}");
        let layer = Blob {
            annotations: annotation(ORG_OPENCONTAINERS_IMAGE_TITLE, title),
            ..Blob::new(MEDIA_TYPE, self.json.as_slice())
        };
        let manifest = OciImageManifest {
            media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
            artifact_type: Some(MEDIA_TYPE.to_owned()),
            config: config.descriptor()?,
            layers: vec![layer.descriptor()?],
            subject: Some(subject.descriptor()?),
            annotations: Some(annotation(ORG_OPENCONTAINERS_IMAGE_CREATED, provenance.created())),
            ..OciImageManifest::default()
        };
        Artifact::with_manifest(vec![config, layer], manifest)
    }
}

fn describe(kind: Classification, package: &Package) -> Result<Component> {
    let version = package.version.to_string();
    let id = (package.name.to_string(), version.clone());
    // A package without a source belongs to this workspace and has no package URL.
    let purl = match &package.source {
        Some(_) => Some(Purl::new("cargo", &package.name, &version).context("the package has no valid URL")?),
        None => None,
    };
    let repository = package.repository.as_ref().and_then(|url| Uri::try_from(url.clone()).ok());
    let repository = repository.map(|url| ExternalReference::new(ExternalReferenceType::Vcs, url));
    Ok(Component {
        purl,
        description: package.description.as_deref().map(|text| NormalizedString::new(text.trim())),
        licenses: package.license.as_deref().map(|license| Licenses(vec![parse_license(license)])),
        external_references: repository.map(|reference| ExternalReferences(vec![reference])),
        ..Component::new(kind, &package.name, &version, Some(bom_ref(&id)))
    })
}

/// Parses an SPDX expression. Old packages separate alternatives by a slash, as in `MIT/Apache-2.0`.
fn parse_license(license: &str) -> LicenseChoice {
    match SpdxExpression::try_from(license.replace('/', " OR ")) {
        Ok(expression) => LicenseChoice::Expression(expression),
        Err(_) => LicenseChoice::license(license),
    }
}

/// The identifier of a component within the SBOM.
fn bom_ref((name, version): &PackageKey) -> String {
    format!("{name}@{version}")
}
