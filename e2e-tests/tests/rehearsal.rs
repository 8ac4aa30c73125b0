//! A release, pushed to a registry with TLS and a private authority, and installed on real nodes
//! from nothing but its folder and that registry: applied, installed as the quick start says,
//! upgraded and rolled back while Pods are replaced, and removed.
//!
//! `PPS_RELEASE_DIR` names the folder, which `make release` has filled.

mod upgrade;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    docs_pages::{
        page::{Command::Script, Page},
        scenes::Stage,
        start_shell_with,
    },
    install,
    support::{Pool, note},
};
use pps_e2e::{
    cluster::{Cluster, real_nodes},
    install::{Installation, Published},
    kubewarden::Controller,
    manifests::{self, render::helm},
    registry::{
        Publisher, Registry, RegistryOptions, digest,
        foreign::{FOREIGN, NATIVE},
        publish::{sign, throw_away_key},
    },
    report,
    sidecar::NAMESPACE,
};

/// Where released images are.
const REGISTRY: &str = "registry.example.com/pps";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where the quick start's Pods find their image.
const PAUSE: &str = "registry.k8s.io/pause:3.10";

#[tokio::test]
async fn a_release_is_installed_upgraded_and_removed_on_real_nodes() {
    const TEST: &str = "a_release_is_installed_upgraded_and_removed_on_real_nodes";
    let Some(dist) = env::var_os("PPS_RELEASE_DIR").map(PathBuf::from) else {
        return report::skipped(
            TEST,
            "run `make rehearsal`, or set PPS_RELEASE_DIR to what `make release` has built",
        );
    };
    if !real_nodes::available(TEST) {
        return;
    }
    let mut cluster = install::cluster().await;
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let work = cluster.control_plane.folder().join("release");
    note(&format!("installing {}", dist.display()));
    let plugin = dist.join(format!("kubectl-pps-{VERSION}-linux-{NATIVE}.tar.gz"));
    let plugin = unpack(&plugin, &work.join("plugin"));

    let mut installation = publish(&cluster, &dist).await;
    let chart = pull_chart(&installation.registry, &work);
    let objects = manifests::read(&dist.join("install.yaml")).unwrap();
    cluster.apply_objects(&objects).await.unwrap();
    installation.wait_available(&cluster).await.unwrap();
    installation
        .serve_policy(&mut cluster, install::ACCOUNT, false)
        .await
        .unwrap();
    let first = installation.published.clone();
    let next = upgrade::push_next(&installation, &dist, &work).await;

    let workloads = upgrade::run_workloads(&cluster).await;
    upgrade::run_image(&cluster, &installation, &first).await;
    let change = Box::pin(async {
        installation.published = next.clone();
        installation.apply(&cluster, "deploy").await.unwrap();
        let newer = installation
            .start_webhook(&cluster, install::ACCOUNT)
            .await
            .unwrap();
        upgrade::run_image(&cluster, &installation, &next).await;
        newer
    });
    let newer = upgrade::while_pods_are_replaced(workloads, change).await;
    install::deployment::both_replicas_match_the_deployment(&cluster, &installation).await;
    let recorded = workloads.states("db").await;
    upgrade::remove_applied(&cluster, &objects, &newer).await;
    assert_eq!(workloads.states("db").await, recorded);
    verified("install.yaml runs on real nodes from a registry with TLS and a private authority");
    verified(
        "the next manifests are applied: no Pod is refused or loses its place; removed, they keep \
         all states",
    );

    // Here the quick start's registry has TLS, and another address.
    for name in ["localhost:5001", "kind-registry:5000"] {
        cluster
            .real_nodes()
            .unwrap()
            .mirror(name, &installation.registry)
            .unwrap();
    }
    for node in cluster.real_nodes().unwrap().names() {
        install::images(&cluster, node, &["tag", real_nodes::IMAGE, PAUSE]);
    }
    let shell = start_shell_with(&cluster, &work, &chart, &plugin, Vec::new()).await;
    let mut stage = Stage {
        cluster: &mut cluster,
        installation,
        shell,
    };
    for block in Page::read("docs/quick-start.md")
        .blocks
        .iter()
        .filter(|block| block.not_run.is_none())
    {
        if let Err(problem) = stage.play(block).await {
            panic!("docs/quick-start.md:{}: {problem}", block.line);
        }
    }

    let Stage {
        installation,
        mut shell,
        ..
    } = stage;
    let cluster = &cluster;
    let workloads = Pool {
        cluster,
        namespace: "shop",
    };
    workloads.recorded("db", "db").await;
    upgrade::run_image(cluster, &installation, &first).await;
    verified(
        "the quick start, as printed, with the chart that helm pulled and the plugin of the folder",
    );
    let newer_chart = upgrade::next_chart(&chart, work.join("next-chart"));
    let upgrade = format!(
        "helm upgrade persistent-pod-state {} --namespace {NAMESPACE} --values registry.yaml",
        newer_chart.display()
    );
    let rollback = format!("helm rollback persistent-pod-state 1 --namespace {NAMESPACE}");
    let mut webhooks = Vec::new();
    for (command, image) in [(upgrade, &next), (rollback, &first)] {
        let change = Box::pin(async {
            shell.run(&Script(command.clone())).await.unwrap();
            let webhook = installation
                .start_webhook(cluster, install::ACCOUNT)
                .await
                .unwrap();
            upgrade::run_image(cluster, &installation, image).await;
            webhook
        });
        webhooks.push(upgrade::while_pods_are_replaced(workloads, change).await);
        let (command, _) = command.split_at("helm rollback".len());
        verified(&format!(
            "{}: no Pod is refused or loses its place",
            command.trim()
        ));
    }
    upgrade::uninstall(cluster, &mut shell, webhooks.last().unwrap()).await;
    assert_eq!(workloads.states("db").await, recorded);
    verified("helm uninstall leaves the CRD with all states, the namespace and the Lease");
}

