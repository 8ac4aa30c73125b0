//! Pushes artifacts to a registry, in an order in which a tag never refers to anything incomplete.

mod credentials;
mod failure;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use oci_client::{
    Client, Reference, RegistryOperation,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol},
    manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciImageIndex},
    secrets::RegistryAuth,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::{
    args::Access,
    artifact::{Artifact, digest},
    index::Index,
    provenance::VERSION,
};
use credentials::Credentials;
use failure::RequestContext;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit of each request; a request carries at most 4 MiB.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(2);

/// A repository to which this process may push.
pub(crate) struct Registry {
    client: Client,
    target: Reference,
    context: RequestContext,
}

/// Parses `registry/repository:tag`. The tag defaults to the tag of this version.
pub(crate) fn parse_reference(text: &str) -> Result<Reference> {
    let form = "use registry/repository:tag";
    let bare = text
        .strip_prefix("registry://")
        .or_else(|| text.strip_prefix("oci://"))
        .unwrap_or(text);
    let parsed = Reference::try_from(bare)
        .with_context(|| format!("{text:?} is not a reference: {form}"))?;
    ensure!(parsed.digest().is_none(), "{text:?} has a digest: {form}");
    let first = bare.split('/').next().unwrap_or_default();
    if !bare.contains('/') || !(first.contains(['.', ':']) || first == "localhost") {
        bail!("{text:?} has no registry: {form}");
    }
    let has_tag = bare
        .rsplit('/')
        .next()
        .is_some_and(|last| last.contains(':'));
    Ok(if has_tag {
        parsed
    } else {
        with_tag(&parsed, format!("v{VERSION}"))
    })
}

fn with_tag(reference: &Reference, tag: String) -> Reference {
    Reference::with_tag(
        reference.registry().to_owned(),
        reference.repository().to_owned(),
        tag,
    )
}

