//! The sidecar's image for two processors: one index, an image for each, and the one that is not
//! for this machine under an emulator.

use std::{
    collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command,
    time::Duration,
};

use super::{VERSION, provenance};
use crate::{behaviour::rescheduling, support};
use pps_e2e::{
    cluster::Cluster,
    registry::{
        Publisher, Registry, RegistryOptions, digest,
        foreign::{self, FOREIGN, NATIVE},
        media_type,
        publish::static_sidecar_path,
    },
    report,
    sidecar::SidecarOptions,
    supervisor::Supervisor,
};

#[tokio::test]
async fn an_image_for_two_processors_is_an_index_of_both() {
    let supervisor = Supervisor::start().unwrap();
    let [native, other] =
        [NATIVE, FOREIGN].map(|of| foreign::stand_in(supervisor.folder(), of).unwrap());
    let files = BTreeMap::from([(NATIVE, native.as_path()), (FOREIGN, other.as_path())]);
    let registry = Registry::start(&supervisor, super::with_password())
        .await
        .unwrap();
    let publisher = Publisher::to(&registry).with_sidecars(&native, &other);
    let reader = registry.reader().unwrap();
    let path = format!("{}/pps", registry.host());
    let repository = format!("{path}/persistent-pod-state-sidecar");

    let pushed = publisher.images(&path).await.unwrap();
    let index = reader.manifest(&format!("{repository}:v{VERSION}")).await;
    let index = index.unwrap();
    assert_eq!(pushed, format!("{repository}@{}", index.digest));
    assert_eq!(index.media_type, media_type::INDEX);
    for (key, value) in provenance() {
        assert_eq!(index.annotations.get(key), Some(&value), "{key}");
    }
    assert_eq!(publisher.images(&path).await.unwrap(), pushed);

    let images = reader.images(&pushed).await.unwrap();
    assert_eq!(images.keys().collect::<Vec<_>>(), ["amd64", "arm64"]);
    let mut tags = vec![format!("v{VERSION}")];
    for (architecture, image) in &images {
        let root = supervisor
            .folder()
            .join(format!("{}-{architecture}", registry.host()));
        let config = reader.pull_image(image, &root).await.unwrap();
        assert_eq!(config.architecture, *architecture);
        let program = fs::read(root.join("pps-sidecar")).unwrap();
        assert_eq!(foreign::architecture_of(&program).unwrap(), architecture);
        assert_eq!(
            digest(&program),
            digest(&fs::read(files[architecture.as_str()]).unwrap())
        );
        tags.push(format!("v{VERSION}-{architecture}"));
    }
    tags.sort();
    assert_eq!(reader.tags(&pushed).await.unwrap(), tags);

    // A container runtime on this machine takes the image for it.
    assert_eq!(
        reader.image_for_this_machine(&pushed).await.unwrap(),
        images[NATIVE]
    );
    // An executable that is pushed alone becomes the same image, without an index.
    assert_eq!(publisher.image(&path).await.unwrap(), images[NATIVE]);
}

/// The release build for the other processor, pulled from the registry, does the work of the
/// sidecar on this machine: the emulator runs each of its instructions.
#[tokio::test]
async fn the_image_for_the_other_processor_works_under_an_emulator() {
    let (Some(built), Some(emulator)) = (foreign::sidecar_path(), foreign::emulator()) else {
        return report::skipped(
            "the_image_for_the_other_processor_works_under_an_emulator",
            "run make release-tests, which builds the sidecar for it and sets PPS_FOREIGN_SIDECAR \
             and PPS_EMULATOR",
        );
    };
    let (supervisor, registry) = super::start(RegistryOptions::default()).await;
    let native = static_sidecar_path().unwrap();
    let publisher = Publisher::to(&registry).with_sidecars(&native, &built);
    let pushed = publisher.images(registry.host()).await.unwrap();
    let reader = registry.reader().unwrap();
    let image = reader
        .images(&pushed)
        .await
        .unwrap()
        .remove(FOREIGN)
        .unwrap();
    let root = supervisor.folder().join("root");
    reader.pull_image(&image, &root).await.unwrap();
    let program = root.join("pps-sidecar");
    assert_eq!(
        foreign::architecture_of(&fs::read(&program).unwrap()).unwrap(),
        FOREIGN
    );

    let run = |argument| {
        let output = Command::new(&emulator)
            .arg(&program)
            .arg(argument)
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success(), "{argument}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("--version"), format!("pps-sidecar {VERSION}\n"));
    assert!(
        run("--help").contains("--admin-address"),
        "{}",
        run("--help")
    );

    let emulated = supervisor.folder().join("emulated-sidecar");
    write_script(
        &emulated,
        &format!(
            "exec '{}' '{}' \"$@\"",
            emulator.display(),
            program.display()
        ),
    );
    let options = SidecarOptions {
        program: Some(emulated),
        ..SidecarOptions::default()
    };
    let cluster = Cluster::builder()
        .product()
        .sidecar(options)
        .start()
        .await
        .unwrap();
    cluster
        .sidecar()
        .unwrap()
        .wait_leading(support::TIMEOUT)
        .await
        .unwrap();
    support::run(scenarios![&cluster; rescheduling::returns_a_deleted_pod_to_its_node_and_address])
        .await
        .unwrap();
    let ended = cluster
        .sidecar()
        .unwrap()
        .terminate(Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

fn write_script(path: &Path, command: &str) {
    fs::write(path, format!("#!/bin/sh\n{command}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
