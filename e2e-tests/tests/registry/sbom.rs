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

const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";

/// The only SBOM attached to a reference, and the tags of its repository.
pub(super) async fn find(reader: &Reader, reference: &str) -> (Vec<u8>, Vec<String>) {
    let subject = reader.manifest(reference).await.unwrap();
    let found = reader.referrers(reference).await.unwrap();
    let [entry] = found.as_slice() else { panic!("{reference}: {found:?}") };
    assert_eq!(entry.artifact_type.as_deref(), Some(MEDIA_TYPE));
    let repository = reference.split('@').next().unwrap();
    let list = format!("{repository}@{}", entry.digest);
    let manifest = reader.manifest(&list).await.unwrap();
    assert_eq!(manifest.artifact_type.as_deref(), Some(MEDIA_TYPE));
    let about = manifest.subject.as_ref().unwrap();
    assert_eq!((&about.digest, &about.media_type), (&subject.digest, &subject.media_type));
    let [layer] = manifest.layers.as_slice() else { panic!("{manifest:?}") };
    assert_eq!(layer.media_type, MEDIA_TYPE);
    assert!(layer.annotations["org.opencontainers.image.title"].ends_with(".cdx.json"), "{layer:?}");
    (reader.blob(&list, layer).await.unwrap(), reader.tags(reference).await.unwrap())
}

/// Checks an SBOM and returns the names of its components.
pub(super) fn check(list: &[u8], program: &str, file: &[u8]) -> BTreeSet<String> {
    let list: Value = serde_json::from_slice(list).unwrap();
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let subject = &list["metadata"]["component"];
    assert_eq!(subject["name"], program);
    assert_eq!(subject["hashes"][0]["content"], digest(file).trim_start_matches("sha256:"));
    let components = list["components"].as_array().unwrap();
    let mut references: BTreeMap<&str, bool> =
        components.iter().map(|component| (component["bom-ref"].as_str().unwrap(), false)).collect();
    assert_eq!(references.len(), components.len(), "a component is listed twice");
    // Every component is used by another one, and every used one is listed.
    for dependency in list["dependencies"].as_array().unwrap() {
        for used in dependency["dependsOn"].as_array().into_iter().flatten() {
            *references.get_mut(used.as_str().unwrap()).unwrap() = true;
        }
    }
    let unused: Vec<_> = references.iter().filter(|(_, used)| !**used).collect();
    assert!(unused.is_empty(), "{unused:?}");
    for component in components {
        assert!(component["version"].is_string(), "{component}");
        assert!(component["licenses"].is_array(), "{component}");
        let purl = format!("pkg:cargo/{}@", component["name"].as_str().unwrap());
        let ours = component["name"].as_str().unwrap().starts_with("pps-");
        assert!(ours || component["purl"].as_str().unwrap().starts_with(&purl), "{component}");
    }
    components.iter().map(|component| component["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn sbom_is_attached_complete_and_reproducible() {
    let (supervisor, registry) = super::start(super::with_password()).await;
    let (publisher, reader) = (Publisher::to(&registry), registry.reader().unwrap());
    let (module, binary) = (policy_path(), stand_in(supervisor.folder(), NATIVE).unwrap());

    let policy = publisher.policy(&format!("{}/policy:v1", registry.host())).await.unwrap();
    let (policy_list, tags) = find(&reader, &policy).await;
    let names = check(&policy_list, "persistent-pod-state-policy", &std::fs::read(&module).unwrap());
    for there in ["wapc-guest", "pps-core", "serde_json"] {
        assert!(names.contains(there), "{there}: {names:?}");
    }
    for other in ["kube", "tokio", "ring", "serde_derive", "proptest", "wasmtime-provider"] {
        assert!(!names.contains(other), "{other}: {names:?}");
    }
    // This registry has no referrers API, so a tag is used.
    let stem = policy.rsplit('@').next().unwrap().replace(':', "-");
    assert_eq!(tags, [stem.clone(), format!("{stem}.sbom"), "v1".to_owned()]);

    let image = publisher.images(&[&binary], &format!("{}/sidecar:v1", registry.host())).await.unwrap();
    let (image_list, _) = find(&reader, &image).await;
    let names = check(&image_list, "pps-sidecar", &std::fs::read(&binary).unwrap());
    for there in ["kube", "tokio", "ring", "rustls", "pps-core"] {
        assert!(names.contains(there), "{there}: {names:?}");
    }
    for other in ["kubewarden-policy-sdk", "wapc-guest", "serde_derive", "proptest", "clap_derive"] {
        assert!(!names.contains(other), "{other}: {names:?}");
    }

    // After a second push there is still one SBOM.
    publisher.images(&[&binary], &format!("{}/sidecar:v2", registry.host())).await.unwrap();
    assert_eq!(find(&reader, &image).await.0, image_list);

    // The command `sbom` writes the same file.
    for (args, stored) in [
        (["sbom", "policy", "--module", module.to_str().unwrap()], policy_list),
        (["sbom", "image", "--binary", binary.to_str().unwrap()], image_list),
    ] {
        let path = supervisor.folder().join("list.cdx.json");
        let args: Vec<&str> = args.into_iter().chain(["--output", path.to_str().unwrap()]).collect();
        let output = run(&args, &[]).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(std::fs::read(&path).unwrap() == stored, "{args:?}");
    }

    // SOURCE_DATE_EPOCH sets its time.
    let path = supervisor.folder().join("of-another-time.cdx.json");
    let args = ["sbom", "policy", "--module", module.to_str().unwrap(), "--output", path.to_str().unwrap()];
    let output = run(&args, &[("SOURCE_DATE_EPOCH", Path::new("1700000000"))]).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let list: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(list["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
}