impl Registry {
    pub(crate) async fn connect(
        target: Reference,
        access: &Access,
        operation: RegistryOperation,
    ) -> Result<Self> {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let credentials = Credentials::load(target.registry())?;
        let auth = credentials
            .as_ref()
            .map_or(RegistryAuth::Anonymous, |found| {
                RegistryAuth::Basic(found.user.clone(), found.password.clone())
            });
        let config = ClientConfig {
            protocol: if access.plain_http {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            tls_certs_only: access
                .ca_file
                .as_deref()
                .map(read_certificates)
                .transpose()?
                .unwrap_or_default(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(RESPONSE_TIMEOUT),
            user_agent: concat!("pps-publish/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let context = RequestContext {
            operation,
            host: target.registry().to_owned(),
            repository: target.repository().to_owned(),
            credentials,
        };
        let client = Client::try_from(config).map_err(|error| context.explain(&error))?;
        client
            .auth(&target, &auth, operation)
            .await
            .map_err(|error| context.explain(&error))?;
        Ok(Self {
            client,
            target,
            context,
        })
    }

    /// Pushes an artifact and returns its immutable reference. The SBOM is pushed before the tag,
    /// so it exists whenever the tag does.
    pub(crate) async fn push(
        &self,
        artifact: &Artifact,
        sbom: Option<&Artifact>,
    ) -> Result<String> {
        self.push_content(artifact, sbom).await?;
        self.push_tagged(&artifact.bytes, OCI_IMAGE_MEDIA_TYPE)
            .await
    }

    /// Pushes the images of an index, each with its SBOM, then the index. Returns the index's
    /// immutable reference.
    pub(crate) async fn push_index(&self, index: &Index, sboms: &[Artifact]) -> Result<String> {
        ensure!(
            index.images.len() == sboms.len(),
            "each image of an index needs an SBOM"
        );
        let tag = self.target.tag().context("the reference has no tag")?;
        for ((architecture, image), sbom) in index.images.iter().zip(sboms) {
            self.push_content(image, Some(sbom)).await?;
            // With a tag of its own, because cleanup jobs of registries delete untagged manifests.
            let own = with_tag(&self.target, format!("{tag}-{}", architecture.name()));
            self.push_manifest(&own, &image.bytes, OCI_IMAGE_MEDIA_TYPE)
                .await?;
        }
        self.push_tagged(&index.bytes, OCI_IMAGE_INDEX_MEDIA_TYPE)
            .await
    }

    /// Returns the immutable reference of the tag.
    pub(crate) async fn resolve(&self) -> Result<String> {
        // The client keeps the credentials with which it has connected.
        let digest = self
            .client
            .fetch_manifest_digest(&self.target, &RegistryAuth::Anonymous)
            .await;
        Ok(self.immutable(&digest.map_err(|error| self.context.explain(&error))?))
    }

    /// Pushes everything that must exist before the manifest.
    async fn push_content(&self, artifact: &Artifact, sbom: Option<&Artifact>) -> Result<()> {
        self.push_blobs(artifact).await?;
        if let Some(sbom) = sbom {
            // With a tag of its own, because registries delete untagged manifests.
            let stem = artifact.digest().replace(':', "-");
            self.push_beside(sbom, format!("{stem}.sbom")).await?;
            self.attach(artifact, sbom, &stem).await?;
        }
        Ok(())
    }

    /// Pushes an artifact under another tag of the target's repository.
    pub(crate) async fn push_beside(&self, artifact: &Artifact, tag: String) -> Result<()> {
        self.push_blobs(artifact).await?;
        let own = with_tag(&self.target, tag);
        self.push_manifest(&own, &artifact.bytes, OCI_IMAGE_MEDIA_TYPE)
            .await
    }

    /// Pushes a manifest under the target's tag, after everything that it refers to.
    async fn push_tagged(&self, bytes: &[u8], media_type: &'static str) -> Result<String> {
        self.push_manifest(&self.target, bytes, media_type).await?;
        Ok(self.immutable(&digest(bytes)))
    }

    fn immutable(&self, digest: &str) -> String {
        format!(
            "{}/{}@{digest}",
            self.target.registry(),
            self.target.repository()
        )
    }

    async fn push_blobs(&self, artifact: &Artifact) -> Result<()> {
        for blob in &artifact.blobs {
            let digest = digest(&blob.data);
            // If this check fails, the push itself fails with the reason.
            if self
                .client
                .blob_exists(&self.target, &digest)
                .await
                .unwrap_or_default()
            {
                eprintln!("{digest} {} exists already", blob.media_type);
                continue;
            }
            let pushed = self
                .client
                .push_blob(&self.target, blob.data.clone(), &digest)
                .await;
            pushed.map_err(|error| self.context.explain(&error))?;
            eprintln!("{digest} {} ({} bytes)", blob.media_type, blob.data.len());
        }
        Ok(())
    }

    async fn push_manifest(
        &self,
        reference: &Reference,
        bytes: &[u8],
        media_type: &'static str,
    ) -> Result<()> {
        let kind = media_type
            .parse()
            .with_context(|| format!("not a media type: {media_type}"))?;
        let pushed = self
            .client
            .push_manifest_raw(reference, bytes.to_vec(), kind)
            .await;
        pushed.map_err(|error| self.context.explain(&error))?;
        eprintln!(
            "{} {media_type} as {}",
            digest(bytes),
            reference.tag().unwrap_or_default()
        );
        Ok(())
    }

    /// Lists the SBOM among the artifact's referrers. Registries with the referrers API of OCI 1.1
    /// do so on their own; for others this maintains the fallback index under `tag`.
    async fn attach(&self, artifact: &Artifact, sbom: &Artifact, tag: &str) -> Result<()> {
        let subject = self.target.clone_with_digest(artifact.digest());
        let index = self.client.pull_referrers(&subject, None).await;
        let index = index.map_err(|error| self.context.explain(&error))?;
        match add_to_index(index, sbom)? {
            Some(index) => {
                let fallback = with_tag(&self.target, tag.to_owned());
                self.push_manifest(
                    &fallback,
                    &serde_json::to_vec(&index)?,
                    OCI_IMAGE_INDEX_MEDIA_TYPE,
                )
                .await
            }
            None => Ok(()),
        }
    }
}

/// Adds an artifact to an index; `None` if the index has it already.
fn add_to_index(index: OciImageIndex, pushed: &Artifact) -> Result<Option<OciImageIndex>> {
    let entry = pushed.index_entry()?;
    if index
        .manifests
        .iter()
        .any(|known| known.digest == entry.digest)
    {
        return Ok(None);
    }
    let mut index = OciImageIndex {
        media_type: Some(OCI_IMAGE_INDEX_MEDIA_TYPE.to_owned()),
        ..index
    };
    index.manifests.push(entry);
    Ok(Some(index))
}

fn read_certificates(file: &Path) -> Result<Vec<Certificate>> {
    let pem =
        fs::read(file).with_context(|| format!("--ca-file: cannot read {}", file.display()))?;
    let found: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .with_context(|| format!("--ca-file: {} is not a PEM file", file.display()))?;
    ensure!(
        !found.is_empty(),
        "--ca-file: {} has no certificate",
        file.display()
    );
    let certificate = |der: CertificateDer<'_>| Certificate {
        encoding: CertificateEncoding::Der,
        data: der.to_vec(),
    };
    Ok(found.into_iter().map(certificate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{Annotations, Blob};

    #[test]
    fn accepts_references_with_a_registry_and_without_a_digest() {
        let read = |text: &str| parse_reference(text).map(|reference| reference.whole());
        let version = format!("v{VERSION}");
        for (text, wanted) in [
            ("r.example/a/b:v1", "r.example/a/b:v1"),
            ("registry://r.example/a/b:latest", "r.example/a/b:latest"),
            ("oci://localhost/a", &format!("localhost/a:{version}")),
            (
                "127.0.0.1:5000/a/b",
                &format!("127.0.0.1:5000/a/b:{version}"),
            ),
        ] {
            assert_eq!(read(text).unwrap(), wanted);
        }
        let digest = format!("r.example/a@{}", digest(b""));
        for (text, wanted) in [
            ("", "is not a reference"),
            ("r.example/A", "is not a reference"),
            ("https://r.example/a", "is not a reference"),
            ("a:v1", "has no registry"),
            ("a/b:v1", "has no registry"),
            (&digest, "has a digest"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains(wanted) && error.ends_with("use registry/repository:tag"),
                "{error}"
            );
        }
    }

    #[test]
    fn adds_each_artifact_to_the_index_once() {
        let artifact = |text: &str| {
            Artifact::new(
                Blob::new("config", "{}"),
                Blob::new("layer", text),
                Annotations::new(),
            )
            .unwrap()
        };
        let empty = OciImageIndex {
            schema_version: 2,
            media_type: None,
            manifests: Vec::new(),
            artifact_type: None,
            annotations: None,
        };
        let one = add_to_index(empty, &artifact("one")).unwrap().unwrap();
        let two = add_to_index(one.clone(), &artifact("two"))
            .unwrap()
            .unwrap();
        let digests: Vec<_> = two
            .manifests
            .iter()
            .map(|entry| entry.digest.clone())
            .collect();
        assert_eq!(
            digests,
            [artifact("one").digest(), artifact("two").digest()]
        );
        assert_eq!(two.media_type.as_deref(), Some(OCI_IMAGE_INDEX_MEDIA_TYPE));
        assert!(add_to_index(two, &artifact("one")).unwrap().is_none());
    }
}
