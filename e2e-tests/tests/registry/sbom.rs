//! The SBOMs, attached to the policy and the image.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use pps_e2e::{
    registry::{
        Publisher, Reader, digest,
        foreign::{NATIVE, stand_in},
        publish::run,
    },
    repository::policy_path,
};
use serde_json::Value;

const MEDIA_TYPE: &str = "application/spdx+json";

/// The only SBOM attached to a reference, and the tags of its repository.
pub(super) async fn find(reader: &Reader, reference: &str) -> (Vec<u8>, Vec<String>) {
    let subject = reader.manifest(reference).await.unwrap();
    let found = reader.referrers(reference).await.unwrap();
    let [entry] = found.as_slice() else {
        panic!("{reference}: {found:?}")
    };
    assert_eq!(entry.artifact_type.as_deref(), Some(MEDIA_TYPE));
    let repository = reference.split('@').next().unwrap();
    let list = format!("{repository}@{}", entry.digest);
    let manifest = reader.manifest(&list).await.unwrap();
    assert_eq!(manifest.artifact_type.as_deref(), Some(MEDIA_TYPE));
    let about = manifest.subject.as_ref().unwrap();
    assert_eq!(
        (&about.digest, &about.media_type),
        (&subject.digest, &subject.media_type)
    );
    let [layer] = manifest.layers.as_slice() else {
        panic!("{manifest:?}")
    };
    assert_eq!(layer.media_type, MEDIA_TYPE);
    assert!(
        layer.annotations["org.opencontainers.image.title"].ends_with(".spdx.json"),
        "{layer:?}"
    );
    (
        reader.blob(&list, layer).await.unwrap(),
        reader.tags(reference).await.unwrap(),
    )
}

