//! The Helm chart, pushed by `pps-publish` and pulled by Helm.

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
    let packed = Command::new(repository_file("hack/pack-chart.sh"))
        .arg(supervisor.folder())
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let packed = supervisor
        .folder()
        .join(format!("persistent-pod-state-{VERSION}.tgz"));
    let listed = Command::new("tar")
        .arg("-tzf")
        .arg(&packed)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    // The chart's README names these.
    assert!(
        listed.contains("persistent-pod-state/ci/openkruise-values.yaml"),
        "{listed}"
    );
    let repository = format!("{}/charts/persistent-pod-state", registry.host());
    let reference = format!("{repository}:{VERSION}");
    let publisher = Publisher::to(&registry);
    let pushed = publisher.chart(&packed, &reference).await.unwrap();
    assert_eq!(publisher.chart(&packed, &reference).await.unwrap(), pushed);

    let reader = registry.reader().unwrap();
    let manifest = reader.manifest(&reference).await.unwrap();
    assert!(pushed.ends_with(&manifest.digest), "{pushed}");
    let config = manifest.config.unwrap();
    assert_eq!(
        config.media_type,
        "application/vnd.cncf.helm.config.v1+json"
    );
    let config: Value =
        serde_json::from_slice(&reader.blob(&reference, &config).await.unwrap()).unwrap();
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
    let pulled = fs::read(pulled.join(packed.file_name().unwrap())).unwrap();
    assert_eq!(digest(&pulled), digest(&fs::read(&packed).unwrap()));
}

#[tokio::test]
async fn refuses_a_chart_of_another_version() {
    let (supervisor, registry) = start(RegistryOptions::default()).await;
    let chart = supervisor.folder().join("chart/other");
    fs::create_dir_all(&chart).unwrap();
    fs::write(chart.join("Chart.yaml"), "name: other\nversion: 9.9.9\n").unwrap();
    let packed = supervisor.folder().join("other.tgz");
    let folder = chart.parent().unwrap();
    let tar = Command::new("tar")
        .arg("-czf")
        .arg(&packed)
        .arg("-C")
        .arg(folder)
        .arg("other")
        .status();
    assert!(tar.unwrap().success());
    let reference = format!("{}/charts/other:9.9.9", registry.host());
    let refusal = Publisher::to(&registry)
        .chart(&packed, &reference)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains(&format!("it has version 9.9.9, not {VERSION}")),
        "{refusal}"
    );
}
