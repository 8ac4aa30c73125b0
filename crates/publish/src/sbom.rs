//! The software bill of materials (SBOM) in SPDX form, and the artifact that attaches it to its
//! subject.

use anyhow::Result;
use oci_client::{
    annotations::{ORG_OPENCONTAINERS_IMAGE_CREATED, ORG_OPENCONTAINERS_IMAGE_TITLE},
    manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest},
};
use serde_json::{Value, json};

use crate::{
    artifact::{Annotations, Artifact, Blob, sha256_hex},
    components::{Components, Package, PackageKey},
    provenance::{Provenance, REPOSITORY, VENDOR, VERSION},
};

/// The media type of the layer, and the artifact type by which clients find SBOMs.
const MEDIA_TYPE: &str = "application/spdx+json";
const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";

#[derive(Clone, Debug)]
pub(crate) struct Sbom {
    name: String,
    pub(crate) components: usize,
    pub(crate) json: Vec<u8>,
}

/// Creates the SBOM of a file that was compiled for a target. The same file, commit and lock file
/// give the same bytes.
pub(crate) fn create(
    file: &[u8],
    target: &str,
    components: &Components,
    provenance: &Provenance,
) -> Sbom {
    let Components { root, packages } = components;
    let (name, digest) = (format!("{}-{}-{target}", root.0, root.1), sha256_hex(file));
    let relate = |of: &str, how: &str, to: &str| json!({"spdxElementId": of, "relationshipType": how, "relatedSpdxElement": to});
    let mut relationships = vec![relate(DOCUMENT, "DESCRIBES", &identifier(root))];
    let mut list = Vec::new();
    for (key, package) in packages {
        let used = |used| relate(&identifier(key), "DEPENDS_ON", &identifier(used));
        relationships.extend(package.dependencies.iter().map(used));
        let mut described = describe(key, package);
        if key == root {
            described["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": digest}]);
        }
        list.push(described);
    }
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": name,
        "documentNamespace": format!("{REPOSITORY}/spdx/{name}-{digest}"),
        "creationInfo": {
            "created": provenance.created(),
            "creators": [format!("Tool: pps-publish-{VERSION}"), format!("Organization: {VENDOR}")],
        },
        "packages": list,
        "relationships": relationships,
    });
    Sbom {
        name,
        components: packages.len() - 1,
        json: format!("{document:#}\n").into_bytes(),
    }
}

impl Sbom {
    /// Builds the artifact that attaches the SBOM to its subject.
    pub(crate) fn build_artifact(
        &self,
        subject: &Artifact,
        provenance: &Provenance,
    ) -> Result<Artifact> {
        let title = format!("{}.spdx.json", self.name);
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
            annotations: Some(annotation(
                ORG_OPENCONTAINERS_IMAGE_CREATED,
                provenance.created(),
            )),
            ..OciImageManifest::default()
        };
        Artifact::with_manifest(vec![config, layer], manifest)
    }
}

fn describe(key: &PackageKey, package: &Package) -> Value {
    let (name, version) = key;
    // An SPDX expression. Old packages separate alternatives by a slash, as in `MIT/Apache-2.0`.
    let license = Some(package.license.replace('/', " OR ")).filter(|license| !license.is_empty());
    let mut described = json!({
        "SPDXID": identifier(key),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseDeclared": license.as_deref().unwrap_or("NOASSERTION"),
    });
    if !package.repository.is_empty() {
        described["homepage"] = package.repository.as_str().into();
    }
    // A package of this workspace has no package URL.
    if !package.is_own {
        let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        described["externalRefs"] = json!([
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        ]);
    }
    described
}

/// Letters, digits, dots and hyphens are allowed.
fn identifier((name, version): &PackageKey) -> String {
    format!("SPDXRef-{name}-{version}").replace(['_', '+'], "-")
}
