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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{Blob, digest};

    fn image(text: &str) -> Artifact {
        let annotations = Annotations::from([("a".to_owned(), text.to_owned())]);
        Artifact::new(
            Blob::new("config", "{}"),
            Blob::new("layer", text),
            annotations,
        )
        .unwrap()
    }

    fn build(images: &[(Architecture, &str)]) -> Result<Index> {
        let images = images
            .iter()
            .map(|(architecture, text)| (*architecture, image(text)))
            .collect();
        super::build(images, Annotations::new())
    }

    #[test]
    fn an_index_names_each_platform_once_in_one_order() {
        let index = build(&[(Architecture::Arm64, "b"), (Architecture::Amd64, "a")]).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&index.bytes).unwrap();
        let names: Vec<_> = json["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["platform"])
            .collect();
        assert_eq!(
            names,
            [
                &json!({"architecture": "amd64", "os": "linux"}),
                &json!({"architecture": "arm64", "os": "linux"})
            ]
        );
        assert_eq!(json["manifests"][1]["digest"], image("b").digest());
        assert_eq!(json["manifests"][1]["annotations"], serde_json::Value::Null);
        let digests: Vec<_> = index
            .images
            .iter()
            .map(|(_, image)| image.digest())
            .collect();
        assert_eq!(digests, [image("a").digest(), image("b").digest()]);

        let again = build(&[(Architecture::Amd64, "a"), (Architecture::Arm64, "b")]).unwrap();
        assert_eq!(digest(&again.bytes), digest(&index.bytes));
    }

    #[test]
    fn refuses_two_images_for_one_architecture() {
        let error = build(&[(Architecture::Arm64, "a"), (Architecture::Arm64, "b")])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("two executables are for arm64: pass one for each architecture"),
            "{error}"
        );
    }
}
