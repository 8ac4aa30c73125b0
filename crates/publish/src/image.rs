//! The sidecar's container image: one file, without a shell.

use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use oci_client::manifest::{IMAGE_CONFIG_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE};
use serde_json::json;
use tar::{EntryType, Header};

use crate::{
    artifact::{Annotations, Artifact, Blob, digest},
    binary::Architecture,
    provenance::{Provenance, VERSION},
};

pub(crate) const PACKAGE: &str = "pps-sidecar";
const TITLE: &str = "persistent-pod-state-sidecar";
const DESCRIPTION: &str =
    "Records where stateful Pods run, so that the PersistentPodState policy can bring them back";
/// An unprivileged user; the Deployment sets the same.
const USER: &str = "65532:65532";

/// The annotations of the image, and of the index of several.
pub(crate) fn annotations(provenance: &Provenance) -> Annotations {
    provenance.annotations(TITLE, DESCRIPTION)
}

pub(crate) fn build_artifact(
    binary: &[u8],
    architecture: Architecture,
    provenance: &Provenance,
) -> Result<Artifact> {
    let archive = pack(binary, provenance).context("cannot pack the layer")?;
    let annotations = annotations(provenance);
    let created = provenance.created();
    // Its keys are sorted, so that the same image has the same digest.
    let config = json!({
        "created": created,
        "architecture": architecture.name(),
        "os": "linux",
        "config": {"User": USER, "Entrypoint": [format!("/{PACKAGE}")], "WorkingDir": "/", "Labels": annotations},
        "rootfs": {"type": "layers", "diff_ids": [digest(&archive)]},
        "history": [{"created": created, "created_by": format!("pps-publish {VERSION}")}],
    });
    let config = Blob::new(IMAGE_CONFIG_MEDIA_TYPE, serde_json::to_vec(&config)?);
    let layer = Blob::new(
        IMAGE_LAYER_GZIP_MEDIA_TYPE,
        compress(&archive).context("cannot pack the layer")?,
    );
    Artifact::new(config, layer, annotations)
}

/// Packs the executable: owned by root, executable by everyone.
fn pack(binary: &[u8], provenance: &Provenance) -> Result<Vec<u8>> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(binary.len() as u64);
    header.set_mtime(u64::try_from(provenance.created.as_second()).unwrap_or_default());
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, PACKAGE, binary)?;
    Ok(archive.into_inner()?)
}

/// Compresses without a name and a time in the gzip header, so that the same input gives the same
/// bytes.
fn compress(archive: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::default());
    encoder.write_all(archive)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn build(seconds: i64, revision: &str) -> Artifact {
        let created = Timestamp::from_second(seconds).unwrap();
        let provenance = Provenance {
            revision: revision.to_owned(),
            created,
        };
        build_artifact(b"a program", Architecture::Arm64, &provenance).unwrap()
    }

    #[test]
    fn the_digest_depends_only_on_the_program_and_its_provenance() {
        assert_eq!(build(1, "a").digest(), build(1, "a").digest());
        assert_ne!(build(1, "a").digest(), build(2, "a").digest());
        assert_ne!(build(1, "a").digest(), build(1, "b").digest());
    }

    #[test]
    fn the_archive_has_one_file_owned_by_root() {
        let provenance = Provenance {
            revision: String::new(),
            created: Timestamp::from_second(7).unwrap(),
        };
        let bytes = pack(b"a program", &provenance).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().header().clone())
            .collect();
        let [header] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!(header.path().unwrap().to_str(), Some("pps-sidecar"));
        assert_eq!(
            (header.mode().unwrap(), header.mtime().unwrap()),
            (0o755, 7)
        );
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        assert_eq!(
            (header.username_bytes(), header.groupname_bytes()),
            (Some(&b""[..]), Some(&b""[..]))
        );
    }
}
