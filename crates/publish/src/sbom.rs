//! The software bill of materials (SBOM) in CycloneDX form, and the artifact that attaches it to its subject.

use anyhow::Result;
use oci_client::{
    annotations::{ORG_OPENCONTAINERS_IMAGE_CREATED, ORG_OPENCONTAINERS_IMAGE_TITLE},
    manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest},
};
use serde_json::{Value, json};

use crate::{
    artifact::{Annotations, Artifact, Blob, sha256_hex},
    components::{Components, Package, PackageKey},
    provenance::{Provenance, VERSION},
};

/// The media type of the layer, and the artifact type by which clients find SBOMs.
const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";

#[derive(Clone, Debug)]
pub(crate) struct Sbom {
    name: String,
    pub(crate) components: usize,
    pub(crate) json: Vec<u8>,
}

/// Creates the SBOM of a file, which is for a platform if it is an executable. The same file, commit and lock
/// file give the same bytes: there is no random serial number.
pub(crate) fn create(
    name: &str,
    file: &[u8],
    platform: Option<&str>,
    components: &Components,
    provenance: &Provenance,
) -> Sbom {
    let Components { root, packages } = components;
    let mut subject = describe("application", root, &packages[root]);
    subject["hashes"] = json!([{"alg": "SHA-256", "content": sha256_hex(file)}]);
    if let Some(platform) = platform {
        subject["properties"] = json!([{"name": "persistent-pod-state:platform", "value": platform}]);
    }
    let used = packages.iter().filter(|(key, _)| *key != root);
    let list: Vec<Value> = used.map(|(key, package)| describe("library", key, package)).collect();
    let dependencies = packages.iter().map(|(key, package)| {
        let used: Vec<String> = package.dependencies.iter().map(bom_ref).collect();
        json!({"ref": bom_ref(key), "dependsOn": used})
    });
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": provenance.created(),
            "tools": [{"vendor": "PersistentPodState", "name": "pps-publish", "version": VERSION}],
            "component": subject,
        },
        "components": list,
        "dependencies": dependencies.collect::<Vec<_>>(),
    });
    let json = format!("{bom:#}\n").into_bytes();
    Sbom { name: name.to_owned(), components: packages.len() - 1, json }
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

fn describe(kind: &str, key: &PackageKey, package: &Package) -> Value {
    let (name, version) = key;
    let mut component = json!({"type": kind, "bom-ref": bom_ref(key), "name": name, "version": version});
    // A package of this workspace has no package URL.
    if !package.is_own {
        component["purl"] = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")).into();
    }
    // An SPDX expression. Old packages separate alternatives by a slash, as in `MIT/Apache-2.0`.
    if !package.license.is_empty() {
        component["licenses"] = json!([{"expression": package.license.replace('/', " OR ")}]);
    }
    if !package.repository.is_empty() {
        component["externalReferences"] = json!([{"type": "vcs", "url": package.repository}]);
    }
    component
}

fn bom_ref((name, version): &PackageKey) -> String {
    format!("{name}@{version}")
}