/// For the list that `make rehearsal` prints.
fn verified(what: &str) {
    note(&format!("verified: {what}"));
}

/// Unpacks an archive into a new folder.
fn unpack(archive: &Path, folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let tar = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(folder)
        .status()
        .unwrap();
    assert!(tar.success(), "{}", archive.display());
    folder.to_owned()
}

/// Pushes the folder's files to a registry that the nodes use in place of the one that the files
/// name, and once more under the quick start's path, which gives the same digests. Signs them.
async fn publish(cluster: &Cluster, dist: &Path) -> Installation {
    let nodes = cluster.real_nodes().unwrap();
    let options = RegistryOptions {
        address: nodes.address(),
        tls: true,
        ..RegistryOptions::default()
    };
    let registry = Registry::start(cluster.control_plane.supervisor(), options)
        .await
        .unwrap();
    let (released, path) = REGISTRY.split_once('/').unwrap();
    let names = [path, "pps"].map(|path| format!("{}/{path}", registry.host()));
    let publisher = Publisher::to(&registry)
        .with("PPS_POLICY_WASM", dist.join("policy.wasm"))
        .with_sidecars(
            &dist.join(format!("pps-sidecar-linux-{NATIVE}")),
            &dist.join(format!("pps-sidecar-linux-{FOREIGN}")),
        );
    let references = publisher.push(&names[0]).await.unwrap();
    let again = publisher.push(&names[1]).await.unwrap();
    let relative = |name: &str, all: &[String]| {
        all.iter()
            .map(|one| one.replace(name, ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        relative(&names[1], &again),
        relative(&names[0], &references)
    );

    let keys = throw_away_key().unwrap();
    sign(&registry, dist, &references, keys.path()).unwrap();
    verified(
        "what was pushed and SHA256SUMS have signatures, and the programs their SBOMs, made with a \
         throw-away key",
    );
    let [policy, sidecar, chart] = references.try_into().unwrap();
    let pushed = registry.reader().unwrap().manifest(&chart).await.unwrap();
    let packed = fs::read(dist.join(format!("persistent-pod-state-{VERSION}.tgz"))).unwrap();
    assert_eq!(
        pushed.layers[0].digest,
        digest(&packed),
        "make release and make publish pack the same chart"
    );
    verified(
        "the same files, pushed twice, have the same digests; the pushed chart is that of the \
         folder",
    );
    nodes.mirror(released, &registry).unwrap();
    Installation::of(cluster, registry, Published { policy, sidecar }).unwrap()
}

/// Pulls the chart as users do. Returns its folder.
fn pull_chart(registry: &Registry, work: &Path) -> PathBuf {
    let folder = work.join("released");
    fs::create_dir_all(&folder).unwrap();
    helm(&[
        "pull",
        &format!("oci://{}/pps/charts/persistent-pod-state", registry.host()),
        "--version",
        VERSION,
        "--ca-file",
        registry.ca().unwrap().to_str().unwrap(),
        "--untar",
        "--untardir",
        folder.to_str().unwrap(),
    ])
    .unwrap();
    folder.join("persistent-pod-state")
}
