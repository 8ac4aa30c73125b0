//! The Helm chart, pushed and pulled by Helm.

use std::{fs, process::Command};

use pps_e2e::{
    manifests::{
        self,
        render::{CHART, helm},
    },
    registry::{Publisher, RegistryOptions, digest},
    repository::repository_file,
};
use serde_json::Value;

use super::{VERSION, start};

#[tokio::test]
async fn helm_pulls_the_pushed_chart() {
    let (supervisor, registry) = start(RegistryOptions::default()).await;
    let path = format!("{}/pps", registry.host());
    let repository = format!("{path}/charts/persistent-pod-state");
    let reference = format!("{repository}:{VERSION}");
    let publisher = Publisher::to(&registry);
    let pushed = publisher.chart(&path).await.unwrap();
    assert_eq!(publisher.chart(&path).await.unwrap(), pushed);

    let reader = registry.reader().unwrap();
    let manifest = reader.manifest(&reference).await.unwrap();
    assert!(pushed.ends_with(&manifest.digest), "{pushed}");
    let config = manifest.config.as_ref().unwrap();
    assert_eq!(
        config.media_type,
        "application/vnd.cncf.helm.config.v1+json"
    );
    let config: Value =
        serde_json::from_slice(&reader.blob(&reference, config).await.unwrap()).unwrap();
    assert_eq!(
        config,
        manifests::read(&repository_file(CHART).join("Chart.yaml")).unwrap()[0]
    );

    // Artifact Hub finds the owners of the chart under a tag that is no version.
    let hub = format!("{repository}:artifacthub.io");
    let layer = &reader.manifest(&hub).await.unwrap().layers[0];
    assert_eq!(
        layer.media_type,
        "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"
    );
    let owners = fs::read(repository_file("artifacthub-repo.yml")).unwrap();
    assert_eq!(reader.blob(&hub, layer).await.unwrap(), owners);

    let pulled = supervisor.folder().join("pulled");
    fs::create_dir(&pulled).unwrap();
    let source = format!("oci://{repository}");
    helm(&[
        "pull",
        &source,
        "--version",
        VERSION,
        "--plain-http",
        "--destination",
        pulled.to_str().unwrap(),
    ])
    .unwrap();
    let pulled = pulled.join(format!("persistent-pod-state-{VERSION}.tgz"));
    let packed = fs::read(&pulled).unwrap();
    assert_eq!(digest(&packed), manifest.layers[0].digest);
    let listed = Command::new("tar").arg("-tzf").arg(&pulled).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    // The chart's README names these.
    assert!(
        listed.contains("persistent-pod-state/ci/openkruise-values.yaml"),
        "{listed}"
    );
}
