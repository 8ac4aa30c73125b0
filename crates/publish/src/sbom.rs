//! The list of components, as CycloneDX has it, and as a registry attaches it to what it is about.

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
        tool::{Tool, Tools},
    },
    prelude::{DateTime, NormalizedString, Purl, SpdxExpression, Uri, Validate},
};
use oci_client::{
    annotations::{ORG_OPENCONTAINERS_IMAGE_CREATED, ORG_OPENCONTAINERS_IMAGE_TITLE},
    manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest},
};

use crate::{
    artifact::{Annotations, Artifact, Blob, hex},
    components::{Components, Id},
    provenance::{Provenance, VERSION},
};

/// What it is, for registries and for those who look for it.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
const SPEC: SpecVersion = SpecVersion::V1_5;

/// The list of components of one file.
#[derive(Clone, Debug)]
pub(crate) struct Sbom {
    name: String,
    pub(crate) components: usize,
    pub(crate) json: Vec<u8>,
}

/// Lists the components of a file. The same file, commit and lock file give the same bytes: it has no random
/// serial number.
pub(crate) fn of(name: &str, file: &[u8], components: &Components, provenance: &Provenance) -> Result<Sbom> {
    let root = &components.root;
    let hash = Hash { alg: HashAlgorithm::SHA_256, content: HashValue(hex(file)) };
    let subject =
        Component { hashes: Some(Hashes(vec![hash])), ..component(Classification::Application, root)? };
    let tool = Tool::new("PersistentPodState", "pps-publish", VERSION);
    let created = DateTime::try_from(provenance.created()).context("no time of a list of components")?;
    let list = components.packages.values().map(|package| component(Classification::Library, package));
    let list = list.collect::<Result<Vec<_>>>()?;
    let dependency = |(id, used): (&Id, &BTreeSet<Id>)| Dependency {
        dependency_ref: reference(id),
        dependencies: used.iter().map(reference).collect(),
    };
    let bom = Bom {
        spec_version: SPEC,
        metadata: Some(Metadata {
            timestamp: Some(created),
            tools: Some(Tools::List(vec![tool])),
            component: Some(subject),
            ..Metadata::default()
        }),
        dependencies: Some(Dependencies(components.uses.iter().map(dependency).collect())),
        components: Some(List(list)),
        serial_number: None,
        ..Bom::default()
    };
    let verdict = bom.validate_version(SPEC);
    ensure!(verdict.passed(), "the list of components is not valid: {verdict:?}");
    let mut json = Vec::new();
    bom.output_as_json(&mut json, SPEC).context("cannot write the list of components")?;
    json.push(b'\n');
    Ok(Sbom { name: name.to_owned(), components: components.packages.len(), json })
}

impl Sbom {
    /// As it is attached to what it is about.
    pub(crate) fn artifact(&self, of: &Artifact, provenance: &Provenance) -> Result<Artifact> {
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
            subject: Some(of.descriptor()?),
            annotations: Some(annotation(ORG_OPENCONTAINERS_IMAGE_CREATED, provenance.created())),
            ..OciImageManifest::default()
        };
        Artifact::with_manifest(vec![config, layer], manifest)
    }
}

fn component(kind: Classification, package: &Package) -> Result<Component> {
    let version = package.version.to_string();
    let id = (package.name.to_string(), version.clone());
    // What comes from no registry is this project's own.
    let purl = match &package.source {
        Some(_) => Some(Purl::new("cargo", &package.name, &version).context("no name of a package")?),
        None => None,
    };
    let repository = package.repository.as_ref().and_then(|url| Uri::try_from(url.clone()).ok());
    let repository = repository.map(|url| ExternalReference::new(ExternalReferenceType::Vcs, url));
    Ok(Component {
        purl,
        description: package.description.as_deref().map(|text| NormalizedString::new(text.trim())),
        licenses: package.license.as_deref().map(|license| Licenses(vec![license_of(license)])),
        external_references: repository.map(|reference| ExternalReferences(vec![reference])),
        ..Component::new(kind, &package.name, &version, Some(reference(&id)))
    })
}

/// A licence as SPDX has it; old packages write `MIT/Apache-2.0` for a choice.
fn license_of(license: &str) -> LicenseChoice {
    match SpdxExpression::try_from(license.replace('/', " OR ")) {
        Ok(expression) => LicenseChoice::Expression(expression),
        Err(_) => LicenseChoice::license(license),
    }
}

/// How the list refers to a component.
fn reference((name, version): &Id) -> String {
    format!("{name}@{version}")
}
