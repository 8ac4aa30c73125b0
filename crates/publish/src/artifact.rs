//! What a registry stores: blobs, and a manifest that refers to them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use oci_client::manifest::{
    ImageIndexEntry, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest,
};
use sha2::{Digest, Sha256};

pub(crate) type Annotations = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) media_type: &'static str,
    pub(crate) data: Vec<u8>,
    pub(crate) annotations: Annotations,
}

impl Blob {
    pub(crate) fn new(media_type: &'static str, data: impl Into<Vec<u8>>) -> Self {
        Self {
            media_type,
            data: data.into(),
            annotations: Annotations::new(),
        }
    }

    pub(crate) fn descriptor(&self) -> Result<OciDescriptor> {
        Ok(OciDescriptor {
            annotations: Some(self.annotations.clone())
                .filter(|annotations| !annotations.is_empty()),
            ..describe(self.media_type, &self.data)?
        })
    }
}

/// A manifest, and the blobs that must be pushed before it.
#[derive(Clone, Debug)]
pub(crate) struct Artifact {
    pub(crate) blobs: Vec<Blob>,
    pub(crate) manifest: OciImageManifest,
    /// The manifest's bytes; their digest is the digest of the artifact.
    pub(crate) bytes: Vec<u8>,
}

impl Artifact {
    pub(crate) fn new(config: Blob, layer: Blob, annotations: Annotations) -> Result<Self> {
        let manifest = OciImageManifest {
            media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
            config: config.descriptor()?,
            layers: vec![layer.descriptor()?],
            annotations: Some(annotations),
            ..OciImageManifest::default()
        };
        Self::with_manifest(vec![config, layer], manifest)
    }

    /// Serialises the manifest with its fields in the order of the type and its annotations sorted,
    /// so the same content gives the same bytes.
    pub(crate) fn with_manifest(blobs: Vec<Blob>, manifest: OciImageManifest) -> Result<Self> {
        let bytes = serde_json::to_vec(&manifest)?;
        Ok(Self {
            blobs,
            manifest,
            bytes,
        })
    }

    pub(crate) fn digest(&self) -> String {
        digest(&self.bytes)
    }

    /// The manifest's descriptor, with which another manifest names it as its subject.
    pub(crate) fn descriptor(&self) -> Result<OciDescriptor> {
        describe(OCI_IMAGE_MEDIA_TYPE, &self.bytes)
    }

    pub(crate) fn index_entry(&self) -> Result<ImageIndexEntry> {
        let descriptor = self.descriptor()?;
        Ok(ImageIndexEntry {
            media_type: descriptor.media_type,
            digest: descriptor.digest,
            size: descriptor.size,
            platform: None,
            annotations: self.manifest.annotations.clone(),
            artifact_type: self.manifest.artifact_type.clone(),
        })
    }
}

fn describe(media_type: &str, data: &[u8]) -> Result<OciDescriptor> {
    Ok(OciDescriptor {
        media_type: media_type.to_owned(),
        digest: digest(data),
        size: i64::try_from(data.len()).context("the data is too large for a registry")?,
        ..OciDescriptor::default()
    })
}

pub(crate) fn digest(data: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(data))
}

pub(crate) fn sha256_hex(data: &[u8]) -> String {
    Sha256::digest(data)
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
