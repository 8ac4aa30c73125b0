//! An image index: the images of one program for several platforms, under one reference.

use anyhow::{Result, ensure};
use oci_client::manifest::{ImageIndexEntry, OCI_IMAGE_INDEX_MEDIA_TYPE, OciImageIndex};
use serde_json::json;

use crate::{
    artifact::{Annotations, Artifact},
    binary::Architecture,
};

#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// Sorted by architecture, as in the index.
    pub(crate) images: Vec<(Architecture, Artifact)>,
    /// The index's bytes; their digest is the digest of the image for all platforms.
    pub(crate) bytes: Vec<u8>,
}

/// Builds the index. The order of the images does not matter: the same images give the same bytes.
pub(crate) fn build(
    mut images: Vec<(Architecture, Artifact)>,
    annotations: Annotations,
) -> Result<Index> {
    images.sort_by_key(|(architecture, _)| *architecture);
    for pair in images.windows(2) {
        let name = pair[0].0.name();
        ensure!(
            pair[0].0 != pair[1].0,
            "two executables are for {name}: pass one for each architecture \
             (hack/build-release.sh pps-sidecar linux-…)"
        );
    }
    let entry = |(architecture, image): &(Architecture, Artifact)| -> Result<ImageIndexEntry> {
        Ok(ImageIndexEntry {
            platform: serde_json::from_value(
                json!({"architecture": architecture.name(), "os": "linux"}),
            )?,
            // The manifest itself has them.
            annotations: None,
            ..image.index_entry()?
        })
    };
    let index = OciImageIndex {
        schema_version: 2,
        media_type: Some(OCI_IMAGE_INDEX_MEDIA_TYPE.to_owned()),
        manifests: images.iter().map(entry).collect::<Result<_>>()?,
        artifact_type: None,
        annotations: Some(annotations),
    };
    let bytes = serde_json::to_vec(&index)?;
    Ok(Index { images, bytes })
}