/// Checks the SBOM of a program for a target, and returns the names of its components.
pub(super) fn check(list: &[u8], program: &str, target: &str, file: &[u8]) -> BTreeSet<String> {
    let list: Value = serde_json::from_slice(list).unwrap();
    assert_eq!(
        (&list["spdxVersion"], &list["SPDXID"]),
        (&"SPDX-2.3".into(), &"SPDXRef-DOCUMENT".into())
    );
    assert_eq!(
        list["name"],
        format!("{program}-{}-{target}", super::VERSION)
    );
    let packages = list["packages"].as_array().unwrap();
    let packages: BTreeMap<&str, &Value> = packages
        .iter()
        .map(|package| (package["SPDXID"].as_str().unwrap(), package))
        .collect();
    assert_eq!(
        packages.len(),
        list["packages"].as_array().unwrap().len(),
        "a component is listed twice"
    );
    // The document describes the program, and everything else is used by something.
    let mut unused: BTreeSet<&str> = packages.keys().copied().collect();
    for relationship in list["relationships"].as_array().unwrap() {
        let [of, to] =
            ["spdxElementId", "relatedSpdxElement"].map(|end| relationship[end].as_str().unwrap());
        assert!(packages.contains_key(to), "{to}");
        unused.remove(to);
        if relationship["relationshipType"] == "DESCRIBES" {
            assert_eq!(
                (of, &packages[to]["name"]),
                ("SPDXRef-DOCUMENT", &program.into())
            );
            let digest = digest(file);
            assert_eq!(
                packages[to]["checksums"][0]["checksumValue"],
                digest.trim_start_matches("sha256:")
            );
        } else {
            assert_eq!(relationship["relationshipType"], "DEPENDS_ON");
            assert!(packages.contains_key(of), "{of}");
        }
    }
    assert!(unused.is_empty(), "{unused:?}");
    for (id, package) in &packages {
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)),
            "{id}"
        );
        assert!(package["versionInfo"].is_string(), "{package}");
        assert_ne!(package["licenseDeclared"], "NOASSERTION", "{package}");
        let name = package["name"].as_str().unwrap();
        let purl = package["externalRefs"][0]["referenceLocator"]
            .as_str()
            .unwrap_or_default();
        let ours = name.starts_with("pps-") || name == program;
        assert!(
            ours || purl.starts_with(&format!("pkg:cargo/{name}@")),
            "{package}"
        );
    }
    packages
        .values()
        .map(|package| package["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn sbom_is_attached_complete_and_reproducible() {
    let (supervisor, registry) = super::start(super::with_password()).await;
    let (publisher, reader) = (Publisher::to(&registry), registry.reader().unwrap());
    let (module, binary) = (
        policy_path(),
        stand_in(supervisor.folder(), NATIVE).unwrap(),
    );

    let policy = publisher
        .policy(&format!("{}/policy:v1", registry.host()))
        .await
        .unwrap();
    let (policy_list, tags) = find(&reader, &policy).await;
    let target = "wasm32-unknown-unknown";
    let names = check(
        &policy_list,
        "persistent-pod-state-policy",
        target,
        &std::fs::read(&module).unwrap(),
    );
    for there in ["wapc-guest", "pps-core", "serde_json"] {
        assert!(names.contains(there), "{there}: {names:?}");
    }
    for other in [
        "kube",
        "tokio",
        "ring",
        "serde_derive",
        "proptest",
        "wasmtime-provider",
    ] {
        assert!(!names.contains(other), "{other}: {names:?}");
    }
    // This registry has no referrers API, so a tag is used.
    let stem = policy.rsplit('@').next().unwrap().replace(':', "-");
    assert_eq!(
        tags,
        [stem.clone(), format!("{stem}.sbom"), "v1".to_owned()]
    );

    let image = publisher
        .images(&[&binary], &format!("{}/sidecar:v1", registry.host()))
        .await
        .unwrap();
    let (image_list, _) = find(&reader, &image).await;
    let native = rust_target(NATIVE);
    let names = check(
        &image_list,
        "pps-sidecar",
        native,
        &std::fs::read(&binary).unwrap(),
    );
    for there in ["kube", "tokio", "ring", "rustls", "pps-core"] {
        assert!(names.contains(there), "{there}: {names:?}");
    }
    for other in [
        "kubewarden-policy-sdk",
        "wapc-guest",
        "serde_derive",
        "proptest",
        "clap_derive",
    ] {
        assert!(!names.contains(other), "{other}: {names:?}");
    }

    // After a second push there is still one SBOM.
    publisher
        .images(&[&binary], &format!("{}/sidecar:v2", registry.host()))
        .await
        .unwrap();
    assert_eq!(find(&reader, &image).await.0, image_list);

    // The command `sbom` writes the same file.
    let path = supervisor.folder().join("list.spdx.json");
    let write = async |package: &str, target: &str, file: &Path, env: &[(&str, &Path)]| {
        let [file, path] = [file, &path].map(|path| path.to_str().unwrap());
        let args = [
            "sbom",
            "--package",
            package,
            "--target",
            target,
            "--file",
            file,
            "--output",
            path,
        ];
        let output = run(&args, env).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        std::fs::read(path).unwrap()
    };
    assert!(write("persistent-pod-state-policy", target, &module, &[]).await == policy_list);
    assert!(write("pps-sidecar", native, &binary, &[]).await == image_list);

    // SOURCE_DATE_EPOCH sets its time.
    let epoch = [("SOURCE_DATE_EPOCH", Path::new("1700000000"))];
    let list: Value =
        serde_json::from_slice(&write("pps-sidecar", native, &binary, &epoch).await).unwrap();
    assert_eq!(list["creationInfo"]["created"], "2023-11-14T22:13:20Z");
}

/// Rust's name of the target for which the sidecar's release is built.
pub(super) fn rust_target(architecture: &str) -> &'static str {
    if architecture == "arm64" {
        "aarch64-unknown-linux-musl"
    } else {
        "x86_64-unknown-linux-musl"
    }
}
